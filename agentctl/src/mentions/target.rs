//! Targets of mentions. A pattern or a folder expands to its files, without hidden files and those that git ignores.
//!
//! Files in the session's folders are mentioned by their tool paths, line ranges are quoted, and all other files are
//! copied.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Component, Path, PathBuf},
};

use agentd_core::{
    folder::Mounts,
    input::{LineRange, MAX_INPUT_PARTS, MAX_SELECTION_BYTES, MAX_SELECTION_URI, Selection},
    path,
};
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::{CLOSING_PUNCTUATION, MAX_PATH, of_tools, typed_path};

/// A mention with an existing target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Text after the `#`, without quotes.
    pub(crate) written: String,
    /// Target of the mention.
    pub(crate) target: MentionTarget,
}

/// A file or folder that a mention refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MentionTarget {
    /// A file, without a range.
    File(PathBuf),
    /// A range of lines in a file.
    Lines { path: PathBuf, lines: LineRange },
    /// A folder with its content.
    Folder(PathBuf),
    /// Files that match a pattern.
    Pattern(MatchedFiles),
    /// A file with a hidden component in its path. A mention does not attach such files, because they often contain
    /// secrets.
    Hidden(PathBuf),
}

/// Parses the mention at the start of a text. The longest match wins, because names may contain spaces.
pub(super) fn at(text: &str, base: &Path) -> Option<Mention> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        let quoted = text[1..].split_once(quote)?.0;
        // A quoted name is taken literally, except for line numbers at its end.
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

/// Returns the text without trailing punctuation, or else without the last word.
fn shorter(candidate: &str) -> &str {
    let trimmed = candidate.trim_end_matches(|letter: char| CLOSING_PUNCTUATION.contains(letter));
    if trimmed.len() < candidate.len() {
        return trimmed;
    }
    // Punctuation may join the name and the next word, as in `#a.txt,b`.
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
    // A single word such as `#todo` rarely refers to a folder.
    let is_folder = metadata.is_dir() && written.contains('/') && !is_hidden(&path, base);
    is_folder.then_some(MentionTarget::Folder(path))
}

/// Parses lines of a file: `a.rs:10` or `a.rs:10-40`.
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

/// Returns the files that match a pattern. Text with white space is not a pattern.
fn matches(written: &str, base: &Path) -> Option<MentionTarget> {
    let is_pattern = written.contains('*') && !written.contains(char::is_whitespace);
    let matched = is_pattern.then(|| matching(&base.join(typed_path(written))))??;
    Some(MentionTarget::Pattern(matched))
}

/// Returns true if the path or the target of its links is hidden. Hidden folders above `base` are ignored.
fn is_hidden(path: &Path, base: &Path) -> bool {
    let base_folder = if base.as_os_str().is_empty() { std::env::current_dir().ok() } else { Some(base.to_owned()) };
    let has_hidden_name =
        has_hidden(path.strip_prefix(base).unwrap_or(path)) && (path.is_relative() || path.starts_with(base));
    let real_base = base_folder.and_then(|base_folder| fs::canonicalize(base_folder).ok());
    // Only components under the current folder are checked, so that a user can work inside of a hidden folder.
    let leads_hidden = fs::canonicalize(path).is_ok_and(|real_path| {
        has_hidden(
            real_base.as_deref().and_then(|base_folder| real_path.strip_prefix(base_folder).ok()).unwrap_or(&real_path),
        )
    });
    has_hidden_name || leads_hidden
}

fn has_hidden(path: &Path) -> bool {
    path.components().any(|part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b".")))
}

/// Maximum number of files for one mention. A user with more files should mount a folder instead.
pub(crate) const MAX_FILES: usize = 50;

/// Maximum number of entries visited for one mention.
const MAX_VISITED: usize = 50_000;

/// Maximum depth of visited folders.
const MAX_DEPTH: usize = 32;

/// Files that a mention expands to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MatchedFiles {
    /// Paths of the files, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// True if the number of files was limited.
    pub(crate) is_cut: bool,
}

