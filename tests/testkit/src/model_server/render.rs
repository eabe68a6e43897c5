//! Renders a reply as bytes, in the requested dialect.

mod messages;
mod responses;

use bytes::Bytes;
use serde_json::{Value, json};

pub(super) use self::responses::{
    items as responses_items, message as responses_message, raw_item, reasoning as responses_reasoning,
};
use super::{MODEL_ID, Recorded, Reply, ReplyCall, UsagePlace};

/// Number of deltas after which a fast reply repeats its text.
const FAST_CYCLE: u64 = 1_000;

/// Returns the text of a fast reply with `count` deltas.
pub fn fast_text(count: u64) -> String {
    (0..count).map(fast_delta).collect()
}

fn fast_delta(number: u64) -> String {
    format!("w{:03} ", number % FAST_CYCLE)
}

/// Renders the body as a list of writes, and returns it with its content type.
pub(super) fn render(reply: &Reply, request: &Recorded) -> (Vec<Bytes>, &'static str) {
    let wire = Wire::of(&request.path);
    let completion = wire == Wire::Completion;
    if let Some(body) = &reply.body {
        return (vec![Bytes::from(body.clone())], "text/plain");
    }
    if let Some(events) = &reply.events {
        return (events.iter().map(|data| event(data)).collect(), "text/event-stream");
    }
    match wire {
        Wire::Messages => return messages::render(reply, request),
        Wire::Responses => return responses::render(reply, request),
        Wire::Chat | Wire::Completion => {}
    }
    if reply.whole || request.body["stream"] == Value::Bool(false) {
        let whole = if completion { completion_end(reply, &all_words(reply)) } else { whole_chat(reply) };
        return (vec![Bytes::from(whole.to_string())], "application/json");
    }
    let writes = match (reply.fast, completion) {
        (Some(count), _) => fast(reply, request, count, completion),
        (None, true) => completion_events(reply),
        (None, false) => chat_events(reply, request),
    };
    (writes, "text/event-stream")
}

/// Returns the blocks of a reply over Messages.
pub(super) fn messages_blocks(reply: &Reply) -> Vec<Value> {
    messages::blocks(reply)
}

/// Wire used by a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Chat,
    Completion,
    Messages,
    Responses,
}

