//! Imports servers from the files of other programs: `mcpServers` of `.mcp.json` and `claude_desktop_config.json`, and
//! `servers` of VS Code's `mcp.json`. The `inputs` of the latter are values to prompt for; they replace `${input:ID}`.
//! Skipped entries are reported with the reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::entry::{Entry, Secrets};
use crate::{
    failure::Failure,
    terminal::{ask, clean_line, is_attended, note},
};

/// Servers found in a file.
#[derive(Debug, Default)]
pub(super) struct FoundServers {
    pub(super) imported: Vec<Entry>,
    /// Entries that were skipped, with the reason.
    pub(super) skipped: Vec<(String, String)>,
    /// Definitions of values to prompt for.
    pub(super) inputs: BTreeMap<String, Input>,
    /// Folder that replaces `${workspaceFolder}`.
    workspace: PathBuf,
}

/// Parses a file to import.
pub(super) fn read(text: &str, file: &Path) -> Result<FoundServers, Failure> {
    let invalid = |reason: String| {
        Failure::usage(format!("{}: {reason}", file.display()))
            .hint("expected .mcp.json, claude_desktop_config.json or VS Code's mcp.json")
    };
    // Editors allow comments and trailing commas in their JSON.
    let mut plain = text.to_owned();
    let plain = json_strip_comments::strip(&mut plain).map(|()| plain).map_err(serde_json::Error::io);
    let value: Value = plain
        .and_then(|plain| serde_json::from_str(&plain))
        .map_err(|error| invalid(format!("invalid JSON: {error}")))?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| value.get(key)?.as_object());
    let servers = servers.or_else(|| value.get("mcp")?.get("servers")?.as_object());
    let Some(servers) = servers else { return Err(invalid("it has neither `mcpServers` nor `servers`".to_owned())) };
    let mut found = FoundServers { inputs: read_inputs(&value), workspace: workspace(file), ..FoundServers::default() };
    for (name, server) in servers {
        match server.as_object() {
            Some(server) => found.take(name, server),
            None => found.skip(name, "it is not an object"),
        }
    }
    Ok(found)
}

impl FoundServers {
    fn take(&mut self, name: &str, server: &Map<String, Value>) {
        // Replaces characters that are invalid in a server's name.
        let is_valid = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        let valid_name: String =
            name.chars().map(|letter| if is_valid(letter) { letter } else { '-' }).take(40).collect();
        let valid_name = Some(valid_name.trim_start_matches(['-', '_', '.']))
            .filter(|valid_name| !valid_name.is_empty())
            .unwrap_or("server");
        if server.get("disabled").and_then(Value::as_bool) == Some(true) {
            return self.skip(name, "it is disabled");
        }
        let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
        let pairs = |key: &str| -> Vec<(String, String)> {
            let pairs = server.get(key).and_then(Value::as_object).into_iter().flatten();
            pairs.map(|(name, value)| (name.clone(), plain(value))).collect()
        };
        let args = server.get("args").and_then(Value::as_array).into_iter().flatten().map(plain);
        let mode = text("type").or_else(|| text("transport")).unwrap_or_default();
        let mut entry = Entry {
            name: valid_name.to_owned(),
            original_name: name.to_owned(),
            command: text("command"),
            args: args.collect(),
            env: pairs("env"),
            cwd: text("cwd"),
            url: text("url").or_else(|| text("serverUrl")),
            headers: pairs("headers"),
            sse: mode == "sse",
        };
        if entry.command.is_none() && entry.url.is_none() {
            return self.skip(name, "it has neither a command nor a URL");
        }
        if entry.command.is_some() {
            entry.url = None;
        }
        if let Err(reason) = translate(&mut entry, &self.workspace) {
            return self.skip(name, &reason);
        }
        for key in server.keys().filter(|key| !SUPPORTED_KEYS.split(' ').any(|known_key| known_key == *key)) {
            self.skip(&format!("{name}.{key}"), "agentd has no such setting");
        }
        if self.imported.iter().any(|other| other.name == valid_name) {
            return self.skip(name, &format!("another server is called `{valid_name}`"));
        }
        if valid_name != name {
            self.skip(&format!("the name `{name}`"), &format!("imported as `{valid_name}`"));
        }
        self.imported.push(entry);
    }

    /// Records a skipped entry with the reason.
    pub(super) fn skip(&mut self, item: &str, reason: &str) {
        self.skipped.push((item.to_owned(), reason.to_owned()));
    }
}

/// Returns the line and column, counted from 1, of a server in an imported file or of one of the server's keys.
pub(super) fn position(text: &str, server: &str, key: Option<&str>) -> Option<(usize, usize)> {
    let servers = ["mcpServers", "servers"].iter().find_map(|key| key_at(text, 0, key)).unwrap_or_default();
    let server = key_at(text, servers, server)?;
    let at = key.and_then(|key| key_at(text, server, key)).unwrap_or(server);
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1))
}

