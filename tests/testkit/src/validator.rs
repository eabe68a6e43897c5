//! The rules of chat providers, as strict as the strictest provider. A request that breaks a rule is rejected with 400,
//! and a history that breaks a rule makes its session permanently unusable.
//!
//! - [`chat_completions`]: the body of a request to `…/chat/completions`, by OpenAI's rules and by the rules of chat
//!   templates in compatible servers (one system message at the start, no empty messages, arguments that are objects).
//! - `parts`: text and pictures.
//! - [`messages()`]: the body of a request to `…/messages`, by Anthropic's rules.
//! - [`responses()`]: the body of a request to `…/responses`, by OpenAI's rules.

mod chat;
mod messages;
mod parts;
mod responses;
mod tools;

use std::fmt;

use serde_json::{Map, Value, json};

/// Maximum length of a call ID.
const MAX_ID: usize = 40;
/// Maximum length of a tool name.
const MAX_NAME: usize = 64;
/// Maximum number of cache markers in one request.
const MAX_MARKS: usize = 4;

/// A rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// Location in the body, such as `messages[3].content`.
    pub place: String,
    /// Description of the problem.
    pub what: String,
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

type Checked = Result<(), BrokenRule>;

/// Rules that a provider does not enforce, or enforces less strictly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leeway {
    /// Call IDs may contain any characters and have any length.
    pub any_ids: bool,
    /// Calls may have `extra_content`.
    pub extra_content: bool,
    /// Assistant messages may have `reasoning_details`.
    pub reasoning_details: bool,
    /// The last part of up to four messages may have a cache marker.
    pub cache_marks: bool,
}

/// Checks the body of a chat completions request against all rules.
///
/// # Errors
/// Returns the first rule that the body breaks.
pub fn chat_completions(body: &[u8]) -> Result<(), BrokenRule> {
    chat_completions_of(body, Leeway::default())
}

/// Checks the body of a chat completions request against all rules except for `leeway`.
///
/// # Errors
/// Returns the first rule that the body breaks.
pub fn chat_completions_of(body: &[u8], leeway: Leeway) -> Result<(), BrokenRule> {
    // Parsing ensures valid UTF-8 without unpaired surrogates.
    let mut body: Value =
        serde_json::from_slice(body).or_else(|error| broken("body", format!("invalid JSON: {error}")))?;
    if leeway != Leeway::default() {
        leeway.apply(&mut body);
    }
    chat::check(&body)
}

/// Checks the body of an Anthropic Messages request.
///
/// # Errors
/// Returns the first rule that the body breaks.
pub fn messages(body: &[u8]) -> Result<(), BrokenRule> {
    let body = serde_json::from_slice(body).or_else(|error| broken("body", format!("invalid JSON: {error}")))?;
    messages::check(&body)
}

/// Checks the body of an OpenAI Responses request.
///
/// # Errors
/// Returns the first rule that the body breaks.
pub fn responses(body: &[u8]) -> Result<(), BrokenRule> {
    let body = serde_json::from_slice(body).or_else(|error| broken("body", format!("invalid JSON: {error}")))?;
    responses::check(&body)
}

impl Leeway {
    /// Rewrites content that only this provider permits, so that the strict rules accept the request.
    fn apply(self, body: &mut Value) {
        let mut ids: Vec<Value> = Vec::new();
        let mut usual = |id: &mut Value| {
            if !self.any_ids || id.as_str().is_none_or(str::is_empty) {
                return;
            }
            let index = ids.iter().position(|index| index == id);
            let number = index.unwrap_or(ids.len());
            if index.is_none() {
                ids.push(id.clone());
            }
            *id = format!("id{number}").into();
        };
        let mut marks = if self.cache_marks { MAX_MARKS } else { 0 };
        for message in body["messages"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            if marks > 0 && unmark(message) {
                marks -= 1;
            }
            if self.reasoning_details {
                message.remove("reasoning_details");
            }
            for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(call) = call.as_object_mut().filter(|_| self.extra_content) {
                    call.remove("extra_content");
                }
                usual(&mut call["id"]);
            }
            if let Some(id) = message.get_mut("tool_call_id") {
                usual(id);
            }
        }
    }
}

