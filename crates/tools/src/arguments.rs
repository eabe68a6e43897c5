//! Checks a call's arguments against the tool's schema, and adapts arguments written for other systems.
//!
//! Weak models write numbers as text, `null` for omitted values, and parameter names from other systems. Unambiguous
//! values are accepted. All other values are rejected with an error that names the field.
//!
//! Names, units and shapes that models learned in other systems are converted before a call is judged, so that the
//! rules, the user and the audit log see exactly the call that runs. Arguments without an effect are dropped, and the
//! result mentions them. An argument that requests unsupported behaviour is never dropped: the tool rejects the call.

use agentd_core::tool::{AdaptedCall, FollowedLink};
use agentd_workspace::{failure::Failure, text};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Parameter names of the built-in tools with their aliases in other systems. An alias is accepted if the tool has a
/// parameter with the built-in name and no parameter with the alias's name, and the call does not use the built-in
/// name. The first matching row applies.
pub(crate) const NAMES: [(&str, &[&str]); 18] = [
    ("path", &FollowedLink::ALIASES),
    (
        "path",
        &[
            "absolute_path",
            "dir_path",
            "folder",
            "image_path",
            "relative_workspace_path",
            "target_directory",
            "target_file",
        ],
    ),
    ("directory", &["cwd", "dir", "dir_path", "work_dir", "workdir", "working_dir", "working_directory"]),
    ("command", &["cmd"]),
    ("timeout_s", &["timeout", "timeout_sec", "timeout_seconds"]),
    ("content", &["text", "contents", "file_text"]),
    ("old_string", &["old_str", "old_text"]),
    ("new_string", &["new_str", "new_text"]),
    ("replace_all", &["allow_multiple"]),
    ("patch", &["diff", "input", "patch_text"]),
    ("depth", &["max_depth"]),
    ("pattern", &["glob", "glob_pattern", "query", "regex"]),
    ("include", &["include_pattern", "glob"]),
    ("ignore_case", &["-i", "case_insensitive"]),
    ("literal", &["fixed_strings"]),
    ("regex", &["use_regex"]),
    ("query", &["search_term", "search_query"]),
    ("max_results", &["num_results", "limit", "count"]),
];

/// Parses a call's arguments.
///
/// # Errors
/// Returns `E_INVALID_ARGS`, with the field and the expected value.
pub(crate) fn parse<A: DeserializeOwned>(tool: &str, written: &str, schema: &Value) -> Result<A, Failure> {
    let checked = check(tool, object(tool, written)?, schema)?;
    serde_json::from_value(Value::Object(checked))
        .map_err(|error| Failure::arguments(format!("invalid arguments for {tool}: {error}")))
}

fn object(tool: &str, written: &str) -> Result<Map<String, Value>, Failure> {
    if written.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(written) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(other) => {
            Err(Failure::arguments(format!("the arguments of {tool} must be one JSON object, not {}", kind(&other))))
        }
        Err(error) => Err(Failure::arguments(format!(
            "the arguments of {tool} are not valid JSON ({error}); send one JSON object, with quotes and line breaks \
             inside strings escaped"
        ))),
    }
}

fn check(tool: &str, mut written: Map<String, Value>, schema: &Value) -> Result<Map<String, Value>, Failure> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (name, others) in NAMES.into_iter().filter(|(name, _)| properties.contains_key(*name)) {
        let mut others = others.iter().filter(|other| !properties.contains_key(**other));
        if !written.contains_key(name)
            && let Some(value) = others.find_map(|other| written.remove(*other))
        {
            written.insert(name.to_owned(), value);
        }
    }
    let mut checked = Map::new();
    for (name, value) in written {
        let Some(property) = properties.get(&name) else { return Err(unknown_field(tool, &name, properties)) };
        if !value.is_null() {
            checked.insert(name.clone(), coerce(tool, &name, value, property)?);
        }
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !checked.contains_key(required) {
            let wanted = properties.get(required).map(expected).unwrap_or_default();
            return Err(Failure::arguments(format!("{tool} requires `{required}`, {wanted}")));
        }
    }
    Ok(checked)
}

fn unknown_field(tool: &str, name: &str, properties: &Map<String, Value>) -> Failure {
    let parameters: Vec<&str> = properties.keys().map(String::as_str).collect();
    let near = text::nearest(name, parameters.iter().copied());
    let hint = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let all =
        if parameters.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", parameters.join(", ")) };
    Failure::arguments(format!("{tool} has no parameter {}; {hint}{all}", text::quoted(name)))
}

