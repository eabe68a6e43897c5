//! Anthropic's rules for a Messages request.

use std::collections::HashSet;

use serde_json::Value;

use super::{Checked, MAX_MARKS, broken, check_name, check_not_blank, parts, refuse_if, unknown_field};

/// Known fields in the body.
const FIELDS: [&str; 15] = [
    "model",
    "messages",
    "system",
    "max_tokens",
    "stream",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "temperature",
    "stop_sequences",
    "metadata",
    "cache_control",
    "service_tier",
    "diagnostics",
];
/// Known fields of blocks, by block kind.
const BLOCKS: [(&str, &[&str]); 7] = [
    ("text", &["text", "cache_control", "citations"]),
    ("image", &["source", "cache_control"]),
    ("tool_use", &["id", "name", "input", "cache_control"]),
    ("tool_result", &["tool_use_id", "content", "is_error", "cache_control"]),
    ("thinking", &["thinking", "signature"]),
    ("redacted_thinking", &["data"]),
    ("server_tool_use", &["id", "name", "input", "cache_control"]),
];
/// Maximum length of a tool name.
const MAX_NAME: usize = 128;

pub(super) fn check(body: &Value) -> Checked {
    if let Some(field) = unknown_field(body, &FIELDS) {
        return broken(field, "Extra inputs are not permitted");
    }
    check_not_blank("model", &body["model"])?;
    check_settings(body)?;
    check_tools(body)?;
    check_marks(body)?;
    let Some(messages) = body["messages"].as_array().filter(|messages| !messages.is_empty()) else {
        return broken("messages", "at least one message is required");
    };
    check_messages(messages)?;
    let calls = |message: &Value| {
        let blocks = message["content"].as_array().into_iter().flatten();
        blocks.into_iter().any(|block| ["tool_use", "tool_result"].iter().any(|kind| block["type"] == *kind))
    };
    if body["tools"].is_null() && messages.iter().any(calls) {
        return broken("tools", "Requests which have `tool_use` or `tool_result` blocks must define tools");
    }
    Ok(())
}

fn check_settings(body: &Value) -> Checked {
    match body["max_tokens"].as_u64() {
        Some(1..) => {}
        _ => return broken("max_tokens", "Field required"),
    }
    let thinks = match body["thinking"]["type"].as_str() {
        None if body["thinking"].is_null() => false,
        Some("adaptive") => true,
        Some("disabled") => false,
        _ => return broken("thinking", "only adaptive thinking is supported on this model"),
    };
    match body["temperature"].as_f64() {
        Some(degrees) if !(0.0..=1.0).contains(&degrees) => {
            return broken("temperature", "Input should be less than or equal to 1");
        }
        #[expect(clippy::float_cmp, reason = "the number is a literal, not computed")]
        Some(degrees) if thinks && degrees != 1.0 => {
            return broken("temperature", "`temperature` may only be set to 1 when thinking is enabled");
        }
        _ => {}
    }
    let effort = &body["output_config"]["effort"];
    if !effort.is_null() && !["low", "medium", "high", "xhigh", "max"].iter().any(|known| effort == known) {
        return broken("output_config.effort", "Input should be 'low', 'medium', 'high', 'xhigh' or 'max'");
    }
    let previous = &body["diagnostics"]["previous_message_id"];
    if !previous.is_null() && !previous.as_str().is_some_and(|id| id.starts_with("msg_")) {
        return broken("diagnostics.previous_message_id", "Input should be the id of a message");
    }
    match &body["system"] {
        Value::Null => Ok(()),
        Value::Array(blocks) => blocks.iter().enumerate().try_for_each(|(at, block)| {
            refuse_if(block["type"] != "text", format!("system.{at}.type"), "Input should be 'text'")?;
            check_not_blank(&format!("system.{at}.text"), &block["text"])
        }),
        text => check_not_blank("system", text),
    }
}

