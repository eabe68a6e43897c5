//! Questions from servers to the user. They are asked like other questions, in the name of the server. The answer is
//! validated against the form before it is sent to the server.

use std::sync::Arc;

use agentd_core::{
    interrupt::{Answer, Ask},
    untrusted,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

use crate::{
    calls::{Call, NoQuestion},
    log::Log,
};

/// Maximum length of a server's text for the user, in characters.
const MAX_LENGTH: usize = 2000;
/// Maximum size of a question with its form, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of shown fields.
const MAX_FIELDS: usize = 32;

/// Note on a question that may belong to another session's call.
pub(crate) const AMBIGUOUS_CALL_NOTE: &str = "\nSeveral sessions use this server; this may be meant for another.";

/// Asks the user of the call, with a note if the question may belong to another call.
pub(crate) async fn ask(
    server: &str,
    call: Option<(Arc<Call>, bool)>,
    log: &Log,
    request: ElicitRequestParams,
) -> ElicitResult {
    let Some((call, is_ambiguous)) = call else {
        log.note("it asked the user outside of any call; rejected");
        return declined();
    };
    match call.question(ask_in(server, &call, is_ambiguous, log, request)).await {
        Ok(answer) => answer,
        Err(NoQuestion::TooMany) => {
            log.note("it asked the user while several questions were pending; rejected");
            declined()
        }
        Err(NoQuestion::Over) => cancelled(),
    }
}

/// Asks the user of this call, after its other questions.
async fn ask_in(
    server: &str,
    call: &Call,
    is_ambiguous: bool,
    log: &Log,
    request: ElicitRequestParams,
) -> ElicitResult {
    // The request stays in memory until the user answers.
    if serde_json::to_vec(&request).map_or(usize::MAX, |text| text.len()) > MAX_BYTES {
        log.note("it asked the user with a form that is too large");
        return declined();
    }
    let _one_at_a_time = call.asking.lock().await;
    let note = if is_ambiguous { AMBIGUOUS_CALL_NOTE } else { "" };
    match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let Ok(schema) = serde_json::to_value(&requested_schema) else { return declined() };
            form(server, call, log, &display_text(&message), note, &schema).await
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let url = untrusted::plain(&url).replace('\n', "");
            let context = format!(
                "It wants you to open this address in a browser: {}\nCheck the address first. Answer with anything \
                 when you are done, or reject.{note}",
                url.chars().take(MAX_LENGTH).collect::<String>()
            );
            match ask_user(server, call, log, &display_text(&message), context).await {
                Reply::Text(_) => ElicitResult::new(ElicitationAction::Accept),
                Reply::Rejected => declined(),
                Reply::Unavailable => cancelled(),
            }
        }
        _ => declined(),
    }
}

/// Returns the result for a question that is not answered.
pub(crate) fn cancelled() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Cancel)
}

fn declined() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

/// Asks until the answer fits the form, the user declines, or the question limit is reached.
async fn form(server: &str, call: &Call, log: &Log, message: &str, note: &str, schema: &Value) -> ElicitResult {
    let form = Form::read(schema);
    let mut problem = String::new();
    loop {
        let context = format!("{problem}{}{note}", form.description());
        match ask_user(server, call, log, message, context).await {
            Reply::Text(text) => match form.fill(&text) {
                Ok(content) => {
                    return ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content));
                }
                Err(reason) => problem = format!("Invalid answer: {reason}.\n"),
            },
            Reply::Rejected => return declined(),
            Reply::Unavailable => return cancelled(),
        }
    }
}

/// User's reply to a question.
pub(crate) enum Reply {
    Text(String),
    Rejected,
    Unavailable,
}

/// Shows a server's question to the user. The question has no default, because the server would choose it: silence or
/// an empty answer must never mean consent.
pub(crate) async fn ask_user(server: &str, call: &Call, log: &Log, message: &str, context: String) -> Reply {
    let Some(number) = call.next_question() else {
        log.note("it asked the user too often in one call; rejected");
        return Reply::Rejected;
    };
    // The number makes a repeated question distinct.
    let suffix = if number > 1 { format!(" (question {number} of this call)") } else { String::new() };
    let question = format!("{}{server} asks{suffix}: {message}", Ask::MCP_SERVER_PREFIX);
    let waiting = call.suspend_limits();
    let (context, choices) = (Some(context), Vec::new());
    let ask_request = Ask::Question { secret: false, question, context, default: None, required: true, choices };
    let answer = call.person.ask(ask_request).await;
    drop(waiting);
    match answer {
        Some(Answer::Text { text }) => Reply::Text(text),
        Some(_) => Reply::Rejected,
        None => Reply::Unavailable,
    }
}

