//! Converts a Responses request to chat completions.

use serde_json::{Value, json};

/// Returns the view of a body as chat completions.
pub(super) fn of(body: &Value) -> Value {
    let mut view = body.clone();
    let mut messages: Vec<Value> = Vec::new();
    if body["instructions"].is_string() {
        messages.push(json!({"role": "system", "content": body["instructions"]}));
    }
    let mut of_results: Vec<Value> = Vec::new();
    for item in body["input"].as_array().into_iter().flatten() {
        if item["type"] != "function_call_output" && !of_results.is_empty() {
            messages.push(json!({"role": "user", "content": std::mem::take(&mut of_results)}));
        }
        match item["type"].as_str().unwrap_or_default() {
            "message" if item["role"] == "assistant" => {
                let answer = answer(&mut messages);
                let before = answer["content"].as_str().map(|before| format!("{before}\n\n")).unwrap_or_default();
                answer["content"] = format!("{before}{}", texts(&item["content"]).concat()).into();
            }
            "message" => messages.push(said(item)),
            "function_call" => {
                let function = json!({"name": item["name"], "arguments": item["arguments"]});
                let call = json!({"id": item["call_id"], "type": "function", "function": function});
                match answer(&mut messages)["tool_calls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => answer(&mut messages)["tool_calls"] = json!([call]),
                }
            }
            "function_call_output" => {
                let output = &item["output"];
                let text = if output.is_array() { texts(output).concat().into() } else { output.clone() };
                messages.push(json!({"role": "tool", "tool_call_id": item["call_id"], "content": text}));
                let parts = output.as_array().into_iter().flatten();
                of_results.extend(parts.filter(|part| part["type"] == "input_image").map(picture));
            }
            _ => {}
        }
    }
    // In chat completions, the pictures of results follow the results.
    if !of_results.is_empty() {
        messages.push(json!({"role": "user", "content": of_results}));
    }
    view["messages"] = messages.into();
    if let Some(fields) = view.as_object_mut() {
        fields.remove("input");
        fields.remove("instructions");
        if let Some(max) = fields.remove("max_output_tokens") {
            fields.insert("max_tokens".to_owned(), max);
        }
    }
    if let Some(tools) = super::tools(body, "parameters") {
        view["tools"] = tools;
    }
    view
}

fn texts(parts: &Value) -> Vec<&str> {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

fn picture(part: &Value) -> Value {
    json!({"type": "image_url", "image_url": {"url": part["image_url"]}})
}

/// Returns the assistant message under construction, which is the last message. Adds it if necessary.
fn answer(messages: &mut Vec<Value>) -> &mut Value {
    if messages.last().is_none_or(|last| last["role"] != "assistant") {
        messages.push(json!({"role": "assistant", "content": null}));
    }
    let last = messages.len() - 1;
    &mut messages[last]
}

fn said(item: &Value) -> Value {
    let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    if parts.iter().all(|part| part["type"] == "input_text") {
        return json!({"role": "user", "content": texts(&item["content"]).join("\n\n")});
    }
    let mut content: Vec<Value> = Vec::new();
    for part in parts {
        if part["type"] == "input_image" {
            content.push(picture(part));
            continue;
        }
        let text = part["text"].as_str().unwrap_or_default();
        match content.last_mut().filter(|last| last["type"] == "text") {
            Some(last) => last["text"] = format!("{}\n\n{text}", last["text"].as_str().unwrap_or_default()).into(),
            None => content.push(json!({"type": "text", "text": text})),
        }
    }
    json!({"role": "user", "content": content})
}
