//! The schema of an answer in the form in which OpenAI's wires take it, and when it may be sent in a field of its own.

use agentd_core::{answer_schema::AnswerSchema, model::ModelRequest};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::http::{failure::Failure, request::unwritable};

/// Hosts whose answers may call tools though a schema is set. Elsewhere a server may hold all that the model writes to the
/// schema, so that it could not call one.
const CALLS_IN_FORM: [&str; 1] = ["api.openai.com"];

/// A schema with its name.
#[derive(Serialize)]
pub(crate) struct AnswerFormat {
    name: &'static str,
    /// Set where the schema is in the part of the language that the model can be held to.
    strict: bool,
    schema: Box<RawValue>,
}

impl AnswerFormat {
    pub(crate) fn of(schema: &AnswerSchema) -> Result<Self, Failure> {
        let strict = serde_json::from_str(schema.text()).is_ok_and(|value| is_strict(&value));
        Ok(Self { name: "answer", strict, schema: raw(schema)? })
    }
}

/// The schema as JSON, as it is.
pub(crate) fn raw(schema: &AnswerSchema) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(schema.text().to_owned()).map_err(|error| unwritable(&error))
}

/// The schema of a request to this host, where its field would keep no call from being made.
pub(crate) fn sendable<'a>(request: &'a ModelRequest, host: &str) -> Option<&'a AnswerSchema> {
    let may_call = request.may_call && !request.tools.is_empty();
    let takes_both = CALLS_IN_FORM.iter().any(|known| host.eq_ignore_ascii_case(known));
    request.answer_schema.as_deref().filter(|_| takes_both || !may_call)
}

/// Keys that schemas may have which a model can be held to.
const STRICT: &str = "type properties required additionalProperties items enum const anyOf $defs definitions $ref description \
    title pattern format minimum maximum multipleOf minItems maxItems $schema $id";

/// Returns whether each object names all that it has, and nothing stands in it that no model is held to.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(object) = schema else { return false };
    let all = |parts: &Map<String, Value>| parts.values().all(is_strict);
    let known = object.iter().all(|(key, value)| match (key.as_str(), value) {
        ("properties" | "$defs" | "definitions", Value::Object(parts)) => all(parts),
        ("items", part) => is_strict(part),
        ("anyOf", Value::Array(parts)) => parts.iter().all(is_strict),
        (key, _) => STRICT.split(' ').any(|known| known == key),
    });
    known && (object.get("type") != Some(&Value::from("object")) || names_all(object))
}

fn names_all(object: &Map<String, Value>) -> bool {
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|required| required == name));
    let properties = object.get("properties").and_then(Value::as_object);
    object.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| properties.keys().all(is_required))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_that_name_all_are_strict() {
        let check = |schema: &str, strict: bool| {
            assert_eq!(is_strict(&serde_json::from_str(schema).unwrap()), strict, "{schema}");
        };
        check(
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#,
            true,
        );
        check(
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}"#,
            false,
        );
        check(r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#, false);
        check(r#"{"type":"object"}"#, false);
        check(r#"{"type":"array","items":{"type":"object"}}"#, false);
        check(r#"{"type":"array","items":{"type":"number","minimum":1}}"#, true);
        check(r#"{"oneOf":[{"type":"string"}]}"#, false);
        check(r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, true);
    }
}
