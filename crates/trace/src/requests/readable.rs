//! A body as lines for people: JSON with one value a line, and texts of several lines as such.

use std::fmt::Write as _;

use serde_json::Value;

/// Columns of a level.
const INDENT: usize = 2;

/// Marks of a text of several lines.
const QUOTES: &str = "\"\"\"";

/// The body as lines. What is no JSON stays as it is.
#[must_use]
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
                // Writing to a string cannot fail.
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

/// A text of several lines, each on a line of its own.
fn write_text(text: &str, level: usize, out: &mut String) {
    out.push_str(QUOTES);
    for line in text.split('\n') {
        // An empty line has no indent, which would be shown.
        new_line(if line.is_empty() { 0 } else { level }, out);
        out.push_str(line);
    }
    new_line(level - 1, out);
    out.push_str(QUOTES);
}

fn new_line(level: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', level * INDENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_lines_of_their_own_and_so_have_those_of_texts() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"one\n\ntwo"},{"a":[]}],"stream":true}"#;
        let expected = "{\n  \"model\": \"m\",\n  \"messages\": [\n    {\n      \"role\": \"user\",\n      \"content\": \"\"\"\n        \
                        one\n\n        two\n      \"\"\"\n    },\n    {\n      \"a\": []\n    }\n  ],\n  \"stream\": true\n}\n";
        assert_eq!(readable(body), expected);
        assert_eq!(readable("data: x\n\n"), "data: x\n");
    }
}
