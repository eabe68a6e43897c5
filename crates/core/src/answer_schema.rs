//! JSON Schema for a turn's answer, as sent by a client. This module only performs checks that need no schema library.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum schema size in bytes. The schema is part of every request of its turn.
pub const MAX_ANSWER_SCHEMA: usize = 64 << 10;

/// Keywords whose values are data, not schemas.
const DATA: [&str; 5] = ["const", "enum", "default", "example", "examples"];

/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// URLs of the meta-schemas that every schema library includes.
const META_SCHEMAS: [&str; 2] = ["https://json-schema.org/", "http://json-schema.org/"];

/// JSON Schema that a turn's answer must match, as text. Preserves the key order, because models write their answers in
/// that order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnswerSchema(String);

/// Error for an invalid answer schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidSchema {
    /// Description of the problem.
    pub message: String,
    /// Hint on how to fix the schema.
    pub hint: String,
}

impl InvalidSchema {
    /// Creates an error with this message and hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl AnswerSchema {
    /// Wraps `text` without checking it.
    pub fn unchecked(text: String) -> Self {
        Self(text)
    }

    /// Parses a schema and removes insignificant whitespace.
    ///
    /// # Errors
    /// Fails if the text is longer than [`MAX_ANSWER_SCHEMA`], is not a JSON object, or refers to another document, as
    /// documents are never fetched.
    pub fn parse(text: &str) -> Result<Self, InvalidSchema> {
        Self::read(text).map(|(schema, _)| schema)
    }

    /// Like [`Self::parse`], but also returns the parsed value.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn read(text: &str) -> Result<(Self, Value), InvalidSchema> {
        if text.len() > MAX_ANSWER_SCHEMA {
            return Err(InvalidSchema::new(
                format!("the schema has {} bytes; at most {MAX_ANSWER_SCHEMA} are allowed", text.len()),
                "remove descriptions and examples, or request the answer in parts",
            ));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            InvalidSchema::new(format!("the schema is not valid JSON: {error}"), "check it with `jq . FILE`")
        })?;
        if !value.is_object() {
            let example = r#"write one such as {"type": "object", "properties": {"ok": {"type": "boolean"}}}"#;
            return Err(InvalidSchema::new("the schema is not a JSON object", example));
        }
        let mut names = HashSet::new();
        collect_ids(&value, &mut names);
        if let Some(target) = external_reference(&value, &names) {
            return Err(InvalidSchema::new(
                format!("the schema refers to {target:?}; external references are not fetched"),
                "copy the definition into the schema under $defs, and refer to it as #/$defs/NAME",
            ));
        }
        let compact = serde_json::to_string(&value).unwrap_or_else(|_| text.to_owned());
        Ok((Self(compact), value))
    }

    /// Returns the schema as JSON text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Iterates over the direct subschemas of a value. Skips values of the `DATA` keywords.
fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    let (object, array) = match value {
        Value::Object(object) => (Some(object), None),
        Value::Array(array) => (None, Some(array)),
        _ => (None, None),
    };
    let is_schema = |(key, _): &(&String, &Value)| !DATA.contains(&key.as_str());
    let of_object = object.into_iter().flat_map(Map::iter).filter(is_schema).map(|(_, part)| part);
    of_object.chain(array.into_iter().flatten())
}

/// Collects the `$id`s of all schemas in `value`.
fn collect_ids<'a>(value: &'a Value, names: &mut HashSet<&'a str>) {
    names.extend(value.get("$id").and_then(Value::as_str));
    parts(value).for_each(|part| collect_ids(part, names));
}

/// Returns the first reference to another document.
fn external_reference<'a>(value: &'a Value, names: &HashSet<&str>) -> Option<&'a str> {
    let is_external = |target: &&str| {
        let document = target.split('#').next().unwrap_or_default();
        !document.is_empty() && !names.contains(document) && !META_SCHEMAS.iter().any(|meta| document.starts_with(meta))
    };
    let own = REFERENCES.iter().filter_map(|key| value.get(key)?.as_str()).find(is_external);
    own.or_else(|| parts(value).find_map(|part| external_reference(part, names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_must_be_objects_without_remote_references() {
        let check = |text: &str, part: &str| {
            let problem = AnswerSchema::parse(text).expect_err(text);
            assert!(problem.message.contains(part), "{text}: {problem}");
            assert!(!problem.hint.is_empty());
        };
        check("true", "not a JSON object");
        check(r##"{"properties": {"a": {"items": {"$ref": "other.json#/x"}}}}"##, "other.json");
        check(r#"{"allOf": [{"$dynamicRef": "file:///etc/passwd"}]}"#, "are not fetched");
        for text in [
            "{}",
            r##"{"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"}"##,
            r#"{"$id": "https://example.com/own", "items": {"$ref": "https://example.com/own"}}"#,
            r#"{"$ref": "https://json-schema.org/draft/2020-12/schema"}"#,
            r#"{"enum": [{"$ref": "https://example.com/data"}]}"#,
            r#"{"properties": {"$ref": {"type": "string"}}}"#,
        ] {
            assert!(AnswerSchema::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn schema_text_keeps_key_order_and_drops_blanks() {
        let schema = AnswerSchema::parse("{ \"z\": 1,\n \"a\": [ 1.50 ] }").unwrap();
        assert_eq!(schema.text(), r#"{"z":1,"a":[1.5]}"#);
    }
}
