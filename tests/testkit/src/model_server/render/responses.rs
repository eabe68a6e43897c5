//! Renders a reply for OpenAI's Responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{FAST_CYCLE, deltas, deltas_of, fast_delta, fast_text, finish_reason, pieces, raw_arguments, words};
use crate::model_server::{MODEL_ID, Recorded, Reply, UsagePlace};

/// The data of events, numbered in order.
#[derive(Default)]
struct Events {
    writes: Vec<Bytes>,
    /// Events without text. They are sent in one write, so that a reply takes as long as over another wire.
    joined: Vec<u8>,
    number: u64,
}

impl Events {
    /// Adds an event of this kind, followed by these JSON fields.
    fn push(&mut self, kind: &str, fields: &str) {
        let number = self.number;
        self.number += 1;
        let data = format!(r#"{{"type":"{kind}","sequence_number":{number}{fields}}}"#);
        let event = format!("event: {kind}\ndata: {data}\n\n");
        if kind.ends_with(".delta") {
            self.flush();
            self.writes.push(event.into());
        } else {
            self.joined.extend_from_slice(event.as_bytes());
        }
    }

    fn flush(&mut self) {
        if !self.joined.is_empty() {
            self.writes.push(std::mem::take(&mut self.joined).into());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.flush();
        self.writes
    }

    fn of_item(&mut self, kind: &str, at: usize, id: &Value, fields: &str) {
        self.push(kind, &format!(r#","item_id":{id},"output_index":{at}{fields}"#));
    }
}

pub(super) fn render(reply: &Reply, request: &Recorded) -> (Vec<Bytes>, &'static str) {
    if reply.whole || request.body["stream"] != Value::Bool(true) {
        return (vec![Bytes::from(whole(reply))], "application/json");
    }
    let mut events = Events::default();
    let head = response(reply, "in_progress", "[]");
    events.push("response.created", &format!(r#","response":{head}"#));
    events.push("response.in_progress", &format!(r#","response":{head}"#));
    let items = items(reply);
    match reply.fast {
        Some(count) => fast(&mut events, count),
        None => items.iter().enumerate().for_each(|(at, item)| item_events(&mut events, reply, at, item)),
    }
    let Some(status) = status(reply) else { return (events.finish(), "text/event-stream") };
    let output: Vec<String> = items.iter().map(raw_item).collect();
    let last = response(reply, status, &format!("[{}]", output.join(",")));
    events.push(&format!("response.{status}"), &format!(r#","response":{last}"#));
    (events.finish(), "text/event-stream")
}

/// An item as sent. Reasoning is written in a form that no library would reproduce, since it must be sent back byte for
/// byte.
pub(in crate::model_server) fn raw_item(item: &Value) -> String {
    let json = item.to_string();
    if item["type"] == "reasoning" { json.replace('/', "\\/").replacen('{', "{ ", 1) } else { json }
}

/// The items of a reply: the explicit items, or reasoning, text and calls.
pub(in crate::model_server) fn items(reply: &Reply) -> Vec<Value> {
    if !reply.items.is_empty() {
        return reply.items.clone();
    }
    let mut items = Vec::new();
    if !reply.reasoning.is_empty() {
        items.push(reasoning("rs_scripted", &[&reply.reasoning], "c2lnbmVk"));
    }
    let text = reply.fast.map_or_else(|| deltas(reply).concat(), fast_text);
    if !text.is_empty() {
        let part = if finish_reason(reply) == "refusal" {
            json!({"type": "refusal", "refusal": text})
        } else {
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        };
        items.push(message("msg_scripted", &[part]));
    }
    items.extend(reply.tool_calls.iter().enumerate().map(|(number, call)| {
        let id = call.id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{number:02}"));
        json!({
            "id": format!("fc_{number:02}"), "type": "function_call", "status": "completed", "call_id": id,
            "name": call.name, "arguments": raw_arguments(call),
        })
    }));
    items
}

/// A reasoning item with these parts.
pub(in crate::model_server) fn reasoning(id: &str, summary: &[&str], encrypted: &str) -> Value {
    let part = |text: &&str| json!({"type": "summary_text", "text": text});
    json!({
        "id": id, "type": "reasoning", "summary": summary.iter().map(part).collect::<Vec<_>>(),
        "encrypted_content": encrypted,
    })
}

/// A message with these parts.
pub(in crate::model_server) fn message(id: &str, content: &[Value]) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content})
}

fn item_events(events: &mut Events, reply: &Reply, at: usize, item: &Value) {
    let id = &item["id"];
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    for (field, empty) in [("content", json!([])), ("summary", json!([])), ("arguments", json!(""))] {
        if !item[field].is_null() {
            begun[field] = empty;
        }
    }
    if !item["encrypted_content"].is_null() {
        // The first event contains only part of the encrypted reasoning.
        begun["encrypted_content"] = "gAAAA".into();
    }
    events.push("response.output_item.added", &format!(r#","output_index":{at},"item":{begun}"#));
    match item["type"].as_str().unwrap_or_default() {
        "message" => {
            for (number, part) in item["content"].as_array().into_iter().flatten().enumerate() {
                part_events(events, reply, (at, number), id, part);
            }
        }
        "reasoning" => {
            for (number, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
                let index_field = format!(r#","summary_index":{number}"#);
                let empty = json!({"type": "summary_text", "text": ""});
                events.of_item(
                    "response.reasoning_summary_part.added",
                    at,
                    id,
                    &format!(r#"{index_field},"part":{empty}"#),
                );
                let text = part["text"].as_str().unwrap_or_default();
                for word in words(text) {
                    let delta = format!(r#"{index_field},"delta":{}"#, json!(word));
                    events.of_item("response.reasoning_summary_text.delta", at, id, &delta);
                }
                let done = format!(r#"{index_field},"text":{}"#, part["text"]);
                events.of_item("response.reasoning_summary_text.done", at, id, &done);
                events.of_item(
                    "response.reasoning_summary_part.done",
                    at,
                    id,
                    &format!(r#"{index_field},"part":{part}"#),
                );
            }
        }
        "function_call" => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            for piece in pieces(arguments, reply.argument_bytes.unwrap_or(usize::MAX)) {
                let delta = format!(r#","delta":{}"#, json!(piece));
                events.of_item("response.function_call_arguments.delta", at, id, &delta);
            }
            if !is_cut(reply, item) {
                let done = format!(r#","arguments":{}"#, item["arguments"]);
                events.of_item("response.function_call_arguments.done", at, id, &done);
            }
        }
        _ => {}
    }
    let mut done = item.clone();
    if is_cut(reply, item) {
        done["status"] = "incomplete".into();
    }
    events.push("response.output_item.done", &format!(r#","output_index":{at},"item":{}"#, raw_item(&done)));
}

/// Returns true if the output limit truncated a call.
fn is_cut(reply: &Reply, item: &Value) -> bool {
    let is_whole = item["arguments"].as_str().is_none_or(|raw| serde_json::from_str::<Value>(raw).is_ok());
    finish_reason(reply) == "length" && !is_whole
}

fn part_events(events: &mut Events, reply: &Reply, (at, number): (usize, usize), id: &Value, part: &Value) {
    let index_field = format!(r#","content_index":{number}"#);
    let (kind, field) = if part["type"] == "refusal" { ("refusal", "refusal") } else { ("output_text", "text") };
    let mut empty = part.clone();
    empty[field] = "".into();
    events.of_item("response.content_part.added", at, id, &format!(r#"{index_field},"part":{empty}"#));
    let whole = part[field].as_str().unwrap_or_default();
    for delta in deltas_of(reply, whole) {
        let fields = format!(r#"{index_field},"delta":{},"logprobs":[]"#, json!(delta));
        events.of_item(&format!("response.{kind}.delta"), at, id, &fields);
    }
    let done = format!(r#"{index_field},"{field}":{}"#, part[field]);
    events.of_item(&format!("response.{kind}.done"), at, id, &done);
    events.of_item("response.content_part.done", at, id, &format!(r#"{index_field},"part":{part}"#));
}

/// Status of the response; `None` if the response does not end.
fn status(reply: &Reply) -> Option<&'static str> {
    match finish_reason(reply) {
        "" => None,
        "length" | "content_filter" => Some("incomplete"),
        "failed" => Some("failed"),
        _ => Some("completed"),
    }
}

/// A response with this output.
fn response(reply: &Reply, status: &str, output: &str) -> String {
    let details = match finish_reason(reply) {
        "length" => json!({"reason": "max_output_tokens"}),
        "content_filter" => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    let error = (status == "failed").then(|| json!({"code": "server_error", "message": "The model failed."}));
    let details = if status == "incomplete" { details } else { Value::Null };
    let mut fields = json!({
        "id": "resp_scripted", "object": "response", "created_at": 1_700_000_000, "model": MODEL_ID, "status": status,
        "error": error, "incomplete_details": details, "parallel_tool_calls": true, "store": false,
    });
    if status != "in_progress" && reply.usage_place != UsagePlace::Nowhere {
        fields["usage"] = usage(reply);
    }
    fields.as_object_mut().into_iter().for_each(|fields| fields.extend(reply.head.clone()));
    let fields = fields.to_string();
    format!(r#"{},"output":{output}}}"#, fields.strip_suffix('}').unwrap_or_default())
}

fn whole(reply: &Reply) -> String {
    let output: Vec<String> = items(reply).iter().map(raw_item).collect();
    response(reply, status(reply).unwrap_or("completed"), &format!("[{}]", output.join(",")))
}

/// Usage with the names of this wire.
fn usage(reply: &Reply) -> Value {
    let counted = super::usage(reply);
    let of = |names: &[&str]| {
        names.iter().map(|name| &counted[*name]).find(|count| !count.is_null()).cloned().unwrap_or_default()
    };
    let input = of(&["input_tokens_details", "prompt_tokens_details"]);
    let cached = if input.is_null() { of(&["cache_read_input_tokens"]) } else { input["cached_tokens"].clone() };
    json!({
        "input_tokens": of(&["input_tokens", "prompt_tokens"]),
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": input["cache_write_tokens"]},
        "output_tokens": of(&["output_tokens", "completion_tokens"]),
        "output_tokens_details": of(&["output_tokens_details", "completion_tokens_details"]),
        "total_tokens": of(&["total_tokens"]),
    })
}

/// Events with many deltas, rendered once and sent repeatedly. They have no sequence numbers, as these would differ.
fn fast(events: &mut Events, count: u64) {
    let delta = |number: u64| {
        let data = json!({
            "type": "response.output_text.delta", "item_id": "msg_scripted", "output_index": 0, "content_index": 0,
            "delta": fast_delta(number), "logprobs": [],
        });
        Bytes::from(format!("event: response.output_text.delta\ndata: {data}\n\n"))
    };
    let cycle: Vec<Bytes> = (0..FAST_CYCLE.min(count)).map(delta).collect();
    let whole = Bytes::from(cycle.concat());
    let begun = message("msg_scripted", &[]);
    events.push("response.output_item.added", &format!(r#","output_index":0,"item":{begun}"#));
    events.flush();
    let mut left = count;
    while left >= FAST_CYCLE {
        events.writes.push(whole.clone());
        left -= FAST_CYCLE;
    }
    events.writes.extend(cycle.into_iter().take(usize::try_from(left).unwrap_or_default()));
}