fn check_tools(body: &Value) -> Checked {
    let choice = &body["tool_choice"];
    if body["tools"].is_null() {
        return if choice.is_null() { Ok(()) } else { broken("tool_choice", "may only be specified with tools") };
    }
    if !choice.is_null() && choice["type"] != "auto" && choice["type"] != "none" {
        return broken("tool_choice", "this model supports only auto and none");
    }
    let Some(tools) = body["tools"].as_array().filter(|tools| !tools.is_empty()) else {
        return broken("tools", "Input should be a valid list with at least one tool");
    };
    let mut names = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        if let Some(field) = unknown_field(tool, &["name", "description", "input_schema", "cache_control", "type"]) {
            return broken(format!("tools.{at}.custom.{field}"), "Extra inputs are not permitted");
        }
        check_name(&format!("tools.{at}.custom.name"), &tool["name"], MAX_NAME)?;
        check_not_blank(&format!("tools.{at}.custom.description"), &tool["description"])?;
        if tool["input_schema"]["type"] != "object" {
            return broken(format!("tools.{at}.custom.input_schema.type"), "Input should be 'object'");
        }
        refuse_if(!names.insert(tool["name"].as_str()), "tools", "Tool names must be unique.")?;
    }
    Ok(())
}

/// Checks that there are at most four cache markers, in permitted positions.
fn check_marks(body: &Value) -> Checked {
    let in_messages = body["messages"].as_array().into_iter().flatten();
    let blocks = in_messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let system = body["system"].as_array().into_iter().flatten();
    let tools = body["tools"].as_array().into_iter().flatten();
    let marks: Vec<&Value> = std::iter::once(body)
        .chain(blocks.chain(system).chain(tools))
        .map(|holder| &holder["cache_control"])
        .filter(|mark| !mark.is_null())
        .collect();
    if let Some(mark) = marks.iter().find(|mark| mark["type"] != "ephemeral") {
        return broken("cache_control.type", format!("{mark} is not a cache marker"));
    }
    if marks.len() > MAX_MARKS {
        let message = format!("A maximum of 4 blocks with cache_control may be provided. Found {}.", marks.len());
        return broken("cache_control", message);
    }
    Ok(())
}

fn check_messages(messages: &[Value]) -> Checked {
    let nothing = Vec::new();
    let blocks_of = |at: usize| messages.get(at).and_then(|message| message["content"].as_array()).unwrap_or(&nothing);
    let mut ids = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let location = format!("messages.{at}");
        let role = message["role"].as_str().unwrap_or_default();
        if !["user", "assistant"].contains(&role) {
            return broken(format!("{location}.role"), "Input should be 'user' or 'assistant'");
        }
        if (at == 0) != (role == "user") && at == 0 {
            return broken(format!("{location}.role"), "first message must use the \"user\" role");
        }
        if at > 0 && messages[at - 1]["role"] == message["role"] {
            return broken(location, "roles must alternate between \"user\" and \"assistant\"");
        }
        match &message["content"] {
            Value::Array(blocks) if blocks.is_empty() => {
                return broken(format!("{location}.content"), "messages must have non-empty content");
            }
            Value::Array(blocks) => check_blocks(&location, role, blocks, &mut ids)?,
            text => check_not_blank(&format!("{location}.content"), text)?,
        }
        if role == "assistant" {
            check_results(at, blocks_of(at), blocks_of(at + 1))?;
        } else {
            let before = if at == 0 { &nothing } else { blocks_of(at - 1) };
            check_answers(at, blocks_of(at), before)?;
        }
    }
    match messages.last() {
        Some(last) if last["role"] == "user" || is_paused(last) => Ok(()),
        _ => broken(
            "messages",
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ),
    }
}

/// Returns true if a response is paused for a server tool and will be continued.
fn is_paused(message: &Value) -> bool {
    let mut blocks = message["content"].as_array().into_iter().flatten();
    blocks.any(|block| block["type"] == "server_tool_use")
}

