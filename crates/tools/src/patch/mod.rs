//! Parsing of patches, and placing of their hunks in a file.
//!
//! - `forms`: both forms of patches, told apart by their first line: what `diff` and `git diff` write, and `*** Begin Patch`.
//! - `place`: where a hunk stands. Lines may differ in white space and stand elsewhere than is said; none is ever left
//!   out. That is why nothing ready-made is used: the libraries for patches want every byte and line number right, or
//!   drop context until something fits.
//! - `apply`: hunks made into edits of a text, so that lines which stay keep their bytes; answers for the model about hunks that
//!   do not fit.

mod apply;
mod forms;
mod place;

use agentd_workspace::{failure::Failure, text};

pub(crate) use apply::{Edits, apply, line_list, most_alike, start_of};
pub(crate) use forms::parse;

/// Change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// The file as the patch names it.
    pub(crate) path: String,
    pub(crate) change: Change,
}

/// Kind of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The file is made, with this content.
    Add { content: String },
    /// The file goes. `hunks` are its content, if the patch tells it.
    Delete { hunks: Option<Vec<Hunk>> },
    /// The file is changed, moved, or both.
    Update { hunks: Vec<Hunk>, moved_to: Option<String> },
}

/// Adjacent lines, and their changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Header of the file in the patch, to name it by.
    pub(crate) header: String,
    /// The line, counted from 0, at which it says to begin.
    pub(crate) start: Option<usize>,
    /// Anchor lines above it, the outer ones first.
    pub(crate) anchors: Vec<String>,
    pub(crate) lines: Vec<Line>,
    /// Set if it says that it ends at the end of the file.
    pub(crate) at_end: bool,
    /// Set, before and after, if it says that the last line lacks its line end.
    pub(crate) open_end: (bool, bool),
}

/// A line of a hunk, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) kind: LineKind,
    pub(crate) text: String,
}

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Context,
    Removed,
    Added,
}

impl Hunk {
    /// The lines that must be there, in order.
    pub(crate) fn old(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.kind != LineKind::Added).map(|line| line.text.as_str())
    }

    /// The lines that will be there, in order.
    pub(crate) fn new_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.kind != LineKind::Removed).map(|line| line.text.as_str())
    }

    /// Returns whether it changes anything.
    pub(crate) fn changes(&self) -> bool {
        self.lines.iter().any(|line| line.kind != LineKind::Context) || self.open_end.0 != self.open_end.1
    }
}

/// The lines of a patch, with the one that is read next.
#[derive(Debug, Clone)]
pub(super) struct Lines<'p> {
    lines: Vec<&'p str>,
    at: usize,
}

impl<'p> Lines<'p> {
    /// Takes a patch apart. A `\r` before a line end is part of it: the file decides how its lines end.
    pub(super) fn of(patch: &'p str) -> Self {
        let mut lines: Vec<&str> = patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        Self { lines, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'p str> {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, by: usize) -> Option<&'p str> {
        self.lines.get(self.at + by).copied()
    }

    pub(super) fn next(&mut self) -> Option<&'p str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// Takes back the line taken last.
    pub(super) fn back(&mut self) {
        self.at -= 1;
    }

    /// Leaves out lines around the patch that models put there: blank ones and code fences.
    pub(super) fn trim(&mut self) {
        let is_blank = |line: &&str| line.trim().is_empty();
        let is_fence = |line: &str| line.trim_start().starts_with("```");
        while self.peek().as_ref().is_some_and(is_blank) {
            self.at += 1;
        }
        let fenced = self.peek().is_some_and(is_fence);
        if fenced {
            self.at += 1;
            while self.lines.last().is_some_and(is_blank) {
                self.lines.pop();
            }
            if self.lines.len() > self.at && self.lines.last().is_some_and(|line| is_fence(line)) {
                self.lines.pop();
            }
        }
    }

    /// A failure at the line that was taken last.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Failure {
        Failure::arguments(format!("line {} of the patch {what}; nothing was changed", self.at.max(1)))
    }
}

/// A line of a hunk, if it can be one. An empty line is a context line whose space was lost.
pub(super) fn hunk_line(line: &str) -> Option<Line> {
    let kind = match line.bytes().next() {
        None | Some(b' ') => LineKind::Context,
        Some(b'-') => LineKind::Removed,
        Some(b'+') => LineKind::Added,
        _ => return None,
    };
    Some(Line { kind, text: line.get(1..).unwrap_or_default().to_owned() })
}

/// Takes blank lines off the end that were put between hunks and not in one: at most `lost` of them.
pub(super) fn drop_blank_tail(hunk: &mut Hunk, mut lost: usize) {
    while lost > 0 && hunk.lines.last().is_some_and(|line| line.kind == LineKind::Context && line.text.is_empty()) {
        hunk.lines.pop();
        lost -= 1;
    }
}

/// Content of a hunk header: `@@ -12,3 +12,4 @@ section`, or only `@@` and some line of the file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// The first line, from 1, and how many lines, before and after.
    pub(super) ranges: Option<[(usize, usize); 2]>,
    /// Text after it, where there are no numbers.
    pub(super) anchor: Option<String>,
}

impl Header {
    /// The line, counted from 0, at which the hunk says to begin.
    pub(super) fn start(&self) -> Option<usize> {
        self.ranges.map(|[(start, count), _]| start.saturating_sub(usize::from(count > 0)))
    }
}

pub(super) fn header(line: &str) -> Option<Header> {
    let rest = line.strip_prefix("@@")?;
    let inner = rest.split_once("@@").map_or(rest, |(inner, _)| inner);
    let mut words = inner.split_whitespace();
    if let (Some(old), Some(new), None) = (words.next(), words.next(), words.next())
        && let (Some(old), Some(new)) = (range(old, '-'), range(new, '+'))
    {
        return Some(Header { ranges: Some([old, new]), anchor: None });
    }
    let anchor = rest.strip_prefix(' ').unwrap_or(rest);
    let anchor = anchor.strip_suffix("@@").unwrap_or(anchor).trim_end();
    let placeholder = anchor.is_empty() || anchor.chars().all(|c| matches!(c, '.' | ' ' | '@' | '…'));
    Some(Header { ranges: None, anchor: (!placeholder).then(|| anchor.to_owned()) })
}

fn range(word: &str, sign: char) -> Option<(usize, usize)> {
    let word = word.strip_prefix(sign)?;
    let (start, count) = word.split_once(',').unwrap_or((word, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

/// A file name out of a header: quoted as git quotes odd names, or up to a tab and a time.
pub(super) fn name(written: &str) -> Result<String, Failure> {
    let Some(quoted) = written.strip_prefix('"') else {
        return Ok(written.split('\t').next().unwrap_or_default().trim_end().to_owned());
    };
    let wrong = || Failure::arguments(format!("the name {} in the patch is not quoted well", text::quoted(written)));
    let mut bytes = Vec::new();
    let mut left = quoted.bytes();
    loop {
        match left.next().ok_or_else(wrong)? {
            b'"' => break,
            b'\\' => bytes.push(match left.next().ok_or_else(wrong)? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                first @ b'0'..=b'3' => {
                    let mut digit = || left.next().filter(|d| matches!(d, b'0'..=b'7')).map(|d| d - b'0');
                    let (second, third) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                    (first - b'0') * 64 + second * 8 + third
                }
                other => other,
            }),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
