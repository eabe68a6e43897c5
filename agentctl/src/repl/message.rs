//! A message to the model: what the person typed, and what goes with it behind their words.
//!
//! Only the words are theirs. What goes with them mentions nothing, names no session, and where all of it is too long for a
//! model's window the words stay whole.

use agentd_core::input::{InputPart, Selection};

/// Outputs of commands that go with one message.
const MOST_OUTPUTS: usize = 8;
/// Files that are told of with one message.
const MOST_FILES: usize = 64;

/// The input of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnInput {
    /// The line as it was typed. Where it cannot be sent it stands in the prompt again.
    pub(super) line: String,
    /// The words for the model.
    pub(crate) text: String,
    /// The bytes at their beginning that the person typed; none where all of them are the person's.
    pub(crate) typed_bytes: Option<usize>,
    /// True if the turn begins with a plan, whatever is configured.
    pub(crate) plans: bool,
}

impl TurnInput {
    /// A line that is sent as it is.
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
    /// Says which file is meant.
    pub(super) fn add_file(&mut self, note: String) {
        if self.files.len() < MOST_FILES && !self.files.contains(&note) {
            self.files.push(note);
        }
    }

    /// Adds lines of files, which are parts of the input.
    pub(super) fn quote(&mut self, lines: Vec<Selection>) {
        // Of a message that was not sent and is sent again, they are the same.
        self.quoted = lines;
    }

    /// The lines of files that go with the message.
    pub(super) fn parts(&self) -> Vec<InputPart> {
        self.quoted.iter().cloned().map(InputPart::Selection).collect()
    }

    /// Adds the output of a command. The oldest makes room for it.
    pub(super) fn add_output(&mut self, block: String) {
        if self.outputs.len() == MOST_OUTPUTS {
            self.outputs.remove(0);
        }
        self.outputs.push(block);
    }

    /// The message with it, and the bytes at its beginning that the person typed.
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
