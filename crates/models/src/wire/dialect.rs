//! The seam between a call and the wires: what a wire has to do. Everything else, retries, deadlines, learning, thoughts and
//! calls in the words, is done once in `call` for all of them.
//!
//! A wire is a folder: one file writes the request, one writes the conversation in it, one reads the answer. Errors are read in
//! `failure`, for servers of every wire mix their shapes.
//!
//! A dialect remembers from one request to the next: the tools as they were written last, thoughts that the server has
//! refused, and which answer was the last one of a session.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    answer_schema::AnswerSchema,
    error::ErrorKind,
    ids::SessionId,
    model::{Finish, ModelInfo, ModelRequest},
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
        learning::{Change, RequestForm, fingerprint},
        target::Target,
    },
};

/// A dialect: writes requests and makes readers of answers.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The request for the model of that id, in that form, and the reader of its answer.
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure>;

    /// The fields of the body that are sent in that form and that a request can do without: those of every request of ours,
    /// and those that somebody configured.
    fn optional_fields(&self, _order: &Order<'_>) -> Vec<String> {
        Vec::new()
    }

    /// The schema of the answer, where it is sent in a field of its own in that form: [`ModelRequest::answer_schema`].
    fn sent_schema<'a>(&self, _order: &Order<'a>) -> Option<&'a AnswerSchema> {
        None
    }

    /// Takes note that the server refused earlier thoughts of this request, which are not sent to it again.
    fn distrust_thoughts(&self, _order: &Order<'_>) {}
}

/// A request to be written.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// Configuration of the model.
    pub(crate) config: &'a ModelConfig,
    /// The server.
    pub(crate) target: &'a Target,
    /// Facts about the model.
    pub(crate) info: &'a ModelInfo,
    /// Its abilities, as far as its server told.
    pub(crate) abilities: ModelAbilities,
    /// The conversation and the tools.
    pub(crate) request: &'a ModelRequest,
    /// The form that the server takes.
    pub(crate) form: &'a RequestForm,
    /// Beginning of the answer, as its reader told it, where the server has paused.
    pub(crate) paused: Option<&'a str>,
}

/// A request, ready to be posted.
pub(crate) struct Outgoing {
    /// Path below the base address.
    pub(crate) path: String,
    /// The body.
    pub(crate) body: String,
    /// Reader of its answer.
    pub(crate) reader: Box<dyn AnswerReader>,
}

/// Reads one answer.
pub(crate) trait AnswerReader: Send {
    /// One event, or a whole answer in one object.
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure>;

    /// Returns whether the mark behind the events says that the answer is whole.
    fn ends_with_mark(&self) -> bool {
        false
    }

    /// The beginning of an answer that the server has paused, in the form of the wire: it goes on where that is sent back.
    fn paused(&mut self) -> Option<String> {
        None
    }

    /// The calls of an answer that has ended.
    fn calls(&mut self) -> Vec<RawCall>;

    /// The server's own fields of the answer as a whole, which go back to it; none where there are none.
    fn fields(&mut self) -> Option<ServerFields> {
        None
    }
}

