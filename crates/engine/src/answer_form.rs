//! The schema that a turn's answer must match, compiled for checking answers.

use std::sync::Arc;

use agentd_core::answer_schema::{AnswerSchema, InvalidSchema};
use jsonschema::Validator;
use serde_json::Value;

use crate::error::{EngineError, Result};

/// Maximum number of reasons per answer.
const MAX_REASONS: usize = 8;

/// Maximum length of a reason, in characters. The limit is needed because reasons quote the answer.
const MAX_REASON: usize = 240;

/// A schema and its validator.
pub(crate) struct AnswerForm {
    pub(crate) schema: AnswerSchema,
    validator: Validator,
}

impl AnswerForm {
    /// Compiles a client's schema.
    pub(crate) fn compile(schema: &AnswerSchema) -> Result<Self> {
        let (schema, value) = AnswerSchema::read(schema.text()).map_err(schema_error)?;
        // An invalid schema would accept anything, so it is validated first.
        jsonschema::meta::validate(&value).map_err(|problem| invalid_schema(&problem))?;
        let validator = jsonschema::validator_for(&value).map_err(|problem| invalid_schema(&problem))?;
        Ok(Self { schema, validator })
    }

    /// Compiles a turn's schema, if it has one.
    pub(crate) fn of(schema: Option<&AnswerSchema>) -> Result<Option<Arc<Self>>> {
        schema.map(|schema| Self::compile(schema).map(Arc::new)).transpose()
    }

    /// Returns the document in an answer, exactly as written, or the reasons why the document does not match.
    pub(crate) fn check(&self, answer: &str) -> Result<String, Vec<String>> {
        let mut reasons = None;
        for document in documents(answer) {
            let Ok(value) = serde_json::from_str::<Value>(document) else { continue };
            let found: Vec<String> =
                self.validator.iter_errors(&value).take(MAX_REASONS).map(|at| reason(&at)).collect();
            if found.is_empty() {
                return Ok(document.to_owned());
            }
            reasons.get_or_insert(found);
        }
        Err(reasons.unwrap_or_else(|| {
            let error = serde_json::from_str::<Value>(answer.trim()).err();
            vec![format!("it is not a JSON document{}", error.map(|error| format!(": {error}")).unwrap_or_default())]
        }))
    }
}

/// Iterates over the parts of an answer that may be its document, because models add text or a code fence around the
/// document.
fn documents(answer: &str) -> impl Iterator<Item = &str> {
    let whole = answer.trim();
    let fenced = whole.split_once("```").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once('\n')?;
        Some(rest.split_once("```").map_or(rest, |(document, _)| document).trim())
    });
    let braced = whole.find(['{', '[']).and_then(|from| {
        let end = whole.rfind(['}', ']']).filter(|end| *end > from)?;
        whole.get(from..=end)
    });
    [Some(whole), fenced, braced].into_iter().flatten()
}

fn reason(error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let path = if path.is_empty() { "the document".to_owned() } else { path };
    one_line(&format!("at {path}: {error}"))
}

/// Replaces line breaks by spaces and truncates long text.
fn one_line(text: &str) -> String {
    let mut line: String = text.split(|c: char| c.is_whitespace() || c.is_control()).collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MAX_REASON) {
        line.truncate(end);
        line.push('…');
    }
    line
}

fn invalid_schema(problem: &jsonschema::ValidationError<'_>) -> EngineError {
    schema_error(InvalidSchema::new(
        format!("invalid JSON Schema: {}", reason(problem)),
        "supported drafts: 4, 6, 7, 2019-09 and 2020-12",
    ))
}

fn schema_error(problem: InvalidSchema) -> EngineError {
    EngineError::invalid(problem.message, problem.hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: &str) -> Result<AnswerForm, EngineError> {
        AnswerForm::compile(&AnswerSchema::unchecked(schema.to_owned()))
    }

    const COUNT: &str = r#"{"type": "object", "properties": {"count": {"type": "integer", "minimum": 0}},
        "required": ["count"], "additionalProperties": false}"#;

    #[test]
    fn json_document_is_extracted_and_validated() {
        let form = form(COUNT).unwrap();
        let check = |answer: &str, document: &str| assert_eq!(form.check(answer).as_deref(), Ok(document), "{answer}");
        check(r#"{"count": 7}"#, r#"{"count": 7}"#);
        check(" \n{\"count\":7}\n", r#"{"count":7}"#);
        check("```json\n{\"count\": 7}\n```", r#"{"count": 7}"#);
        check("Here it is:\n\n```\n{\"count\": 7}\n```\nThat is all.", r#"{"count": 7}"#);
        check("The answer is {\"count\": 7}.", r#"{"count": 7}"#);
        check(r#"{"count": 7.0}"#, r#"{"count": 7.0}"#);
    }

    #[test]
    fn mismatches_are_reported_with_their_location() {
        let form = form(COUNT).unwrap();
        let check = |answer: &str, parts: &[&str]| {
            let reasons = form.check(answer).unwrap_err();
            assert!(
                parts.iter().all(|word| reasons.iter().any(|reason| reason.contains(word))),
                "{answer}: {reasons:?}"
            );
            assert!(reasons.iter().all(|reason| reason.chars().count() <= MAX_REASON + 1 && !reason.contains('\n')));
        };
        check("seven", &["not a JSON document"]);
        check("", &["not a JSON document"]);
        check("{\"count\": 7", &["not a JSON document"]);
        check(r#"{"count": -1}"#, &["/count", "-1"]);
        check(r#"{"counts": 7}"#, &["count", "required"]);
        check(r#"{"count": "7", "more": 1}"#, &["/count", "more"]);
        check(&format!(r#"{{"count": "{}"}}"#, "x\\n".repeat(9000)), &["/count"]);
        check(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), &["not a JSON document"]);
    }

    #[test]
    fn circular_schemas_terminate() {
        for schema in [
            r##"{"$ref": "#"}"##,
            r##"{"allOf": [{"$ref": "#"}]}"##,
            r##"{"not": {"$ref": "#"}}"##,
            r##"{"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}"##,
            r##"{"properties": {"next": {"$ref": "#"}}, "additionalProperties": false}"##,
        ] {
            // The library may accept or reject these schemas.
            if let Ok(form) = form(schema) {
                let _ = form.check(r#"{"next": {"next": {}}}"#);
                let _ = form.check(r#"{"other": 1}"#);
            }
        }
        let deeply_nested = format!("{}{}", r#"{"items":"#.repeat(2000), "{}".to_owned() + &"}".repeat(2000));
        assert!(form(&deeply_nested).is_err());
        let deeply_nested = format!("{}{{}}{}", r#"{"items":"#.repeat(100), "}".repeat(100));
        assert!(form(&deeply_nested).unwrap().check("[]").is_ok());
    }
}
