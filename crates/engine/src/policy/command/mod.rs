//! A command line taken apart: what bash would run, part by part, without running anything.
//!
//! - `parse`: text to a syntax tree, within bounds of size and depth, whatever the text is.
//! - `crosscheck`: a second reading by bash's own rules. Where it differs, nobody can tell what would run.
//! - `word`: what a word means once its quotes are gone, and what of it nobody can know beforehand.
//! - `walk`: from the tree to the simple commands in it, those inside substitutions, loops and functions included.
//! - `wrappers`: commands that run other commands, such as `timeout`, `xargs` and `sh -c`.
//! - `shown`: the normal form, in which patterns, grants and people see a part.
//!
//! Whatever is not understood becomes a part of its own that asks at high risk. So a mistake here costs a question.

mod crosscheck;
mod parse;
mod shown;
mod walk;
pub(super) mod word;
mod wrappers;

use self::word::Word;
use super::opinion::Opinion;

pub(super) use self::walk::take_apart;

/// One simple command: what one `exec`, one builtin or one assignment does.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// `NAME=value` in front of the program, or alone.
    pub(super) assigns: Vec<Assign>,
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    /// Where its input and output go, as far as it matters.
    pub(super) redirects: Vec<Redirect>,
    /// Where its standard input comes from.
    pub(super) stdin: Stdin,
    /// More arguments follow that nobody knows, as with `xargs`.
    pub(super) open_ended: bool,
    /// It runs another command, which is a part of its own and is judged in its place.
    pub(super) transparent: bool,
    /// What was noticed on the way here.
    pub(super) findings: Vec<Opinion>,
    /// The text of what could not be taken apart.
    pub(super) unread: Option<String>,
}

/// An assignment.
#[derive(Debug, Clone)]
pub(super) struct Assign {
    pub(super) name: String,
    pub(super) value: Word,
}

/// A redirection of input or output.
#[derive(Debug, Clone)]
pub(super) struct Redirect {
    pub(super) writes: bool,
    /// The operator, such as `>>`.
    pub(super) operator: &'static str,
    pub(super) target: Word,
}

/// Where standard input comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stdin {
    /// Wherever the shell has it from, which is nowhere.
    #[default]
    Inherited,
    /// The part before it in a pipeline.
    Pipe,
    /// A file, or text that stands in the command.
    Given,
}

/// Whether a word means itself, without any quotes.
pub(super) fn is_plain_text(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(word::is_plain)
}

impl Part {
    /// The program without its folder; empty where there is none, or where nobody can know it.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", Word::file_name)
    }

    /// The arguments.
    pub(super) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Whether everything about it is known before it runs.
    pub(super) fn is_static(&self) -> bool {
        self.unread.is_none()
            && !self.open_ended
            && self.words.iter().all(Word::is_static)
            && self.assigns.iter().all(|assign| assign.value.is_static())
            && self.redirects.iter().all(|redirect| redirect.target.is_static())
    }
}
