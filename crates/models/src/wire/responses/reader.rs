//! Reads events into the answer. Events are parsed into borrowed types, and unknown kinds and fields are ignored.
//! Events are numbered: a missing one means that the stream was cut.

use std::cmp::Ordering;

use agentd_core::{model::Finish, origin::ServerFields, usage::Usage};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::partial::PartialItems;
use crate::{
    answer::{Answer, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::{AnswerNote, AnswerReader, parse},
        lenient::{Count, Text, counted, with_cache},
    },
};

pub(super) struct Reader {
    note: AnswerNote,
    items: PartialItems,
    numbering: Numbering,
    is_cut: bool,
}

/// Events that end an answer.
const END_EVENTS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let event: Event<'_> = parse(target, data)?;
        if &*event.object == "response" {
            return self.end(target, data, "", answer);
        }
        let kind = &*event.r#type;
        if kind == "error" || event.error.is_some() {
            return Err(Failure::reported(target, data));
        }
        match self.numbering.next(event.sequence_number.map(|number| number.0)) {
            // An end is always processed, regardless of its number.
            EventOrder::Repeated if !END_EVENTS.contains(&kind) => return Ok(()),
            EventOrder::Next | EventOrder::Repeated => {}
            EventOrder::AfterGap(missing) => {
                let message = format!("event {missing} of the answer of the model at {target} is missing");
                return Err(Failure::cut(message).hint("a proxy may be dropping events; try again"));
            }
        }
        let (key, piece) = (event.key(), &*event.delta);
        match kind {
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    self.items.begin(target, key, item)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.items.finish(target, key, item, answer)?;
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                let at = self.items.find_or_create(target, key, "message")?;
                self.items.add_text(at, piece, kind == "response.refusal.delta", answer);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let at = self.items.find_or_create(target, key, "reasoning")?;
                let is_summary = kind == "response.reasoning_summary_text.delta";
                let number = if is_summary { event.summary_index } else { event.content_index };
                self.items.add_thought(at, (is_summary, number.0), piece, answer);
            }
            "response.function_call_arguments.delta" => {
                let at = self.items.find_or_create(target, key, "function_call")?;
                self.items.add_arguments(target, at, piece, answer)?;
            }
            "response.function_call_arguments.done" => {
                if let Some(arguments) = event.arguments {
                    let at = self.items.find_or_create(target, key, "function_call")?;
                    self.items.complete_arguments(target, at, arguments, answer)?;
                }
            }
            end if END_EVENTS.contains(&end) => {
                let response = event.response.map_or("{}", RawValue::get);
                self.end(target, response, end.trim_start_matches("response."), answer)?;
                answer.done = true;
            }
            "" => {
                return Err(Failure::other_wire(target, data)
                    .hint("check `wire`: Chat Completions servers need `wire: openai`"));
            }
            _ => {}
        }
        Ok(())
    }

    fn calls(&mut self) -> Vec<RawCall> {
        self.items.calls(self.is_cut)
    }

    fn fields(&mut self) -> Option<ServerFields> {
        Some(ServerFields { blocks: Some(self.items.stored()?), ..ServerFields::default() })
    }
}

impl Reader {
    pub(super) fn new(note: AnswerNote) -> Self {
        Self { note, items: PartialItems::default(), numbering: Numbering::default(), is_cut: false }
    }

    /// Processes a whole answer, at the end of a stream or without streaming.
    fn end(&mut self, target: &Target, data: &str, status: &str, answer: &mut Answer) -> Result<(), Failure> {
        let whole: WholeResponse<'_> = parse(target, data)?;
        let status = if status.is_empty() { &*whole.status } else { status };
        // A failed answer is charged too.
        answer.usage = whole.usage.as_ref().map(usage).or(answer.usage);
        if status == "failed" || status == "cancelled" || whole.error.is_some() {
            return Err(failed(target, &whole, status));
        }
        for (item, index) in whole.output.iter().flatten().zip(0..) {
            self.items.finish(target, ItemKey { index: Some(index), id: "" }, item, answer)?;
        }
        self.note.record(&whole.id);
        // Diagnostics are informational, so invalid ones are ignored.
        let value = whole.prompt_cache_diagnostics.and_then(|value| serde_json::from_str::<Value>(value.get()).ok());
        if let Some(value) = value.filter(|value| value["type"] == "cache_miss") {
            answer.remark(value["reason"].as_str().unwrap_or_default(), counted(&value, ["/cache_missed_tokens"]));
        }
        let reason = whole.incomplete_details.as_ref().and_then(|details| details["reason"].as_str());
        let finish = match (status, reason) {
            ("incomplete", Some("content_filter")) => Finish::Filtered,
            ("incomplete", _) => Finish::Length,
            _ if self.items.is_refusal() => Finish::Filtered,
            _ => Finish::Stop,
        };
        self.is_cut = finish == Finish::Length;
        answer.finish = Some(finish);
        Ok(())
    }
}

