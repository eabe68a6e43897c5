//! Arguments as other systems have them: names, units and shapes that models learned there, put into those that the
//! tools have here.
//!
//! This happens before anybody judges a call, so that what is judged, shown and audited is what runs. What changes
//! nothing is left out, and the result says so. Whatever else the tool does not know stays as it is, and the tool
//! refuses it: a key that asks for something else than the tool would do is not dropped.

use agentd_core::tool::AdaptedCall;
use serde_json::{Map, Value};

use crate::arguments;

/// Words about a call that change nothing of it.
const REMARKS: [&str; 6] = ["description", "explanation", "justification", "purpose", "reason", "thought"];
/// Shells whose script, after the option for it, is what the tool runs anyway.
const SHELLS: [&str; 5] = ["bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash"];
/// The options in front of a script.
const SCRIPT_OPTIONS: [&str; 2] = ["-c", "-lc"];
/// From here on a time limit is one in milliseconds, where it is also longer than a command may take in seconds.
const MILLISECONDS_FROM: u64 = 10_000;

/// The call in the words of its tool, where it is written in others. `longest` is the longest time of a command in
/// seconds.
pub(crate) fn meant(tool: &str, written: &str, schema: &Value, longest: u64) -> Option<AdaptedCall> {
    let Ok(Value::Object(mut written)) = serde_json::from_str(written) else { return None };
    let properties = schema["properties"].as_object()?;
    let before = written.clone();
    let mut note = Note::default();
    match tool {
        "read_file" => last_line(&mut written),
        "grep" => context_lines(&mut written),
        "run_bash_command" => time_limit(&mut written, longest, &mut note),
        _ => {}
    }
    let mut arguments = Map::new();
    for (name, value) in &written {
        if properties.contains_key(name) {
            arguments.insert(name.clone(), value.clone());
        } else if let Some((known, value)) = renamed(properties, &written, &arguments, name, value) {
            arguments.insert(known, value);
        } else if is_idle(tool, &written, name, value) {
            note.ignored.push(name.clone());
        } else if !value.is_null() {
            arguments.insert(name.clone(), value.clone());
        }
    }
    if tool == "run_bash_command"
        && let Some(Value::Array(words)) = arguments.get("command")
        && let Some(command) = one_line(words)
    {
        arguments.insert("command".to_owned(), command.into());
    }
    let changed = arguments != before;
    changed.then(|| AdaptedCall { arguments: Value::Object(arguments).to_string(), note: note.told() })
}

/// Note for the model about what became of its arguments.
#[derive(Default)]
struct Note {
    ignored: Vec<String>,
    taken: Option<String>,
}

impl Note {
    fn told(self) -> Option<String> {
        let ignored = (!self.ignored.is_empty()).then(|| format!("ignored: {}", self.ignored.join(", ")));
        let told: Vec<String> = ignored.into_iter().chain(self.taken).collect();
        (!told.is_empty()).then(|| format!("[{}]", told.join("; ")))
    }
}

/// The tool's own name for an argument, and its value, where nothing else of the call has that name.
fn renamed(
    properties: &Map<String, Value>,
    written: &Map<String, Value>,
    taken: &Map<String, Value>,
    name: &str,
    value: &Value,
) -> Option<(String, Value)> {
    let plain = with_strokes(name);
    let is_free =
        |known: &str| properties.contains_key(known) && !written.contains_key(known) && !taken.contains_key(known);
    if plain == "case_sensitive" && is_free("ignore_case") {
        return Some(("ignore_case".to_owned(), (!value.as_bool()?).into()));
    }
    let own = properties.contains_key(&plain).then_some(plain.as_str());
    let others = arguments::NAMES.iter().filter(|(_, others)| others.contains(&plain.as_str()));
    let known = match own {
        Some(own) => is_free(own).then_some(own),
        None => others.map(|(known, _)| *known).find(|known| is_free(known)),
    };
    known.map(|known| (known.to_owned(), value.clone()))
}

/// A name as the tools write theirs: `filePath` is `file_path`.
fn with_strokes(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 4);
    let mut before = None;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && before.is_some_and(|before: char| before.is_ascii_lowercase()) {
            plain.push('_');
        }
        plain.push(letter.to_ascii_lowercase());
        before = Some(letter);
    }
    plain
}

