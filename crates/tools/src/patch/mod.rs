//! Parsing of patches, and placing of their hunks in a file.
//!
//! - `parse`: both forms of patches, told apart by their first line: `unified` for what `diff` and `git diff` write,
//!   `envelope` for `*** Begin Patch`.
//! - `lines`: the lines of a patch and the names in it.
//! - `place`: where a hunk stands. Lines may differ in white space and stand elsewhere than is said; none is ever left
//!   out. That is why nothing ready-made is used: the libraries for patches want every byte and line number right, or
//!   drop context until something fits.
//! - `apply`: hunks made into edits of a text, so that lines which stay keep their bytes.
//! - `misfit`: answer for the model of a hunk that does not fit.

mod apply;
mod envelope;
mod lines;
mod misfit;
mod parse;
mod place;
mod unified;

pub(crate) use apply::apply;
pub(crate) use parse::parse;

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
