//! Formats and compares requests to models. A JSON body becomes one value per line, with multi-line strings as blocks.
//! New lines are marked, two bodies are compared as a unified diff, and new values are listed as JSON pointers.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;
use similar::{ChangeTag, TextDiffConfig};

/// Number of columns per nesting level.
const INDENT: usize = 2;

/// Delimiter of a multi-line string.
const BLOCK_DELIMITER: &str = "\"\"\"";

/// Formats a body as lines. Text that is not JSON stays unchanged.
pub fn readable(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        return format!("{}\n", body.trim_end_matches('\n'));
    };
    let mut out = String::with_capacity(body.len() + body.len() / 4);
    write_value(&value, 0, &mut out);
    out.push('\n');
    out
}

fn write_value(value: &Value, level: usize, out: &mut String) {
    match value {
        Value::String(text) if text.trim_end_matches('\n').contains('\n') => write_text(text, level + 1, out),
        Value::Array(values) if !values.is_empty() => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                new_line(level + 1, out);
                write_value(value, level + 1, out);
                out.push_str(if at + 1 < values.len() { "," } else { "" });
            }
            new_line(level, out);
            out.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                new_line(level + 1, out);
                // Writing to a `String` cannot fail.
                let _ = write!(out, "{}: ", Value::from(name.as_str()));
                write_value(value, level + 1, out);
                out.push_str(if at + 1 < fields.len() { "," } else { "" });
            }
            new_line(level, out);
            out.push('}');
        }
        value => {
            let _ = write!(out, "{value}");
        }
    }
}

/// Writes a multi-line string as a block, one line of text per output line.
fn write_text(text: &str, level: usize, out: &mut String) {
    out.push_str(BLOCK_DELIMITER);
    for line in text.split('\n') {
        // Empty lines are not indented, because trailing spaces would be shown.
        new_line(if line.is_empty() { 0 } else { level }, out);
        out.push_str(line);
    }
    new_line(level - 1, out);
    out.push_str(BLOCK_DELIMITER);
}

fn new_line(level: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', level * INDENT));
}

/// Time limit for a comparison. After the limit, the result is less precise.
const DIFF_TIMEOUT: Duration = Duration::from_secs(2);

/// A line of the compared text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedLine {
    /// True if the earlier text does not contain this line at this position.
    pub is_new: bool,
    /// Text of the line, without its newline.
    pub text: String,
}

/// Returns the lines of `now`, and marks lines that `before` does not contain.
pub fn marked(before: &str, now: &str) -> Vec<MarkedLine> {
    let mut config = TextDiffConfig::default();
    let compared = config.timeout(DIFF_TIMEOUT).diff_lines(before, now);
    let lines = compared.iter_all_changes().filter(|change| change.tag() != ChangeTag::Delete);
    let text = |text: &str| text.trim_end_matches(['\r', '\n']).to_owned();
    let line = |is_new, value| MarkedLine { is_new, text: text(value) };
    lines.map(|change| line(change.tag() == ChangeTag::Insert, change.value())).collect()
}

/// Returns a unified diff of two texts with the given names, or an empty string if the texts are equal.
pub fn unified(names: (&str, &str), before: &str, now: &str) -> String {
    let mut config = TextDiffConfig::default();
    config.timeout(DIFF_TIMEOUT).diff_lines(before, now).unified_diff().header(names.0, names.1).to_string()
}

/// Maximum number of listed paths.
const MAX_PATHS: usize = 1000;

/// Returns JSON pointers to new or changed values in `now`. List elements that only moved are not included.
pub fn new_pointers(before: &Value, now: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    compare(before, now, &mut String::new(), &mut paths);
    paths.truncate(MAX_PATHS);
    paths
}

fn compare(before: &Value, now: &Value, path: &mut String, paths: &mut Vec<String>) {
    match (before, now) {
        (before, now) if before == now => {}
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in now {
                let name_in_path = name.replace('~', "~0").replace('/', "~1");
                within(path, &name_in_path, |path| match before.get(name) {
                    Some(before) => compare(before, value, path, paths),
                    None => paths.push(path.clone()),
                });
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            let head = before.iter().zip(now).take_while(|(before, now)| before == now).count();
            let rest = (&before[head..], &now[head..]);
            let tail = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(before, now)| before == now).count();
            let (removed, new) = (&before[head..before.len() - tail], &now[head..now.len() - tail]);
            for (at, value) in new.iter().enumerate() {
                within(path, &(head + at).to_string(), |path| match removed.get(at) {
                    // After insertions, the previous value of an element is unknown.
                    Some(before) if new.len() == removed.len() => compare(before, value, path, paths),
                    _ => paths.push(path.clone()),
                });
            }
        }
        _ => paths.push(path.clone()),
    }
}

fn within(path: &mut String, name: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    visit(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_values_and_text_lines_are_on_separate_lines() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"one\n\ntwo"},{"a":[]}],"stream":true}"#;
        let expected = "{\n  \"model\": \"m\",\n  \"messages\": [\n    {\n      \"role\": \"user\",\n      \"content\": \"\"\"\n        \
                        one\n\n        two\n      \"\"\"\n    },\n    {\n      \"a\": []\n    }\n  ],\n  \"stream\": true\n}\n";
        assert_eq!(readable(body), expected);
        assert_eq!(readable("data: x\n\n"), "data: x\n");
    }

    #[test]
    fn new_lines_are_marked_and_removed_ones_omitted() {
        let lines = marked("a\nb\nc\n", "a\nx\nc\nd\n");
        let lines: Vec<(bool, &str)> = lines.iter().map(|line| (line.is_new, line.text.as_str())).collect();
        assert_eq!(lines, [(false, "a"), (true, "x"), (false, "c"), (true, "d")]);
        assert_eq!(marked("", "a\n"), [MarkedLine { is_new: true, text: "a".to_owned() }]);
        let diff = unified(("request 1", "request 2"), "a\nb\n", "a\nc\n");
        assert_eq!(diff, "--- request 1\n+++ request 2\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        assert_eq!(unified(("1", "2"), "a\n", "a\n"), "");
    }

    #[test]
    fn added_and_changed_values_are_listed() {
        let check = |before: Value, now: Value, paths: &[&str]| assert_eq!(new_pointers(&before, &now), paths);
        check(json!({"m": [1, 2], "t": [9]}), json!({"m": [1, 2, 3, 4], "t": [9]}), &["/m/2", "/m/3"]);
        check(json!({"m": [{"a": 1}]}), json!({"m": [{"a": 2, "b/c": 1}]}), &["/m/0/a", "/m/0/b~1c"]);
        check(json!({"m": [1, 9]}), json!({"m": [1, 5, 9]}), &["/m/1"]);
        check(json!({"m": [{"a": 1}, 9]}), json!({"m": [{"a": 2}, 3, 9]}), &["/m/0", "/m/1"]);
        check(json!("a"), json!({}), &[""]);
        check(json!({"gone": 1}), json!({}), &[]);
    }
}
