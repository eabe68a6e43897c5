//! The interface between a call and the wires. Retries, deadlines, learning, and splitting off reasoning and calls in
//! the text are implemented once in `call` for all of them.
//!
//! A wire is a folder: one file writes the request, one writes its conversation, one reads the answer. Errors are
//! parsed in `failure`, as servers of every wire mix their formats.
//!
//! A dialect keeps state across requests: the last tools as JSON, reasoning that the server has refused, and the last
//! answer of each session.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use agentd_core::{
    answer_schema::AnswerSchema,
    error::ErrorKind,
    ids::SessionId,
    model::{Finish, ModelInfo, ModelRequest},
    mutex::lock,
    origin::ServerFields,
    tool::ToolSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::{
    answer::{Answer, RawCall},
    config::ModelConfig,
    facts::server::ModelAbilities,
    http::{
        failure::{Failure, excerpt},
        refusals::{Change, RequestForm, fingerprint},
        target::Target,
    },
};

/// Dialect of a server: writes requests and creates readers of answers.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// Writes the request in the given form, and creates the reader of its answer.
    fn encode(&self, plan: &RequestPlan<'_>) -> Result<EncodedRequest, Failure>;

    /// Returns the optional fields of the body sent in this form: our own, and those that are configured.
    fn optional_fields(&self, _plan: &RequestPlan<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the answer schema, if it is sent in a separate field in this form: [`ModelRequest::answer_schema`].
    fn sent_schema<'a>(&self, _plan: &RequestPlan<'a>) -> Option<&'a AnswerSchema> {
        None
    }

    /// Notes that the server refused the reasoning in this request. It is not sent to that server again.
    fn distrust_thoughts(&self, _plan: &RequestPlan<'_>) {}
}

/// Request to be written.
#[derive(Clone, Copy)]
pub(crate) struct RequestPlan<'a> {
    pub(crate) config: &'a ModelConfig,
    /// The server to ask.
    pub(crate) target: &'a Target,
    pub(crate) info: &'a ModelInfo,
    /// Abilities of the model that its server has reported.
    pub(crate) abilities: ModelAbilities,
    /// The conversation and the tools.
    pub(crate) request: &'a ModelRequest,
    /// Form in which the server accepts requests.
    pub(crate) form: &'a RequestForm,
    /// Content of the answer so far, from its reader, if the server has paused.
    pub(crate) paused: Option<&'a str>,
}

/// Request that is ready to be sent.
pub(crate) struct EncodedRequest {
    /// Path under the base URL.
    pub(crate) path: String,
    /// Body of the request.
    pub(crate) body: String,
    /// Reader of the answer.
    pub(crate) reader: Box<dyn AnswerReader>,
}

/// Reader of one answer.
pub(crate) trait AnswerReader: Send {
    /// Processes one event, or a whole answer in one object.
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure>;

    /// Returns true if the mark after the events ends the answer.
    fn ends_with_mark(&self) -> bool {
        false
    }

    /// Returns the content of a paused answer in the wire's format. The answer continues once this content is sent
    /// back.
    fn paused(&mut self) -> Option<String> {
        None
    }

    /// Returns the calls of a complete answer.
    fn calls(&mut self) -> Vec<RawCall>;

    /// Returns the server's own fields for the whole answer, which are sent back to it, or `None` if there are none.
    fn fields(&mut self) -> Option<ServerFields> {
        None
    }
}

impl dyn AnswerReader {
    /// Processes one event, or the mark `[DONE]`, with which servers and gateways of every wire may end.
    pub(crate) fn process_event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let data = data.trim();
        if data != "[DONE]" {
            return self.event(target, data, answer);
        }
        if self.ends_with_mark() {
            answer.finish.get_or_insert(Finish::Stop);
        }
        answer.done = true;
        Ok(())
    }
}

impl<'a> RequestPlan<'a> {
    /// Creates an empty body with the configured fields.
    pub(crate) fn body(&self) -> Body {
        Body { json: String::new(), configured: self.form.configured(&self.config.body) }
    }

    /// Returns true if calls use their own field.
    pub(crate) fn is_native(&self) -> bool {
        self.form.native_tools(self.config)
    }

