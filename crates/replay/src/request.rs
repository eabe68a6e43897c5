//! Canonical form of requests for comparison, and the difference between two requests.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agentd_core::{
    model::{Message, ModelRequest},
    origin::AnswerOrigin,
    tool::ToolSpec,
};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::recording::RecordedRequest;

/// Function that redacts secrets in text.
pub type Redaction = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Maximum number of lines in a difference.
const MAX_DIFF_LINES: usize = 80;
/// Maximum length of compared text in bytes.
const MAX_TEXT: usize = 256 << 10;
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);
/// Length of a UUID as text, in bytes.
const UUID: usize = 36;

/// First difference between two requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestDifference {
    /// Location, such as `message 3 (user)`.
    pub place: String,
    /// Unified diff from the recorded to the current request.
    pub diff: String,
}

/// Last request of a session in canonical form: IDs are numbered in order of appearance, origins of answers are left
/// out, and secrets are redacted. A request repeats most of the previous request of its session, and the repeated part
/// is not converted again.
#[derive(Default)]
pub(crate) struct CanonicalRequest {
    last_messages: Vec<Message>,
    messages: Vec<Arc<Value>>,
    ids: Ids,
    /// Number of IDs up to and including each message.
    id_counts: Vec<usize>,
    last_tools: Option<Arc<[ToolSpec]>>,
    tools: Arc<Vec<Value>>,
}

impl CanonicalRequest {
    /// Converts the next request to canonical form.
    pub(crate) fn canonicalize(&mut self, request: &ModelRequest, redact: &Redaction) -> RecordedRequest {
        self.update_messages(&request.messages, redact);
        self.update_tools(&request.tools, redact);
        let (messages, tools) = (self.messages.clone(), Arc::clone(&self.tools));
        RecordedRequest { messages, tools, may_call: request.may_call }
    }

    /// Replaces the parts with the parts of an equal request, so that the next comparison only compares pointers.
    pub(crate) fn share(&mut self, equal: &RecordedRequest) {
        self.messages.clone_from(&equal.messages);
        self.tools = Arc::clone(&equal.tools);
    }

    fn update_messages(&mut self, messages: &[Message], redact: &Redaction) {
        let shared_count = self.last_messages.iter().zip(messages).take_while(|(before, now)| before == now).count();
        self.last_messages.truncate(shared_count);
        self.messages.truncate(shared_count);
        self.id_counts.truncate(shared_count);
        self.ids.truncate(self.id_counts.last().copied().unwrap_or_default());
        for message in &messages[shared_count..] {
            self.messages.push(Arc::new(canonical_message(message, &mut self.ids, redact)));
            self.id_counts.push(self.ids.order.len());
            self.last_messages.push(message.clone());
        }
    }

    fn update_tools(&mut self, tools: &Arc<[ToolSpec]>, redact: &Redaction) {
        let is_known = |known: &Arc<[ToolSpec]>| Arc::ptr_eq(known, tools) || known == tools;
        if self.last_tools.as_ref().is_some_and(is_known) {
            return;
        }
        let tool = |tool: &ToolSpec| json!({ "name": tool.name, "description": redact(&tool.description), "parameters": tool.parameters });
        self.tools = Arc::new(tools.iter().map(tool).collect());
        self.last_tools = Some(Arc::clone(tools));
    }
}

fn canonical_message(message: &Message, ids: &mut Ids, redact: &Redaction) -> Value {
    let mut message = message.clone();
    if let Message::Assistant { origin, .. } = &mut message {
        *origin = AnswerOrigin::default();
    }
    let mut value = serde_json::to_value(&message).unwrap_or_default();
    each_text(&mut value, "", &mut |name, text| {
        *text = if name == "call_id" { ids.name(text) } else { ids.number_ids(&redact(text)) };
    });
    value
}

/// Applies `change` to every string in a value. `change` also receives the name of the string's field.
pub(crate) fn each_text(value: &mut Value, name: &str, change: &mut impl FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => change(name, text),
        Value::Array(values) => values.iter_mut().for_each(|value| each_text(value, "", change)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| each_text(value, name, change)),
        _ => {}
    }
}

/// Numbers of IDs, in order of appearance.
#[derive(Default)]
struct Ids {
    names: HashMap<String, String>,
    /// IDs in order of appearance.
    order: Vec<String>,
}

impl Ids {
    fn name(&mut self, id: &str) -> String {
        if let Some(name) = self.names.get(id) {
            return name.clone();
        }
        self.order.push(id.to_owned());
        let name = format!("id-{}", self.order.len());
        self.names.insert(id.to_owned(), name.clone());
        name
    }