impl Wire {
    /// Returns the wire for a path.
    pub(super) fn of(path: &str) -> Self {
        if path.ends_with("/chat/completions") {
            Self::Chat
        } else if path.ends_with("/messages") {
            Self::Messages
        } else if path.ends_with("/responses") {
            Self::Responses
        } else {
            Self::Completion
        }
    }
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

fn chat_chunk(choice: Value) -> Value {
    json!({
        "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL_ID,
        "choices": [choice],
    })
}

fn chat_delta(delta: Value) -> Value {
    chat_chunk(json!({"index": 0, "delta": delta, "finish_reason": null}))
}

fn chat_events(reply: &Reply, request: &Recorded) -> Vec<Bytes> {
    let mut events = vec![chat_delta(json!({"role": "assistant", "content": ""}))];
    let reasoning = words(&reply.reasoning).map(|word| chat_delta(json!({&reply.reasoning_field: word})));
    events.extend(reasoning);
    events.extend(reply.reasoning_details.iter().map(|detail| chat_delta(json!({"reasoning_details": [detail]}))));
    events.extend(deltas(reply).into_iter().map(|word| chat_delta(json!({"content": word}))));
    for (number, call) in reply.tool_calls.iter().enumerate() {
        events.extend(call_events(reply, number, call));
    }
    events.extend(chat_end(reply, request));
    let mut writes: Vec<Bytes> = events.iter().map(|data| event(&data.to_string())).collect();
    if reply.done {
        writes.push(event("[DONE]"));
    }
    writes
}

fn call_events(reply: &Reply, number: usize, call: &ReplyCall) -> Vec<Value> {
    let arguments = raw_arguments(call);
    let size = reply.argument_bytes.unwrap_or(usize::MAX);
    let mut pieces = pieces(&arguments, size).into_iter();
    let mut first = json!({
        "type": "function", "function": {"name": call.name, "arguments": pieces.next().unwrap_or_default()},
    });
    match call.id.as_deref() {
        None => first["id"] = json!(format!("call_{number}")),
        Some("") => {}
        Some(id) => first["id"] = json!(id),
    }
    if let Some(extra) = &call.extra_content {
        first["extra_content"] = extra.clone();
    }
    let rest = pieces.map(|piece| json!({"function": {"arguments": piece}}));
    let all = std::iter::once(first).chain(rest);
    all.map(|mut piece| {
        if reply.number_calls {
            piece["index"] = json!(if reply.number_zero { 0 } else { number });
        }
        chat_delta(json!({"tool_calls": [piece]}))
    })
    .collect()
}

fn chat_end(reply: &Reply, request: &Recorded) -> Vec<Value> {
    let mut end = Vec::new();
    let mut choice = json!({"index": 0, "delta": {}, "finish_reason": finish_reason(reply)});
    if reply.usage_place == UsagePlace::InChoice {
        choice["usage"] = usage(reply);
    }
    let mut last = chat_chunk(choice);
    if reply.usage_place == UsagePlace::LastChunk {
        last["usage"] = usage(reply);
    }
    if let Some(timings) = &reply.timings {
        last["timings"] = timings.clone();
    }
    if reply.finish_reason.as_deref() != Some("") {
        end.push(last);
    }
    let wants_usage = request.body["stream_options"]["include_usage"] == Value::Bool(true);
    if reply.usage_place == UsagePlace::Tail && wants_usage {
        let mut tail = chat_chunk(Value::Null);
        tail["choices"] = json!([]);
        tail["usage"] = usage(reply);
        end.push(tail);
    }
    end
}

fn whole_chat(reply: &Reply) -> Value {
    let calls: Vec<Value> = reply
        .tool_calls
        .iter()
        .enumerate()
        .map(|(number, call)| {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{number}"));
            let function = json!({"name": call.name, "arguments": raw_arguments(call)});
            let mut whole = json!({"id": id, "type": "function", "function": function});
            if let Some(extra) = &call.extra_content {
                whole["extra_content"] = extra.clone();
            }
            whole
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": all_words(reply)});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    if !reply.reasoning.is_empty() {
        message[&reply.reasoning_field] = json!(reply.reasoning);
    }
    if !reply.reasoning_details.is_empty() {
        message["reasoning_details"] = json!(reply.reasoning_details);
    }
    json!({
        "id": "chatcmpl-scripted", "object": "chat.completion", "created": 1_700_000_000, "model": MODEL_ID,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply),
    })
}

/// Renders events as sent by llama.cpp, which sends calls as text.
fn completion_events(reply: &Reply) -> Vec<Bytes> {
    let mut deltas = deltas(reply);
    deltas.extend(reply.tool_calls.iter().map(|call| {
        json!({"tool": call.name, "args": serde_json::from_str(&raw_arguments(call)).unwrap_or(Value::Null)})
            .to_string()
    }));
    let mut events: Vec<Bytes> =
        deltas.iter().map(|word| event(&json!({"index": 0, "content": word, "stop": false}).to_string())).collect();
    if reply.finish_reason.as_deref() != Some("") {
        events.push(event(&completion_end(reply, "").to_string()));
    }
    events
}

fn completion_end(reply: &Reply, text: &str) -> Value {
    let stop_type = if finish_reason(reply) == "length" { "limit" } else { "eos" };
    let token_usage = usage(reply);
    let mut end = json!({
        "content": text, "stop": true, "stop_type": stop_type,
        "tokens_evaluated": token_usage["prompt_tokens"], "tokens_predicted": token_usage["completion_tokens"],
    });
    if let Some(timings) = &reply.timings {
        end["timings"] = timings.clone();
    }
    end
}

/// Renders blocks of many events once, so that they can be sent repeatedly.
fn fast(reply: &Reply, request: &Recorded, count: u64, completion: bool) -> Vec<Bytes> {
    // One event is rendered, and its text is replaced, because a benchmark must not wait for its server to write JSON.
    const WORDS: &str = "WORDS";
    let data = if completion {
        json!({"index": 0, "content": WORDS, "stop": false})
    } else {
        chat_delta(json!({"content": WORDS}))
    };
    let data = data.to_string();
    let (before, after) = data.split_once(WORDS).unwrap_or_default();
    let mut block = Vec::new();
    let mut ends = vec![0];
    for number in 0..FAST_CYCLE.min(count) {
        for part in ["data: ", before, &fast_delta(number), after, "\n\n"] {
            block.extend_from_slice(part.as_bytes());
        }
        ends.push(block.len());
    }
    let block = Bytes::from(block);
    let mut writes = Vec::new();
    let mut left = count;
    while left > 0 {
        let now = left.min(FAST_CYCLE);
        let end = usize::try_from(now).ok().and_then(|now| ends.get(now)).copied().unwrap_or(block.len());
        writes.push(block.slice(..end));
        left -= now;
    }
    let end = if completion { vec![completion_end(reply, "")] } else { chat_end(reply, request) };
    writes.extend(end.iter().map(|data| event(&data.to_string())));
    if reply.done && !completion {
        writes.push(event("[DONE]"));
    }
    writes
}

fn finish_reason(reply: &Reply) -> &str {
    let usual = if reply.tool_calls.is_empty() { "stop" } else { "tool_calls" };
    reply.finish_reason.as_deref().unwrap_or(usual)
}

fn usage(reply: &Reply) -> Value {
    let invented = || {
        let words = deltas(reply).len() + words(&reply.reasoning).count() + reply.tool_calls.len();
        let words = reply.fast.unwrap_or(words as u64);
        json!({"prompt_tokens": 10, "completion_tokens": words, "total_tokens": 10 + words})
    };
    reply.usage.clone().unwrap_or_else(invented)
}

fn deltas(reply: &Reply) -> Vec<String> {
    if reply.deltas.is_empty() { words(&reply.text).map(str::to_owned).collect() } else { reply.deltas.clone() }
}

/// Splits one text of a reply into deltas. Uses the scripted deltas if they belong to this text.
fn deltas_of(reply: &Reply, words_of_part: &str) -> Vec<String> {
    let is_scripted = !reply.deltas.is_empty() && reply.deltas.concat() == words_of_part;
    if is_scripted { reply.deltas.clone() } else { words(words_of_part).map(str::to_owned).collect() }
}

fn all_words(reply: &Reply) -> String {
    reply.fast.map_or_else(|| deltas(reply).concat(), fast_text)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

fn raw_arguments(call: &ReplyCall) -> String {
    match &call.arguments {
        Value::String(raw) => raw.clone(),
        Value::Null => "{}".to_owned(),
        arguments => arguments.to_string(),
    }
}

/// Splits a text into pieces of about `size` bytes, at character boundaries.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in text.chars() {
        if pieces.last().is_some_and(|piece| piece.len() >= size.max(1)) {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces
}
