//! Requirements of the providers, with their error messages.

use serde_json::{Value, json};

use super::{Provider, Reply, answers::IssuedCalls};

/// Value that Gemini accepts instead of a signature, for calls from another model.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Fields of an assistant message that every server accepts.
const STANDARD_FIELDS: [&str; 4] = ["role", "content", "tool_calls", "refusal"];

pub(super) fn refusal(provider: Provider, body: &Value, issued: &IssuedCalls) -> Option<Reply> {
    let messages = body["messages"].as_array()?;
    match provider {
        Provider::Mistral => mistral(messages),
        Provider::Gemini => gemini(messages, issued),
        Provider::DeepSeek => deepseek(messages, issued),
        Provider::Kimi => kimi(messages, issued),
        Provider::Groq => groq(messages),
        Provider::OpenRouter => openrouter(messages, issued),
        Provider::Ollama | Provider::Anthropic | Provider::OpenAi => None,
        Provider::OpenRouterWithoutTools
        | Provider::OllamaWithoutTools
        | Provider::VllmWithoutParser
        | Provider::LlamaCppWithoutJinja => without_tools(provider, body),
    }
}

/// Returns the assistant messages with calls, and the indices of these messages.
fn messages_with_calls(messages: &[Value]) -> impl Iterator<Item = (usize, &Value, &Vec<Value>)> {
    messages.iter().enumerate().filter_map(|(at, message)| Some((at, message, message["tool_calls"].as_array()?)))
}

/// Returns the assistant messages with calls after the last user message.
fn messages_with_calls_of_turn(messages: &[Value]) -> impl Iterator<Item = (usize, &Value, &Vec<Value>)> {
    let begins = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
    messages_with_calls(messages).filter(move |(at, ..)| *at > begins)
}

/// Returns the first field of an assistant message or of a call that is not in `allowed`.
fn unknown_field(messages: &[Value], allowed: &[&str]) -> Option<(usize, String)> {
    messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant").find_map(|(at, message)| {
        let fields = message.as_object().into_iter().flatten().map(|(name, _)| name);
        let mut foreign =
            fields.filter(|name| !STANDARD_FIELDS.contains(&name.as_str()) && !allowed.contains(&name.as_str()));
        Some((at, foreign.next()?.clone()))
    })
}

fn mistral(messages: &[Value]) -> Option<Reply> {
    if let Some((at, field)) = unknown_field(messages, &[]) {
        let detail = json!([{
            "type": "extra_forbidden", "loc": ["body", "messages", at, "assistant", field],
            "msg": "Extra inputs are not permitted", "input": "",
        }]);
        let error = json!({
            "object": "error", "message": {"detail": detail}, "type": "invalid_request_message_error", "param": null,
            "code": null,
        });
        return Some(Reply::status(422, error.to_string()));
    }
    let fits = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if messages.windows(2).any(|pair| pair[0]["role"] == "tool" && pair[1]["role"] == "user") {
        let error = json!({
            "object": "error", "message": "Unexpected role 'user' after role 'tool'",
            "type": "invalid_request_message_order", "param": null, "code": "3230",
        });
        return Some(Reply::status(400, error.to_string()));
    }
    let calls = messages_with_calls(messages).flat_map(|(_, _, calls)| calls.iter().map(|call| &call["id"]));
    let results = messages.iter().map(|message| &message["tool_call_id"]).filter(|id| !id.is_null());
    let wrong = calls.chain(results).find(|id| !id.as_str().is_some_and(fits))?;
    let message = format!(
        "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9.",
        wrong.as_str().unwrap_or_default()
    );
    let error =
        json!({"object": "error", "message": message, "type": "invalid_function_call", "param": null, "code": "3280"});
    Some(Reply::status(400, error.to_string()))
}

fn gemini(messages: &[Value], issued: &IssuedCalls) -> Option<Reply> {
    let invalid = |message: String| {
        let error = json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT"});
        Some(Reply::status(400, json!([{ "error": error }]).to_string()))
    };
    if let Some((at, field)) = unknown_field(messages, &[]) {
        let message =
            format!("Invalid JSON payload received. Unknown name \"{field}\" at 'messages[{at}]': Cannot find field.");
        return invalid(message);
    }
    for (at, _, calls) in messages_with_calls_of_turn(messages) {
        let Some(first) = calls.first() else { continue };
        let signature = first["extra_content"]["google"]["thought_signature"].as_str().unwrap_or_default();
        let issued_signature = issued.call(first).and_then(|call| call.signature.as_deref());
        if signature.is_empty() {
            return invalid(format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                 correctly, and missing thought_signature may lead to degraded model performance. Additional data, \
                 function call `default_api:{}` , position {at}. Please refer to \
                 https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                first["function"]["name"].as_str().unwrap_or_default()
            ));
        }
        if issued_signature != Some(signature) && signature != UNSIGNED {
            return invalid("Corrupted thought signature.".to_owned());
        }
    }
    None
}