    /// Returns the answer schema, if its field is not configured and does not prevent calls.
    pub(crate) fn schema_in(&self, field: &str, allows_calls: bool) -> Option<&'a AnswerSchema> {
        let Self { request, config, form, .. } = *self;
        let schema = request.answer_schema.as_deref()?;
        let is_free = allows_calls || !request.may_call || request.tools.is_empty();
        let is_sent_as_field = is_free && !form.has(&Change::WithoutSchema(fingerprint(schema)));
        Some(schema).filter(|_| is_sent_as_field && !config.body.contains_key(field))
    }

    /// Returns the names of the optional fields of the request: ours, and the configured ones except for `fixed`.
    pub(crate) fn sent_fields(
        &self,
        own_fields: impl IntoIterator<Item = (&'static str, bool)>,
        fixed: &[&str],
    ) -> Vec<String> {
        let own_fields = own_fields.into_iter().filter(|(_, is_sent)| *is_sent).map(|(name, _)| name.to_owned());
        let is_optional = |name: &&String| !fixed.contains(&name.as_str()) && name.len() <= RequestForm::MAX_FIELD;
        let configured = self.config.body.keys().filter(is_optional).cloned();
        let mut fields: Vec<String> = own_fields.chain(configured).filter(|name| self.form.sends(name)).collect();
        fields.dedup();
        fields
    }
}

/// Body under construction. A configured field replaces ours of the same name; the others are appended.
pub(crate) struct Body {
    json: String,
    configured: Map<String, Value>,
}

impl Body {
    /// Writes a field of the body.
    pub(crate) fn set(&mut self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.set_raw(name, &serde_json::to_string(value).map_err(unwritable)?);
        Ok(())
    }

    /// Writes a field if it has a value.
    pub(crate) fn set_some(&mut self, name: &str, value: Option<impl Serialize>) -> Result<(), Failure> {
        value.map_or(Ok(()), |value| self.set(name, &value))
    }

    /// Writes a field whose value is JSON. Its bytes are not changed, as they may contain signed data.
    pub(crate) fn set_raw(&mut self, name: &str, json: &str) {
        let configured = self.configured.shift_remove(name).map(|value| value.to_string());
        self.json.push(if self.json.is_empty() { '{' } else { ',' });
        self.json.push_str(&Value::from(name).to_string());
        self.json.push(':');
        self.json.push_str(configured.as_deref().unwrap_or(json));
    }

    /// Closes the body, with the remaining configured fields.
    pub(crate) fn finish(mut self) -> String {
        for (name, value) in std::mem::take(&mut self.configured) {
            self.set_raw(&name, &value.to_string());
        }
        self.json.push('}');
        self.json
    }
}

/// Parses an event or a whole answer.
pub(crate) fn parse<'a, T: Deserialize<'a>>(target: &Target, data: &'a str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(|error| {
        let data = excerpt(target, data);
        Failure::protocol(format!("the model at {target} sent an event that cannot be read ({error}): {data}"))
    })
}

pub(crate) fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(ErrorKind::Internal, format!("could not write the request: {error}"))
}

/// Host that allows tool calls together with an answer schema. Other servers may constrain all output to the schema,
/// which would prevent calls.
const CALLS_WITH_SCHEMA_HOST: &str = "api.openai.com";

/// Returns the schema as JSON, and true if it only uses features that can be enforced.
pub(crate) fn check_schema(schema: &AnswerSchema) -> Result<(&str, bool), Failure> {
    let value = serde_json::from_str(schema.text()).map_err(unwritable)?;
    Ok((schema.text(), is_strict(&value)))
}

/// Returns true if calls are possible at this host although the schema is sent in its field.
pub(crate) fn allows_calls_with_schema(host: &str) -> bool {
    host.eq_ignore_ascii_case(CALLS_WITH_SCHEMA_HOST)
}

/// Keywords of schemas that can be enforced.
const STRICT_KEYWORDS: &str = "type properties required additionalProperties items enum const anyOf $defs definitions \
    $ref description title pattern format minimum maximum multipleOf minItems maxItems $schema $id";

/// Returns true if each object requires all of its properties, and only enforceable keywords are used.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(object) = schema else { return false };
    let all = |parts: &Map<String, Value>| parts.values().all(is_strict);
    let is_supported = object.iter().all(|(key, value)| match (key.as_str(), value) {
        ("properties" | "$defs" | "definitions", Value::Object(parts)) => all(parts),
        ("items", part) => is_strict(part),
        ("anyOf", Value::Array(parts)) => parts.iter().all(is_strict),
        (key, _) => STRICT_KEYWORDS.split(' ').any(|keyword| keyword == key),
    });
    if !is_supported || object.get("type") != Some(&Value::from("object")) {
        return is_supported;
    }
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|required| required == name));
    object.get("additionalProperties") == Some(&Value::Bool(false))
        && object.get("properties").and_then(Value::as_object).is_some_and(|all| all.keys().all(is_required))
}

/// Memory of a dialect whose servers sign reasoning and compare requests.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) tools: ToolsJsonCache,
    /// Answers whose reasoning the server has refused, by an identifier of the wire. Their reasoning is not sent again,
    /// all other reasoning is.
    distrusted: Mutex<HashSet<String>>,
    pub(crate) last_answers: LastAnswers,
}