/// Expands a pattern. Returns `None` if it is invalid or matches no file.
fn matching(pattern: &Path) -> Option<MatchedFiles> {
    // The path before the first component with a star is a folder; the search is limited to this folder.
    let has_star = |part: &Component<'_>| part.as_os_str().as_encoded_bytes().contains(&b'*');
    let root: PathBuf = pattern.components().take_while(|part| !has_star(part)).collect();
    let below: PathBuf = pattern.components().skip_while(|part| !has_star(part)).collect();
    // Neither links nor the pattern itself may lead outside of that folder.
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let glob = GlobBuilder::new(below.to_str().filter(|_| is_plain)?).literal_separator(true).build().ok()?;
    let depth = if below.components().any(|part| part.as_os_str() == "**") { MAX_DEPTH } else { 1 };
    let found = walk(&root, Some(&glob.compile_matcher()), below.components().count().max(depth));
    (!found.files.is_empty()).then_some(found)
}

fn walk(root: &Path, glob: Option<&GlobMatcher>, depth: usize) -> MatchedFiles {
    let start = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let mut found = MatchedFiles::default();
    let entries = WalkBuilder::new(start).require_git(false).max_depth(Some(depth)).build();
    for (visited, entry) in entries.enumerate() {
        if visited == MAX_VISITED || found.files.len() > MAX_FILES {
            found.is_cut = true;
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(below) = entry.path().strip_prefix(start) else { continue };
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

/// Maximum number of files copied for one folder or pattern. A user with more files should mount the folder instead.
const MAX_COPIES: usize = 20;

/// Maximum size of a file from which lines are quoted, in bytes.
const MAX_QUOTED: u64 = 64 << 20;

/// Origin of a text with mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MentionSource {
    /// A message in a chat.
    Chat,
    /// A prompt from an editor.
    Editor,
    /// A command line typed by a user.
    Terminal,
    /// A command line run by a program. The text may come from other sources, so only files of the project are
    /// attached.
    Program,
}

impl MentionSource {
    /// Returns a hint for attaching a file that the mention did not attach.
    fn hint(self, written: &str) -> String {
        match self {
            Self::Chat => format!("; /upload {written} attaches it anyway"),
            Self::Editor => String::new(),
            Self::Terminal | Self::Program => format!("; --file {written} attaches it anyway"),
        }
    }
}

/// Files and lines attached to a message.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Bundle {
    /// Lines for the model that map mentions to tool paths.
    pub(crate) named: Vec<String>,
    /// Files to copy into the session.
    pub(crate) copies: Vec<PathBuf>,
    /// Line ranges that are quoted.
    pub(crate) selections: Vec<Selection>,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
}

impl Bundle {
    /// Collects the attachments of the mentions in a session with these folders.
    pub(crate) fn collect(mentions: Vec<Mention>, mounts: &Mounts, source: MentionSource) -> Self {
        let mut bundle = Self::default();
        let collector = Collector { mounts, source };
        for mention in mentions {
            collector.add(&mention, &mut bundle);
        }
        if bundle.selections.len() > MAX_INPUT_PARTS {
            let left_out = bundle.selections.len() - MAX_INPUT_PARTS;
            bundle.notes.push(format!(
                "{left_out} of the mentioned line ranges are left out: a message can contain {MAX_INPUT_PARTS}"
            ));
            bundle.selections.truncate(MAX_INPUT_PARTS);
        }
        bundle
    }
}

struct Collector<'a> {
    mounts: &'a Mounts,
    source: MentionSource,
}