fn display_text(text: &str) -> String {
    untrusted::sanitize(text).chars().take(MAX_LENGTH).collect()
}

/// Form with fields to fill in.
struct Form {
    fields: Vec<Field>,
}

struct Field {
    name: String,
    schema: Map<String, Value>,
    required: bool,
}

impl Form {
    fn read(schema: &Value) -> Self {
        let required = |name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
        };
        let fields = schema["properties"].as_object().into_iter().flatten().take(MAX_FIELDS);
        let field = |(name, schema): (&String, &Value)| {
            let schema = schema.as_object().cloned().unwrap_or_default();
            Field { name: name.clone(), schema, required: required(name) }
        };
        Self { fields: fields.map(field).collect() }
    }

    /// Returns the instructions for filling in the form.
    fn description(&self) -> String {
        let mut description = match self.fields.as_slice() {
            [] => return "Answer with anything to accept, or reject.".to_owned(),
            [_] => "Answer with the value, or with a JSON object of this field:".to_owned(),
            _ => "Answer with a JSON object of these fields:".to_owned(),
        };
        for field in &self.fields {
            description.push_str(&format!("\n- {}", field.description()));
        }
        if self.fields.iter().all(|field| !field.required || field.schema.contains_key("default")) {
            description.push_str("\nAnswer {} for the defaults.");
        }
        description
    }

    /// Validates the field values in `text`, and adds the defaults of missing fields.
    fn fill(&self, text: &str) -> Result<Map<String, Value>, String> {
        let mut values = match serde_json::from_str(text.trim()) {
            Ok(Value::Object(values)) => values,
            _ => match self.fields.as_slice() {
                [] => Map::new(),
                [only] => Map::from_iter([(only.name.clone(), only.read(text.trim()))]),
                _ => return Err("not a JSON object".to_owned()),
            },
        };
        let mut filled = Map::new();
        for field in &self.fields {
            let value = values.remove(&field.name).or_else(|| field.schema.get("default").cloned());
            match value {
                Some(value) => {
                    field.check(&value)?;
                    filled.insert(field.name.clone(), value);
                }
                None if field.required => return Err(format!("`{}` is missing", display_text(&field.name))),
                None => {}
            }
        }
        let unknown = values.keys().next();
        unknown.map_or(Ok(filled), |name| Err(format!("unknown field `{}`", display_text(name))))
    }
}

impl Field {
    fn kind(&self) -> &str {
        self.schema.get("type").and_then(Value::as_str).unwrap_or("string")
    }

    /// Returns the allowed values, if they are restricted.
    fn choices(&self) -> Vec<&Value> {
        let source = if self.kind() == "array" { self.schema.get("items").and_then(Value::as_object) } else { None };
        let source = source.unwrap_or(&self.schema);
        let listed = source.get("enum").and_then(Value::as_array).into_iter().flatten();
        let titled = ["oneOf", "anyOf"].iter().filter_map(|key| source.get(*key)?.as_array()).flatten();
        listed.chain(titled.filter_map(|choice| choice.get("const"))).collect()
    }

    fn description(&self) -> String {
        let mut description = format!("{} ({}", display_text(&self.name), display_text(self.kind()));
        if self.required {
            description.push_str(", required");
        }
        let choices = self.choices();
        if !choices.is_empty() {
            let choices: Vec<String> =
                choices.iter().take(50).map(|choice| display_text(&plain_text(choice))).collect();
            description.push_str(&format!(", one of: {}", choices.join(", ")));
        }
        if let Some(default) = self.schema.get("default") {
            description.push_str(&format!(", default {}", display_text(&plain_text(default))));
        }
        description.push(')');
        let about = self.schema.get("description").or_else(|| self.schema.get("title")).and_then(Value::as_str);
        if let Some(about) = about {
            description.push_str(&format!(": {}", display_text(about)));
        }
        description
    }

