//! What a person mentions. Tools, skills and agents, as in `@pdf`, are for the daemon to find; here their names are completed.
//! Files: `#report.pdf`, `#notes/my plan.md`, `#"odd name?.txt"`. What names no file is only text.

use std::{
    collections::HashMap,
    fs,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use agentd_core::ids::SessionId;

/// Bytes after a `#` that are searched for a path.
const MAX_PATH: usize = 1024;
/// Entries of one folder that are looked at for completion.
const MAX_ENTRIES: usize = 2000;

/// Meaning of one `#`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mention {
    /// A file to hand over.
    File(PathBuf),
    /// One whose name begins with a dot, or that lies in such a folder: those hold secrets, so a mention is not enough.
    Hidden(PathBuf),
}

/// Files that were handed over to each session, so that a file that is mentioned again is not copied again unchanged.
#[derive(Debug, Default)]
pub(super) struct UploadedFiles(HashMap<(SessionId, PathBuf), Stamp>);

/// Modification time and size of a file.
type Stamp = (SystemTime, u64);

impl UploadedFiles {
    /// Forgets it all: the model knows of none of it any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Takes note of a file that was handed over.
    pub(super) fn note(&mut self, session: SessionId, path: PathBuf) {
        if let Some(stamp) = stamp(&path) {
            self.0.insert((session, path), stamp);
        }
    }

    /// Returns whether the session has the file as it is now.
    pub(super) fn has(&self, session: Option<SessionId>, path: &Path) -> bool {
        let known = session.and_then(|session| self.0.get(&(session, path.to_owned())));
        known.is_some_and(|known| stamp(path).as_ref() == Some(known))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The files that a text mentions, each once, in order. In code nothing is a mention.
pub(super) fn find(text: &str) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            for mention in starts(line).filter_map(|start| at(&line[start..])) {
                if !found.contains(&mention) {
                    found.push(mention);
                }
            }
        }
    }
    found
}

/// Words behind a `#` that look like paths and name no file, each once. In code nothing does.
pub(super) fn missing(text: &str) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            let named = starts(line).filter(|start| at(&line[*start..]).is_none());
            for path in named.filter_map(|start| path_like(&line[start..])) {
                if !missing.contains(&path) {
                    missing.push(path);
                }
            }
        }
    }
    missing
}

/// The first word of a text, if it looks like a path: there is a letter in it, and a dot or a slash.
fn path_like(text: &str) -> Option<String> {
    let word = text.split(char::is_whitespace).next()?;
    let ends = |letter: char| ".,;:!?()[]{}\"'…。，；：！？）」".contains(letter);
    let word = word.trim_end_matches(ends).trim_start_matches(['"', '\'']);
    let is_path = word.chars().count() <= MAX_PATH
        && word.starts_with(|first: char| first.is_alphanumeric() || "./~_".contains(first))
        && word.contains(['.', '/'])
        && word.contains(char::is_alphabetic);
    is_path.then(|| word.to_owned())
}

/// The path by which tools see a file that lies in the project's folder; none of any other.
pub(super) fn in_project(path: &Path, project: &Path) -> Option<String> {
    let meant = fs::canonicalize(path).ok()?;
    let below = meant.strip_prefix(fs::canonicalize(project).ok()?).ok()?.to_str()?;
    Some(format!("/project/{below}"))
}

/// Where what stands behind a `#` begins: at the start of a word, outside of code.
fn starts(line: &str) -> impl Iterator<Item = usize> {
    let mut in_code = false;
    let mut before = ' ';
    line.char_indices().filter_map(move |(index, letter)| {
        in_code ^= letter == '`';
        // Not every script puts spaces between words.
        let starts_word = before.is_whitespace() || !before.is_ascii() || "([{\"'".contains(before);
        let begins = letter == '#' && !in_code && starts_word;
        before = letter;
        begins.then_some(index + 1)
    })
}

/// The file that the beginning of a text names: the longest that there is, for names may have spaces.
fn at(text: &str) -> Option<Mention> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        let quoted = text[1..].split_once(quote)?.0;
        return file(quoted);
    }
    let text = &text[..text.floor_char_boundary(MAX_PATH)];
    let mut candidate = text.trim_end();
    while !candidate.is_empty() && !candidate.starts_with(char::is_whitespace) {
        if let Some(mention) = file(candidate) {
            return Some(mention);
        }
        candidate = shorter(candidate);
    }
    None
}