/// Removes the cache marker of a message, if any. Returns true if it was removed.
fn unmark(message: &mut Map<String, Value>) -> bool {
    let Some(parts) = message.get_mut("content").and_then(Value::as_array_mut) else { return false };
    let Some(last) = parts.last_mut().and_then(Value::as_object_mut) else { return false };
    if last.remove("cache_control") != Some(json!({"type": "ephemeral"})) {
        return false;
    }
    if let [part] = parts.as_slice()
        && part["type"] == "text"
    {
        let text = part["text"].clone();
        message.insert("content".to_owned(), text);
    }
    true
}

fn broken<T>(location: impl Into<String>, problem: impl Into<String>) -> Result<T, BrokenRule> {
    Err(BrokenRule { place: location.into(), what: problem.into() })
}

/// Rejects a request if the condition is true.
fn refuse_if(condition: bool, location: impl Into<String>, problem: impl Into<String>) -> Checked {
    if condition { broken(location, problem) } else { Ok(()) }
}

/// Returns the first field of an object that is not in `fields`.
fn unknown_field<'v>(object: &'v Value, fields: &[&str]) -> Option<&'v str> {
    object.as_object()?.keys().map(String::as_str).find(|field| !fields.contains(field))
}

/// Checks that a text is not blank.
fn check_not_blank(location: &str, text: &Value) -> Checked {
    match text.as_str() {
        None => broken(location, format!("expected a string, found {text}")),
        Some(text) if text.trim().is_empty() => broken(location, "the text must not be blank"),
        Some(_) => Ok(()),
    }
}

