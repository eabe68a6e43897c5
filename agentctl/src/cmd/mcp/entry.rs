//! Server entries for `mcp_servers.yaml`. The user's other text and comments in that file stay unchanged. Secrets that
//! servers refer to by a variable are stored in `mcp_secrets.env`, which only its owner can read.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::cmd::own_file::{self, is_content};

/// Configuration of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Original name in the imported file.
    pub(super) original_name: String,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) sse: bool,
}

impl Entry {
    /// Iterates over all texts that may contain variables.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let single = self.command.iter_mut().chain(&mut self.cwd).chain(&mut self.url).chain(&mut self.args);
        let pairs = self.env.iter_mut().chain(&mut self.headers);
        single.chain(pairs.map(|(_, value)| value))
    }

    /// Formats the entry under `servers:`, with its name indented by `indent`. Values are quoted to preserve them
    /// verbatim.
    pub(super) fn yaml(&self, indent: &str) -> String {
        let mut text = format!("{indent}{}:\n", key(&self.name));
        let inner = format!("{indent}  ");
        let args: Vec<String> = self.args.iter().map(|arg| quoted(arg)).collect();
        let settings = [
            ("command", self.command.as_deref().map(quoted)),
            ("args", (!args.is_empty()).then(|| format!("[{}]", args.join(", ")))),
            ("cwd", self.cwd.as_deref().map(quoted)),
            ("url", self.url.as_deref().map(quoted)),
            ("connection_mode", self.sse.then(|| "sse".to_owned())),
        ];
        let line = |(key, value): (&str, Option<String>)| Some(format!("{inner}{key}: {}\n", value?));
        text.extend(settings.into_iter().filter_map(line));
        for (group, pairs) in [("env", &self.env), ("headers", &self.headers)] {
            if !pairs.is_empty() {
                text += &format!("{inner}{group}:\n");
            }
            text.extend(pairs.iter().map(|(name, value)| format!("{inner}  {}: {}\n", key(name), quoted(value))));
        }
        text
    }
}

/// Quotes a text as a JSON string, which is valid YAML.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn key(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let starts_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    // YAML parses these as other types unless they are quoted.
    let is_word = matches!(name.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off" | "true" | "false" | "null");
    if starts_plain && !is_word && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

/// Returns the text with the server added. Fails if existing text would have to change.
pub(super) fn text_with(text: &str, entry: &Entry) -> Result<String, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = lines.iter().position(|line| line.starts_with("servers:")) else {
        let gap = match text {
            _ if text.is_empty() || text.ends_with("\n\n") => "",
            _ if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return Ok(format!("{text}{gap}servers:\n{}", entry.yaml("  ")));
    };
    let head = lines[at].trim_end();
    let value = head["servers:".len()..].split(" #").next().unwrap_or_default().trim();
    let mut new: String = lines[..at].concat();
    match value {
        "" => new += &format!("{head}\n"),
        "{}" | "null" | "~" => new.push_str("servers:\n"),
        _ => return Err("the servers are on one line, which cannot be edited in place".to_owned()),
    }
    let body = &lines[at + 1..];
    // The next top-level key ends the block.
    let starts_a_key = |line: &str| is_content(line) && !line.starts_with(' ');
    let children = || body.iter().take_while(|line| !starts_a_key(line)).filter(|line| is_content(line));
    let indent: String =
        children().next().map_or("  ".to_owned(), |line| line.chars().take_while(|letter| *letter == ' ').collect());
    let is_child = |line: &&&str| line.starts_with(&indent) && !line[indent.len()..].starts_with(' ');
    let name_of = |line: &&&str| {
        let key = line.trim().split(':').next().unwrap_or_default().trim();
        key.trim_matches(['"', '\'']).to_owned()
    };
    if children().filter(is_child).any(|line| name_of(&line) == entry.name) {
        return Err(format!("a server `{}` already exists", entry.name));
    }
    new.push_str(&entry.yaml(&indent));
    new.push_str(&body.concat());
    Ok(new)
}

/// Returns the key at the start of a line.
pub(super) fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.trim().split_once(':')?;
    Some(key.trim_matches('"')).filter(|key| !key.is_empty())
}

