//! Parts of a result as fields, for programs that would otherwise have to read them out of a text.

use serde::{Deserialize, Serialize};

/// Bytes of a stream that are kept at the most.
const MAX_PRINTED: usize = 16 << 10;

/// Bytes of a diff that are kept at the most.
const MAX_DIFF: usize = 32 << 10;

/// Parts of a result as fields. No model is shown them: it reads the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolDetails {
    /// Standard output of a command, where that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<PrintedText>,
    /// Standard error of a command, where that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<PrintedText>,
    /// Change made by an edit, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<PrintedText>,
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
}

impl PrintedText {
    fn new(text: &str, bytes: u64, most: usize) -> Self {
        let shown = &text[..text.floor_char_boundary(most)];
        Self { text: shown.to_owned(), bytes, cut: shown.len() < text.len() }
    }

    /// Output of a command to one stream; `bytes` is the size of all of it.
    #[must_use]
    pub fn of_stream(text: &str, bytes: u64) -> Self {
        Self::new(text, bytes, MAX_PRINTED)
    }
}

impl ToolDetails {
    /// Those of an edit.
    #[must_use]
    pub fn of_diff(diff: &str) -> Self {
        Self { diff: Some(PrintedText::new(diff, diff.len() as u64, MAX_DIFF)), ..Self::default() }
    }

    /// Returns whether there is nothing in them.
    #[must_use]
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
        let short = PrintedText::of_stream("done\n", 5);
        assert_eq!((short.text.as_str(), short.bytes, short.cut), ("done\n", 5, false));
        assert!(ToolDetails::default().is_empty() && !ToolDetails::of_diff("-a\n+b\n").is_empty());
    }
}