fn deepseek(messages: &[Value], issued: &IssuedCalls) -> Option<Reply> {
    let lacks = |(_, message, calls): &(usize, &Value, &Vec<Value>)| match message["reasoning_content"].as_str() {
        None => true,
        // The provider accepts any reasoning, but its own reasoning must be unchanged.
        Some(thoughts) => calls.iter().filter_map(|call| issued.call(call)).any(|call| call.thoughts != thoughts),
    };
    messages_with_calls_of_turn(messages).find(lacks)?;
    let message = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    let error = json!({
        "message": message, "type": "invalid_request_error", "param": null, "code": "invalid_request_error",
    });
    Some(Reply::status(400, json!({ "error": error }).to_string()))
}

fn kimi(messages: &[Value], issued: &IssuedCalls) -> Option<Reply> {
    let invalid = |message: String| {
        let error = json!({"message": message, "type": "invalid_request_error"});
        Some(Reply::status(400, json!({ "error": error }).to_string()))
    };
    for (at, message, calls) in messages_with_calls(messages) {
        if !message["reasoning_content"].is_string() {
            return invalid(format!(
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
            ));
        }
        // The real server fails a few calls later, without an error message.
        let changed = calls.iter().find(|call| issued.call(call).is_some_and(|known| call["id"] != *known.id));
        if let Some(changed) = changed {
            return invalid(format!("Invalid request: tool_call_id {} is not found", changed["id"]));
        }
    }
    None
}

fn groq(messages: &[Value]) -> Option<Reply> {
    let (at, field) = unknown_field(messages, &[])?;
    let message = format!(
        "'messages.{at}' : for 'role:assistant' the following must be satisfied[('messages.{at}' : property '{field}' is \
         unsupported)]"
    );
    let error = json!({"message": message, "type": "invalid_request_error"});
    Some(Reply::status(400, json!({ "error": error }).to_string()))
}

fn openrouter(messages: &[Value], issued: &IssuedCalls) -> Option<Reply> {
    let wrong = |(at, message, calls): (usize, &Value, &Vec<Value>)| {
        let call = calls.iter().find_map(|call| issued.call(call))?;
        let details = &message["reasoning_details"];
        if details.is_null() {
            return Some(format!(
                "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When \
                 `thinking` is enabled, a final `assistant` message must start with a thinking block"
            ));
        }
        (*details != call.details).then(|| format!("messages.{at}.content.0: Invalid `signature` in `thinking` block"))
    };
    let problem = messages_with_calls_of_turn(messages).find_map(wrong)?;
    let raw = json!({"type": "error", "error": {"type": "invalid_request_error", "message": problem}});
    let error = json!({
        "message": "Provider returned error", "code": 400,
        "metadata": {"raw": raw.to_string(), "provider_name": "Anthropic"},
    });
    Some(Reply::status(400, json!({ "error": error }).to_string()))
}

fn without_tools(provider: Provider, body: &Value) -> Option<Reply> {
    let first = body["tools"][0]["function"]["name"].as_str()?;
    let (status, error) = match provider {
        Provider::OpenRouterWithoutTools => {
            let message = format!(
                "No endpoints found that support tool use. Try disabling \"{first}\". To learn more about provider \
                 routing, visit: https://openrouter.ai/docs/guides/routing/provider-selection"
            );
            (404, json!({"error": {"message": message, "code": 404}}))
        }
        Provider::OllamaWithoutTools => {
            let message = "registry.ollama.ai/library/gemma3:latest does not support tools";
            (400, json!({"error": {"message": message, "type": "api_error", "param": null, "code": null}}))
        }
        // The server accepts tools if the request forbids calling them.
        Provider::VllmWithoutParser if body["tool_choice"] == "none" => return None,
        Provider::VllmWithoutParser => {
            let message = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
            (400, json!({"object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400}))
        }
        _ => {
            let error = json!({"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"});
            (500, json!({ "error": error }))
        }
    };
    Some(Reply::status(status, error.to_string()))
}