/// Without what ends a sentence, else without the last word.
fn shorter(candidate: &str) -> &str {
    let bare = candidate.trim_end_matches(|letter: char| ".,;:!?)]}\"'…。，；：！？）」".contains(letter));
    if bare.len() < candidate.len() {
        return bare;
    }
    // The last word may be glued to the name by punctuation, as in `#a.txt,b`.
    let cut =
        candidate.char_indices().rev().find(|(_, letter)| letter.is_whitespace() || ",;:，；：。".contains(*letter));
    cut.map_or("", |(index, _)| candidate[..index].trim_end())
}

fn file(written: &str) -> Option<Mention> {
    let path = typed_path(written);
    if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    Some(if is_hidden(&path) { Mention::Hidden(path) } else { Mention::File(path) })
}

/// Also where a link leads to such a file.
fn is_hidden(path: &Path) -> bool {
    // A folder above where the person is may be hidden; that is theirs.
    let written_hidden = path.is_relative() && has_hidden(path);
    let meant = fs::canonicalize(path).ok();
    // Where everything lies in a hidden folder, that is no reason: only what is below the folder where the person is.
    let here = std::env::current_dir().ok().and_then(|here| fs::canonicalize(here).ok());
    let leads_hidden =
        meant.is_some_and(|meant| match here.as_deref().and_then(|here| meant.strip_prefix(here).ok()) {
            Some(below) => has_hidden(below),
            None => has_hidden(&meant),
        });
    written_hidden || leads_hidden
}

fn has_hidden(path: &Path) -> bool {
    path.components().any(|part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b".")))
}

/// The name that is begun at the end of what was typed, as in `@pd`, and where it starts.
pub(super) fn begun_name(typed: &str) -> Option<(usize, &str)> {
    let at = typed.rfind('@')?;
    let begun = &typed[at + 1..];
    let is_name = begun.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.:".contains(letter));
    let before = typed[..at].chars().next_back();
    let starts_word = before.is_none_or(|before| !before.is_ascii_alphanumeric() && !"._%+-/@\\=&#$`".contains(before));
    (is_name && starts_word).then_some((at + 1, begun))
}

/// Returns whether a name begins so: case is ignored, and `-` and `_` are alike.
pub(super) fn begins(name: &str, begun: &str) -> bool {
    let plain = |letter: char| if letter == '_' { '-' } else { letter.to_ascii_lowercase() };
    let mut letters = name.chars().map(plain);
    begun.chars().map(plain).all(|wanted| letters.next() == Some(wanted))
}

/// Completions of the mention at the end of what was typed: where its path starts, and the paths.
pub(super) fn complete(typed: &str) -> Option<(usize, Vec<String>)> {
    let line_start = typed.rfind('\n').map_or(0, |index| index + 1);
    let start = starts(&typed[line_start..]).last()? + line_start;
    let quoted = usize::from(typed[start..].starts_with(['"', '\'']));
    let start = start + quoted;
    let written = &typed[start..];
    let (folder, name) = match written.rfind('/') {
        Some(slash) => written.split_at(slash + 1),
        None => ("", written),
    };
    let place = if folder.is_empty() { PathBuf::from(".") } else { typed_path(folder) };
    let entries: Vec<_> = fs::read_dir(place).ok()?.take(MAX_ENTRIES).flatten().collect();
    // Half of what is there would complete to what is not meant.
    if entries.len() == MAX_ENTRIES {
        return Some((start, Vec::new()));
    }
    let mut offered: Vec<String> =
        entries.iter().filter_map(|entry| offer(entry, name)).map(|name| format!("{folder}{name}")).collect();
    offered.sort();
    Some((start, offered))
}

fn offer(entry: &fs::DirEntry, begun: &str) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    let fits = name.starts_with(begun) && !name.starts_with('.') && !name.contains(char::is_control);
    let kind = fits.then(|| fs::metadata(entry.path()).ok()).flatten()?;
    if kind.is_dir() { Some(format!("{name}/")) } else { kind.is_file().then_some(name) }
}

