//! Targets of a mention: the things that one `#` names. A pattern or a folder stands for the files that git would know, without
//! hidden ones.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use agentd_core::input::LineRange;
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::{CLOSING, MAX_PATH, typed_path};

/// One `#` that names something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The words behind the `#`, without quotes.
    pub(crate) written: String,
    /// The thing that they name.
    pub(crate) target: MentionTarget,
}

/// Something on the disk that a `#` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MentionTarget {
    /// A file.
    File(PathBuf),
    /// Lines of a file.
    Lines { path: PathBuf, lines: LineRange },
    /// A folder with what is in it.
    Folder(PathBuf),
    /// The files that a pattern fits.
    Pattern(MatchedFiles),
    /// A file whose name begins with a dot, or that lies in such a folder: those hold secrets, so a mention is not enough.
    Hidden(PathBuf),
}

/// The mention that the beginning of a text is: the longest that there is, for names may have spaces.
pub(super) fn at(text: &str, base: &Path) -> Option<Mention> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        let quoted = text[1..].split_once(quote)?.0;
        // A quoted name is meant as it stands, but for lines behind it.
        let target = on_disk(quoted, base).or_else(|| lines_of(quoted, base))?;
        return Some(Mention { written: quoted.to_owned(), target });
    }
    let text = &text[..text.floor_char_boundary(MAX_PATH)];
    let mut candidate = text.trim_end();
    while !candidate.is_empty() && !candidate.starts_with(char::is_whitespace) {
        let named = on_disk(candidate, base).or_else(|| lines_of(candidate, base));
        if let Some(target) = named.or_else(|| matches(candidate, base)) {
            return Some(Mention { written: candidate.to_owned(), target });
        }
        candidate = shorter(candidate);
    }
    None
}

/// Without what ends a sentence, else without the last word.
fn shorter(candidate: &str) -> &str {
    let bare = candidate.trim_end_matches(|letter: char| CLOSING.contains(letter));
    if bare.len() < candidate.len() {
        return bare;
    }
    // The last word may be glued to the name by punctuation, as in `#a.txt,b`.
    let cut =
        candidate.char_indices().rev().find(|(_, letter)| letter.is_whitespace() || ",;:，；：。".contains(*letter));
    cut.map_or("", |(index, _)| candidate[..index].trim_end())
}

fn on_disk(written: &str, base: &Path) -> Option<MentionTarget> {
    let path = base.join(typed_path(written));
    let metadata = fs::metadata(&path).ok()?;
    if metadata.is_file() {
        return Some(if is_hidden(&path, base) { MentionTarget::Hidden(path) } else { MentionTarget::File(path) });
    }
    // A word alone, as `#todo`, is more often a word than a folder.
    let is_folder = metadata.is_dir() && written.contains('/') && !is_hidden(&path, base);
    is_folder.then_some(MentionTarget::Folder(path))
}

/// Lines of a file: `a.rs:10`, `a.rs:10-40`.
fn lines_of(written: &str, base: &Path) -> Option<MentionTarget> {
    let (path, lines) = written.rsplit_once(':')?;
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let number = |digits: &str| digits.parse::<u32>().ok().filter(|number| *number > 0);
    let (first, last) = (number(first)?, number(last)?);
    match on_disk(path, base)? {
        MentionTarget::File(path) if first <= last => {
            Some(MentionTarget::Lines { path, lines: LineRange { first, last } })
        }
        hidden @ MentionTarget::Hidden(_) => Some(hidden),
        _ => None,
    }
}

/// Files that a pattern fits; a word with blanks in it is none.
fn matches(written: &str, base: &Path) -> Option<MentionTarget> {
    let is_pattern = written.contains('*') && !written.contains(char::is_whitespace);
    let matched = is_pattern.then(|| matching(&base.join(typed_path(written))))??;
    Some(MentionTarget::Pattern(matched))
}

/// Also where a link leads to such a file. A folder above `base` may be hidden; that is theirs.
fn is_hidden(path: &Path, base: &Path) -> bool {
    let here = if base.as_os_str().is_empty() { std::env::current_dir().ok() } else { Some(base.to_owned()) };
    let written_hidden =
        has_hidden(path.strip_prefix(base).unwrap_or(path)) && (path.is_relative() || path.starts_with(base));
    let real = here.and_then(|here| fs::canonicalize(here).ok());
    // Where everything lies in a hidden folder, that is no reason: only what is below the folder where the person is.
    let leads_hidden = fs::canonicalize(path).is_ok_and(|meant| {
        has_hidden(real.as_deref().and_then(|here| meant.strip_prefix(here).ok()).unwrap_or(&meant))
    });
    written_hidden || leads_hidden
}

fn has_hidden(path: &Path) -> bool {
    path.components().any(|part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b".")))
}

/// Files that one mention stands for at the most. More of them are a folder to look around in, not files to hand over.
pub(crate) const MAX_FILES: usize = 50;

/// Entries that are looked at for one mention.
const MAX_VISITED: usize = 50_000;

/// Depth of folders that are looked into.
const MAX_DEPTH: usize = 32;

/// Files that a mention stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MatchedFiles {
    /// Their paths, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// Set if there are more.
    pub(crate) is_cut: bool,
}

/// The files that a pattern fits; none where it is no pattern, or fits no file.
fn matching(pattern: &Path) -> Option<MatchedFiles> {
    // What stands before the first part with a star is a folder; only below it is anything looked for.
    let has_star = |part: &Component<'_>| part.as_os_str().as_encoded_bytes().contains(&b'*');
    let root: PathBuf = pattern.components().take_while(|part| !has_star(part)).collect();
    let below: PathBuf = pattern.components().skip_while(|part| !has_star(part)).collect();
    // Links do not lead out of the pattern's folder, and neither does the pattern itself.
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let glob = GlobBuilder::new(below.to_str().filter(|_| is_plain)?).literal_separator(true).build().ok()?;
    let found = walk(&root, Some(&glob.compile_matcher()), below.components().count().max(depth(&below)));
    (!found.files.is_empty()).then_some(found)
}

/// The files of a folder, at every depth.
pub(super) fn below(folder: &Path) -> MatchedFiles {
    walk(folder, None, MAX_DEPTH)
}

/// The depth to which a pattern reaches.
fn depth(pattern: &Path) -> usize {
    let is_deep = pattern.components().any(|part| part.as_os_str() == "**");
    if is_deep { MAX_DEPTH } else { 1 }
}

fn walk(root: &Path, glob: Option<&GlobMatcher>, depth: usize) -> MatchedFiles {
    let place = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let mut found = MatchedFiles::default();
    let entries = WalkBuilder::new(place).require_git(false).max_depth(Some(depth)).build();
    for (visited, entry) in entries.enumerate() {
        if visited == MAX_VISITED || found.files.len() > MAX_FILES {
            found.is_cut = true;
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(below) = entry.path().strip_prefix(place) else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && glob.is_none_or(|glob| glob.is_match(below)) {
            found.files.push(root.join(below));
        }
    }
    found.is_cut |= found.files.len() > MAX_FILES;
    found.files.truncate(MAX_FILES);
    found.files.sort();
    found
}