/// Tools and their JSON. The `Arc` keeps their address from being reused.
type ToolsAsJson = (Arc<[ToolSpec]>, Arc<RawValue>);

/// Cache of the last tools as JSON. They are the largest part of a short request, and mostly the same in all steps and
/// turns.
#[derive(Debug, Default)]
pub(crate) struct ToolsJsonCache(Mutex<Option<ToolsAsJson>>);

impl ToolsJsonCache {
    /// Returns the tools of a request as JSON in the wire's format, or `None` if they are not sent in their own field.
    pub(crate) fn for_request(
        &self,
        plan: &RequestPlan<'_>,
        form: impl Fn(&ToolSpec) -> Value,
    ) -> Result<Option<Arc<RawValue>>, Failure> {
        let specs = &plan.request.tools;
        if specs.is_empty() || !plan.is_native() {
            return Ok(None);
        }
        self.serialise(specs, form).map(Some).map_err(unwritable)
    }

    fn serialise(
        &self,
        specs: &Arc<[ToolSpec]>,
        form: impl Fn(&ToolSpec) -> Value,
    ) -> serde_json::Result<Arc<RawValue>> {
        let mut last = lock(&self.0);
        if let Some((_, json)) = last.as_ref().filter(|(cached, _)| Arc::ptr_eq(cached, specs)) {
            return Ok(Arc::clone(json));
        }
        let json: Arc<RawValue> = to_raw_value(&specs.iter().map(form).collect::<Value>())?.into();
        *last = Some((Arc::clone(specs), Arc::clone(&json)));
        Ok(json)
    }
}

/// Maximum number of remembered refused answers.
const MAX_REFUSED: usize = 4096;

impl Memory {
    /// Returns all answers whose reasoning the server has refused.
    pub(crate) fn distrusted(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.distrusted)
    }

    /// Adds answers whose reasoning was refused.
    pub(crate) fn distrust(&self, refused: impl IntoIterator<Item = String>) {
        let mut distrusted = self.distrusted();
        if distrusted.len() > MAX_REFUSED {
            distrusted.clear();
        }
        distrusted.extend(refused);
    }
}

/// Maximum number of remembered sessions.
const MAX_SESSIONS: usize = 1024;

/// Maximum length of an answer's ID in bytes.
const MAX_ID: usize = 256;

/// The server's IDs of the last answers in sessions. Given the last ID, the server can report why its cache missed. A
/// request that does not allow calls is a summary or the last request of a turn, and a request without tools is not
/// part of a conversation: neither is remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastAnswers(Arc<Mutex<HashMap<SessionId, String>>>);

impl LastAnswers {
    /// Returns the ID of the answer before this request, if known.
    pub(crate) fn previous(&self, request: &ModelRequest) -> Option<String> {
        lock(&self.0).get(&request.session_id).cloned()
    }

    /// Creates a note for the answer to this request.
    pub(crate) fn note_of(&self, request: &ModelRequest) -> AnswerNote {
        let is_remembered = request.may_call && !request.tools.is_empty();
        let session = is_remembered.then_some(request.session_id);
        AnswerNote { answers: self.clone(), session }
    }
}

/// Note for one answer, recorded once its ID is known.
#[derive(Debug, Default)]
pub(crate) struct AnswerNote {
    answers: LastAnswers,
    session: Option<SessionId>,
}

impl AnswerNote {
    /// Stores `id` as the ID of the session's last answer.
    pub(crate) fn record(&self, id: &str) {
        let Some(session) = self.session.filter(|_| !id.is_empty() && id.len() <= MAX_ID) else { return };
        let mut answers = lock(&self.answers.0);
        if answers.len() >= MAX_SESSIONS && !answers.contains_key(&session) {
            // Removes an arbitrary session, for which one comparison is then missing.
            let other = answers.keys().next().copied();
            other.and_then(|other| answers.remove(&other));
        }
        answers.insert(session, id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_schemas_require_all_properties() {
        let check = |schema: &str, strict: bool| {
            assert_eq!(is_strict(&serde_json::from_str(schema).unwrap()), strict, "{schema}");
        };
        check(r#"{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}"#, true);
        check(r#"{"type":"object","properties":{"a":{}},"required":[],"additionalProperties":false}"#, false);
        check(r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#, false);
        check(r#"{"type":"object"}"#, false);
        check(r#"{"type":"array","items":{"type":"object"}}"#, false);
        check(r#"{"type":"array","items":{"type":"number","minimum":1}}"#, true);
        check(r#"{"oneOf":[{"type":"string"}]}"#, false);
        check(r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, true);
    }
}