impl Collector<'_> {
    fn add(&self, mention: &Mention, bundle: &mut Bundle) {
        let written = path::shown(&mention.written);
        match &mention.target {
            MentionTarget::File(path) => self.file(&written, path, bundle),
            MentionTarget::Lines { path, lines } => self.lines(&written, path, *lines, bundle),
            MentionTarget::Folder(path) => match self.of_tools(path) {
                Some(named) => bundle.named.push(format!("#{written} is the folder {named}")),
                None => self.add_copies(&written, &walk(path, None, MAX_DEPTH), bundle),
            },
            MentionTarget::Pattern(matched) => self.matched(&written, matched, bundle),
            // In the project, models can see hidden files anyway, and approvals protect these files.
            MentionTarget::Hidden(path) => match self.of_tools(path) {
                Some(named) => bundle.named.push(format!("#{written} is {named}")),
                None => bundle
                    .notes
                    .push(format!("#{written} is hidden and was not attached{}", self.source.hint(&written))),
            },
        }
    }

    fn file(&self, written: &str, path: &Path, bundle: &mut Bundle) {
        match self.of_tools(path) {
            // The session already has access to the file, so tools work on the original.
            Some(named) => bundle.named.push(format!("#{written} is {named}")),
            None if self.may_leave_project() => bundle.copies.push(path.to_owned()),
            None => bundle.notes.push(self.outside_note(written)),
        }
    }

    fn lines(&self, written: &str, path: &Path, lines: LineRange, bundle: &mut Bundle) {
        let named = of_tools(path, self.mounts);
        if named.is_none() && !self.may_leave_project() {
            return bundle.notes.push(self.outside_note(written));
        }
        let uri = named.unwrap_or_else(|| path.display().to_string());
        match quote(path, lines) {
            Ok(Quote { lines, text, is_cut }) if uri.len() <= MAX_SELECTION_URI => {
                if is_cut {
                    bundle
                        .notes
                        .push(format!("#{written} is longer than {} KiB and was truncated", MAX_SELECTION_BYTES >> 10));
                }
                bundle.selections.push(Selection { uri, lines: Some(lines), text });
            }
            Ok(_) => bundle.notes.push(format!("the path of #{written} is too long")),
            Err(problem) => {
                bundle.notes.push(format!("#{written}: {problem}"));
                self.file(written, path, bundle);
            }
        }
    }

    fn matched(&self, written: &str, matched: &MatchedFiles, bundle: &mut Bundle) {
        let named: Option<Vec<String>> = matched.files.iter().map(|file| self.of_tools(file)).collect();
        match named {
            Some(named) => {
                let more = if matched.is_cut { " and more" } else { "" };
                bundle.named.push(format!("#{written} is {}{more}", named.join(", ")));
            }
            None => self.add_copies(written, matched, bundle),
        }
    }

    /// Copies files from outside of the session's folders, up to a limit.
    fn add_copies(&self, written: &str, matched: &MatchedFiles, bundle: &mut Bundle) {
        let MatchedFiles { files, is_cut } = matched;
        if *is_cut || files.len() > MAX_COPIES {
            let note = format!(
                "#{written} matches more than {MAX_COPIES} files, which were not attached; -C DIR shows the model \
                 a whole folder"
            );
            return bundle.notes.push(note);
        }
        if files.is_empty() {
            return bundle.notes.push(format!("#{written} has no files to attach"));
        }
        if !self.may_leave_project() {
            return bundle.notes.push(self.outside_note(written));
        }
        bundle.copies.extend(files.iter().cloned());
    }

    fn of_tools(&self, path: &Path) -> Option<String> {
        of_tools(path, self.mounts).map(|named| path::shown(&named).into_owned())
    }

    /// Returns true if files outside of the session's folders may be attached.
    fn may_leave_project(&self) -> bool {
        self.source != MentionSource::Program
    }

    fn outside_note(&self, written: &str) -> String {
        format!("#{written} is not a file of the project and was not attached{}", self.source.hint(written))
    }
}

/// Quoted lines of a file.
struct Quote {
    /// Quoted range, which ends at the end of the file at the latest.
    lines: LineRange,
    text: String,
    is_cut: bool,
}

fn quote(path: &Path, lines: LineRange) -> Result<Quote, String> {
    let failed = |error: std::io::Error| format!("could not be read: {error}");
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_QUOTED {
        return Err(format!("exceeds {} MiB, so no lines are quoted", MAX_QUOTED >> 20));
    }
    let mut quote = Quote { lines: LineRange { first: lines.first, last: 0 }, text: String::new(), is_cut: false };
    let mut seen = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(failed)?;
        seen += 1;
        if seen > lines.last || quote.is_cut {
            break;
        }
        if seen >= lines.first {
            quote.add(&String::from_utf8_lossy(&line), seen);
        }
    }
    if quote.lines.last == 0 {
        return Err(format!("the file has only {seen} lines"));
    }
    Ok(quote)
}

impl Quote {
    fn add(&mut self, line: &str, number: u32) {
        if self.text.len() + line.len() >= MAX_SELECTION_BYTES {
            let remaining = MAX_SELECTION_BYTES - 1 - self.text.len();
            self.text.push_str(&line[..line.floor_char_boundary(remaining.min(line.len()))]);
            self.is_cut = true;
        } else {
            self.text.push_str(line.strip_suffix('\r').unwrap_or(line));
        }
        self.text.push('\n');
        self.lines.last = number;
    }
}