/// A path as a person types it: the shell that would have put the home folder in front is not here.
pub(super) fn typed_path(path: &str) -> PathBuf {
    let path = path.trim_matches(['"', '\'']);
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(names: &[&str]) -> Self {
            let folder = tempfile::Builder::new().prefix("mentions").tempdir().unwrap();
            for name in names {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "x").unwrap();
            }
            Self(folder)
        }

        /// The text with `@` for the folder.
        fn text(&self, text: &str) -> String {
            text.replace('@', &self.0.path().display().to_string())
        }

        fn found(&self, text: &str) -> Vec<String> {
            let below = |path: PathBuf| path.strip_prefix(self.0.path()).unwrap().display().to_string();
            let found = find(&self.text(text)).into_iter().map(|mention| match mention {
                Mention::File(path) => below(path),
                Mention::Hidden(path) => format!("hidden {}", below(path)),
            });
            found.collect()
        }
    }

    #[test]
    fn files_are_found_by_their_names_whatever_stands_around_them() {
        let folder = Folder::with(&["a.txt", "my plan.md", "deep/er/b c.pdf", "报告.pdf", "odd?.txt", "a"]);
        let check = |text: &str, expected: &[&str]| assert_eq!(folder.found(text), expected, "{text}");
        check("Read #@/a.txt.", &["a.txt"]);
        check("#@/a.txt, #@/my plan.md and more", &["a.txt", "my plan.md"]);
        check("what is in #@/deep/er/b c.pdf?", &["deep/er/b c.pdf"]);
        check("请看#@/报告.pdf。", &["报告.pdf"]);
        check("请看 #@/报告.pdf。谢谢", &["报告.pdf"]);
        check("#\"@/odd?.txt\" and (#@/a.txt)", &["odd?.txt", "a.txt"]);
        check("#@/a.txt #@/a.txt", &["a.txt"]);
        check("two\nlines with #@/a.txt", &["a.txt"]);
        // What names no file is text.
        check("# @/a.txt", &[]);
        check("issue #12, C#@/a.txt, #@/deep", &[]);
        check("`#@/a.txt`", &[]);
        check("```\n#@/a.txt\n```", &[]);
    }

    #[test]
    fn what_looks_like_a_path_and_names_no_file_is_found() {
        let folder = Folder::with(&["a.txt"]);
        let check = |text: &str, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|path| folder.text(path)).collect();
            assert_eq!(missing(&folder.text(text)), expected, "{text}");
        };
        check("Fix #nope.txt, and (#src/none.rs).", &["nope.txt", "src/none.rs"]);
        check("#@/a.txt and #@/b.txt", &["@/b.txt"]);
        check("#~/none.txt #../none #none.d/", &["~/none.txt", "../none", "none.d/"]);
        check("#nope.txt #nope.txt", &["nope.txt"]);
        check("issue #12, #3.5, C#, # a.b, #todo, #![allow(x.y)], `#nope.txt`", &[]);
        check("```\n#nope.txt\n```", &[]);
    }

    #[test]
    fn a_file_of_the_project_has_the_path_of_tools() {
        let folder = Folder::with(&["app/src/x.rs", "other.rs"]);
        let root = folder.0.path();
        std::os::unix::fs::symlink(root.join("other.rs"), root.join("app/out.rs")).unwrap();
        let named = |path: &str| in_project(&root.join(path), &root.join("app"));
        assert_eq!(named("app/src/x.rs").as_deref(), Some("/project/src/x.rs"));
        assert_eq!(named("app/../app/src/x.rs").as_deref(), Some("/project/src/x.rs"));
        assert_eq!((named("other.rs"), named("app/out.rs"), named("app/none")), (None, None, None));
    }

    #[test]
    fn hidden_files_are_not_handed_over_by_a_mention() {
        let folder = Folder::with(&[".env", ".ssh/key", "plain"]);
        std::os::unix::fs::symlink(".env", folder.0.path().join("link")).unwrap();
        assert_eq!(folder.found("#@/.env #@/.ssh/key #@/plain"), ["hidden .env", "hidden .ssh/key", "plain"]);
        assert_eq!(folder.found("#@/link"), ["hidden link"]);
    }

    #[test]
    fn paths_are_completed_from_what_is_there() {
        let folder = Folder::with(&["report.pdf", "rest/x", ".rc", "other"]);
        let check = |typed: &str, expected: &[&str]| {
            let (_, offered) = complete(&folder.text(typed)).unwrap();
            let expected: Vec<String> = expected.iter().map(|path| folder.text(path)).collect();
            assert_eq!(offered, expected, "{typed}");
        };
        check("see #@/re", &["@/report.pdf", "@/rest/"]);
        check("see #@/rest/", &["@/rest/x"]);
        check("#@/.", &[]);
        assert_eq!(complete("no mention"), None);
        assert_eq!(complete(&folder.text("#@/re")).unwrap().0, 1);
    }
}