/// Value of an argument that asks for nothing which the tool would not do anyway.
#[derive(Clone, Copy)]
enum IdleValue {
    Text,
    Number,
    Either,
    Is(bool),
    Utf8,
    /// One, where no other argument wants them all.
    One,
}

/// Arguments of other systems that change nothing, by tool and name.
const IDLE: [(&[&str], &[&str], IdleValue); 15] = [
    (&["edit_file"], &["instruction"], IdleValue::Text),
    (&["read_url"], &["prompt", "format"], IdleValue::Text),
    // Of earlier versions: it changed nothing.
    (&["repo_map"], &["focus"], IdleValue::Text),
    (&["run_bash_command"], &["background", "run_in_background", "is_background"], IdleValue::Is(false)),
    (&["run_bash_command"], &["dangerously_disable_sandbox"], IdleValue::Is(false)),
    (&["edit_file"], &["expected_replacements"], IdleValue::One),
    (&["write_file"], &["overwrite"], IdleValue::Is(true)),
    (&["write_file"], &["append"], IdleValue::Is(false)),
    (&["read_file", "write_file"], &["encoding"], IdleValue::Utf8),
    // Its lines have their numbers, and there are never more than a model can read.
    (&["grep"], &["-n", "line_numbers"], IdleValue::Either),
    (&["grep"], &["output_mode"], IdleValue::Text),
    (&["grep"], &["multiline"], IdleValue::Is(false)),
    (&["grep"], &["regex", "is_regex", "-r"], IdleValue::Is(true)),
    (&["grep", "find_files"], &["head_limit", "limit", "max_results"], IdleValue::Number),
    (&["grep", "find_files", "list_workspace_files"], &["recursive"], IdleValue::Is(true)),
];

/// True where an argument asks for nothing that the tool would not do anyway.
fn is_idle(tool: &str, written: &Map<String, Value>, name: &str, value: &Value) -> bool {
    let plain = with_strokes(name);
    if REMARKS.contains(&plain.as_str()) {
        return value.is_string();
    }
    let is_meant =
        |(tools, names, _): &&(&[&str], &[&str], IdleValue)| tools.contains(&tool) && names.contains(&&*plain);
    IDLE.iter().find(is_meant).is_some_and(|(_, _, idle)| match idle {
        IdleValue::Text => value.is_string(),
        IdleValue::Number => value.is_u64(),
        IdleValue::Either => value.is_boolean(),
        IdleValue::Is(wanted) => value.as_bool() == Some(*wanted),
        IdleValue::Utf8 => value.as_str().is_some_and(|name| ["utf-8", "utf8"].contains(&&*name.to_ascii_lowercase())),
        IdleValue::One => value.as_u64() == Some(1) && !written.contains_key("replace_all"),
    })
}

/// Takes the first of these names out of the arguments.
fn take(written: &mut Map<String, Value>, names: &[&str]) -> Option<(String, u64)> {
    let (name, number) = names.iter().find_map(|name| Some((*name, arguments::integer(written.get(*name)?)?)))?;
    let number = u64::try_from(number).ok()?;
    written.shift_remove(name);
    Some((name.to_owned(), number))
}

/// The lines from one to another as the first and how many.
fn last_line(written: &mut Map<String, Value>) {
    const FIRST: [&str; 3] = ["start_line", "startLine", "offset"];
    const LAST: [&str; 2] = ["end_line", "endLine"];
    let number = |name: &&str| u64::try_from(arguments::integer(written.get(*name)?)?).ok();
    let (first, last) = (FIRST.iter().find_map(number).unwrap_or(1), LAST.iter().find_map(number));
    if let Some(last) = last.filter(|last| *last >= first && !written.contains_key("limit")) {
        take(written, &LAST);
        written.insert("limit".to_owned(), (last - first + 1).into());
    }
    if !written.contains_key("offset")
        && let Some((_, first)) = take(written, &FIRST)
    {
        written.insert("offset".to_owned(), first.into());
    }
}

