//! Structured parts of a result, for clients that would otherwise have to parse the result's text.

use serde::{Deserialize, Serialize};

/// Maximum stored size of a stream, in bytes.
const MAX_PRINTED: usize = 16 << 10;

/// Size of the end of a long text, in bytes. The end is stored in addition to the beginning.
const MAX_TAIL: usize = 2 << 10;

/// Maximum stored size of a diff, in bytes.
const MAX_DIFF: usize = 32 << 10;

/// Structured parts of a result. Models get only the text.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolDetails {
    /// Standard output of a command, if it is text.
    pub stdout: Option<PrintedText>,
    /// Standard error of a command, if it is text.
    pub stderr: Option<PrintedText>,
    /// Change made by an edit or a command, as a unified diff. For a command, only the first files.
    pub diff: Option<PrintedText>,
    /// Session path of the file with the whole result text, if the text is too long for a model, or
    /// had lines that overwrote themselves.
    pub stored: Option<String>,
    /// Number of leading bytes of the result's text that the tool wrote; the rest is for the model only. `None` if the
    /// tool wrote all of the text.
    pub own_bytes: Option<u64>,
}

/// A text, or the beginning and the end of a long text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedText {
    /// The text, or its beginning.
    pub text: String,
    /// Size of the original text, in bytes.
    pub bytes: u64,
    /// True if `text` is only the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// End of a truncated text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
}

impl PrintedText {
    fn new(text: &str, bytes: u64, limit: usize) -> Self {
        let shown = &text[..text.floor_char_boundary(limit)];
        let cut = shown.len() < text.len();
        let tail = if cut { &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL))..] } else { "" };
        Self { text: shown.to_owned(), bytes, cut, tail: tail.to_owned() }
    }

    /// Returns the stored end of the text.
    pub fn end(&self) -> &str {
        if self.tail.is_empty() { &self.text } else { &self.tail }
    }

    /// Truncates the output that a command wrote to one stream. `bytes` is the original size.
    pub fn of_stream(text: &str, bytes: u64) -> Self {
        Self::new(text, bytes, MAX_PRINTED)
    }
}

impl ToolDetails {
    /// Creates the details of a change.
    pub fn of_diff(diff: &str) -> Self {
        Self { diff: Some(PrintedText::new(diff, diff.len() as u64, MAX_DIFF)), ..Self::default() }
    }

    /// Returns true if there are no details.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_between_characters_and_flagged() {
        let long = "é".repeat(MAX_PRINTED);
        let printed = PrintedText::of_stream(&long, long.len() as u64);
        assert_eq!((printed.text.len(), printed.bytes, printed.cut), (MAX_PRINTED, 2 * MAX_PRINTED as u64, true));
        assert_eq!((printed.tail.len(), printed.end().len()), (MAX_TAIL, MAX_TAIL));
        let short = PrintedText::of_stream("done\n", 5);
        assert_eq!((short.text.as_str(), short.bytes, short.cut, short.end()), ("done\n", 5, false, "done\n"));
        assert!(ToolDetails::default().is_empty() && !ToolDetails::of_diff("-a\n+b\n").is_empty());
    }
}
