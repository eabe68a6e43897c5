//! Parses command lines into plain words, without running anything.
//!
//! - `lexer`: text to words and operators; `word`: a single word, including expansions after a `$`.
//! - `line`: words and operators to pipelines of simple commands, including commands in brackets and in words, or the
//!   reason why the line is more than that.
//!
//! Each part has a normal form, which patterns and grants use and users see. It does not depend on how the command is
//! quoted.
//!
//! This is not a bash parser. A line of plain words, joined by `;`, `&`, `&&`, `||`, `|` and line ends, means the same
//! to every shell. Only such a line can run without a question or match an exact grant. Any other line is not trusted,
//! unless it can be unfolded into such lines: all possible commands in it are guesses, and guesses only make a verdict
//! stricter.

mod lexer;
mod line;
pub(super) mod word;

use self::{
    line::is_keyword,
    word::{Word, quoted},
};
use super::opinion::LayerVerdict;

pub(super) use self::{
    lexer::{Doubt, unquoted},
    line::{Line, assignment, guesses, read, unfolded_pipelines},
};

/// One simple command: a program with its arguments and redirections.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Assignments `NAME=value` before the program, or alone.
    pub(super) assigns: Vec<Assign>,
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    /// Redirections of input and output.
    pub(super) redirects: Vec<Redirect>,
    /// Source of the command's standard input.
    pub(super) stdin: Stdin,
    /// True if unknown arguments follow, as with `xargs`.
    pub(super) open_ended: bool,
    /// True if the command runs in the background.
    pub(super) background: bool,
    /// True if the command is a guess, from a line that cannot be parsed.
    pub(super) guessed: bool,
    /// Verdicts found while parsing.
    pub(super) findings: Vec<LayerVerdict>,
}

/// An assignment to a variable.
#[derive(Debug, Clone)]
pub(super) struct Assign {
    pub(super) name: String,
    pub(super) value: Word,
}

/// A redirection of input or output.
#[derive(Debug, Clone)]
pub(super) struct Redirect {
    /// The descriptor, if one is named.
    pub(super) descriptor: Option<u32>,
    /// The operator, such as `>>`.
    pub(super) operator: &'static str,
    pub(super) target: Word,
}

/// Source of standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stdin {
    /// Inherited from the shell, which has no input of its own.
    #[default]
    Inherited,
    /// The previous part of a pipeline.
    Pipe,
    /// A file, or text in the command.
    Given,
}

/// Returns true if the word needs no quotes.
pub(super) fn is_plain_text(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(word::is_plain)
}

impl Part {
    /// Returns the program without its folder. Empty if there is no program, or if its name is only known at run time.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", Word::file_name)
    }

    /// Returns the words after the program.
    pub(super) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Returns true if everything about the command is known before it runs, except the names that globs expand to.
    pub(super) fn is_static(&self) -> bool {
        // xargs reads its command line from its input.
        !self.open_ended
            && self.program() != "xargs"
            && self.words.iter().all(Word::is_static)
            && self.assigns.iter().all(|assign| assign.value.is_static())
            && self.redirects.iter().all(|redirect| redirect.target.is_static() && redirect.operator != "<<")
    }

    /// Returns true if the command consists of plain words: no variables, no globs, no files that it reads or writes.
    pub(super) fn is_plain(&self) -> bool {
        !self.open_ended
            && !self.background
            && !self.guessed
            && self.assigns.is_empty()
            && self.findings.is_empty()
            && self.words.iter().all(Word::is_plain)
            && self.redirects.iter().all(Redirect::is_silent)
    }

    /// Returns the normal form, as named by grants and shown to users.
    pub(crate) fn exact(&self) -> String {
        let assigns = self.assigns.iter().map(|assign| format!("{}={}", assign.name, word(&assign.value)));
        let words =
            self.words.iter().enumerate().map(|(index, found)| if index == 0 { first(found) } else { word(found) });
        let redirects = self.redirects.iter().filter(|redirect| !redirect.is_harmless()).map(Redirect::exact);
        assigns.chain(words).chain(redirects).collect::<Vec<_>>().join(" ")
    }

    /// Returns the text for patterns, without quotes. If `omit_folder`, the folder of the program is omitted.
    pub(crate) fn plain(&self, omit_folder: bool) -> String {
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
            let strip_folder = omit_folder && index == 0 && word.is_static();
            add(if strip_folder { word.text.rsplit('/').next().unwrap_or_default() } else { &word.text });
        }
        for redirect in self.redirects.iter().filter(|redirect| !redirect.operator.ends_with('&')) {
            add(&format!("{} {}", redirect.operator, redirect.target.text));
        }
        text
    }
}

impl Redirect {
    /// Returns true if the redirection may change its target.
    pub(super) fn writes(&self) -> bool {
        self.operator.contains('>')
    }

    /// Returns true if the redirection only joins or discards outputs.
    pub(super) fn is_harmless(&self) -> bool {
        self.is_silent() || self.names("/dev/stdout") || self.names("/dev/stderr")
    }

    /// Returns true if the redirection only names other descriptors and `/dev/null`.
    pub(super) fn is_silent(&self) -> bool {
        self.operator.ends_with('&') && self.target.inner.is_empty() || self.names("/dev/null")
    }

    fn names(&self, device: &str) -> bool {
        !self.operator.starts_with("<<") && self.target.is_plain() && self.target.text == device
    }

    /// Returns the normal form. The descriptor is always included, to distinguish the errors of a command from its
    /// output.
    fn exact(&self) -> String {
        let target = word(&self.target);
        match (self.descriptor, self.operator) {
            (_, operator @ ("&>" | "&>>")) => format!("{operator} {target}"),
            (Some(descriptor), operator) => format!("{descriptor}{operator} {target}"),
            (None, operator) => format!("{}{operator} {target}", u8::from(self.writes() && operator != "<>")),
        }
    }
}

/// Returns the normal form of a pipeline, as named by grants. Pipelines with the same text have the same effect.
pub(super) fn exact(pipeline: &[Part]) -> String {
    pipeline.iter().map(Part::exact).collect::<Vec<_>>().join(" | ")
}

/// Returns the normal form of a word: known text, quoted if necessary, and anything else as written.
fn word(word: &Word) -> String {
    if word.is_plain() && word.inner.is_empty() { quoted(&word.text) } else { word.raw.clone() }
}

/// Returns the normal form of the first word, quoted if it would be read as an assignment or a keyword.
fn first(found: &Word) -> String {
    if found.is_plain() && (found.text.contains('=') || is_keyword(&found.text)) {
        return format!("'{}'", found.text.replace('\'', r"'\''"));
    }
    word(found)
}