/// The lines before and after a hit, of which there are as many on both sides.
fn context_lines(written: &mut Map<String, Value>) {
    if written.contains_key("context") {
        return;
    }
    let lines = ["-C", "-A", "-B"].iter().filter_map(|name| take(written, &[name])).map(|(_, lines)| lines).max();
    if let Some(lines) = lines {
        written.insert("context".to_owned(), lines.into());
    }
}

/// A time limit in milliseconds as one in seconds.
fn time_limit(written: &mut Map<String, Value>, longest: u64, note: &mut Note) {
    if written.contains_key("timeout_s") {
        return;
    }
    let milliseconds = match take(written, &["timeout_ms", "timeoutMs"]) {
        Some((_, given)) => Some(given),
        None => {
            let given = written.get("timeout").and_then(arguments::integer).and_then(|given| u64::try_from(given).ok());
            let given = given.filter(|given| *given >= MILLISECONDS_FROM && *given > longest);
            if let Some(given) = given {
                written.shift_remove("timeout");
                note.taken = Some(format!("timeout {given} was taken for milliseconds"));
            }
            given
        }
    };
    if let Some(given) = milliseconds {
        written.insert("timeout_s".to_owned(), given.div_ceil(1000).into());
    }
}

/// The words of a command as one line that means the same: the script of a shell, or each word in quotes where it needs
/// them.
fn one_line(words: &[Value]) -> Option<String> {
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    let words = words.filter(|words| !words.is_empty())?;
    if let [shell, option, script] = words[..]
        && SHELLS.contains(&shell)
        && SCRIPT_OPTIONS.contains(&option)
    {
        return Some(script.to_owned());
    }
    // A list of one is a line that somebody has put into a list.
    if let [line] = words[..] {
        return Some(line.to_owned());
    }
    let line: Vec<String> = words.iter().enumerate().map(|(at, word)| quoted(word, at == 0)).collect();
    Some(line.join(" "))
}