/// Returns the failure for an answer that its server has aborted.
fn failed(target: &Target, response: &WholeResponse<'_>, status: &str) -> Failure {
    let error = response.error.map(RawValue::get);
    let error = error.and_then(|error| serde_json::from_str(error).ok());
    let error: Value = error.unwrap_or_else(|| json!({"message": format!("the answer {status}")}));
    Failure::reported(target, &json!({"error": error, "request_id": &*response.id}).to_string())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    r#type: Text<'a>,
    sequence_number: Option<Count>,
    /// Number of the item concerned. `item_id` is its ID.
    output_index: Option<Count>,
    item_id: Text<'a>,
    /// Number of the part within the item.
    summary_index: Count,
    content_index: Count,
    delta: Text<'a>,
    arguments: Option<&'a RawValue>,
    /// Item that starts or is complete.
    item: Option<&'a RawValue>,
    /// The answer so far, or the whole one.
    response: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// `response` for a whole answer.
    object: Text<'a>,
}

/// Identification of the item that an event is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemKey<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: &'a str,
}

/// Answer at its end, or whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct WholeResponse<'a> {
    id: Text<'a>,
    status: Text<'a>,
    output: Option<Vec<&'a RawValue>>,
    usage: Option<Value>,
    /// The server's diagnostics for its cache.
    prompt_cache_diagnostics: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    incomplete_details: Option<Value>,
}

/// Start of an item, or a whole one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ItemHead<'a> {
    pub(super) r#type: Text<'a>,
    pub(super) id: Text<'a>,
    pub(super) status: Text<'a>,
    pub(super) phase: Text<'a>,
    pub(super) call_id: Text<'a>,
    pub(super) name: Text<'a>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) content: Option<Vec<ContentPart<'a>>>,
    pub(super) summary: Option<Vec<ContentPart<'a>>>,
    pub(super) encrypted_content: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ContentPart<'a> {
    pub(super) text: Text<'a>,
    pub(super) refusal: Text<'a>,
}

impl Event<'_> {
    fn key(&self) -> ItemKey<'_> {
        ItemKey { index: self.output_index.map(|index| index.0), id: &self.item_id }
    }
}

impl ItemHead<'_> {
    /// Returns true if the answer limit has cut the item.
    pub(super) fn is_cut(&self) -> bool {
        &*self.status == "incomplete"
    }

    /// Returns true if reasoning has the content that its server needs back. Otherwise the server would look for the
    /// reasoning in its storage.
    pub(super) fn can_be_sent_back(&self) -> bool {
        let has_content = self.content.as_ref().is_some_and(|content| !content.is_empty());
        !self.is_cut() && (has_content || !self.encrypted_content.is_empty())
    }
}

fn usage(value: &Value) -> Usage {
    let cached_tokens = counted(value, ["/input_tokens_details/cached_tokens"]);
    let cache_write_tokens = counted(value, ["/input_tokens_details/cache_write_tokens"]);
    Usage {
        prompt_tokens: with_cache(counted(value, ["/input_tokens"]), cached_tokens, cache_write_tokens),
        cached_tokens,
        cache_write_tokens,
        completion_tokens: counted(value, ["/output_tokens"]),
        reasoning_tokens: counted(value, ["/output_tokens_details/reasoning_tokens"]),
        ..Usage::default()
    }
}

/// Sequence numbers of the events of one answer. Not checked if a server sends none, or only identical ones.
#[derive(Debug, Default)]
enum Numbering {
    /// No event has arrived yet.
    #[default]
    Unknown,
    /// The last number. `counted` is true once two numbers were consecutive.
    Last { number: u64, counted: bool },
    /// This server does not number its events.
    Absent,
}

/// Position of an event in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventOrder {
    /// The event with the expected number.
    Next,
    /// An event that has already arrived.
    Repeated,
    /// An event after a gap. The number is that of the missing event.
    AfterGap(u64),
}

impl Numbering {
    /// Checks the number of the next event.
    fn next(&mut self, number: Option<u64>) -> EventOrder {
        let next = match (&*self, number) {
            // Gateways insert events without numbers.
            (Self::Absent, _) | (Self::Last { .. }, None) => return EventOrder::Next,
            (Self::Unknown, None) => Self::Absent,
            (Self::Unknown, Some(number)) => Self::Last { number, counted: false },
            (&Self::Last { number: last, counted }, Some(number)) => {
                let expected = last.saturating_add(1);
                match number.cmp(&expected) {
                    Ordering::Greater => return EventOrder::AfterGap(expected),
                    Ordering::Equal => Self::Last { number, counted: true },
                    Ordering::Less if counted => return EventOrder::Repeated,
                    Ordering::Less => Self::Absent,
                }
            }
        };
        *self = next;
        EventOrder::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_included_in_usage() {
        let value = json!({
            "input_tokens": 7, "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
            "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 12}, "total_tokens": 157,
        });
        let expected = Usage {
            prompt_tokens: 127,
            cached_tokens: 100,
            cache_write_tokens: 20,
            completion_tokens: 30,
            reasoning_tokens: 12,
            ..Usage::default()
        };
        assert_eq!(usage(&value), expected);
    }
}