fn coerce(tool: &str, name: &str, value: Value, property: &Value) -> Result<Value, Failure> {
    let refused = |value: &Value| {
        let shown = match value {
            Value::String(string) => text::quoted(string),
            Value::Number(number) => number.to_string(),
            other => kind(other).to_owned(),
        };
        Err(Failure::arguments(format!("`{name}` of {tool} must be {}, not {shown}", expected(property))))
    };
    match property["type"].as_str() {
        Some("integer") => {
            let Some(number) = integer(&value) else { return refused(&value) };
            let low = property["minimum"].as_i64().unwrap_or(i64::MIN);
            let high = property["maximum"].as_i64().unwrap_or(i64::MAX);
            if (low..=high).contains(&number) { Ok(number.into()) } else { refused(&value) }
        }
        Some("boolean") => match &value {
            Value::Bool(_) => Ok(value),
            Value::String(word) if word.eq_ignore_ascii_case("true") => Ok(true.into()),
            Value::String(word) if word.eq_ignore_ascii_case("false") => Ok(false.into()),
            _ => refused(&value),
        },
        Some("object") => match value {
            Value::Object(fields) if fields.values().all(|field| !field.is_array() && !field.is_object()) => {
                let text = |field: Value| match field {
                    Value::Null => Value::String(String::new()),
                    Value::String(_) => field,
                    other => Value::String(other.to_string()),
                };
                Ok(Value::Object(fields.into_iter().map(|(key, field)| (key, text(field))).collect()))
            }
            other => refused(&other),
        },
        _ if value.is_string() => Ok(value),
        _ => refused(&value),
    }
}

/// Returns an integer, even if it is written as text.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    /// Limit above which a float cannot distinguish neighbouring integers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT).map(|float| float as i64)
        }),
        Value::String(string) => string.trim().parse().ok(),
        _ => None,
    }
}