/// A word that stays one. A bare first word could be one of the shell's own.
fn quoted(word: &str, is_first: bool) -> String {
    const OF_THE_SHELL: [&str; 15] = [
        "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select", "then",
        "time", "until",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@+-".contains(c);
    let is_taken = is_first && (OF_THE_SHELL.contains(&word) || word == "while");
    if !word.is_empty() && word.chars().all(plain) && !is_taken {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;

    use super::*;
    use crate::{ToolboxConfig, builtin::Builtin};

    fn schema(tool: &str) -> Value {
        let tool = Builtin::named(tool).unwrap();
        (tool.spec)(tool.row().unwrap(), &ToolboxConfig::new(|| TimeZone::UTC)).parameters
    }

    /// Meaning of a call, or nothing where it stays as it is.
    fn of(tool: &str, written: Value) -> Option<(Value, Option<String>)> {
        let meant = meant(tool, &written.to_string(), &schema(tool), 600)?;
        Some((serde_json::from_str(&meant.arguments).unwrap(), meant.note))
    }

    #[track_caller]
    fn check(tool: &str, written: Value, expected: Value, note: &str) {
        let told = (!note.is_empty()).then(|| note.to_owned());
        assert_eq!(of(tool, written), Some((expected, told)));
    }

    #[track_caller]
    fn stays(tool: &str, written: Value) {
        assert_eq!(of(tool, written), None);
    }

    #[test]
    fn commands_of_other_systems_are_commands() {
        const BASH: &str = "run_bash_command";
        check(
            BASH,
            json!({"command": "ls", "description": "List"}),
            json!({"command": "ls"}),
            "[ignored: description]",
        );
        check(
            BASH,
            json!({"command": "ls", "workdir": "/outputs"}),
            json!({"command": "ls", "directory": "/outputs"}),
            "",
        );
        check(BASH, json!({"cmd": "ls", "timeout_ms": 1500}), json!({"command": "ls", "timeout_s": 2}), "");
        let (long, taken) =
            (json!({"command": "ls", "timeout": 120_000}), "[timeout 120000 was taken for milliseconds]");
        check(BASH, long, json!({"command": "ls", "timeout_s": 120}), taken);
        // Seconds, also where they are more than a command may take: the limit is cut, and that is said.
        for seconds in [1, 90, 900, 3600] {
            let written = json!({"command": "ls", "timeout": seconds});
            check(BASH, written, json!({"command": "ls", "timeout_s": seconds}), "");
        }
        check(BASH, json!({"command": ["bash", "-lc", "ls | wc"]}), json!({"command": "ls | wc"}), "");
        check(BASH, json!({"command": ["ls -l | wc"]}), json!({"command": "ls -l | wc"}), "");
        let words = json!({"command": ["grep", "a b", "it's", "$HOME", "*", ""]});
        check(BASH, words, json!({"command": r"grep 'a b' 'it'\''s' '$HOME' '*' ''"}), "");
        check(BASH, json!({"command": ["time", "A=b", "time"]}), json!({"command": "'time' 'A=b' time"}), "");
        check(BASH, json!({"command": ["A=b", "ls"]}), json!({"command": "'A=b' ls"}), "");
        let asked = json!({"command": "ls", "run_in_background": false, "reason": "why"});
        check(BASH, asked, json!({"command": "ls"}), "[ignored: run_in_background, reason]");
    }

    #[test]
    fn what_would_change_the_call_stays_and_is_refused() {
        const BASH: &str = "run_bash_command";
        for (name, value) in [
            ("run_in_background", json!(true)),
            ("sandbox", json!(false)),
            ("dangerouslyDisableSandbox", json!(true)),
            ("with_escalated_permissions", json!(true)),
            ("description", json!({"command": "rm"})),
            ("env", json!({"A": "b"})),
            ("timeout_ms", json!("soon")),
        ] {
            stays(BASH, json!({"command": "ls", name: value}));
        }
        stays(BASH, json!({"command": []}));
        stays(BASH, json!({"command": ["ls", 1]}));
        // Of two names for one thing, nobody knows which is meant.
        stays(BASH, json!({"command": "ls", "cmd": "rm"}));
        stays("read_file", json!({"path": "a", "filePath": "b"}));
        stays("read_file", json!({"path": "a", "end_line": 3, "offset": 7}));
        stays("grep", json!({"pattern": "a", "multiline": true}));
        stays("write_file", json!({"path": "a", "content": "b", "append": true}));
        stays("edit_file", json!({"path": "a", "old_string": "b", "new_string": "c", "expected_replacements": 2}));
        stays("http_fetch", json!({"url": "http://a/", "verb": "POST"}));
        assert_eq!(meant(BASH, "{", &schema(BASH), 600), None);
    }

    #[test]
    fn files_and_searches_of_other_systems_are_theirs() {
        let edit = json!({"filePath": "a", "oldString": "b", "newString": "c", "replaceAll": true});
        let known = json!({"path": "a", "old_string": "b", "new_string": "c", "replace_all": true});
        check("edit_file", edit, known, "");
        let read = json!({"target_file": "a", "start_line": 5, "end_line": 9, "explanation": "to see"});
        check("read_file", read, json!({"path": "a", "offset": 5, "limit": 5}), "[ignored: explanation]");
        check("read_file", json!({"path": "a", "endLine": "9"}), json!({"path": "a", "limit": 9}), "");
        let search = json!({"pattern": "a", "glob": "*.rs", "output_mode": "content", "-n": true, "-i": true, "-A": 2, "-B": 3,
            "head_limit": 20});
        let known = json!({"pattern": "a", "include": "*.rs", "ignore_case": true, "context": 3});
        check("grep", search, known, "[ignored: output_mode, -n, head_limit]");
        check("grep", json!({"query": "a", "caseSensitive": false}), json!({"pattern": "a", "ignore_case": true}), "");
        let list = json!({"target_directory": "/project", "recursive": true});
        check("list_workspace_files", list, json!({"path": "/project"}), "[ignored: recursive]");
        let page = json!({"url": "https://a/", "prompt": "What is it?"});
        check("read_url", page, json!({"url": "https://a/"}), "[ignored: prompt]");
        check("now", json!({"timezone": null, "zone": null}), json!({"timezone": null}), "");
        // What the tool knows stays as it was written.
        stays("grep", json!({"pattern": "a", "context": "3", "ignore_case": "true"}));
    }
}