/// The user's secrets file, and values to add.
pub(super) struct Secrets {
    path: PathBuf,
    text: String,
    new: BTreeMap<String, String>,
}

impl Secrets {
    /// Name of the file in the configuration folder.
    pub(super) const FILE: &'static str = "mcp_secrets.env";

    /// Reads the file in this folder.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let path = folder.join(Self::FILE);
        Ok(Self { text: own_file::read(&path)?, path, new: BTreeMap::new() })
    }

    /// Adds a value under `name`, or under a numbered name if `name` has another value. Returns the name used.
    pub(super) fn add(&mut self, name: &str, value: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let is_free = |name: &String| self.of(name).is_none_or(|other| other == value);
        let name = std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
        self.new.insert(name.clone(), value.to_owned());
        name
    }

    /// Writes the new values whose variables occur in `named_in`.
    pub(super) fn write(&self, named_in: &str) -> io::Result<()> {
        let mut text = self.text.clone();
        for (name, value) in &self.new {
            if self.of_text(name).is_some() || !named_in.contains(&format!("${{{name}}}")) {
                continue;
            }
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text += &format!("{name}={value}\n");
        }
        if text == self.text { Ok(()) } else { own_file::replace_private(&self.path, &text) }
    }

    fn of(&self, name: &str) -> Option<&str> {
        self.new.get(name).map(String::as_str).or_else(|| self.of_text(name))
    }

    fn of_text(&self, name: &str) -> Option<&str> {
        self.text.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn written_entry_parses_back_unchanged() {
        let entry = Entry {
            name: "no".to_owned(),
            command: Some("npx".to_owned()),
            args: vec!["-y".to_owned(), "a: \"b\" # c\n".to_owned()],
            env: vec![("KEY".to_owned(), "${MY_KEY}".to_owned())],
            ..Entry::default()
        };
        assert_eq!(
            entry.yaml("  "),
            "  \"no\":\n    command: \"npx\"\n    args: [\"-y\", \"a: \\\"b\\\" # c\\n\"]\n    env:\n      KEY: \"${MY_KEY}\"\n"
        );
    }

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), command: Some("x".to_owned()), ..Entry::default() }
    }

    #[test]
    fn existing_file_content_is_preserved() {
        let check =
            |text: &str, expected: &str| assert_eq!(text_with(text, &entry("new")).unwrap(), expected, "{text}");
        check("", "servers:\n  new:\n    command: \"x\"\n");
        check("# mine\nglobal: {}\n", "# mine\nglobal: {}\n\nservers:\n  new:\n    command: \"x\"\n");
        check("servers: {}  # none yet\nglobal: {}\n", "servers:\n  new:\n    command: \"x\"\nglobal: {}\n");
        check(
            "servers: # mine\n    # the first\n    a:\n        command: y # why\nglobal:\n  idle_stop: 1m",
            "servers: # mine\n    new:\n      command: \"x\"\n    # the first\n    a:\n        command: y # why\nglobal:\n  idle_stop: 1m",
        );
    }

    #[test]
    fn unsafe_edits_of_the_file_are_rejected() {
        let check = |text: &str, part: &str| {
            let why = text_with(text, &entry("new")).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        };
        check("servers: {a: {command: y}}\n", "on one line");
        check("servers:\n  new:\n    command: y\n", "already");
        check("servers:\n  'new': {command: y}\n", "already");
        assert!(text_with("servers:\n  a:\n    env:\n      new: y\n", &entry("new")).is_ok());
        assert!(text_with("servers:\n  a: {}\nglobal:\n  new: y\n", &entry("new")).is_ok());
    }

    #[test]
    fn secrets_are_appended_to_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(Secrets::FILE);
        std::fs::write(&path, "# mine\nINPUT_KEY=old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut secrets = Secrets::read(folder.path()).unwrap();
        assert_eq!(secrets.add("INPUT_KEY", "new"), "INPUT_KEY_2");
        assert_eq!(secrets.add("INPUT_KEY", "old"), "INPUT_KEY");
        assert_eq!(secrets.add("INPUT_KEY", "third"), "INPUT_KEY_3");
        secrets.write("${INPUT_KEY} ${INPUT_KEY_2}").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\nINPUT_KEY=old\nINPUT_KEY_2=new\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
