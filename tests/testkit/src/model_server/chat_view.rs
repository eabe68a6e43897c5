//! Converts a Messages or Responses request to chat completions, for tests that examine requests regardless of the
//! wire.
//!
//! With `AGENTD_TEST_WIRE=anthropic` (or `responses`) in the environment of a test run, daemons of
//! [`crate::daemon::TempHome::with_model`] use Messages (or Responses), servers sign (or encrypt) thinking, and
//! [`super::Recorded::body`] is this view. [`super::Recorded::text`] is the original.

mod responses;

use agentd_core::untrusted;
use serde_json::{Value, json};

use super::render::Wire;

/// Environment variable that selects the wire of a test run.
const WIRE: &str = "AGENTD_TEST_WIRE";

/// A wire other than chat completions, used for all tests in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestWire {
    Messages,
    Responses,
}

impl TestWire {
    /// Returns the name of the wire in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Messages => "anthropic",
            Self::Responses => "responses",
        }
    }
}

/// Returns the wire of this test run, if it is not chat completions.
pub(crate) fn wire() -> Option<TestWire> {
    let named = std::env::var(WIRE).ok()?;
    [TestWire::Messages, TestWire::Responses].into_iter().find(|wire| wire.name() == named)
}

/// Returns the view of a body that was sent to that path, if this run uses views.
pub(super) fn of(path: &str, body: &Value) -> Option<Value> {
    match (wire()?, Wire::of(path)) {
        (TestWire::Messages, Wire::Messages) => Some(of_messages(body)),
        (TestWire::Responses, Wire::Responses) => Some(responses::of(body)),
        _ => None,
    }
}

/// Returns the view of a Messages body.
fn of_messages(body: &Value) -> Value {
    let mut view = body.clone();
    let mut messages: Vec<Value> = Vec::new();
    let system = texts(&body["system"]).join("\n\n");
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system}));
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        if message["role"] == "assistant" {
            messages.push(answer(&message["content"]));
        } else {
            said(&message["content"], &mut messages);
        }
    }
    view["messages"] = messages.into();
    if let Some(tools) = tools(body, "input_schema") {
        view["tools"] = tools;
    }
    if let Some(choice) = body["tool_choice"]["type"].as_str() {
        view["tool_choice"] = choice.into();
    }
    view
}

/// Converts the tools in a body, whose parameters are in this field.
fn tools(body: &Value, parameters: &str) -> Option<Value> {
    let tool = |tool: &Value| {
        let function =
            json!({"name": tool["name"], "description": tool["description"], "parameters": tool[parameters]});
        json!({"type": "function", "function": function})
    };
    Some(body["tools"].as_array()?.iter().map(tool).collect())
}

fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str().map(str::to_owned)).collect(),
        text => text.as_str().map(str::to_owned).into_iter().collect(),
    }
}

fn answer(content: &Value) -> Value {
    let text = texts(content).concat();
    let text = if text.is_empty() { Value::Null } else { text.into() };
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let calls: Vec<Value> = blocks
        .iter()
        .filter(|block| block["type"] == "tool_use")
        .map(|call| {
            let function = json!({"name": call["name"], "arguments": call["input"].to_string()});
            json!({"id": call["id"], "type": "function", "function": function})
        })
        .collect();
    let mut answer = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        answer["tool_calls"] = calls.into();
    }
    answer
}

fn picture(block: &Value) -> Value {
    let (kind, data) = (&block["source"]["media_type"], &block["source"]["data"]);
    let url = format!("data:{};base64,{}", kind.as_str().unwrap_or_default(), data.as_str().unwrap_or_default());
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn said(content: &Value, messages: &mut Vec<Value>) {
    let mut parts: Vec<Value> = Vec::new();
    let whole = json!([{"type": "text", "text": content}]);
    let blocks = if content.is_array() { content } else { &whole };
    for block in blocks.as_array().into_iter().flatten() {
        match block["type"].as_str().unwrap_or_default() {
            "tool_result" => {
                let content = &block["content"];
                let text = if content.is_array() { texts(content).concat().into() } else { content.clone() };
                messages.push(json!({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}));
                let blocks = content.as_array().into_iter().flatten();
                parts.extend(blocks.filter(|block| block["type"] == "image").map(picture));
            }
            "image" => {
                parts.push(picture(block));
            }
            _ => {
                let text = block["text"].as_str().unwrap_or_default();
                let result = messages.last_mut().filter(|last| last["role"] == "tool" && parts.is_empty());
                match result {
                    // In chat completions, the text is appended to the result.
                    Some(result) if untrusted::is_from_daemon(text) => {
                        let before = result["content"].as_str().unwrap_or_default();
                        result["content"] = format!("{before}\n\n{}", untrusted::after_result(text)).into();
                    }
                    _ => match parts.last_mut().filter(|last| last["type"] == "text") {
                        Some(last) => {
                            last["text"] = format!("{}\n\n{text}", last["text"].as_str().unwrap_or_default()).into();
                        }
                        None => parts.push(json!({"type": "text", "text": text})),
                    },
                }
            }
        }
    }
    match parts.as_slice() {
        [] => {}
        [only] if only["type"] == "text" => messages.push(json!({"role": "user", "content": only["text"]})),
        _ => messages.push(json!({"role": "user", "content": parts})),
    }
}
