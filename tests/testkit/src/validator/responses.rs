//! OpenAI's rules for a Responses request.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Checked, MAX_NAME, broken, check_name, check_not_blank, parts, refuse_if, tools, unknown_field};

/// Known fields in the body, except for fields that ask the server to store data.
const FIELDS: [&str; 20] = [
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "include",
    "store",
    "stream",
    "stream_options",
    "prompt_cache_key",
    "prompt_cache_options",
    "temperature",
    "top_p",
    "max_output_tokens",
    "metadata",
    "service_tier",
    "safety_identifier",
    "text",
];
/// Known fields of items, by item kind.
const ITEMS: [(&str, &[&str]); 5] = [
    ("message", &["role", "content", "phase", "id", "status"]),
    ("function_call", &["call_id", "name", "arguments", "id", "status"]),
    ("function_call_output", &["call_id", "output", "id", "status"]),
    ("reasoning", &["id", "summary", "content", "encrypted_content", "status"]),
    ("web_search_call", &["id", "action", "status"]),
];
/// Values that are allowed in `include`.
const INCLUDED: [&str; 2] = ["reasoning.encrypted_content", "message.output_text.logprobs"];
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
/// Maximum length of a call ID, and of a cache key.
const MAX_ID: usize = 64;
/// Minimum value of the limit on output tokens.
const MIN_ANSWER: u64 = 16;

pub(super) fn check(body: &Value) -> Checked {
    if let Some(field) = unknown_field(body, &FIELDS) {
        return broken(field, format!("Unknown parameter: '{field}'."));
    }
    check_not_blank("model", &body["model"])?;
    check_settings(body)?;
    check_tools(body)?;
    let Some(items) = body["input"].as_array().filter(|items| !items.is_empty()) else {
        return broken("input", "it must be an array with at least one item");
    };
    check_items(items)
}

fn check_settings(body: &Value) -> Checked {
    // Without this field, the server would store the conversation.
    refuse_if(body["store"] != Value::Bool(false), "store", "it must be false")?;
    if !body["instructions"].is_null() {
        check_not_blank("instructions", &body["instructions"])?;
    }
    if body["temperature"].as_f64().is_some_and(|degrees| !(0.0..=2.0).contains(&degrees)) {
        return broken("temperature", "it must be from 0 to 2");
    }
    if body["max_output_tokens"].as_u64().is_some_and(|max| max < MIN_ANSWER) {
        return broken("max_output_tokens", format!("Expected a value >= {MIN_ANSWER}"));
    }
    let key = &body["prompt_cache_key"];
    if !key.is_null() && key.as_str().is_none_or(|key| key.is_empty() || key.len() > MAX_ID) {
        return broken("prompt_cache_key", format!("it must have 1 to {MAX_ID} characters"));
    }
    let included = body["include"].as_array().into_iter().flatten();
    if let Some(odd) = included.into_iter().find(|one| !INCLUDED.iter().any(|known| *one == known)) {
        return broken("include", format!("Invalid value: {odd}"));
    }
    let reasoning = &body["reasoning"];
    if let Some(field) = unknown_field(reasoning, &["effort", "summary"]) {
        return broken(format!("reasoning.{field}"), "Unknown parameter");
    }
    let check = |name: &str, allowed: &[&str]| {
        let value = &reasoning[name];
        let is_odd = !value.is_null() && !allowed.iter().any(|allowed| value == allowed);
        refuse_if(is_odd, format!("reasoning.{name}"), format!("Invalid value: {value}"))
    };
    check("effort", &EFFORTS)?;
    check("summary", &["auto", "concise", "detailed"])
}

fn check_tools(body: &Value) -> Checked {
    tools::check_choice(&body["tool_choice"])?;
    let Some(offered) = body["tools"].as_array() else {
        let choice = &body["tool_choice"];
        return if choice.is_null() { Ok(()) } else { broken("tool_choice", "may only be specified with tools") };
    };
    let mut names = HashSet::new();
    for (at, tool) in offered.iter().enumerate() {
        let location = format!("tools[{at}]");
        if let Some(field) = unknown_field(tool, &["type", "name", "description", "parameters", "strict"]) {
            return broken(format!("{location}.{field}"), "Unknown parameter");
        }
        refuse_if(tool["type"] != "function", format!("{location}.type"), "it must be \"function\"")?;
        check_name(&format!("{location}.name"), &tool["name"], MAX_NAME)?;
        check_not_blank(&format!("{location}.description"), &tool["description"])?;
        if tool["parameters"]["type"] != "object" {
            return broken(format!("{location}.parameters"), "schema must have type 'object'");
        }
        // The default is true, for which a schema with optional fields is rejected.
        if tool["strict"] != Value::Bool(false) {
            return broken(
                format!("{location}.strict"),
                "'additionalProperties' is required to be supplied and to be false",
            );
        }
        refuse_if(!names.insert(tool["name"].as_str()), format!("{location}.name"), "it is a duplicate")?;
    }
    Ok(())
}

