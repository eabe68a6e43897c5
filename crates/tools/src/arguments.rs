//! Arguments from a model, checked against the tool's own schema.
//!
//! Weak models write numbers as text, `null` for what they leave out, and the parameter names of other systems.
//! Unambiguous values are accepted; everything else is refused with an error that names the field.

use agentd_core::tool::FollowedLink;
use agentd_workspace::{failure::Failure, text};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Parameter names of our tools with those of other systems, which are taken where the tool has the first one, not the
/// other, and the call does not use the first one. Of several rows the first counts.
pub(crate) const NAMES: [(&str, &[&str]); 16] = [
    ("path", &FollowedLink::ALIASES),
    ("path", &["absolute_path", "dir_path", "folder", "relative_workspace_path", "target_directory", "target_file"]),
    ("directory", &["cwd", "dir", "work_dir", "workdir", "working_dir", "working_directory"]),
    ("command", &["cmd"]),
    ("timeout_s", &["timeout", "timeout_sec", "timeout_seconds"]),
    ("content", &["text", "contents", "file_text"]),
    ("old_string", &["old_str", "old_text"]),
    ("new_string", &["new_str", "new_text"]),
    ("patch", &["diff", "input", "patch_text"]),
    ("depth", &["max_depth"]),
    ("pattern", &["glob", "glob_pattern", "query", "regex"]),
    ("include", &["include_pattern", "glob"]),
    ("ignore_case", &["-i", "case_insensitive"]),
    ("literal", &["fixed_strings"]),
    ("query", &["search_term", "search_query"]),
    ("max_results", &["num_results", "limit", "count"]),
];

/// Reads the arguments of a call.
///
/// # Errors
/// `E_INVALID_ARGS`, naming the field and what is expected of it.
pub(crate) fn parse<A: DeserializeOwned>(tool: &str, written: &str, schema: &Value) -> Result<A, Failure> {
    let checked = check(tool, object(tool, written)?, schema)?;
    serde_json::from_value(Value::Object(checked))
        .map_err(|error| Failure::arguments(format!("the arguments of {tool} do not fit: {error}")))
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
            checked.insert(name.clone(), fit(tool, &name, value, property)?);
        }
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !checked.contains_key(required) {
            let what = properties.get(required).map(expected).unwrap_or_default();
            return Err(Failure::arguments(format!("{tool} needs `{required}`, {what}")));
        }
    }
    Ok(checked)
}

fn unknown_field(tool: &str, name: &str, properties: &Map<String, Value>) -> Failure {
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let hint = match text::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    let all = if known.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", known.join(", ")) };
    Failure::arguments(format!("{tool} has no parameter {}; {hint}{all}", text::quoted(name)))
}

fn fit(tool: &str, name: &str, value: Value, property: &Value) -> Result<Value, Failure> {
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
                Ok(Value::Object(fields.into_iter().map(|(key, field)| (key, as_text(field))).collect()))
            }
            other => refused(&other),
        },
        _ if value.is_string() => Ok(value),
        _ => refused(&value),
    }
}

/// A number or the like as a text.
fn as_text(value: Value) -> Value {
    match value {
        Value::String(_) => value,
        Value::Null => Value::String(String::new()),
        other => Value::String(other.to_string()),
    }
}

/// A whole number, also one that is written as text.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    /// Beyond this, a float no longer tells neighbouring integers apart.
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
        (Some("object"), ..) => "an object of texts".to_owned(),
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
    fn what_is_meant_beyond_doubt_is_taken() {
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
    fn everything_else_names_the_field() {
        for (written, expected) in [
            ("", "demo needs `path`, a string"),
            ("null", "demo needs `path`, a string"),
            (r#"{"path":null}"#, "demo needs `path`, a string"),
            (r#"{"path":["a"]}"#, "`path` of demo must be a string, not a list"),
            (r#"{"path":"a","offset":0}"#, "`offset` of demo must be an integer of at least 1, not 0"),
            (r#"{"path":"a","offset":"ten"}"#, "`offset` of demo must be an integer of at least 1, not \"ten\""),
            (r#"{"path":"a","offset":1.5}"#, "`offset` of demo must be an integer of at least 1, not 1.5"),
            (r#"{"path":"a","context":11}"#, "`context` of demo must be an integer from 0 to 10, not 11"),
            (r#"{"path":"a","extra":{"x":[]}}"#, "`extra` of demo must be an object of texts, not an object"),
            (r#"{"path":"a","extra":"x: y"}"#, "`extra` of demo must be an object of texts, not \"x: y\""),
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
