//! A server as it is written into `mcp_servers.yaml`.

use std::fmt::Write as _;

use serde_json::Value;

/// A server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The name that it has where it was found.
    pub(super) called: String,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) sse: bool,
}

impl Entry {
    /// All of it in which a variable may stand.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let single = self.command.iter_mut().chain(&mut self.cwd).chain(&mut self.url).chain(&mut self.args);
        let pairs = self.env.iter_mut().chain(&mut self.headers);
        single.chain(pairs.map(|(_, value)| value))
    }

    /// As it stands below `servers:`, its name indented like this. Texts are quoted, so that each is what it was.
    pub(super) fn yaml(&self, indent: &str) -> String {
        let mut text = format!("{indent}{}:\n", key(&self.name));
        let inner = format!("{indent}  ");
        let mut line = |key: &str, value: String| {
            let _ = writeln!(text, "{inner}{key}: {value}");
        };
        if let Some(command) = &self.command {
            line("command", quoted(command));
        }
        if !self.args.is_empty() {
            let args: Vec<String> = self.args.iter().map(|arg| quoted(arg)).collect();
            line("args", format!("[{}]", args.join(", ")));
        }
        if let Some(cwd) = &self.cwd {
            line("cwd", quoted(cwd));
        }
        if let Some(url) = &self.url {
            line("url", quoted(url));
        }
        if self.sse {
            line("connection_mode", "sse".to_owned());
        }
        for (group, pairs) in [("env", &self.env), ("headers", &self.headers)] {
            if pairs.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{inner}{group}:");
            for (name, value) in pairs {
                let _ = writeln!(text, "{inner}  {}: {}", key(name), quoted(value));
            }
        }
        text
    }
}

/// A text of JSON is a quoted text of YAML.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn key(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let starts_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    // These would be read as something else than their letters.
    let is_word = matches!(name.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off" | "true" | "false" | "null");
    if starts_plain && !is_word && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_was_meant() {
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
}