fn check_items(items: &[Value]) -> Checked {
    let (mut ids, mut waiting) = (HashSet::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        let location = format!("input[{at}]");
        let kind = item["type"].as_str().unwrap_or_default();
        let Some((_, fields)) = ITEMS.iter().find(|(name, _)| *name == kind) else {
            return broken(format!("{location}.type"), format!("Invalid value: {}", item["type"]));
        };
        if let Some(field) = unknown_field(item, &[&["type"], *fields].concat()) {
            return broken(format!("{location}.{field}"), "Unknown parameter");
        }
        match kind {
            "message" => {
                check_message(&location, item)?;
                if item["role"] == "user" {
                    check_answered(&waiting)?;
                }
            }
            "function_call" => {
                check_call(&location, item)?;
                let id = item["call_id"].as_str().unwrap_or_default();
                refuse_if(!ids.insert(id), format!("{location}.call_id"), format!("{id:?} is a duplicate"))?;
                waiting.push(id);
            }
            "function_call_output" => {
                match &item["output"] {
                    Value::Array(_) => check_parts(&format!("{location}.output"), "user", &item["output"])?,
                    text => check_not_blank(&format!("{location}.output"), text)?,
                }
                let id = item["call_id"].as_str().unwrap_or_default();
                let Some(found) = waiting.iter().position(|waiting| *waiting == id) else {
                    let message = format!("No tool call found for function call output with call_id {id}.");
                    return broken(location, message);
                };
                waiting.remove(found);
            }
            "reasoning" => check_thoughts(&location, item, items.get(at + 1))?,
            _ => {}
        }
    }
    check_answered(&waiting)?;
    let is_open = |last: &Value| last["type"] == "function_call_output" || last["role"] == "user";
    match items.last() {
        Some(last) if is_open(last) => Ok(()),
        _ => broken("input", "no input to answer: the last item must be a user message or an output"),
    }
}

fn check_answered(waiting: &[&str]) -> Checked {
    match waiting.first() {
        Some(id) => broken("input", format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

fn check_message(location: &str, item: &Value) -> Checked {
    let role = item["role"].as_str().unwrap_or_default();
    if !["user", "assistant"].contains(&role) {
        return broken(format!("{location}.role"), format!("{} is not a valid role here", item["role"]));
    }
    let phase = &item["phase"];
    if !phase.is_null() && (role == "user" || !["commentary", "final_answer"].iter().any(|known| phase == known)) {
        return broken(format!("{location}.phase"), format!("Invalid value: {phase}"));
    }
    check_parts(&format!("{location}.content"), role, &item["content"])
}

/// Checks the parts of a message from this role, or of an output, which may have the same parts as a user message.
fn check_parts(location: &str, role: &str, parts: &Value) -> Checked {
    let Some(content) = parts.as_array().filter(|content| !content.is_empty()) else {
        return broken(location, "it must be an array with at least one part");
    };
    for (at, part) in content.iter().enumerate() {
        let location = format!("{location}[{at}]");
        match (role, part["type"].as_str().unwrap_or_default()) {
            ("user", "input_text") | ("assistant", "output_text") => {
                check_not_blank(&format!("{location}.text"), &part["text"])?;
            }
            ("user", "input_image") => {
                refuse_if(part["detail"] != "auto", format!("{location}.detail"), "it must be auto")?;
                parts::check_picture(&format!("{location}.image_url"), &part["image_url"])?;
            }
            ("assistant", "refusal") => check_not_blank(&format!("{location}.refusal"), &part["refusal"])?,
            _ => {
                let supported =
                    if role == "user" { "'input_text' and 'input_image'" } else { "'output_text' and 'refusal'" };
                let message = format!("Invalid value: {}. Supported values are: {supported}.", part["type"]);
                return broken(format!("{location}.type"), message);
            }
        }
    }
    Ok(())
}

fn check_call(location: &str, item: &Value) -> Checked {
    let id = item["call_id"].as_str().unwrap_or_default();
    if id.is_empty() || id.len() > MAX_ID {
        return broken(format!("{location}.call_id"), format!("expected a string with length 1 to {MAX_ID}"));
    }
    check_name(&format!("{location}.name"), &item["name"], MAX_NAME)?;
    let arguments = item["arguments"].as_str().unwrap_or_default();
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => Ok(()),
        Err(error) => broken(format!("{location}.arguments"), format!("not a JSON object: {error}")),
    }
}

fn check_thoughts(location: &str, item: &Value, next: Option<&Value>) -> Checked {
    let id = item["id"].as_str().unwrap_or_default();
    refuse_if(item["summary"].as_array().is_none(), format!("{location}.summary"), "Missing required parameter")?;
    let has_content = item["content"].as_array().is_some_and(|content| !content.is_empty());
    if !has_content && item["encrypted_content"].as_str().is_none_or(str::is_empty) {
        let message = format!("Item with id '{id}' not found. Items are not persisted when `store` is set to false.");
        return broken(location, message);
    }
    let follows = |next: &&Value| {
        matches!(next["type"].as_str(), Some("reasoning" | "function_call" | "web_search_call"))
            || next["role"] == "assistant"
    };
    match next.filter(follows) {
        Some(_) => Ok(()),
        None => broken(
            location,
            format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
        ),
    }
}
