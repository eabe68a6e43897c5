//! A command line as plain words: programs and arguments, without running anything.
//!
//! - `lexer`: text to words and operators; `word` is one word, with what stands behind a `$` in it.
//! - `line`: from these to pipelines of simple commands, also of lines with commands in brackets and in words, or to the
//!   reason why the line is more than that.
//!
//! Parts have a normal form, in which patterns, grants and people see a command: the same for every way to quote it.
//!
//! This is no reader of bash. A line of plain words, joined by `;`, `&`, `&&`, `||`, `|` and line ends, means the same to
//! everybody, and only such a line can run without asking or be granted to the letter. Of any other line nothing is believed,
//! unless it can be unfolded into such lines: whatever could be a command somewhere in it is a guess, and guesses only make a
//! verdict stricter.

mod lexer;
mod line;
pub(super) mod word;

use self::{
    line::is_keyword,
    word::{Word, quoted},
};
use super::opinion::LayerVerdict;

pub(super) use self::{
    lexer::{Doubt, bare},
    line::{Line, assignment, guesses, read, unfolded},
};

/// One simple command: what one program is given.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// `NAME=value` in front of the program, or alone.
    pub(super) assigns: Vec<Assign>,
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    /// Where its input and output go.
    pub(super) redirects: Vec<Redirect>,
    /// Where its standard input comes from.
    pub(super) stdin: Stdin,
    /// More arguments follow that nobody knows, as with `xargs`.
    pub(super) open_ended: bool,
    /// It goes on while the next one runs.
    pub(super) behind: bool,
    /// It is only what could be a command in a line that nobody can read.
    pub(super) guessed: bool,
    /// Verdicts found while reading.
    pub(super) findings: Vec<LayerVerdict>,
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
    /// The descriptor, where one is named.
    pub(super) descriptor: Option<u32>,
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

/// Returns whether a word means itself, without any quotes.
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

    /// Returns whether everything about it is known before it runs, but for the names that globs stand for.
    pub(super) fn is_static(&self) -> bool {
        // What xargs runs stands in what it reads.
        !self.open_ended
            && self.program() != "xargs"
            && self.words.iter().all(Word::is_static)
            && self.assigns.iter().all(|assign| assign.value.is_static())
            && self.redirects.iter().all(|redirect| redirect.target.is_static() && redirect.operator != "<<")
    }

    /// Returns whether it is nothing but plain words: no variables, no globs, no files that it reads or writes.
    pub(super) fn is_plain(&self) -> bool {
        !self.open_ended
            && !self.behind
            && !self.guessed
            && self.assigns.is_empty()
            && self.findings.is_empty()
            && self.words.iter().all(Word::is_plain)
            && self.redirects.iter().all(Redirect::is_silent)
    }

    /// The exact text: what a grant names and what a person is shown.
    pub(crate) fn exact(&self) -> String {
        let assigns = self.assigns.iter().map(|assign| format!("{}={}", assign.name, word(&assign.value)));
        let words =
            self.words.iter().enumerate().map(|(index, found)| if index == 0 { first(found) } else { word(found) });
        let redirects = self.redirects.iter().filter(|redirect| !redirect.is_harmless()).map(Redirect::exact);
        assigns.chain(words).chain(redirects).collect::<Vec<_>>().join(" ")
    }

    /// The text for patterns: without any quotes. The folder of the program is left out where `bare`.
    pub(crate) fn plain(&self, bare: bool) -> String {
        let mut text = String::new();
        let mut add = |piece: &str| {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(piece);
        };
        for assign in &self.assigns {
            add(&format!("{}={}", assign.name, assign.value.text));
        }
        for (index, word) in self.words.iter().enumerate() {
            let cut = bare && index == 0 && word.is_static();
            add(if cut { word.text.rsplit('/').next().unwrap_or_default() } else { &word.text });
        }
        for redirect in self.redirects.iter().filter(|redirect| !redirect.operator.ends_with('&')) {
            add(&format!("{} {}", redirect.operator, redirect.target.text));
        }
        text
    }
}

impl Redirect {
    /// Returns whether it may change what it names.
    pub(super) fn writes(&self) -> bool {
        self.operator.contains('>')
    }

    /// Returns whether it only joins outputs or throws them away.
    pub(super) fn is_harmless(&self) -> bool {
        self.is_silent() || self.names("/dev/stdout") || self.names("/dev/stderr")
    }

    /// Returns whether it names nothing but other descriptors and `/dev/null`.
    pub(super) fn is_silent(&self) -> bool {
        self.operator.ends_with('&') && self.target.inner.is_empty() || self.names("/dev/null")
    }

    fn names(&self, device: &str) -> bool {
        !self.operator.starts_with("<<") && self.target.is_plain() && self.target.text == device
    }

    /// The descriptor always stands there, so that the errors of a command are told from its output.
    fn exact(&self) -> String {
        let target = word(&self.target);
        match (self.descriptor, self.operator) {
            (_, operator @ ("&>" | "&>>")) => format!("{operator} {target}"),
            (Some(descriptor), operator) => format!("{descriptor}{operator} {target}"),
            (None, operator) => format!("{}{operator} {target}", u8::from(self.writes() && operator != "<>")),
        }
    }
}

/// The exact text of a pipeline: what a grant names. Two with the same text do the same.
pub(super) fn exact(pipeline: &[Part]) -> String {
    pipeline.iter().map(Part::exact).collect::<Vec<_>>().join(" | ")
}

/// A word so that its meaning shows: known text in quotes where it needs any, everything else as it is written.
fn word(word: &Word) -> String {
    if word.is_plain() && word.inner.is_empty() { quoted(&word.text) } else { word.raw.clone() }
}

/// The first word, in quotes where it would be read as an assignment or a word of the grammar without them.
fn first(found: &Word) -> String {
    if found.is_plain() && (found.text.contains('=') || is_keyword(&found.text)) {
        return format!("'{}'", found.text.replace('\'', r"'\''"));
    }
    word(found)
}