fn check_blocks<'a>(location: &str, role: &str, blocks: &'a [Value], ids: &mut HashSet<&'a str>) -> Checked {
    for (at, block) in blocks.iter().enumerate() {
        let location = format!("{location}.content.{at}");
        let kind = block["type"].as_str().unwrap_or_default();
        let Some((_, fields)) = BLOCKS.iter().find(|(name, _)| *name == kind) else {
            return broken(format!("{location}.type"), format!("{} is not a known block type", block["type"]));
        };
        if let Some(field) = unknown_field(block, &[&["type"], *fields].concat()) {
            return broken(format!("{location}.{kind}.{field}"), "Extra inputs are not permitted");
        }
        let of_model = ["tool_use", "thinking", "redacted_thinking", "server_tool_use"].contains(&kind);
        if of_model && role == "user" || ["image", "tool_result"].contains(&kind) && role == "assistant" {
            return broken(location, format!("`{kind}` blocks are not allowed in a {role} message"));
        }
        match kind {
            "text" => check_not_blank(&format!("{location}.text"), &block["text"])?,
            "image" => check_picture(&location, &block["source"])?,
            "tool_use" => {
                check_name(&format!("{location}.tool_use.id"), &block["id"], usize::MAX)?;
                check_name(&format!("{location}.tool_use.name"), &block["name"], MAX_NAME)?;
                if !block["input"].is_object() {
                    return broken(format!("{location}.tool_use.input"), "Input should be a valid dictionary");
                }
                if !ids.insert(block["id"].as_str().unwrap_or_default()) {
                    return broken(location, "`tool_use` ids must be unique");
                }
            }
            "tool_result" => check_result(&format!("{location}.content"), &block["content"])?,
            "thinking" if !block["thinking"].is_string() || block["signature"].as_str().is_none_or(str::is_empty) => {
                return broken(format!("{location}.thinking.signature"), "Field required");
            }
            "redacted_thinking" if block["data"].as_str().is_none_or(str::is_empty) => {
                return broken(format!("{location}.redacted_thinking.data"), "Field required");
            }
            _ => {}
        }
    }
    match blocks.last() {
        Some(last) if last["type"] == "thinking" || last["type"] == "redacted_thinking" => {
            broken(location, "The final block in an assistant message cannot be `thinking`.")
        }
        _ => Ok(()),
    }
}

/// Checks that all results for a message's calls are in the next message.
fn check_results(at: usize, blocks: &[Value], next: &[Value]) -> Checked {
    for call in blocks.iter().filter(|block| block["type"] == "tool_use") {
        let results = next.iter().filter(|block| block["tool_use_id"] == call["id"]).count();
        if results != 1 {
            return broken(
                format!("messages.{at}"),
                format!(
                    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block \
                     must have a corresponding `tool_result` block in the next message, and has {results}.",
                    call["id"]
                ),
            );
        }
    }
    Ok(())
}

/// Checks that results come first, and that each matches a call in the previous message.
fn check_answers(at: usize, blocks: &[Value], before: &[Value]) -> Checked {
    let mut others = false;
    for block in blocks {
        if block["type"] != "tool_result" {
            others = true;
            continue;
        }
        refuse_if(others, format!("messages.{at}"), "`tool_result` blocks must precede all other blocks")?;
        if !before.iter().any(|call| call["type"] == "tool_use" && call["id"] == block["tool_use_id"]) {
            return broken(
                format!("messages.{at}"),
                format!("unexpected `tool_use_id` found in `tool_result` blocks: {}", block["tool_use_id"]),
            );
        }
    }
    Ok(())
}

/// Checks the content of a result: a text, or blocks that are texts or pictures.
fn check_result(location: &str, content: &Value) -> Checked {
    let Some(blocks) = content.as_array() else { return check_not_blank(location, content) };
    refuse_if(blocks.is_empty(), location, "missing blocks")?;
    for (at, block) in blocks.iter().enumerate() {
        let location = format!("{location}.{at}");
        match block["type"].as_str() {
            Some("text") => check_not_blank(&format!("{location}.text"), &block["text"])?,
            Some("image") => check_picture(&location, &block["source"])?,
            _ => return broken(location, format!("{} is not allowed in a result", block["type"])),
        }
    }
    Ok(())
}

fn check_picture(location: &str, source: &Value) -> Checked {
    let location = format!("{location}.image.source");
    match (source["type"].as_str(), source["media_type"].as_str(), source["data"].as_str()) {
        (Some("base64"), Some(kind), Some(data)) => parts::check_data(&location, kind, data),
        _ => broken(location, "only inline pictures are supported here"),
    }
}
