//! Thinking that is bound to the conversation: each block is signed together with everything before it. A request is
//! rejected if the block or the preceding content is changed when it is sent back.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value, json};

use super::{
    super::{chat_view, render::messages_blocks},
    Reply,
};

/// Adds signed thinking to a reply, in one of the forms that occur in real responses, selected by `number`. If the
/// request does not enable thinking, nothing is added.
pub(super) fn dressed(mut reply: Reply, request: &Value, number: usize) -> Reply {
    let is_plain = reply.status == 200 && reply.body.is_none() && reply.events.is_none() && reply.fast.is_none();
    if !is_plain || reply.never {
        return reply;
    }
    let thinks = request["thinking"]["type"] == "adaptive";
    for (at, call) in reply.tool_calls.iter_mut().enumerate() {
        call.id.get_or_insert_with(|| format!("toolu_{number:04}_{at:03}"));
    }
    let mut blocks = messages_blocks(&reply);
    if thinks && !blocks.iter().any(|block| block["type"] == "thinking") {
        blocks = with_thoughts(blocks, number);
    }
    let mut before = entries(request);
    for block in &mut blocks {
        if block["type"] == "thinking" {
            block["signature"] = signature(&before, &block["thinking"]).into();
        } else if block["type"] == "redacted_thinking" {
            block["data"] = signature(&before, &Value::Null).into();
        }
        before.extend(entry("assistant", block));
    }
    reply.blocks = blocks;
    reply
}

/// Describes a thinking block that was changed or moved, if any.
pub(super) fn unbound_block(request: &Value) -> Option<String> {
    let mut before = Vec::new();
    before.extend(head(request));
    for (at, message) in request["messages"].as_array()?.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        for (number, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            let path = format!("messages.{at}.content.{number}");
            let signed = match block["type"].as_str() {
                Some("thinking") => Some((&block["signature"], signature(&before, &block["thinking"]))),
                Some("redacted_thinking") => Some((&block["data"], signature(&before, &Value::Null))),
                _ => None,
            };
            match signed {
                Some((given, _)) if !given.as_str().is_some_and(|given| given.starts_with(SIGNATURE_PREFIX)) => {
                    return Some(format!("{path}: Invalid `signature` in `thinking` block"));
                }
                Some((given, expected)) if *given != expected => {
                    return Some(format!("{path}: The block is bound to a different conversation"));
                }
                _ => {}
            }
            before.extend(entry(role, block));
        }
    }
    None
}

/// Prefix of all signatures. Some JSON writers escape its characters, but the signature must be sent back unchanged.
const SIGNATURE_PREFIX: &str = "EqoB/+\u{e9}==";

fn signature(before: &[String], thoughts: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    before.hash(&mut hasher);
    thoughts.to_string().hash(&mut hasher);
    format!("{SIGNATURE_PREFIX}{:016x}", hasher.finish())
}

/// Adds thinking before text and calls, in all forms that occur: with text, empty, redacted, and twice. Tests that do
/// not depend on the wire get no thinking text, and no additional text.
fn with_thoughts(blocks: Vec<Value>, number: usize) -> Vec<Value> {
    let has_text = chat_view::wire().is_none();
    let thoughts = |text: &str| {
        let text = if has_text { text } else { "" };
        json!({"type": "thinking", "thinking": text, "signature": ""})
    };
    let thought = || thoughts(&format!("Thought \u{201c}{number}\u{201d}:\n\tlook first. "));
    let redacted = || json!({"type": "redacted_thinking", "data": ""});
    let mut dressed = match number % 4 {
        0 => vec![thought()],
        1 => vec![thoughts("")],
        2 => vec![redacted(), thought()],
        _ if !has_text => vec![thought(), thoughts("")],
        _ => vec![thought(), json!({"type": "text", "text": "Well. "}), thoughts("And again.")],
    };
    // Some models only send a line feed before a call.
    if has_text && number.is_multiple_of(5) && !blocks.iter().any(|block| block["type"] == "text") {
        dressed.push(json!({"type": "text", "text": "\n\n"}));
    }
    dressed.extend(blocks);
    dressed
}

/// Returns everything in a request, part by part.
fn entries(request: &Value) -> Vec<String> {
    let mut entries: Vec<String> = head(request).collect();
    for message in request["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        entries.extend(message["content"].as_array().into_iter().flatten().filter_map(|block| entry(role, block)));
    }
    entries
}

fn head(request: &Value) -> impl Iterator<Item = String> {
    let parts = ["system", "tools"].map(|part| format!("{part} {}", canonical(&request[part])));
    parts.into_iter()
}

/// Returns the canonical form of a block, or `None` for a blank text, which cannot be sent back.
fn entry(role: &str, block: &Value) -> Option<String> {
    let is_blank = block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty());
    let mut block = block.clone();
    if let Some(raw) = block["input"].as_str() {
        block["input"] = serde_json::from_str(raw).unwrap_or_default();
    }
    (!is_blank).then(|| format!("{role} {}", canonical(&block)))
}

/// Returns a value without cache markers, with its fields in a fixed order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().filter(|(name, _)| *name != "cache_control").collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            sorted.into_iter().map(|(name, value)| (name.clone(), canonical(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(values) => values.iter().map(canonical).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_reasoning_is_accepted_only_after_equal_prefix() {
        let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
        let mut request = json!({"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [user("a")],
            "thinking": {"type": "adaptive"}});
        for number in 0..8 {
            let reply = Reply { text: format!("Answer {number}."), ..Reply::default() };
            let mut blocks = dressed(reply, &request, number).blocks;
            blocks.retain(|block| block["text"] != "\n\n");
            let messages = request["messages"].as_array_mut().unwrap();
            messages.extend([json!({"role": "assistant", "content": blocks}), user("and?")]);
            assert_eq!(unbound_block(&request), None, "{request:#}");
        }
        let check = |change: &dyn Fn(&mut Value), expected: Option<&str>| {
            let mut changed = request.clone();
            change(&mut changed);
            let found = unbound_block(&changed);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
        };
        let bound = Some("messages.1.content.0: The block is bound to a different conversation");
        check(&|request| request["messages"][0]["content"][0]["text"] = "b".into(), bound);
        check(&|request| request["system"][0]["text"] = "t".into(), bound);
        check(&|request| request["tools"] = json!([{"name": "x"}]), bound);
        check(&|request| request["messages"][1]["content"][0]["thinking"] = "other".into(), bound);
        check(
            &|request| request["messages"][1]["content"][0]["signature"] = "mine".into(),
            Some("Invalid `signature`"),
        );
        check(&|request| request["messages"][4]["content"][0]["text"] = "b".into(), Some("messages.5.content.0"));
        // Cache markers and settings are not signed.
        let mark = json!({"type": "ephemeral"});
        check(&|request| request["messages"][0]["content"][0]["cache_control"] = mark.clone(), None);
        check(&|request| request["max_tokens"] = 7.into(), None);
    }
}