/// Returns the offset of the first JSON key with this name at or after `from`.
fn key_at(text: &str, from: usize, key: &str) -> Option<usize> {
    let quoted = Value::String(key.to_owned()).to_string();
    let is_key = |(at, _): &(usize, &str)| text[from + at + quoted.len()..].trim_start().starts_with(':');
    text.get(from..)?.match_indices(&quoted).find(is_key).map(|(at, _)| from + at)
}

/// Supported keys of a server.
const SUPPORTED_KEYS: &str = "args command cwd disabled env headers name serverUrl transport type url description";

/// Converts variables to the syntax of agentd. Inputs are replaced later. Fails for variables that only an editor can
/// resolve.
fn translate(entry: &mut Entry, workspace: &Path) -> Result<(), String> {
    let workspace = workspace.to_string_lossy();
    let name = Path::new(&*workspace).file_name().unwrap_or_default().to_string_lossy();
    for text in entry.texts() {
        *text = text
            .replace("${env:", "${")
            .replace("${userHome}", "${HOME}")
            .replace("${workspaceFolder}", &workspace)
            .replace("${workspaceRoot}", &workspace)
            .replace("${workspaceFolderBasename}", &name)
            .replace("${pathSeparator}", "/")
            .replace("${/}", "/");
        for editor_variable in ["${workspaceFolder", "${file", "${relativeFile", "${config:", "${command:"] {
            if text.contains(editor_variable) {
                return Err(format!("`{editor_variable}…}}` can only be resolved by the editor"));
            }
        }
    }
    Ok(())
}

