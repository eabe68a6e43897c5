//! Renders a reply for Anthropic's Messages.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{FAST_CYCLE, deltas, deltas_of, fast_delta, finish_reason, pieces, raw_arguments, words};
use crate::model_server::{MODEL_ID, Recorded, Reply, UsagePlace};

pub(super) fn render(reply: &Reply, request: &Recorded) -> (Vec<Bytes>, &'static str) {
    if reply.whole || request.body["stream"] != Value::Bool(true) {
        return (vec![Bytes::from(whole(reply).to_string())], "application/json");
    }
    let mut events = vec![start(reply), event(&json!({"type": "ping"}))];
    match reply.fast {
        Some(count) => events.extend(fast(count)),
        None => {
            for (at, block) in blocks(reply).iter().enumerate() {
                events.extend(block_events(reply, at, block).iter().map(event));
            }
        }
    }
    events.extend(end(reply).iter().map(event));
    (events, "text/event-stream")
}

/// An event with its name, as written by the real server.
fn event(data: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
}

/// The blocks of a reply: the explicit blocks, or thinking, text and calls.
pub(super) fn blocks(reply: &Reply) -> Vec<Value> {
    if !reply.blocks.is_empty() {
        return reply.blocks.clone();
    }
    let mut blocks = Vec::new();
    if !reply.reasoning.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": reply.reasoning, "signature": "c2lnbmVk"}));
    }
    let text = deltas(reply).concat();
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    blocks.extend(reply.tool_calls.iter().enumerate().map(|(number, call)| {
        let id = call.id.clone().unwrap_or_else(|| format!("toolu_{number:02}"));
        // String arguments are sent unchanged.
        json!({"type": "tool_use", "id": id, "name": call.name, "input": raw_arguments(call)})
    }));
    blocks
}

fn start(reply: &Reply) -> Bytes {
    let mut counted = usage(reply);
    counted["output_tokens"] = 1.into();
    let mut message = json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": MODEL_ID, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": counted,
    });
    message.as_object_mut().into_iter().for_each(|message| message.extend(reply.head.clone()));
    event(&json!({"type": "message_start", "message": message}))
}

fn block_events(reply: &Reply, at: usize, block: &Value) -> Vec<Value> {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
    let words_of = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
    let (head, deltas) = match block["type"].as_str().unwrap_or_default() {
        "text" => {
            let whole = words_of("text");
            let parts =
                deltas_of(reply, &whole).into_iter().map(|text| delta(json!({"type": "text_delta", "text": text})));
            (json!({"type": "text", "text": ""}), parts.collect())
        }
        "thinking" => {
            let whole = words_of("thinking");
            let parts = words(&whole).map(|text| delta(json!({"type": "thinking_delta", "thinking": text})));
            let signature = delta(json!({"type": "signature_delta", "signature": block["signature"]}));
            let head = json!({"type": "thinking", "thinking": "", "signature": ""});
            (head, parts.chain([signature]).collect::<Vec<_>>())
        }
        "tool_use" => {
            let raw = block["input"].as_str().map_or_else(|| block["input"].to_string(), str::to_owned);
            let size = reply.argument_bytes.unwrap_or(usize::MAX);
            // An empty piece comes first, and is the only piece if there are no arguments.
            let parts = if raw == "{}" { Vec::new() } else { pieces(&raw, size) };
            let parts = std::iter::once(String::new()).chain(parts);
            let parts = parts.map(|part| delta(json!({"type": "input_json_delta", "partial_json": part})));
            (json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}), parts.collect())
        }
        _ => (block.clone(), Vec::new()),
    };
    let start = json!({"type": "content_block_start", "index": at, "content_block": head});
    let stop = json!({"type": "content_block_stop", "index": at});
    std::iter::once(start).chain(deltas).chain([stop]).collect()
}

fn end(reply: &Reply) -> Vec<Value> {
    let reason = match finish_reason(reply) {
        "" => return Vec::new(),
        "stop" if reply.blocks.iter().any(|block| block["type"] == "tool_use") => "tool_use",
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    };
    let mut last = json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}});
    if reply.usage_place != UsagePlace::Nowhere {
        last["usage"] = json!({"output_tokens": usage(reply)["output_tokens"]});
    }
    let mut events = vec![last];
    if reply.done {
        events.push(json!({"type": "message_stop"}));
    }
    events
}

fn whole(reply: &Reply) -> Value {
    let content: Vec<Value> = blocks(reply)
        .into_iter()
        .map(|mut block| {
            if let Some(raw) = block["input"].as_str() {
                block["input"] = serde_json::from_str(raw).unwrap_or_default();
            }
            block
        })
        .collect();
    let reason = end(reply).first().map(|last| last["delta"]["stop_reason"].clone());
    json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": MODEL_ID, "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": usage(reply),
    })
}

/// Usage with this wire's names, which count cached tokens separately. Names from this wire in the reply are retained.
fn usage(reply: &Reply) -> Value {
    let mut counted = super::usage(reply);
    let cached = counted["prompt_tokens_details"]["cached_tokens"].clone();
    if let (Some(all), Some(cached), Value::Null) =
        (counted["prompt_tokens"].as_u64(), cached.as_u64(), &counted["input_tokens"])
    {
        counted["input_tokens"] = all.saturating_sub(cached).into();
        counted["cache_read_input_tokens"] = cached.into();
    }
    let of = |names: [&str; 2]| names.iter().map(|name| &counted[*name]).find(|count| !count.is_null()).cloned();
    json!({
        "input_tokens": of(["input_tokens", "prompt_tokens"]),
        "output_tokens": of(["output_tokens", "completion_tokens"]),
        "cache_read_input_tokens": counted["cache_read_input_tokens"],
        "cache_creation_input_tokens": counted["cache_creation_input_tokens"],
        "cache_creation": counted["cache_creation"],
    })
}

/// Blocks with many events, rendered once and sent repeatedly.
fn fast(count: u64) -> Vec<Bytes> {
    let delta = |number: u64| {
        let delta = json!({"type": "text_delta", "text": fast_delta(number)});
        event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    };
    let cycle: Vec<Bytes> = (0..FAST_CYCLE.min(count)).map(delta).collect();
    let whole = Bytes::from(cycle.concat());
    let block = json!({"type": "text", "text": ""});
    let mut writes = vec![event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))];
    let mut left = count;
    while left >= FAST_CYCLE {
        writes.push(whole.clone());
        left -= FAST_CYCLE;
    }
    writes.extend(cycle.into_iter().take(usize::try_from(left).unwrap_or_default()));
    writes.push(event(&json!({"type": "content_block_stop", "index": 0})));
    writes
}