impl dyn AnswerReader {
    /// One event, or the mark `[DONE]`, with which servers and gateways of every wire may end.
    pub(crate) fn hear(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
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

impl<'a> Order<'a> {
    /// An empty body, with what is configured of it.
    pub(crate) fn body(&self) -> Body {
        Body { json: String::new(), configured: self.form.configured(&self.config.body) }
    }

    /// Returns whether calls are written and read in their own field.
    pub(crate) fn is_native(&self) -> bool {
        self.form.native_tools(self.config)
    }

    /// The schema of the answer, where its field is ours to set and keeps no call from being made.
    pub(crate) fn schema_in(&self, field: &str, takes_calls: bool) -> Option<&'a AnswerSchema> {
        let Self { request, config, form, .. } = *self;
        let schema = request.answer_schema.as_deref()?;
        let is_free = takes_calls || !request.may_call || request.tools.is_empty();
        let is_taken = is_free && !form.has(&Change::WithoutSchema(fingerprint(schema)));
        Some(schema).filter(|_| is_taken && !config.body.contains_key(field))
    }

    /// Names of fields that the request can do without: ours, and the configured ones but for the fixed ones.
    pub(crate) fn sent_fields(
        &self,
        own: impl IntoIterator<Item = (&'static str, bool)>,
        fixed: &[&str],
    ) -> Vec<String> {
        let own = own.into_iter().filter(|(_, is_sent)| *is_sent).map(|(name, _)| name.to_owned());
        let of_body = |name: &&String| !fixed.contains(&name.as_str()) && name.len() <= RequestForm::MAX_FIELD;
        let configured = self.config.body.keys().filter(of_body).cloned();
        let mut fields: Vec<String> = own.chain(configured).filter(|name| self.form.sends(name)).collect();
        fields.dedup();
        fields
    }
}

/// A body while it is written. What a person configured takes the place of a field, or comes behind all of them.
pub(crate) struct Body {
    json: String,
    configured: Map<String, Value>,
}

impl Body {
    /// Writes a field.
    pub(crate) fn set(&mut self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.set_raw(name, &serde_json::to_string(value).map_err(unwritable)?);
        Ok(())
    }

    /// Writes a field, if it has a value.
    pub(crate) fn set_some(&mut self, name: &str, value: Option<impl Serialize>) -> Result<(), Failure> {
        value.map_or(Ok(()), |value| self.set(name, &value))
    }

    /// Writes a field whose value is JSON already. Its bytes are kept: some hold what a server signed.
    pub(crate) fn set_raw(&mut self, name: &str, json: &str) {
        let configured = self.configured.shift_remove(name).map(|value| value.to_string());
        self.json.push(if self.json.is_empty() { '{' } else { ',' });
        self.json.push_str(&Value::from(name).to_string());
        self.json.push(':');
        self.json.push_str(configured.as_deref().unwrap_or(json));
    }

    /// The whole body.
    pub(crate) fn finish(mut self) -> String {
        for (name, value) in std::mem::take(&mut self.configured) {
            self.set_raw(&name, &value.to_string());
        }
        self.json.push('}');
        self.json
    }
}

/// An event, or a whole answer.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(target: &Target, data: &'a str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(|error| {
        let data = excerpt(target, data);
        Failure::protocol(format!("the model at {target} sent an event that cannot be read ({error}): {data}"))
    })
}

/// Failure of a request that cannot be written.
pub(crate) fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(ErrorKind::Internal, format!("could not write the request: {error}"))
}

/// Host whose answers may call tools though a schema is set. Elsewhere a server may hold all that the model writes to the
/// schema, so that it could not call one.
const CALLS_IN_FORM: &str = "api.openai.com";

/// The schema as JSON, and whether it is in the part of the language that a model can be held to.
pub(crate) fn judged(schema: &AnswerSchema) -> Result<(&str, bool), Failure> {
    let value = serde_json::from_str(schema.text()).map_err(unwritable)?;
    Ok((schema.text(), is_strict(&value)))
}

/// Returns whether a call can be made at this host though the schema is sent in its field.
pub(crate) fn takes_calls_in_form(host: &str) -> bool {
    host.eq_ignore_ascii_case(CALLS_IN_FORM)
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
    if !known || object.get("type") != Some(&Value::from("object")) {
        return known;
    }
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|required| required == name));
    object.get("additionalProperties") == Some(&Value::Bool(false))
        && object.get("properties").and_then(Value::as_object).is_some_and(|all| all.keys().all(is_required))
}

/// The memory of a dialect whose servers sign thoughts, and compare requests.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) tools: WrittenTools,
    /// The answers whose thoughts the server has refused, each by what a wire knows it by: they are not sent to it again, while
    /// all others are.
    distrusted: Mutex<HashSet<String>>,
    pub(crate) last_answers: LastAnswers,
}

/// Tools, held so that no others can stand at their place in memory, and their JSON.
type ToolsAsJson = (Arc<[ToolSpec]>, Arc<RawValue>);

/// The tools that were written last. They are most of what a short request holds, and the same from step to step, and from turn to
/// turn where nothing is mentioned.
#[derive(Debug, Default)]
pub(crate) struct WrittenTools(Mutex<Option<ToolsAsJson>>);

