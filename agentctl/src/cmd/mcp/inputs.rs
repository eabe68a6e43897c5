//! Values that VS Code asks a person for: the `inputs` of its file, and `${input:ID}` in the servers that want them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal as _},
};

use serde_json::Value;

use super::{entry::Entry, import::FoundServers, secrets::Secrets};
use crate::terminal::{ask, sanitize::clean_line};

/// Prefix of an input's id in the value of a server's setting.
const MARK: &str = "${input:";

/// One value, as the file describes it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Input {
    /// `promptString`, `pickString` or `command`.
    kind: String,
    description: String,
    default: Option<String>,
    is_password: bool,
    /// Choices: label and value.
    options: Vec<(String, String)>,
}

/// Those of a file, by their ids.
pub(super) fn read(file: &Value) -> BTreeMap<String, Input> {
    let inputs = file.get("inputs").or_else(|| file.get("mcp")?.get("inputs")).and_then(Value::as_array);
    let text = |input: &Value, key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    let of = |input: &Value| {
        let options = input.get("options").and_then(Value::as_array).into_iter().flatten().filter_map(|option| {
            let value = option.as_str().map(str::to_owned).or_else(|| text(option, "value"))?;
            Some((text(option, "label").unwrap_or_else(|| value.clone()), value))
        });
        let read = Input {
            kind: text(input, "type").unwrap_or_default(),
            description: text(input, "description").unwrap_or_default(),
            default: text(input, "default").filter(|default| !default.is_empty()),
            is_password: input.get("password").and_then(Value::as_bool).unwrap_or_default(),
            options: options.collect(),
        };
        Some((text(input, "id")?, read))
    };
    inputs.into_iter().flatten().filter_map(of).collect()
}

impl FoundServers {
    /// The ids of what its servers ask for.
    pub(super) fn asks(&self) -> BTreeSet<String> {
        self.taken.iter().flat_map(wanted).collect()
    }

    /// Asks for what its servers want, each value once, and puts it where it is wanted. A password goes to the secrets, and
    /// its server names it by a variable. Servers for which there is no answer are left. Returns whether the person went on.
    pub(super) fn ask(&mut self, secrets: &mut Secrets) -> io::Result<bool> {
        let present = io::stdin().is_terminal() && io::stderr().is_terminal();
        let mut answers = BTreeMap::new();
        for id in self.asks() {
            let answer = match self.inputs.get(&id) {
                None => Err(format!("it wants `{MARK}{id}}}`, which is not among the `inputs` of the file")),
                Some(input) => match input.objection(&id) {
                    Some(why) => Err(why),
                    None if !present => Err(format!(
                        "it wants `{id}`, and there is nobody here to ask; import it at a terminal, or write it into \
                         mcp_servers.yaml with a variable such as `${{{}}}` in that place",
                        variable(&id)
                    )),
                    None => match input.answer(&id, &self.who_wants(&id))? {
                        Answer::Given(value) if input.is_password => {
                            Ok(format!("${{{}}}", secrets.keep(&variable(&id), &value)))
                        }
                        // What is written there stands for itself.
                        Answer::Given(value) => Ok(value.replace("${", "$${")),
                        Answer::Nothing => Err(format!("it wants `{id}`, which was left empty")),
                        Answer::Gone => return Ok(false),
                    },
                },
            };
            answers.insert(id, answer);
        }
        for mut entry in std::mem::take(&mut self.taken) {
            let missing = wanted(&entry).into_iter().find_map(|id| answers.get(&id)?.as_ref().err());
            if let Some(why) = missing {
                self.leave(&entry.called, why);
                continue;
            }
            for text in entry.texts() {
                for (id, value) in &answers {
                    if let Ok(value) = value {
                        *text = text.replace(&format!("{MARK}{id}}}"), value);
                    }
                }
            }
            self.taken.push(entry);
        }
        Ok(true)
    }

