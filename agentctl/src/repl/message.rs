//! A message to the model: the text that the user typed, followed by extras.
//!
//! Only the typed text can mention files and name the session. If the message is too long for the model's window, the
//! typed text is not cut.

use agentd_core::input::{InputPart, Selection};

/// Maximum number of command outputs in a message.
const MOST_OUTPUTS: usize = 8;
/// Maximum number of files named in a message.
const MOST_FILES: usize = 64;

/// Input of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnInput {
    /// The typed line, which returns to the prompt if it cannot be sent.
    pub(super) line: String,
    /// The text for the model.
    pub(crate) text: String,
    /// Number of bytes at the start of the text that the user typed; `None` for all.
    pub(crate) typed_bytes: Option<usize>,
    /// True if the turn starts with a plan, regardless of the configuration.
    pub(crate) plans: bool,
}

impl TurnInput {
    /// Creates an input that is sent unchanged.
    pub(super) fn typed(line: String) -> Self {
        Self { text: line.clone(), line, typed_bytes: None, plans: false }
    }

    /// Returns the part in which files are mentioned.
    pub(crate) fn words(&self) -> &str {
        self.typed_bytes.and_then(|bytes| self.text.get(..bytes)).unwrap_or(&self.text)
    }
}

/// Extras of the next message.
#[derive(Debug, Default)]
pub(super) struct MessageExtras {
    files: Vec<String>,
    outputs: Vec<String>,
    quoted: Vec<Selection>,
}

impl MessageExtras {
    /// Adds a note about a file.
    pub(super) fn add_file(&mut self, note: String) {
        if self.files.len() < MOST_FILES && !self.files.contains(&note) {
            self.files.push(note);
        }
    }

    /// Adds lines of files, which are parts of the input.
    pub(super) fn quote(&mut self, lines: Vec<Selection>) {
        // Replaces the selections, because a message that could not be sent is prepared again.
        self.quoted = lines;
    }

    /// Returns the added lines of files.
    pub(super) fn parts(&self) -> Vec<InputPart> {
        self.quoted.iter().cloned().map(InputPart::Selection).collect()
    }

    /// Adds the output of a command. Above the limit, the oldest output is dropped.
    pub(super) fn add_output(&mut self, block: String) {
        if self.outputs.len() == MOST_OUTPUTS {
            self.outputs.remove(0);
        }
        self.outputs.push(block);
    }

    /// Returns the message with its extras, and the number of bytes at its start that the user typed.
    pub(super) fn behind(&self, input: &TurnInput) -> (String, Option<u64>) {
        if self.files.is_empty() && self.outputs.is_empty() {
            return (input.text.clone(), input.typed_bytes.map(|bytes| bytes as u64));
        }
        let words = input.text.trim_end();
        let files = (!self.files.is_empty()).then(|| format!("Files: {}", self.files.join("; ")));
        let parts = [words.to_owned()].into_iter().chain(files).chain(self.outputs.iter().cloned());
        let typed = input.typed_bytes.unwrap_or(words.len()).min(words.len());
        (parts.collect::<Vec<_>>().join("\n\n"), Some(typed as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_extras_follow_the_typed_text() {
        let mut extras = MessageExtras::default();
        let input = TurnInput::typed("Why?\n".to_owned());
        assert_eq!(extras.behind(&input), ("Why?\n".to_owned(), None));
        extras.add_output("ran: make".to_owned());
        extras.add_file("#a is /project/a".to_owned());
        extras.add_file("#a is /project/a".to_owned());
        let (text, typed) = extras.behind(&input);
        assert_eq!((text.as_str(), typed), ("Why?\n\nFiles: #a is /project/a\n\nran: make", Some(4)));
        let own =
            TurnInput { line: "/x".to_owned(), text: "/x\n\nprompt".to_owned(), typed_bytes: Some(2), plans: false };
        assert_eq!((own.words(), extras.behind(&own).1), ("/x", Some(2)));
        (0..MOST_OUTPUTS).for_each(|number| extras.add_output(format!("output {number}")));
        assert!(!extras.behind(&input).0.contains("ran: make"), "the oldest is gone");
    }
}