    /// Parses a value that was not entered as JSON.
    fn read(&self, text: &str) -> Value {
        let as_json = serde_json::from_str::<Value>(text).ok();
        match (self.kind(), as_json) {
            ("string", Some(Value::String(text))) => Value::String(text),
            ("string", _) => Value::String(text.to_owned()),
            ("boolean", _) if ["yes", "y"].contains(&text.to_lowercase().as_str()) => Value::Bool(true),
            ("boolean", _) if ["no", "n"].contains(&text.to_lowercase().as_str()) => Value::Bool(false),
            (_, Some(value)) => value,
            (_, None) => Value::String(text.to_owned()),
        }
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let name = display_text(&self.name);
        let is_kind = match self.kind() {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            _ => value.is_string(),
        };
        if !is_kind {
            return Err(format!("`{name}` must be a value of type {}", display_text(self.kind())));
        }
        let bound = |key: &str| self.schema.get(key).and_then(Value::as_f64);
        if let Some(number) = value.as_f64()
            && (bound("minimum").is_some_and(|min| number < min) || bound("maximum").is_some_and(|max| number > max))
        {
            return Err(format!("`{name}` is out of bounds"));
        }
        if let Some(text) = value.as_str() {
            let length = text.chars().count() as f64;
            if bound("minLength").is_some_and(|min| length < min) || bound("maxLength").is_some_and(|max| length > max)
            {
                return Err(format!("`{name}` is too short or too long"));
            }
        }
        let choices = self.choices();
        let chosen = value.as_array().map_or_else(|| vec![value], |values| values.iter().collect());
        if !choices.is_empty() && chosen.iter().any(|value| !choices.contains(value)) {
            return Err(format!("`{name}` is not one of the choices"));
        }
        Ok(())
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_validated_against_the_form() {
        let form = Form::read(&json!({"type": "object", "required": ["name", "age"], "properties": {
            "name": {"type": "string", "minLength": 2, "description": "Your \u{1b}name"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        }}));
        let check = |text: &str, expected: Result<Value, &str>| match (form.fill(text), expected) {
            (Ok(filled), Ok(expected)) => assert_eq!(Value::Object(filled), expected, "{text}"),
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{text}: {reason}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check(
            r#"{"name": "Ada", "age": 36, "tags": ["a"]}"#,
            Ok(json!({"name": "Ada", "age": 36, "colour": "red", "tags": ["a"]})),
        );
        check("Ada", Err("not a JSON object"));
        check(r#"{"name": "Ada"}"#, Err("`age` is missing"));
        check(r#"{"name": "A", "age": 1}"#, Err("too short"));
        check(r#"{"name": "Ada", "age": 1.5}"#, Err("of type integer"));
        check(r#"{"name": "Ada", "age": 200}"#, Err("out of bounds"));
        check(r#"{"name": "Ada", "age": 1, "colour": "green"}"#, Err("not one of the choices"));
        check(r#"{"name": "Ada", "age": 1, "tags": ["c"]}"#, Err("not one of the choices"));
        check(r#"{"name": "Ada", "age": 1, "more": 1}"#, Err("unknown field `more`"));
        assert!(!form.description().contains("Answer {}"), "{}", form.description());
        assert!(form.description().contains("- name (string, required): Your name"), "{}", form.description());
    }

    #[test]
    fn single_field_form_accepts_a_bare_value() {
        let check = |schema: Value, text: &str, expected: Value| {
            let form = Form::read(&json!({"properties": {"it": schema}, "required": ["it"]}));
            assert_eq!(form.fill(text).unwrap()["it"], expected, "{text}");
        };
        check(json!({"type": "string"}), "42", json!("42"));
        check(json!({"type": "string"}), "\"quoted\"", json!("quoted"));
        check(json!({"type": "integer"}), "42", json!(42));
        check(json!({"type": "boolean"}), "Yes", json!(true));
        check(json!({"type": "boolean"}), "false", json!(false));
        check(json!({"type": "array"}), "[1]", json!([1]));
        check(json!({"type": "string"}), r#"{"it": "x"}"#, json!("x"));
    }

    #[test]
    fn form_without_fields_is_yes_or_no_and_defaults_apply() {
        let form = Form::read(&json!({"type": "object", "properties": {}}));
        assert_eq!(form.fill("yes"), Ok(Map::new()));
        let form = Form::read(&json!({"properties": {"it": {"type": "integer", "default": 3}}, "required": ["it"]}));
        assert!(form.description().ends_with("Answer {} for the defaults."), "{}", form.description());
        assert_eq!(form.fill("{}").unwrap()["it"], 3);
    }
}
