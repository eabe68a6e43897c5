//! The conversation as gateways hand it on to Anthropic's messages, and the rules there.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Checked, MAX_NAME, broken, check_name, check_said, parts};

/// A message there: a role and its blocks.
struct Message {
    role: &'static str,
    blocks: Vec<Value>,
}

pub(super) fn check(body: &Value) -> Checked {
    let messages = translate(body);
    match messages.first() {
        Some(first) if first.role == "user" => {}
        _ => return broken("messages[0].role", "the first message must be of the user"),
    }
    let mut ids = HashSet::new();
    let nothing = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages[{at}]");
        if at > 0 && messages[at - 1].role == message.role {
            return broken(place, "user and assistant must alternate");
        }
        if message.blocks.is_empty() {
            return broken(place, "it has no content");
        }
        let calls = calls_of(&message.blocks, &place, &mut ids)?;
        let next = messages.get(at + 1).map_or(&nothing, |next| &next.blocks);
        check_results(&place, &calls, next)?;
        let before = at.checked_sub(1).map_or(&nothing, |before| &messages[before].blocks);
        check_blocks(&place, &message.blocks, before)?;
    }
    match messages.last() {
        Some(last) if last.role == "user" => Ok(()),
        _ => broken("messages", "the last message must be of the user"),
    }
}

/// One message for each run of a role; results are the user's.
fn translate(body: &Value) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for message in body["messages"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = || json!({"type": "text", "text": message["content"]});
        let (role, blocks) = match message["role"].as_str().unwrap_or_default() {
            "system" => continue,
            "assistant" => {
                let words = (!message["content"].is_null()).then(text);
                let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
                ("assistant", words.into_iter().chain(calls.iter().map(tool_use)).collect())
            }
            "tool" => {
                let (id, content) = (&message["tool_call_id"], &message["content"]);
                ("user", vec![json!({"type": "tool_result", "tool_use_id": id, "content": [{"text": content}]})])
            }
            _ => ("user", parts::blocks(&message["content"])),
        };
        match messages.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            _ => messages.push(Message { role, blocks }),
        }
    }
    messages
}

fn tool_use(call: &Value) -> Value {
    let function = &call["function"];
    let input = function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    json!({"type": "tool_use", "id": call["id"], "name": function["name"], "input": input})
}

/// The ids of the calls of a message.
fn calls_of<'a>(blocks: &'a [Value], place: &str, ids: &mut HashSet<&'a str>) -> Result<Vec<&'a str>, super::Broken> {
    let mut calls = Vec::new();
    for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
        check_name(&format!("{place}.tool_use.id"), &block["id"], usize::MAX)?;
        check_name(&format!("{place}.tool_use.name"), &block["name"], MAX_NAME)?;
        if !block["input"].is_object() {
            return broken(format!("{place}.tool_use.input"), "it must be an object");
        }
        let id = block["id"].as_str().unwrap_or_default();
        if !ids.insert(id) {
            return broken(format!("{place}.tool_use.id"), format!("{id:?} has come before"));
        }
        calls.push(id);
    }
    Ok(calls)
}

/// All results of a message's calls stand in the very next one.
fn check_results(place: &str, calls: &[&str], next: &[Value]) -> Checked {
    let answers = |id: &str| next.iter().filter(|block| block["tool_use_id"] == id).count();
    match calls.iter().find(|id| answers(id) != 1) {
        Some(id) => broken(place, format!("{} results in the next message answer {id:?}, not one", answers(id))),
        None => Ok(()),
    }
}

/// Results stand before words and answer a call of the message before; every block of text says something.
fn check_blocks(place: &str, blocks: &[Value], before: &[Value]) -> Checked {
    let mut words = false;
    for block in blocks {
        match block["type"].as_str().unwrap_or_default() {
            "text" => {
                words = true;
                check_said(&format!("{place}.text"), &block["text"])?;
            }
            "tool_result" => {
                check_said(&format!("{place}.tool_result"), &block["content"][0]["text"])?;
                if words {
                    return broken(place, "results must stand before words");
                }
                if !before.iter().any(|call| call["type"] == "tool_use" && call["id"] == block["tool_use_id"]) {
                    return broken(place, format!("{} answers no call of the message before", block["tool_use_id"]));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
