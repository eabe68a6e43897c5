//! Source code for language servers: files in the user's folders, positions in them, and diagnostics.

use std::path::PathBuf;

/// File in one of the user's folders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceFile {
    /// Real path of the user's folder.
    pub folder: PathBuf,
    /// Name of the folder in the session: `/project` or `/folders/NAME`.
    pub mount: String,
    /// Path of the file relative to the folder.
    pub below: PathBuf,
}

impl SourceFile {
    /// Returns the file's name in the session.
    pub fn name(&self) -> String {
        format!("{}/{}", self.mount, self.below.display())
    }

    /// Returns the file's real path on the host.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.below)
    }
}

/// Diagnostic from a language server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Name of the file in the session.
    pub file: String,
    /// Line number, starting at 1.
    pub line: u32,
    /// Column in UTF-16 units, starting at 1.
    pub column: u32,
    /// Severity of the diagnostic.
    pub severity: Severity,
    /// The server's message in one line, sanitised and bounded.
    pub message: String,
    /// Code and source, sanitised and bounded. Empty if there are none.
    pub code: String,
}

names! {
    /// Severity of a diagnostic.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// The code is wrong.
        Error = "error",
        /// The code may be wrong.
        Warning = "warning",
        /// Information about the code.
        Information = "information",
        /// A suggestion for better code.
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

/// Limit on the time that the engine waits for language servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Between two steps. The engine waits only briefly for a server that has just started.
    Step,
    /// At the end of a turn, when no later step can report the result.
    End,
}

/// Diagnostics caused by the edits of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LanguageNews {
    /// New errors, sorted by position.
    pub errors: Vec<Diagnostic>,
    /// Sentences for the user about unused servers. Each is shown once per session.
    pub words: Vec<String>,
}

/// Position of a symbol in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// File that contains the symbol.
    pub file: SourceFile,
    /// Line number, starting at 1.
    pub line: u32,
    /// Position within the line.
    pub at: LinePosition,
}

/// Position in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinePosition {
    /// Column in UTF-16 units, starting at 1, as reported by servers.
    Column(u32),
    /// First occurrence of this symbol as a whole word.
    Symbol(String),
}

/// Location reported by a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// Name of the file in the session, or the server's path if the file is outside the user's folders.
    pub file: String,
    /// True if the location is in the same folder of the user as the file of the request.
    pub is_own: bool,
    /// Line number, starting at 1.
    pub line: u32,
    /// Column in UTF-16 units, starting at 1.
    pub column: u32,
}

/// Edits of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRewrite {
    /// Name of the file in the session.
    pub file: String,
    /// Edits sorted by position, which do not overlap.
    pub edits: Vec<SourceEdit>,
}

/// Replacement of a text range.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceEdit {
    /// Start of the range.
    pub start: WirePosition,
    /// End of the range, exclusive.
    pub end: WirePosition,
    /// Text that replaces the range.
    pub text: String,
}

/// Position in the language server protocol: a line number, and UTF-16 units within the line, both starting at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub struct WirePosition {
    /// Line number, starting at 0.
    pub line: u32,
    /// Number of UTF-16 units before the position in the line.
    pub character: u32,
}

impl WirePosition {
    /// Returns the byte offset in `text`, or `None` if the line does not exist. A position past the end of its line is
    /// moved to the end of the line.
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

/// Reason why language servers could not answer, as one sentence with a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LanguageError {
    /// Error message, one sentence.
    pub message: String,
}

impl LanguageError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf16_units() {
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
