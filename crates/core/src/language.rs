//! Source code as language servers see it: files of the person's folders, places in them, and what is wrong there.

use std::path::PathBuf;

/// A file in one of the person's folders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceFile {
    /// Real path of the folder of the person.
    pub folder: PathBuf,
    /// The folder's name in the session: `/project` or `/folders/NAME`.
    pub mount: String,
    /// The file's path below it.
    pub below: PathBuf,
}

impl SourceFile {
    /// Its name in the session.
    pub fn name(&self) -> String {
        format!("{}/{}", self.mount, self.below.display())
    }

    /// Its real path.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.below)
    }
}

/// Finding of a language server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Name of the file in the session.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in UTF-16 units.
    pub column: u32,
    /// Weight of it.
    pub severity: Severity,
    /// Words of the server in one line, made harmless and bounded.
    pub message: String,
    /// Its code and source, in the same manner; empty where there is none.
    pub code: String,
}

names! {
    /// Weight of a finding.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// The code is wrong.
        Error = "error",
        /// It may be.
        Warning = "warning",
        /// Something to know.
        Information = "information",
        /// Something that could be nicer.
        Hint = "hint",
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, column, severity, message, code } = self;
        write!(f, "{file}:{line}:{column}: {severity}: {message}")?;
        if code.is_empty() { Ok(()) } else { write!(f, " ({code})") }
    }
}

/// Time that the engine gives language servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Between two steps: a server that has just started is hardly waited for.
    Step,
    /// At the end of a turn, where there is no later step.
    End,
}

/// News about the edits of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LanguageNews {
    /// Errors that were not there before, by place.
    pub errors: Vec<Diagnostic>,
    /// Sentences about servers that are not used, for people. Each is told once in a session.
    pub words: Vec<String>,
}

/// A symbol in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// The file.
    pub file: SourceFile,
    /// Line, from 1.
    pub line: u32,
    /// Place in the line.
    pub at: LinePlace,
}

/// Place in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinePlace {
    /// Column, from 1, in UTF-16 units: as servers tell them.
    Column(u32),
    /// The first word that is this symbol.
    Symbol(String),
}

/// A place that a server names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// Name of the file in the session; the path that the server gave where it lies in no folder of the person.
    pub file: String,
    /// True if it lies in the same folder of the person as the file that was asked about.
    pub is_own: bool,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in UTF-16 units.
    pub column: u32,
}

/// Edits of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRewrite {
    /// Name of the file in the session.
    pub file: String,
    /// The edits, by place. None overlaps another.
    pub edits: Vec<SourceEdit>,
}

/// An edit of a range.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceEdit {
    /// Its beginning.
    pub start: WirePosition,
    /// Its end.
    pub end: WirePosition,
    /// Text to put there.
    pub text: String,
}

/// A position as the protocol of language servers counts: lines from 0, and UTF-16 units from 0 in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub struct WirePosition {
    /// Line, from 0.
    pub line: u32,
    /// UTF-16 units before it in the line.
    pub character: u32,
}

impl WirePosition {
    /// Byte offset in a text. A position behind the end of its line is that end; none where there is no such line.
    #[must_use]
    pub fn offset(self, text: &str) -> Option<usize> {
        let mut start = 0;
        for _ in 0..self.line {
            start += text[start..].find('\n')? + 1;
        }
        let line = text[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let mut units = 0;
        for (at, letter) in line.char_indices() {
            if units >= self.character {
                return Some(start + at);
            }
            units += u32::try_from(letter.len_utf16()).unwrap_or(1);
        }
        Some(start + line.len())
    }
}

/// Reason why language servers could not answer, in one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LanguageError {
    /// The sentence.
    pub message: String,
}

impl LanguageError {
    /// An error with this sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_in_utf16() {
        let text = "a\u{1f600}b\r\nzwei\n";
        let check = |line, character, offset| assert_eq!(WirePosition { line, character }.offset(text), offset);
        check(0, 0, Some(0));
        check(0, 3, Some(5));
        check(0, 99, Some(6));
        check(1, 2, Some(10));
        check(2, 0, Some(13));
        check(3, 0, None);
    }
}