/// Checks a name that may contain letters, digits, `_` and `-`.
fn check_name(location: &str, name: &Value, longest: usize) -> Checked {
    let fine = |name: &str| {
        (1..=longest).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    match name.as_str() {
        Some(name) if fine(name) => Ok(()),
        _ => broken(location, format!("{name} does not match ^[a-zA-Z0-9_-]{{1,{longest}}}$")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(messages: Value) -> Value {
        json!({"model": "m", "stream": true, "messages": messages})
    }

    #[track_caller]
    fn check(body: &Value, expected: Option<&str>) {
        check_text(&body.to_string(), expected);
    }

    #[track_caller]
    fn check_text(body: &str, expected: Option<&str>) {
        assert_outcome(chat_completions(body.as_bytes()), expected, body);
    }

    #[track_caller]
    fn assert_outcome(checked: Checked, expected: Option<&str>, body: &str) {
        let found = checked.err().map(|broken| broken.to_string());
        match (&found, expected) {
            (None, None) => {}
            (Some(found), Some(expected)) if found.contains(expected) => {}
            _ => panic!("{found:?} instead of {expected:?} for {body}"),
        }
    }

    fn call(id: &str, name: &str, arguments: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    /// Returns a conversation with these calls, followed by `later`.
    fn with_calls(calls: Value, later: &[Value]) -> Value {
        let mut messages = vec![
            json!({"role": "system", "content": "s"}),
            json!({"role": "user", "content": "u"}),
            json!({"role": "assistant", "content": null, "tool_calls": calls}),
        ];
        messages.extend_from_slice(later);
        body(json!(messages))
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "r"})
    }

    #[test]
    fn message_roles_and_text_are_validated() {
        let system = json!({"role": "system", "content": "s"});
        let user = json!({"role": "user", "content": "u"});
        let assistant = json!({"role": "assistant", "content": "a"});
        check(&body(json!([system, user])), None);
        check(&body(json!([system, user, assistant, user])), None);
        check(&body(json!([])), Some("messages: "));
        check(&body(json!([user])), Some("messages[0].role: the first message"));
        check(&body(json!([system])), Some("messages: no user message"));
        check(&body(json!([system, system, user])), Some("messages[1].role"));
        check(&body(json!([system, assistant, user])), Some("messages[1].role"));
        check(&body(json!([system, user, assistant])), Some("messages[2].role: the last message"));
        check(&body(json!([system, user, user])), Some("messages[2].role: two consecutive user messages"));
        check(&body(json!([system, {"role": "user", "content": "\n "}])), Some("messages[1].content"));
        check(&body(json!([system, {"role": "user", "content": null}])), Some("messages[1].content"));
        check(&body(json!([system, user, {"role": "assistant", "content": ""}, user])), Some("messages[2].content"));
        check(&body(json!([system, {"role": "bot", "content": "x"}])), Some("messages[1].role"));
        check(&body(json!([system, {"role": "user", "content": "x", "thoughts": "y"}])), Some("messages[1].thoughts"));
    }

    #[test]
    fn calls_and_results_must_pair() {
        let two = json!([call("a", "x", "{}"), call("b", "y", "{\"p\":1}")]);
        check(&with_calls(two.clone(), &[result("a"), result("b")]), None);
        check(&with_calls(two.clone(), &[result("b"), result("a")]), None);
        check(&with_calls(two.clone(), &[result("a")]), Some("messages[2].tool_calls: no result for call \"b\""));
        let between = json!({"role": "user", "content": "wait"});
        check(&with_calls(two.clone(), &[result("a"), between, result("b")]), Some("no result for call \"b\""));
        check(&with_calls(two.clone(), &[result("a"), result("b"), result("b")]), Some("messages[5].tool_call_id"));
        check(&with_calls(two, &[result("a"), result("c")]), Some("messages[4].tool_call_id"));
        check(&with_calls(json!([]), &[]), Some("messages[2].tool_calls"));
        let duplicate_calls = json!([call("a", "x", "{}"), call("a", "y", "{}")]);
        check(&with_calls(duplicate_calls, &[result("a")]), Some("is a duplicate"));
        let later = [result("a"), json!({"role": "assistant", "tool_calls": [call("a", "x", "{}")]}), result("a")];
        check(&with_calls(json!([call("a", "x", "{}")]), &later), Some("is a duplicate"));
        let blank = json!({"role": "tool", "tool_call_id": "a", "content": ""});
        check(&with_calls(json!([call("a", "x", "{}")]), &[blank]), Some("messages[3].content"));
    }

    #[test]
    fn malformed_calls_are_rejected() {
        let one = |call: Value| with_calls(json!([call]), &[result("a")]);
        check(&one(call("a", "", "{}")), Some("function.name"));
        check(&one(call("a", "read file", "{}")), Some("function.name"));
        check(&one(call("a", &"x".repeat(65), "{}")), Some("function.name"));
        check(&one(call("a", "x", "")), Some("function.arguments"));
        check(&one(call("a", "x", "{\"p\":")), Some("function.arguments"));
        check(&one(call("a", "x", "[1]")), Some("function.arguments"));
        check(&one(call("a", "x", r#"{"p":"\ud83d"}"#)), Some("function.arguments"));
        check(&one(call("a", "x", r#"{"p":"\ud83d\ude00"}"#)), None);
        check(&one(json!({"id": "a", "type": "function", "function": {"name": "x", "arguments": {}}})), Some("string"));
        let id = "a b";
        check(&with_calls(json!([call(id, "x", "{}")]), &[result(id)]), Some("tool_calls[0].id"));
        let long = "a".repeat(41);
        check(&with_calls(json!([call(&long, "x", "{}")]), &[result(&long)]), Some("tool_calls[0].id"));
        let mut signed = call("a", "x", "{}");
        signed["extra_content"] = json!({"google": {}});
        check(&one(signed.clone()), Some("tool_calls[0].extra_content"));
        let body = with_calls(json!([signed]), &[result("a")]).to_string();
        let leeway = Leeway { extra_content: true, ..Leeway::default() };
        assert_eq!(chat_completions_of(body.as_bytes(), leeway), Ok(()));
    }

    #[test]
    fn calls_pair_with_any_ids_if_permitted() {
        let leeway = Leeway { any_ids: true, ..Leeway::default() };
        let checked = |body: &Value| chat_completions_of(body.to_string().as_bytes(), leeway).is_ok();
        let id = "functions.x:0";
        assert!(checked(&with_calls(json!([call(id, "x", "{}")]), &[result(id)])));
        assert!(!checked(&with_calls(json!([call(id, "x", "{}")]), &[result("functions.x:1")])));
        assert!(!checked(&with_calls(json!([call(id, "x", "{}"), call(id, "x", "{}")]), &[result(id), result(id)])));
    }

    #[test]
    fn body_must_be_portable_json() {
        check_text("", Some("body: invalid JSON"));
        let user = r#"{"role":"user","content":"TEXT"}"#;
        let with = |text: &str| {
            let user = user.replace("TEXT", text);
            format!(r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{user}]}}"#)
        };
        check_text(&with("fine \\ud83d\\ude00"), None);
        check_text(&with("half \\ud83d"), Some("body: invalid JSON"));
        check_text(&with("half \\ude00 \\u0041"), Some("body: invalid JSON"));
        let found = chat_completions(b"{\"model\":\"\xff\"}").unwrap_err();
        assert_eq!(found.place, "body");
    }

    #[test]
    fn invalid_tool_lists_are_rejected() {
        let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}});
        let offer = |tools: Value| {
            let mut body = body(json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]));
            body["tools"] = tools;
            body
        };
        let fine = json!({"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]});
        check(&offer(json!([tool("a", fine.clone()), tool("b", json!({"type": "object", "properties": {}}))])), None);
        check(&offer(json!([])), Some("tools: "));
        check(&offer(json!([tool("a", fine.clone()), tool("a", fine)])), Some("tools[1].function.name"));
        check(&offer(json!([tool("a.b", json!({"type": "object"}))])), Some("tools[0].function.name"));
        check(&offer(json!([tool("a", json!({"type": "string"}))])), Some("tools[0].function.parameters"));
        check(&offer(json!([tool("a", json!("object"))])), Some("tools[0].function.parameters"));
        let asks_for_more = json!({"type": "object", "properties": {}, "required": ["p"]});
        check(&offer(json!([tool("a", asks_for_more)])), Some("tools[0].function.parameters.required"));
    }

    #[test]
    fn out_of_range_settings_are_rejected() {
        let with = |key: &str, value: Value| {
            let mut body = body(json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]));
            body[key] = value;
            body
        };
        check(&with("model", json!("")), Some("model: "));
        check(&with("temperature", json!(0.5)), None);
        check(&with("temperature", json!(3)), Some("temperature: "));
        check(&with("max_tokens", json!(0)), Some("max_tokens: "));
        check(&with("stream_options", json!({"include_usage": true})), None);
        let mut whole = with("stream_options", json!({"include_usage": true}));
        whole["stream"] = json!(false);
        check(&whole, Some("stream_options: "));
        check(&with("stop", json!(["a", "b", "c", "d", "e"])), Some("stop: "));
    }

    #[test]
    fn messages_requests_are_validated() {
        let user = |blocks: Value| json!({"role": "user", "content": blocks});
        let assistant = |blocks: Value| json!({"role": "assistant", "content": blocks});
        let text = |text: &str| json!({"type": "text", "text": text});
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "now", "input": {}});
        let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "noon"});
        let tools = json!([{"name": "now", "description": "d", "input_schema": {"type": "object"}}]);
        let whole = |messages: Value| json!({"model": "m", "max_tokens": 9, "messages": messages, "tools": tools});
        let check = |body: &Value, expected: Option<&str>| {
            assert_outcome(messages(body.to_string().as_bytes()), expected, &body.to_string());
        };
        let question = user(json!([text("a")]));
        let called = assistant(json!([call("x"), call("y")]));
        check(&whole(json!([question])), None);
        check(&whole(json!([question, called, user(json!([result("y"), result("x"), text("b")]))])), None);
        check(&whole(json!([question, called, user(json!([result("x")]))])), Some("without `tool_result` blocks"));
        check(
            &whole(json!([question, called, user(json!([text("b"), result("x"), result("y")]))])),
            Some("must precede all other blocks"),
        );
        check(&whole(json!([question, user(json!([result("x")]))])), Some("roles must alternate"));
        let shown = |block: Value| {
            let result = json!({"type": "tool_result", "tool_use_id": "x", "content": [text("noon"), block]});
            whole(json!([question, assistant(json!([call("x")])), user(json!([result]))]))
        };
        let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
        check(&shown(json!({"type": "image", "source": source})), None);
        check(&shown(json!({"type": "image", "source": {"type": "url"}})), Some("only inline pictures"));
        check(&shown(json!({"type": "audio"})), Some("not allowed in a result"));
        check(&whole(json!([question, assistant(json!([text("b")]))])), Some("prefill"));
        check(&whole(json!([question, assistant(json!([text(" ")])), question])), Some("messages.1.content.0.text"));
        check(&whole(json!([assistant(json!([text("b")])), question])), Some("first message"));
        let thought = json!({"type": "thinking", "thinking": "", "signature": "s"});
        check(&whole(json!([question, assistant(json!([thought, text("b")])), question])), None);
        check(&whole(json!([question, assistant(json!([text("b"), thought])), question])), Some("final block"));
        let unsigned = json!({"type": "thinking", "thinking": "hm", "signature": ""});
        check(
            &whole(json!([question, assistant(json!([unsigned, text("b")])), question])),
            Some("signature: Field required"),
        );
        let mut body = whole(json!([question]));
        body["top_k"] = json!(3);
        check(&body, Some("top_k: Extra inputs are not permitted"));
        let mut body = whole(json!([question]));
        body["max_tokens"] = json!(null);
        check(&body, Some("max_tokens: Field required"));
        let mut body = whole(json!([question]));
        (body["thinking"], body["temperature"]) = (json!({"type": "adaptive"}), json!(0.5));
        check(&body, Some("temperature"));
        let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
        check(&whole(json!([user(json!([marked, marked, marked, marked]))])), None);
        check(&whole(json!([user(json!([marked, marked, marked, marked, marked]))])), Some("maximum of 4 blocks"));
        let mut body = whole(json!([question, called, user(json!([result("x"), result("y")]))]));
        body["tools"] = json!(null);
        check(&body, Some("must define tools"));
    }

    #[test]
    fn responses_requests_are_validated() {
        let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]});
        let assistant = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "now", "arguments": "{}"});
        let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "noon"});
        let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"});
        let whole = |input: Value| json!({"model": "m", "store": false, "input": input});
        let check = |body: &Value, expected: Option<&str>| {
            assert_outcome(responses(body.to_string().as_bytes()), expected, &body.to_string());
        };
        let with = |field: &str, value: Value| {
            let mut body = whole(json!([user]));
            body[field] = value;
            body
        };
        check(
            &whole(json!([user, thought, assistant("a"), thought, call("a"), call("b"), output("b"), output("a")])),
            None,
        );
        check(&with("store", json!(true)), Some("store: it must be false"));
        check(&with("previous_response_id", json!("resp_1")), Some("Unknown parameter: 'previous_response_id'"));
        check(&with("max_output_tokens", json!(15)), Some("Expected a value >= 16"));
        check(&with("prompt_cache_key", json!("k".repeat(65))), Some("prompt_cache_key"));
        check(&with("include", json!(["everything"])), Some("include: Invalid value"));
        check(&with("reasoning", json!({"effort": "much"})), Some("reasoning.effort"));
        let tool = json!({"type": "function", "name": "now", "description": "d", "parameters": {"type": "object"}});
        check(&with("tools", json!([tool])), Some("tools[0].strict"));
        let mut lax = tool.clone();
        lax["strict"] = json!(false);
        check(&with("tools", json!([lax])), None);
        check(&with("tools", json!([lax, lax])), Some("tools[1].name"));
        check(&with("tools", json!([{"type": "function", "function": tool}])), Some("tools[0].function"));
        check(&whole(json!([])), Some("at least one item"));
        check(&whole(json!([user, assistant(" "), user])), Some("must not be blank"));
        check(&whole(json!([user, assistant("a")])), Some("no input to answer"));
        check(&whole(json!([user, call("a"), user])), Some("No tool output found for function call a."));
        check(&whole(json!([user, call("a"), call("b"), output("b")])), Some("No tool output found"));
        check(&whole(json!([user, output("a")])), Some("No tool call found"));
        check(&whole(json!([user, call("a"), output("a"), call("a"), output("a")])), Some("is a duplicate"));
        check(&whole(json!([user, thought])), Some("without its required following item"));
        check(&whole(json!([user, thought, user])), Some("without its required following item"));
        let mut bare = thought.clone();
        bare["encrypted_content"] = Value::Null;
        check(&whole(json!([user, bare, assistant("a"), user])), Some("Items are not persisted"));
        let mut phased = assistant("a");
        phased["phase"] = json!("commentary");
        check(&whole(json!([user, phased, user])), None);
        let image = |url: &str| {
            let content = json!([{"type": "input_image", "image_url": url, "detail": "auto"}]);
            whole(json!([{"type": "message", "role": "user", "content": content}]))
        };
        check(&image("data:image/png;base64,iVBORw0KGgo="), None);
        check(&image("https://h/a.png"), Some("image_url"));
        let shown = |kind: &str| {
            let part = json!({"type": kind, "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"});
            let output = json!([{"type": "input_text", "text": "noon"}, part]);
            let output = json!({"type": "function_call_output", "call_id": "a", "output": output});
            whole(json!([user, call("a"), output]))
        };
        check(&shown("input_image"), None);
        check(&shown("image_url"), Some("output[1].type: Invalid value"));
        let mut swapped = user.clone();
        swapped["content"][0]["type"] = json!("output_text");
        check(&whole(json!([swapped])), Some("Supported values are: 'input_text'"));
    }
}