/// Returns the workspace folder for an imported file: the parent of its `.vscode` folder, or else the current folder.
fn workspace(file: &Path) -> PathBuf {
    let folder = fs::canonicalize(file).ok().and_then(|file| Some(file.parent()?.to_path_buf()));
    match folder {
        Some(folder) if folder.ends_with(".vscode") => folder.parent().map(Path::to_path_buf).unwrap_or_default(),
        _ => std::env::current_dir().unwrap_or_default(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Prefix of a reference to an input.
const MARK: &str = "${input:";

/// Definition of an input.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Input {
    /// `promptString`, `pickString` or `command`.
    kind: String,
    description: String,
    default: Option<String>,
    is_password: bool,
    /// Choices, as label and value.
    options: Vec<(String, String)>,
}

/// Parses the inputs of a file, by their ids.
fn read_inputs(file: &Value) -> BTreeMap<String, Input> {
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
    /// Returns the ids of all inputs that the servers refer to.
    pub(super) fn asks(&self) -> BTreeSet<String> {
        self.imported.iter().flat_map(input_ids).collect()
    }

    /// Prompts for each input once and inserts the values. A password is stored with the secrets, and its server refers
    /// to it by a variable. A server with a missing value is skipped. Returns false if the user cancelled.
    pub(super) fn ask(&mut self, secrets: &mut Secrets) -> io::Result<bool> {
        let present = is_attended();
        let mut answers = BTreeMap::new();
        for id in self.asks() {
            let answer = match self.inputs.get(&id) {
                None => Err(format!("it needs `{MARK}{id}}}`, which is not among the `inputs` of the file")),
                Some(input) => match input.unsupported_reason(&id) {
                    Some(reason) => Err(reason),
                    None if !present => Err(format!(
                        "it needs `{id}`, and there is no terminal to ask; import it in a terminal, or add it to \
                         mcp_servers.yaml with a variable such as `${{{}}}` in its place",
                        variable(&id)
                    )),
                    None => {
                        let needs_input = |entry: &&Entry| input_ids(entry).contains(&id);
                        let servers: Vec<&str> =
                            self.imported.iter().filter(needs_input).map(|entry| &*entry.name).collect();
                        let Some(answer) = input.answer(&id, &servers.join(", "))? else { return Ok(false) };
                        match answer {
                            None => Err(format!("it needs `{id}`, which was left empty")),
                            Some(value) if input.is_password => {
                                Ok(format!("${{{}}}", secrets.add(&variable(&id), &value)))
                            }
                            // Escaped, so that variables in an entered value are not expanded.
                            Some(value) => Ok(value.replace("${", "$${")),
                        }
                    }
                },
            };
            answers.insert(id, answer);
        }
        for mut entry in std::mem::take(&mut self.imported) {
            let missing = input_ids(&entry).into_iter().find_map(|id| answers.get(&id)?.as_ref().err());
            if let Some(reason) = missing {
                self.skip(&entry.original_name, reason);
                continue;
            }
            for text in entry.texts() {
                for (id, value) in &answers {
                    if let Ok(value) = value {
                        *text = text.replace(&format!("{MARK}{id}}}"), value);
                    }
                }
            }
            self.imported.push(entry);
        }
        Ok(true)
    }
}

/// Returns the ids of inputs that a server refers to.
fn input_ids(entry: &Entry) -> BTreeSet<String> {
    let mut entry = entry.clone();
    let ids = |text: &mut String| -> Vec<String> {
        text.split(MARK).skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect()
    };
    entry.texts().flat_map(ids).collect()
}

/// Returns the variable name for an input's value. The prefix avoids names that programs use.
fn variable(id: &str) -> String {
    let valid = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    format!("INPUT_{}", id.chars().map(valid).collect::<String>())
}

impl Input {
    /// Returns the reason if the input cannot be prompted for.
    fn unsupported_reason(&self, id: &str) -> Option<String> {
        match self.kind.as_str() {
            "promptString" => None,
            "pickString" if !self.options.is_empty() => None,
            "command" => Some(format!("it needs `{id}`, which only an editor command can provide")),
            _ => Some(format!("it needs `{id}`, an unsupported kind of input")),
        }
    }

    /// Prompts for the value. The outer `None` means that the user cancelled, the inner one that no value was entered.
    fn answer(&self, id: &str, servers: &str) -> io::Result<Option<Option<String>>> {
        loop {
            let question = self.question(id, servers);
            let line = if self.is_password { ask::hidden(&question)? } else { ask::line(&question)? };
            let Some(line) = line else { return Ok(None) };
            let input = if self.is_password { line } else { line.trim().to_owned() };
            let input = if input.is_empty() { self.default.clone() } else { Some(input) };
            let Some(input) = input else { return Ok(Some(None)) };
            if self.kind != "pickString" {
                return Ok(Some(Some(input)));
            }
            let selected = self.options.iter().find(|(label, value)| input == *label || input == *value);
            if let Some((_, value)) = selected.or_else(|| ask::numbered(&input, &self.options)) {
                return Ok(Some(Some(value.clone())));
            }
            note(&clean_line(&format!("`{input}` is not one of the choices")));
        }
    }

    fn question(&self, id: &str, servers: &str) -> String {
        let name = if self.description.is_empty() { id } else { &self.description };
        let options = (1..).zip(&self.options);
        let mut question: String =
            options.map(|(number, (label, _))| format!("  {number}  {}\n", clean_line(label))).collect();
        question += &clean_line(&format!("{name}, for {servers}"));
        match &self.default {
            _ if self.is_password => question += " (not shown)",
            Some(default) => question += &format!(" [{}]", clean_line(default)),
            None => {}
        }
        question + ": "
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> FoundServers {
        read(text, Path::new("x.json")).unwrap()
    }

    #[test]
    fn servers_of_other_programs_are_imported() {
        let found = read_all(
            r#"{"mcpServers": {
                "files": {"command": "npx", "args": ["-y", "server", 5], "env": {"KEY": "${KEY:-none}"}},
                "My Notes": {"type": "http", "url": "https://example.org/mcp", "headers": {"A": "b"}},
                "old": {"type": "sse", "url": "https://example.org/sse"}
            }}"#,
        );
        assert_eq!(
            found.imported.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
            ["files", "My-Notes", "old"]
        );
        assert_eq!(found.imported[0].args, ["-y", "server", "5"]);
        assert_eq!(found.imported[0].env, [("KEY".to_owned(), "${KEY:-none}".to_owned())]);
        assert_eq!((found.imported[1].sse, found.imported[2].sse), (false, true));
        assert_eq!(found.skipped, [("the name `My Notes`".to_owned(), "imported as `My-Notes`".to_owned())]);
    }

    #[test]
    fn unimportable_entries_are_reported() {
        let found = read_all(
            r#"{ // of an editor
                "inputs": [{"id": "key"}], /* and so on */
                "servers": {
                    "a": {"command": "x // no comment", "env": {"A": "${env:HOME}"}, "dev": {"watch": "*"},},
                    "b": {"command": "x", "env": {"KEY": "${input:key}"}},
                    "b2": {"command": "x", "env": {"KEY": "${config:key}"}},
                    "c": {"type": "stdio"},
                    "d": 5,
                    "e": {"command": "x", "disabled": true},
                }
            }"#,
        );
        assert_eq!(found.imported.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(found.imported[0].command.as_deref(), Some("x // no comment"));
        assert_eq!(found.imported[0].env[0].1, "${HOME}");
        let skipped: Vec<&str> = found.skipped.iter().map(|(item, _)| item.as_str()).collect();
        assert_eq!(skipped, ["a.dev", "b2", "c", "d", "e"]);
    }
}