    /// Removes all IDs except for the first `count`.
    fn truncate(&mut self, count: usize) {
        for id in self.order.drain(count.min(self.order.len())..) {
            self.names.remove(&id);
        }
    }

    /// Replaces every ID in the text with its number.
    fn number_ids(&mut self, text: &str) -> String {
        let mut numbered = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('-') {
            let start = at.checked_sub(8).filter(|start| rest.is_char_boundary(*start));
            let found = start.and_then(|start| Some((start, rest.get(start..start + UUID)?)));
            match found.filter(|(_, id)| is_uuid(id)) {
                Some((start, id)) => {
                    numbered.push_str(&rest[..start]);
                    numbered.push_str(&self.name(id));
                    rest = &rest[start + UUID..];
                }
                None => {
                    numbered.push_str(&rest[..=at]);
                    rest = &rest[at + 1..];
                }
            }
        }
        numbered.push_str(rest);
        numbered
    }
}

fn is_uuid(text: &str) -> bool {
    let is_valid = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == UUID && text.bytes().enumerate().all(is_valid)
}

/// Returns the number of leading messages that both requests have in common.
pub(crate) fn shared(recorded: &RecordedRequest, now: &RecordedRequest) -> usize {
    recorded.messages.iter().zip(&now.messages).take_while(|(a, b)| a == b).count()
}

/// Returns the first difference, or `None` if the requests are equal.
pub(crate) fn difference(recorded: &RecordedRequest, now: &RecordedRequest) -> Option<RequestDifference> {
    let at = shared(recorded, now);
    let (old, new) = (recorded.messages.get(at).map(Arc::as_ref), now.messages.get(at).map(Arc::as_ref));
    if old.is_some() || new.is_some() {
        let role = new.or(old).and_then(|message| message.get("role")?.as_str()).unwrap_or_default();
        return Some(RequestDifference { place: format!("message {} ({role})", at + 1), diff: diff(old, new) });
    }
    let name = |tool: &Value| tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let by_name = |tools: &[Value]| tools.iter().map(|tool| (name(tool), tool.clone())).collect::<HashMap<_, _>>();
    let (olds, news) = (by_name(&recorded.tools), by_name(&now.tools));
    let mut names: Vec<&String> = olds.keys().chain(news.keys()).collect();
    names.sort();
    for name in names {
        let (old, new) = (olds.get(name), news.get(name));
        if old != new {
            return Some(RequestDifference { place: format!("tool {name}"), diff: diff(old, new) });
        }
    }
    if recorded.tools != now.tools {
        return Some(RequestDifference { place: "order of the tools".to_owned(), diff: String::new() });
    }
    (recorded.may_call != now.may_call).then(|| RequestDifference {
        place: "permission to call tools".to_owned(),
        diff: format!("-{}\n+{}\n", recorded.may_call, now.may_call),
    })
}

/// Returns a line diff of both values as text.
fn diff(old: Option<&Value>, new: Option<&Value>) -> String {
    let (old, new) = (truncated(readable(old)), truncated(readable(new)));
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(&old, &new);
    let text = diff.unified_diff().context_radius(2).to_string();
    let mut lines: Vec<&str> = text.lines().take(MAX_DIFF_LINES + 1).collect();
    if lines.len() > MAX_DIFF_LINES {
        lines[MAX_DIFF_LINES] = "… truncated";
    }
    lines.join("\n")
}

/// Truncates the text to `MAX_TEXT` bytes.
fn truncated(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// Formats a message or a tool for reading: strings with line breaks, all other values as JSON.
fn readable(value: Option<&Value>) -> String {
    let Some(value) = value else { return String::new() };
    let mut readable = String::new();
    for (name, field) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "role") {
        let text = match field {
            Value::String(text) => text.clone(),
            field => serde_json::to_string_pretty(field).unwrap_or_default(),
        };
        readable.push_str(&format!("{name}:\n{text}\n"));
    }
    readable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_replaced_by_their_order() {
        let mut ids = Ids::default();
        let (one, two) = ("019f0000-0000-7000-8000-000000000001", "019f0000-0000-7000-8000-000000000002");
        let text = format!("a-b ä {two} und {one}, {two}-x 12345678-no");
        assert_eq!(ids.number_ids(&text), "a-b ä id-1 und id-2, id-1-x 12345678-no");
        assert_eq!(ids.name(one), "id-2");
        assert_eq!(ids.number_ids("ääää-"), "ääää-");
        ids.truncate(1);
        assert_eq!((ids.name(two), ids.name("third"), ids.name(one)), ("id-1".into(), "id-2".into(), "id-3".into()));
    }
}