    fn who_wants(&self, id: &str) -> String {
        let names = self.taken.iter().filter(|entry| wanted(entry).contains(id)).map(|entry| entry.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Inputs that one server refers to.
fn wanted(entry: &Entry) -> BTreeSet<String> {
    let mut entry = entry.clone();
    let ids = |text: &mut String| -> Vec<String> {
        text.split(MARK).skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect()
    };
    entry.texts().flat_map(ids).collect()
}

/// The variable that an input's value is kept as. It begins like no variable that programs know.
fn variable(id: &str) -> String {
    let fit = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    format!("INPUT_{}", id.chars().map(fit).collect::<String>())
}

/// Answer of a person.
enum Answer {
    Given(String),
    Nothing,
    /// They left.
    Gone,
}

impl Input {
    /// Why it cannot be asked for.
    fn objection(&self, id: &str) -> Option<String> {
        match self.kind.as_str() {
            "promptString" => None,
            "pickString" if !self.options.is_empty() => None,
            "command" => Some(format!("it wants `{id}`, which only a command of the editor knows")),
            _ => Some(format!("it wants `{id}`, an input that cannot be asked for")),
        }
    }

    fn answer(&self, id: &str, servers: &str) -> io::Result<Answer> {
        loop {
            let question = self.question(id, servers);
            let line = if self.is_password { ask::hidden(&question)? } else { ask::line(&question)? };
            let Some(line) = line else { return Ok(Answer::Gone) };
            let said = if self.is_password { line } else { line.trim().to_owned() };
            let said = if said.is_empty() { self.default.clone() } else { Some(said) };
            let Some(said) = said else { return Ok(Answer::Nothing) };
            if self.kind != "pickString" {
                return Ok(Answer::Given(said));
            }
            let at = said.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let picked = self.options.iter().find(|(words, value)| said == *words || said == *value);
            if let Some((_, value)) = picked.or_else(|| self.options.get(at?)) {
                return Ok(Answer::Given(value.clone()));
            }
            crate::terminal::note(&clean_line(&format!("`{said}` is none of them")));
        }
    }

    fn question(&self, id: &str, servers: &str) -> String {
        let what = if self.description.is_empty() { id } else { &self.description };
        let mut question = String::new();
        for (number, (words, _)) in (1..).zip(&self.options) {
            question += &format!("  {number}  {}\n", clean_line(words));
        }
        question += &clean_line(&format!("{what}, for {servers}"));
        match &self.default {
            _ if self.is_password => question += " (it is not shown)",
            Some(default) => question += &format!(" [{}]", clean_line(default)),
            None => {}
        }
        question + ": "
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn inputs_are_read_as_they_are_described() {
        let file = serde_json::json!({"inputs": [
            {"type": "promptString", "id": "key", "description": "The key", "password": true},
            {"type": "pickString", "id": "where", "options": ["eu", {"label": "America", "value": "us"}], "default": "eu"},
            {"id": "odd"}, {"type": "promptString"}, 5,
        ]});
        let inputs = read(&file);
        assert_eq!(inputs.keys().collect::<Vec<_>>(), ["key", "odd", "where"]);
        assert!(inputs["key"].is_password && inputs["key"].objection("key").is_none());
        assert_eq!(inputs["where"].options[1], ("America".to_owned(), "us".to_owned()));
        assert!(inputs["odd"].objection("odd").is_some());
        assert_eq!(variable("github-token.2"), "INPUT_GITHUB_TOKEN_2");
    }

    #[test]
    fn each_value_is_asked_for_once_and_only_where_it_is_wanted() {
        let text = r#"{"inputs": [{"type": "promptString", "id": "a"}, {"type": "promptString", "id": "unused"}],
            "servers": {"x": {"command": "x", "args": ["${input:a}", "--b=${input:b}"]},
                        "y": {"url": "https://${input:a}.example.org"}, "z": {"command": "z"}}}"#;
        let found = super::super::import::read(text, Path::new("mcp.json")).unwrap();
        assert_eq!(found.asks().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(found.who_wants("a"), "x, y");
    }
}
