//! Parses patches and finds the positions of their hunks in a file.
//!
//! - `forms`: parsers for both formats, unified diffs and `*** Begin Patch`. The first line determines the format.
//! - `place`: finds the position of a hunk. Hunk and file may differ in white space and line number, but no line is
//!   ever omitted. Existing patch libraries require every byte and line number to be right, or drop context until they
//!   find a match.
//! - `apply`: converts hunks to text edits, so that unchanged lines keep their bytes, and describes hunks that do not
//!   match for the model.

mod apply;
mod forms;
mod place;

use agentd_workspace::{failure::Failure, text};

pub(crate) use apply::{Edits, apply, line_list, most_alike, start_of};
pub(crate) use forms::parse;

/// Change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// Path of the file, as written in the patch.
    pub(crate) path: String,
    pub(crate) change: Change,
}

/// Kind of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Creates the file with this content.
    Add { content: String },
    /// Deletes the file. `hunks` contains the file's content, if the patch includes it.
    Delete { hunks: Option<Vec<Hunk>> },
    /// Edits the file, moves it, or both.
    Update { hunks: Vec<Hunk>, moved_to: Option<String> },
}

/// Adjacent lines and their changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Header line of the hunk, for error messages.
    pub(crate) header: String,
    /// First line according to the header, counted from 0.
    pub(crate) start: Option<usize>,
    /// Anchor lines above the hunk, outermost first.
    pub(crate) anchors: Vec<String>,
    pub(crate) lines: Vec<Line>,
    /// True if the hunk must end at the end of the file.
    pub(crate) at_end: bool,
    /// True if the last line has no line end, before and after the change.
    pub(crate) open_end: (bool, bool),
}

/// Line of a hunk, without its line end.
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
    /// Returns the lines that must occur in the file, in order.
    pub(crate) fn old(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.kind != LineKind::Added).map(|line| line.text.as_str())
    }

    /// Returns the lines after the change, in order.
    pub(crate) fn new_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.kind != LineKind::Removed).map(|line| line.text.as_str())
    }

    /// Returns true if the hunk contains a change.
    pub(crate) fn changes(&self) -> bool {
        self.lines.iter().any(|line| line.kind != LineKind::Context) || self.open_end.0 != self.open_end.1
    }
}

/// Lines of a patch with the read position.
#[derive(Debug, Clone)]
pub(super) struct Lines<'p> {
    lines: Vec<&'p str>,
    at: usize,
}

impl<'p> Lines<'p> {
    /// Splits a patch into lines. A `\r` before a line end is part of the line end, because the file determines the
    /// kind of its line ends.
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

    /// Moves the read position back by one line.
    pub(super) fn back(&mut self) {
        self.at -= 1;
    }

    /// Removes blank lines and code fences that models add around a patch.
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

    /// Creates the failure for the line that was read last.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Failure {
        Failure::arguments(format!("line {} of the patch {what}; nothing was changed", self.at.max(1)))
    }
}

/// Parses a line of a hunk. An empty line is a context line whose leading space was lost.
pub(super) fn hunk_line(line: &str) -> Option<Line> {
    let kind = match line.bytes().next() {
        None | Some(b' ') => LineKind::Context,
        Some(b'-') => LineKind::Removed,
        Some(b'+') => LineKind::Added,
        _ => return None,
    };
    Some(Line { kind, text: line.get(1..).unwrap_or_default().to_owned() })
}

/// Removes at most `lost` blank lines at the end. Such lines separate hunks and do not belong to any hunk.
pub(super) fn drop_blank_tail(hunk: &mut Hunk, mut lost: usize) {
    while lost > 0 && hunk.lines.last().is_some_and(|line| line.kind == LineKind::Context && line.text.is_empty()) {
        hunk.lines.pop();
        lost -= 1;
    }
}

/// Header of a hunk: `@@ -12,3 +12,4 @@ section`, or `@@` and a line from the file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// First line, counted from 1, and number of lines, before and after the change.
    pub(super) ranges: Option<[(usize, usize); 2]>,
    /// Text after `@@`, if there are no numbers.
    pub(super) anchor: Option<String>,
}

impl Header {
    /// Returns the first line of the hunk, counted from 0.
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

/// Parses the file name in a header: quoted as in git, or up to a tab and a timestamp.
pub(super) fn name(written: &str) -> Result<String, Failure> {
    let Some(quoted) = written.strip_prefix('"') else {
        return Ok(written.split('\t').next().unwrap_or_default().trim_end().to_owned());
    };
    let wrong =
        || Failure::arguments(format!("the name {} in the patch is not quoted correctly", text::quoted(written)));
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