impl WrittenTools {
    /// The tools of a request that has them in their own field, as JSON, each in the form of the wire.
    pub(crate) fn of(
        &self,
        order: &Order<'_>,
        form: impl Fn(&ToolSpec) -> Value,
    ) -> Result<Option<Arc<RawValue>>, Failure> {
        let specs = &order.request.tools;
        if specs.is_empty() || !order.is_native() {
            return Ok(None);
        }
        self.written(specs, form).map(Some).map_err(unwritable)
    }

    fn written(&self, specs: &Arc<[ToolSpec]>, form: impl Fn(&ToolSpec) -> Value) -> serde_json::Result<Arc<RawValue>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, json)) = last.as_ref().filter(|(written, _)| Arc::ptr_eq(written, specs)) {
            return Ok(Arc::clone(json));
        }
        let json: Arc<RawValue> = to_raw_value(&specs.iter().map(form).collect::<Value>())?.into();
        *last = Some((Arc::clone(specs), Arc::clone(&json)));
        Ok(json)
    }
}

/// Refused answers that are known at the same time.
const MAX_REFUSED: usize = 4096;

impl Memory {
    /// All answers whose thoughts the server has refused.
    pub(crate) fn distrusted(&self) -> MutexGuard<'_, HashSet<String>> {
        self.distrusted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of more of them.
    pub(crate) fn distrust(&self, refused: impl IntoIterator<Item = String>) {
        let mut known = self.distrusted();
        if known.len() > MAX_REFUSED {
            known.clear();
        }
        known.extend(refused);
    }
}

/// Sessions that are known at the same time.
const MAX_SESSIONS: usize = 1024;

/// The longest id of an answer, in bytes.
const MAX_ID: usize = 256;

/// The server's ids of the last answers of sessions: told which one it was, it can say why it did not find that request in its
/// cache. A request whose tools may not be called is the end of a turn or a summary, and one without
/// tools is no part of a conversation: both pass by.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastAnswers(Arc<Mutex<HashMap<SessionId, String>>>);

impl LastAnswers {
    /// The id of the answer before this request, where one is known.
    pub(crate) fn before(&self, request: &ModelRequest) -> Option<String> {
        self.known().get(&request.session_id).cloned()
    }

    /// A note of the answer to this request.
    pub(crate) fn note_of(&self, request: &ModelRequest) -> AnswerNote {
        let goes_on = request.may_call && !request.tools.is_empty();
        let session = goes_on.then_some(request.session_id);
        AnswerNote { answers: self.clone(), session }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A note of one answer, to be made once its id is known.
#[derive(Debug, Default)]
pub(crate) struct AnswerNote {
    answers: LastAnswers,
    session: Option<SessionId>,
}

impl AnswerNote {
    /// Stores the id as that of the session's last answer.
    pub(crate) fn record(&self, id: &str) {
        let Some(session) = self.session.filter(|_| !id.is_empty() && id.len() <= MAX_ID) else { return };
        let mut known = self.answers.known();
        if known.len() >= MAX_SESSIONS && !known.contains_key(&session) {
            // Any of them: a session that it is takes no comparison once.
            let other = known.keys().next().copied();
            other.and_then(|other| known.remove(&other));
        }
        known.insert(session, id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;

    #[test]
    fn schemas_that_name_all_are_strict() {
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

    fn tools(name: &str) -> Arc<[ToolSpec]> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "looks".to_owned(),
            parameters: serde_json::json!({"type": "object"}),
            effect: Effect::Read,
        };
        Arc::from([spec])
    }

    #[test]
    fn tools_are_written_once_and_never_as_others() {
        let written = WrittenTools::default();
        let (first, second) = (tools("read_file"), tools("grep"));
        let of = |specs| written.written(specs, |spec| spec.name.as_str().into()).unwrap();
        let once = of(&first);
        assert!(Arc::ptr_eq(&once, &of(&first)));
        assert_eq!(of(&second).get(), r#"["grep"]"#);
        assert_eq!(of(&first).get(), once.get());
    }
}
