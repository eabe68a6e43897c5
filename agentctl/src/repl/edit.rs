//! Edits a call before it runs: a command or the text of a file verbatim, and other arguments as JSON.

use std::{io, path::Path};

use serde_json::Value;

use agentd_core::{
    interrupt::{Answer, Ask},
    visible,
};

use super::question::{Question, pretty};
use crate::keyboard::Key;

/// Maximum length of a suffix that is passed to an editor.
const LONGEST_SUFFIX: usize = 12;

/// Part of a call that the user edits.
#[derive(Debug, PartialEq, Eq)]
struct Draft {
    /// Argument that is edited; `None` for all arguments as JSON.
    field: Option<&'static str>,
    /// Suffix of the temporary file, from which an editor derives the language.
    suffix: String,
    text: String,
}

impl Draft {
    /// Creates the draft for a call: its command, its plan or the text for its file, else all arguments.
    fn of(args: &Value) -> Self {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        let suffix = text("path").map(suffix_of);
        let fields = [
            ("command", Some(".sh".to_owned())),
            (Ask::PLAN, Some(".md".to_owned())),
            ("content", suffix.clone()),
            ("new_string", suffix),
        ];
        let found = fields
            .into_iter()
            .find_map(|(name, suffix)| Some(Self { field: Some(name), suffix: suffix?, text: text(name)?.to_owned() }));
        found.unwrap_or_else(|| Self::json(pretty(args)))
    }

    fn json(text: String) -> Self {
        Self { field: None, suffix: ".json".to_owned(), text }
    }

    /// Converts the draft to a text that fits on one line.
    fn in_a_line(self, args: &Value) -> Self {
        let is_json = match self.field {
            // Hidden characters are shown as escapes of JSON.
            Some(_) => self.text.contains(visible::is_hidden),
            None => self.text == pretty(args),
        };
        if is_json { Self::json(visible::json(args.to_string())) } else { self }
    }

    fn prompt(&self) -> String {
        format!("  {}: ", self.field.unwrap_or("arguments").replace('_', " "))
    }

    /// Returns the draft with the edited text.
    fn with(self, edited: String) -> Self {
        let text = match self.field {
            // Editors add a line break at the end, which the user did not type.
            Some(_) if edited.strip_suffix('\n') == Some(self.text.as_str()) => self.text,
            Some("command") => edited.trim_end_matches('\n').to_owned(),
            _ => edited,
        };
        Self { text, ..self }
    }

    /// Returns the arguments of the call with the edited text.
    fn arguments(&self, args: &Value) -> Result<Value, String> {
        match self.field {
            Some(name @ ("command" | Ask::PLAN)) if self.text.trim().is_empty() => Err(format!("the {name} is empty")),
            Some(name) => {
                let mut args = args.clone();
                args[name] = Value::String(self.text.clone());
                Ok(args)
            }
            None => match serde_json::from_str::<Value>(&self.text) {
                Ok(args) if args.is_object() => Ok(args),
                Ok(_) => Err("the arguments must be a JSON object".to_owned()),
                Err(error) => Err(format!("invalid JSON: {error}")),
            },
        }
    }
}

/// Returns the suffix of a file's name; `.txt` if it has none, or an unsafe one.
fn suffix_of(path: &str) -> String {
    let suffix = Path::new(path).extension().and_then(|suffix| suffix.to_str()).unwrap_or("txt");
    let is_plain = suffix.len() <= LONGEST_SUFFIX && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    format!(".{}", if is_plain { suffix } else { "txt" })
}

impl Question<'_> {
    /// Lets the user edit the call, and returns the answer, or `None` if the call was not changed. An invalid text is
    /// opened again unchanged, so that none of it is lost or taken as an answer.
    pub(super) fn edit(&mut self, args: &Value, grave: bool) -> io::Result<Option<Answer>> {
        self.console.write("\n")?;
        let mut draft = Draft::of(args);
        loop {
            let with_editor;
            (draft, with_editor) = match self.console.edit(&draft.text, &draft.suffix)? {
                Some(edited) => (draft.with(edited), true),
                None => {
                    let draft = draft.in_a_line(args);
                    let Some(edited) = self.line(&draft.prompt(), &draft.text)? else { return Ok(None) };
                    (draft.with(edited), false)
                }
            };
            match draft.arguments(args) {
                Ok(edited) if edited == *args => return self.not_taken("the call is as it was"),
                Ok(edited) => {
                    let answer = Answer::Edit { args: edited };
                    // Leaving an editor does not confirm a risky call.
                    return if grave && with_editor {
                        self.confirmed(Key::Escape, "run it with these arguments?", answer)
                    } else {
                        Ok(Some(answer))
                    };
                }
                Err(why) => self.not_taken(&why)?,
            };
            if with_editor {
                self.console.write("  Enter opens it again, Esc goes back ")?;
                let next = self.console.key()?;
                self.console.write("\n")?;
                if next != Some(Key::Enter) {
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_and_file_text_are_edited_verbatim() {
        let check = |args: Value, suffix: &str, text: &str, edited: &str, expected: Value| {
            let draft = Draft::of(&args);
            assert_eq!((draft.suffix.as_str(), draft.text.as_str()), (suffix, text));
            assert_eq!(draft.with(edited.to_owned()).arguments(&args), Ok(expected));
        };
        let command = json!({"command": "make", "timeout": 5});
        check(command.clone(), ".sh", "make", "make test\n", json!({"command": "make test", "timeout": 5}));
        check(command.clone(), ".sh", "make", "make\n", command);
        let write = json!({"path": "/project/a.py", "content": "x = 1"});
        check(write.clone(), ".py", "x = 1", "x = 2\n", json!({"path": "/project/a.py", "content": "x = 2\n"}));
        check(write.clone(), ".py", "x = 1", "x = 1\n", write);
        let edit = json!({"path": "a", "old_string": "a", "new_string": "b"});
        check(edit, ".txt", "b", "c", json!({"path": "a", "old_string": "a", "new_string": "c"}));
        check(json!({"to": "test"}), ".json", "{\n  \"to\": \"test\"\n}", "{\"to\": \"x\"}", json!({"to": "x"}));
    }

    #[test]
    fn model_path_cannot_choose_an_unsafe_suffix() {
        assert_eq!(suffix_of("a.rs"), ".rs");
        assert_eq!(suffix_of("a.x/../../etc"), ".txt");
        assert_eq!(suffix_of("a.$(x)"), ".txt");
        assert_eq!(suffix_of("a.averyveryverylongone"), ".txt");
    }
}
