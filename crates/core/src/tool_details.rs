//! Parts of a result as fields, for programs that would otherwise have to read them out of a text.

use serde::{Deserialize, Serialize};

/// Bytes of a stream that are kept at the most.
const MAX_PRINTED: usize = 16 << 10;

/// Bytes at the end of a longer text that are kept besides its beginning.
const MAX_TAIL: usize = 2 << 10;

/// Bytes of a diff that are kept at the most.
const MAX_DIFF: usize = 32 << 10;

/// Parts of a result as fields. No model is shown them: it reads the text.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolDetails {
    /// Standard output of a command, where that is text.
    pub stdout: Option<PrintedText>,
    /// Standard error of a command, where that is text.
    pub stderr: Option<PrintedText>,
    /// Change made by an edit, as a unified diff.
    pub diff: Option<PrintedText>,
    /// Path in the session of the file with the whole text of the result, if that is too long for a model.
    pub stored: Option<String>,
    /// Bytes at the start of the result's text that the tool wrote; what follows is for the model alone. All of it if absent.
    pub own_bytes: Option<u64>,
}

/// A text, or the beginning of a long one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedText {
    /// The text; of a long one the beginning.
    pub text: String,
    /// Bytes of all of it, as it was written.
    pub bytes: u64,
    /// Set if this is only its beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The end of a text that is cut.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
}

impl PrintedText {
    fn new(text: &str, bytes: u64, most: usize) -> Self {
        let shown = &text[..text.floor_char_boundary(most)];
        let cut = shown.len() < text.len();
        let tail = if cut { &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL))..] } else { "" };
        Self { text: shown.to_owned(), bytes, cut, tail: tail.to_owned() }
    }

    /// The part that is kept of its end.
    pub fn end(&self) -> &str {
        if self.tail.is_empty() { &self.text } else { &self.tail }
    }

    /// Output of a command to one stream; `bytes` is the size of all of it.
    pub fn of_stream(text: &str, bytes: u64) -> Self {
        Self::new(text, bytes, MAX_PRINTED)
    }
}

impl ToolDetails {
    /// Those of an edit.
    pub fn of_diff(diff: &str) -> Self {
        Self { diff: Some(PrintedText::new(diff, diff.len() as u64, MAX_DIFF)), ..Self::default() }
    }

    /// Returns whether there is nothing in them.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_say_so() {
        let long = "é".repeat(MAX_PRINTED);
        let printed = PrintedText::of_stream(&long, long.len() as u64);
        assert_eq!((printed.text.len(), printed.bytes, printed.cut), (MAX_PRINTED, 2 * MAX_PRINTED as u64, true));
        assert_eq!((printed.tail.len(), printed.end().len()), (MAX_TAIL, MAX_TAIL));
        let short = PrintedText::of_stream("done\n", 5);
        assert_eq!((short.text.as_str(), short.bytes, short.cut, short.end()), ("done\n", 5, false, "done\n"));
        assert!(ToolDetails::default().is_empty() && !ToolDetails::of_diff("-a\n+b\n").is_empty());
    }
}