fn expected(property: &Value) -> String {
    match (property["type"].as_str(), property["minimum"].as_i64(), property["maximum"].as_i64()) {
        (Some("integer"), Some(low), Some(high)) => format!("an integer from {low} to {high}"),
        (Some("integer"), Some(low), None) => format!("an integer of at least {low}"),
        (Some("integer"), ..) => "an integer".to_owned(),
        (Some("boolean"), ..) => "true or false".to_owned(),
        (Some("object"), ..) => "an object of strings".to_owned(),
        _ => "a string".to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Argument names that only comment on a call and have no effect.
const REMARKS: [&str; 6] = ["description", "explanation", "justification", "purpose", "reason", "thought"];
/// Shells for which the tool runs the script directly, since the tool itself uses a shell.
const SHELLS: [&str; 5] = ["bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash"];
/// Minimum time limit that is interpreted as milliseconds. The number must also exceed the maximum in seconds.
const MILLISECONDS_FROM: u64 = 10_000;

/// Converts a call to the tool's own names, units and shapes. Returns `None` if no change is needed. `longest` is the
/// maximum time of a command in seconds.
pub(crate) fn adapt_call(tool: &str, written: &str, schema: &Value, longest: u64) -> Option<AdaptedCall> {
    let Ok(Value::Object(mut written)) = serde_json::from_str(written) else { return None };
    let properties = schema["properties"].as_object()?;
    let before = written.clone();
    let (mut ignored, mut unit_note) = (Vec::new(), None);
    match tool {
        "read_file" => convert_last_line(&mut written),
        "grep" => convert_context_lines(&mut written),
        "run_bash_command" => unit_note = convert_time_limit(&mut written, longest),
        _ => {}
    }
    let mut arguments = Map::new();
    for (name, value) in &written {
        if properties.contains_key(name) {
            arguments.insert(name.clone(), value.clone());
        } else if let Some((renamed, value)) = rename_argument(properties, &written, &arguments, name, value) {
            arguments.insert(renamed, value);
        } else if is_no_op(tool, &written, name, value) {
            ignored.push(name.as_str());
        } else if !value.is_null() {
            arguments.insert(name.clone(), value.clone());
        }
    }
    if tool == "run_bash_command"
        && let Some(Value::Array(elements)) = arguments.get("command")
        && let Some(command) = join_command(elements)
    {
        arguments.insert("command".to_owned(), command.into());
    }
    let ignored = (!ignored.is_empty()).then(|| format!("ignored: {}", ignored.join(", ")));
    let notes: Vec<String> = ignored.into_iter().chain(unit_note).collect();
    let note = (!notes.is_empty()).then(|| format!("[{}]", notes.join("; ")));
    let changed = arguments != before;
    changed.then(|| AdaptedCall { arguments: Value::Object(arguments).to_string(), note })
}

/// Returns the tool's own name for an argument, and its value, or `None` if the call already has an argument of that
/// name.
fn rename_argument(
    properties: &Map<String, Value>,
    written: &Map<String, Value>,
    adapted: &Map<String, Value>,
    name: &str,
    value: &Value,
) -> Option<(String, Value)> {
    let plain = snake_case(name);
    let is_free = |target: &str| {
        properties.contains_key(target) && !written.contains_key(target) && !adapted.contains_key(target)
    };
    if plain == "case_sensitive" && is_free("ignore_case") {
        return Some(("ignore_case".to_owned(), (!value.as_bool()?).into()));
    }
    let own = properties.contains_key(&plain).then_some(plain.as_str());
    let others = NAMES.iter().filter(|(_, others)| others.contains(&plain.as_str()));
    let target = match own {
        Some(own) => is_free(own).then_some(own),
        None => others.map(|(target, _)| *target).find(|target| is_free(target)),
    };
    target.map(|target| (target.to_owned(), value.clone()))
}

/// Converts a name to snake case: `filePath` becomes `file_path`.
fn snake_case(name: &str) -> String {
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

/// Predicate that returns true if a value only requests the tool's usual behaviour.
type IsNoOp = fn(&Value) -> bool;

const IS_TRUE: IsNoOp = |value| value.as_bool() == Some(true);
const IS_FALSE: IsNoOp = |value| value.as_bool() == Some(false);
const IS_UTF8: IsNoOp = |value| value.as_str().is_some_and(|name| ["utf-8", "utf8"].contains(&&*name.to_lowercase()));

/// Arguments from other systems that have no effect, by tool and name.
const NO_OPS: [(&[&str], &[&str], IsNoOp); 23] = [
    (&["edit_file"], &["instruction"], Value::is_string),
    (&["read_url"], &["prompt", "format"], Value::is_string),
    // Parameter of earlier versions, which had no effect either.
    (&["repo_map"], &["focus"], Value::is_string),
    (&["run_bash_command"], &["background", "run_in_background", "is_background"], IS_FALSE),
    (&["run_bash_command"], &["dangerously_disable_sandbox"], IS_FALSE),
    (&["edit_file"], &[REPLACEMENTS], |value| value.as_u64() == Some(1)),
    (&["write_file"], &["overwrite"], IS_TRUE),
    (&["write_file"], &["append"], IS_FALSE),
    (&["read_file", "write_file"], &["encoding"], IS_UTF8),
    // `grep` always returns line numbers, and never more lines than a model can read.
    (&["grep"], &["-n", "line_numbers"], Value::is_boolean),
    (&["grep"], &["output_mode"], Value::is_string),
    (&["grep"], &["multiline"], IS_FALSE),
    (&["grep"], &["regex", "is_regex", "-r"], IS_TRUE),
    (&["grep", "find_files"], &["head_limit", "limit", "max_results", "total_max_matches"], Value::is_u64),
    (&["grep", "find_files", "list_workspace_files"], &["recursive", "respect_git_ignore"], IS_TRUE),
    (&["edit_file"], &["command"], |value| value.as_str() == Some("str_replace")),
    (&["read_file"], &["detail"], Value::is_string),
    (&["run_bash_command"], &["yield_time_ms", "max_output_tokens"], Value::is_u64),
    (&["run_bash_command"], &["login"], Value::is_boolean),
    (&["run_bash_command"], &["tty"], IS_FALSE),
    (&["run_bash_command"], &["sandbox_permissions"], |value| value.as_str() == Some("use_default")),
    (&["run_bash_command"], &["shell"], |value| value.as_str().is_some_and(|shell| SHELLS.contains(&shell))),
    (&["search_file"], &["context_chars"], Value::is_u64),
];

/// Argument with the number of replacements. The number 1 has no effect, unless all occurrences are to be replaced.
const REPLACEMENTS: &str = "expected_replacements";

/// Returns true if an argument only requests the tool's usual behaviour.
fn is_no_op(tool: &str, written: &Map<String, Value>, name: &str, value: &Value) -> bool {
    let plain = snake_case(name);
    if REMARKS.contains(&plain.as_str()) {
        return value.is_string();
    }
    let mut rows = NO_OPS.iter().filter(|(tools, names, _)| tools.contains(&tool) && names.contains(&&*plain));
    rows.next().is_some_and(|(_, _, is_no_op)| is_no_op(value))
        && !(plain == REPLACEMENTS && written.contains_key("replace_all"))
}

/// Removes the first of these arguments and returns its value.
fn take(written: &mut Map<String, Value>, names: &[&str]) -> Option<u64> {
    let (name, number) = names.iter().find_map(|name| Some((*name, integer(written.get(*name)?)?)))?;
    let number = u64::try_from(number).ok()?;
    written.shift_remove(name);
    Some(number)
}

/// Converts a first and last line to a first line and a count.
fn convert_last_line(written: &mut Map<String, Value>) {
    const FIRST: [&str; 3] = ["start_line", "startLine", "offset"];
    const LAST: [&str; 2] = ["end_line", "endLine"];
    let number = |name: &&str| u64::try_from(integer(written.get(*name)?)?).ok();
    let (first, last) = (FIRST.iter().find_map(number).unwrap_or(1), LAST.iter().find_map(number));
    if let Some(last) = last.filter(|last| *last >= first && !written.contains_key("limit")) {
        take(written, &LAST);
        written.insert("limit".to_owned(), (last - first + 1).into());
    }
    if !written.contains_key("offset")
        && let Some(first) = take(written, &FIRST)
    {
        written.insert("offset".to_owned(), first.into());
    }
}

/// Converts the numbers of lines before and after a hit to one number for both sides.
fn convert_context_lines(written: &mut Map<String, Value>) {
    if written.contains_key("context") {
        return;
    }
    if let Some(lines) = ["-C", "-A", "-B"].iter().filter_map(|name| take(written, &[name])).max() {
        written.insert("context".to_owned(), lines.into());
    }
}

/// Converts a time limit in milliseconds to seconds. Returns a note for the model if the unit is only inferred from the
/// size of the number.
fn convert_time_limit(written: &mut Map<String, Value>, longest: u64) -> Option<String> {
    if written.contains_key("timeout_s") {
        return None;
    }
    let mut note = None;
    let milliseconds = take(written, &["timeout_ms", "timeoutMs"]).or_else(|| {
        let number = written.get("timeout").and_then(integer).and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| *number >= MILLISECONDS_FROM && *number > longest)?;
        written.shift_remove("timeout");
        note = Some(format!("timeout {number} was read as milliseconds"));
        Some(number)
    });
    if let Some(number) = milliseconds {
        written.insert("timeout_s".to_owned(), number.div_ceil(1000).into());
    }
    note
}

/// Converts a command given as a list to an equivalent command line: the script passed to a shell, or the arguments,
/// quoted as necessary.
fn join_command(args: &[Value]) -> Option<String> {
    let args: Vec<&str> = args.iter().map(Value::as_str).collect::<Option<_>>()?;
    match args[..] {
        [] => None,
        // A list of one element is a complete line.
        [line] => Some(line.to_owned()),
        [shell, "-c" | "-lc", script] if SHELLS.contains(&shell) => Some(script.to_owned()),
        _ => {
            let line: Vec<String> = args.iter().enumerate().map(|(at, word)| quoted(word, at == 0)).collect();
            Some(line.join(" "))
        }
    }
}

/// Quotes an argument if necessary. An unquoted first argument could be a keyword of the shell.
fn quoted(word: &str, is_first: bool) -> String {
    const KEYWORDS: [&str; 16] = [
        "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select", "then",
        "time", "until", "while",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@+-".contains(c);
    let is_keyword = is_first && KEYWORDS.contains(&word);
    if !word.is_empty() && word.chars().all(plain) && !is_keyword {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 1},
                "context": {"type": "integer", "minimum": 0, "maximum": 10},
                "all": {"type": "boolean"},
                "extra": {"type": "object"}
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    fn read(written: &str) -> Result<Value, String> {
        parse::<Value>("demo", written, &schema()).map_err(|failure| failure.text)
    }

    #[test]
    fn unambiguous_arguments_are_coerced() {
        for (written, expected) in [
            (r#"{"path":"a"}"#, json!({"path": "a"})),
            (r#"{"path":"a","offset":"7"}"#, json!({"path": "a", "offset": 7})),
            (r#"{"path":"a","offset":7.0}"#, json!({"path": "a", "offset": 7})),
            (r#"{"path":"a","offset":null,"all":"True"}"#, json!({"path": "a", "all": true})),
            (r#"{"file_path":"a"}"#, json!({"path": "a"})),
            (r#" {"path":"a","path":"b"} "#, json!({"path": "b"})),
            (r#"{"path":"a","extra":{"x":"y","n":1}}"#, json!({"path": "a", "extra": {"x": "y", "n": "1"}})),
        ] {
            assert_eq!(read(written), Ok(expected), "{written}");
        }
    }

    #[test]
    fn invalid_arguments_name_the_field() {
        for (written, expected) in [
            ("", "demo requires `path`, a string"),
            ("null", "demo requires `path`, a string"),
            (r#"{"path":null}"#, "demo requires `path`, a string"),
            (r#"{"path":["a"]}"#, "`path` of demo must be a string, not a list"),
            (r#"{"path":"a","offset":0}"#, "`offset` of demo must be an integer of at least 1, not 0"),
            (r#"{"path":"a","offset":"ten"}"#, "`offset` of demo must be an integer of at least 1, not \"ten\""),
            (r#"{"path":"a","offset":1.5}"#, "`offset` of demo must be an integer of at least 1, not 1.5"),
            (r#"{"path":"a","context":11}"#, "`context` of demo must be an integer from 0 to 10, not 11"),
            (r#"{"path":"a","extra":{"x":[]}}"#, "`extra` of demo must be an object of strings, not an object"),
            (r#"{"path":"a","extra":"x: y"}"#, "`extra` of demo must be an object of strings, not \"x: y\""),
            (r#"{"path":"a","all":1}"#, "`all` of demo must be true or false, not 1"),
            (
                r#"{"path":"a","ofset":1}"#,
                "demo has no parameter \"ofset\"; did you mean `offset`? it takes path, offset, context, all, extra",
            ),
            (
                r#"{"file":"a","path":"b"}"#,
                "demo has no parameter \"file\"; it takes path, offset, context, all, extra",
            ),
            ("[1]", "the arguments of demo must be one JSON object, not a list"),
        ] {
            assert_eq!(read(written), Err(expected.to_owned()), "{written}");
        }
        assert!(read(r#"{"path": "a"#).unwrap_err().contains("not valid JSON"));
        assert!(read(&"[".repeat(100_000)).unwrap_err().contains("not valid JSON"));
    }
}

#[cfg(test)]
mod adapted_tests {
    use jiff::tz::TimeZone;
    use serde_json::json;

    use super::*;
    use crate::{ToolboxConfig, builtin::Builtin};

    fn schema(tool: &str) -> Value {
        let tool = Builtin::named(tool).unwrap();
        (tool.spec)(tool.row().unwrap(), &ToolboxConfig::new(|| TimeZone::UTC)).parameters
    }

    /// Returns the adapted form of a call, or `None` if the call stays unchanged.
    fn adapt(tool: &str, written: Value) -> Option<(Value, Option<String>)> {
        let adapted = adapt_call(tool, &written.to_string(), &schema(tool), 600)?;
        Some((serde_json::from_str(&adapted.arguments).unwrap(), adapted.note))
    }

    #[track_caller]
    fn check(tool: &str, written: Value, expected: Value, note: &str) {
        let notes = (!note.is_empty()).then(|| note.to_owned());
        assert_eq!(adapt(tool, written), Some((expected, notes)));
    }

    #[track_caller]
    fn check_unchanged(tool: &str, written: Value) {
        assert_eq!(adapt(tool, written), None);
    }

    #[test]
    fn foreign_command_arguments_are_mapped() {
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
        let (long, note) = (json!({"command": "ls", "timeout": 120_000}), "[timeout 120000 was read as milliseconds]");
        check(BASH, long, json!({"command": "ls", "timeout_s": 120}), note);
        // These are seconds, even above the maximum for commands: the time limit is reduced, and the result mentions
        // the reduction.
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
        check(
            BASH,
            json!({"cmd": "ls", "yield_time_ms": 1000, "max_output_tokens": 500, "login": true, "shell": "bash"}),
            json!({"command": "ls"}),
            "[ignored: yield_time_ms, max_output_tokens, login, shell]",
        );
        check(BASH, json!({"command": "ls", "dir_path": "src"}), json!({"command": "ls", "directory": "src"}), "");
        let searched = json!({"path": "a", "query": "b.c", "use_regex": true, "context_chars": 80});
        let regex = json!({"path": "a", "query": "b.c", "regex": true});
        check("search_file", searched, regex, "[ignored: context_chars]");
        let asked = json!({"command": "ls", "run_in_background": false, "reason": "why"});
        check(BASH, asked, json!({"command": "ls"}), "[ignored: run_in_background, reason]");
    }

    #[test]
    fn arguments_that_alter_the_call_are_rejected() {
        const BASH: &str = "run_bash_command";
        for (name, value) in [
            ("run_in_background", json!(true)),
            ("sandbox", json!(false)),
            ("dangerouslyDisableSandbox", json!(true)),
            ("with_escalated_permissions", json!(true)),
            ("sandbox_permissions", json!("require_escalated")),
            ("tty", json!(true)),
            ("shell", json!("/usr/bin/fish")),
            ("description", json!({"command": "rm"})),
            ("env", json!({"A": "b"})),
            ("timeout_ms", json!("soon")),
        ] {
            check_unchanged(BASH, json!({"command": "ls", name: value}));
        }
        check_unchanged(BASH, json!({"command": []}));
        check_unchanged(BASH, json!({"command": ["ls", 1]}));
        // A parameter given under two names is ambiguous.
        check_unchanged(BASH, json!({"command": "ls", "cmd": "rm"}));
        check_unchanged("read_file", json!({"path": "a", "filePath": "b"}));
        check_unchanged("read_file", json!({"path": "a", "end_line": 3, "offset": 7}));
        check_unchanged("grep", json!({"pattern": "a", "multiline": true}));
        check_unchanged("write_file", json!({"path": "a", "content": "b", "append": true}));
        check_unchanged(
            "edit_file",
            json!({"path": "a", "old_string": "b", "new_string": "c", "expected_replacements": 2}),
        );
        check_unchanged("edit_file", json!({"path": "a", "command": "view"}));
        check_unchanged("http_fetch", json!({"url": "http://a/", "verb": "POST"}));
        assert_eq!(adapt_call(BASH, "{", &schema(BASH), 600), None);
    }

    #[test]
    fn foreign_file_and_search_arguments_are_mapped() {
        let edit = json!({"filePath": "a", "oldString": "b", "newString": "c", "replaceAll": true});
        let expected = json!({"path": "a", "old_string": "b", "new_string": "c", "replace_all": true});
        check("edit_file", edit, expected, "");
        let read = json!({"target_file": "a", "start_line": 5, "end_line": 9, "explanation": "to see"});
        check("read_file", read, json!({"path": "a", "offset": 5, "limit": 5}), "[ignored: explanation]");
        check("read_file", json!({"path": "a", "endLine": "9"}), json!({"path": "a", "limit": 9}), "");
        let search = json!({"pattern": "a", "glob": "*.rs", "output_mode": "content", "-n": true, "-i": true, "-A": 2, "-B": 3,
            "head_limit": 20});
        let expected = json!({"pattern": "a", "include": "*.rs", "ignore_case": true, "context": 3});
        check("grep", search, expected, "[ignored: output_mode, -n, head_limit]");
        check("grep", json!({"query": "a", "caseSensitive": false}), json!({"pattern": "a", "ignore_case": true}), "");
        let list = json!({"target_directory": "/project", "recursive": true});
        check("list_workspace_files", list, json!({"path": "/project"}), "[ignored: recursive]");
        let page = json!({"url": "https://a/", "prompt": "What is it?"});
        check("read_url", page, json!({"url": "https://a/"}), "[ignored: prompt]");
        check("now", json!({"timezone": null, "zone": null}), json!({"timezone": null}), "");
        // The tool's own parameters keep their values.
        check_unchanged("grep", json!({"pattern": "a", "context": "3", "ignore_case": "true"}));
    }
}
