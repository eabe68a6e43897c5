//! OpenAI-compatible chat completions, as offered by OpenAI, DeepSeek, Moonshot, GLM, vLLM, Ollama and llama.cpp.
//!
//! - this file: the body, and cache marks for servers that accept them. Also the conversation in the form that the
//!   strictest chat templates accept: one system message first, then user and assistant alternate, and results come
//!   only after their calls. Additional data of an answer is sent back unchanged to the model that gave it, and to no
//!   other.
//! - `reader`: events into the answer, usage, and signed reasoning; native tool calls, assembled from their pieces.

mod reader;

use std::borrow::Cow;

use agentd_core::{
    answer_schema::AnswerSchema,
    model::{Message, ShownPicture},
    origin::{AnswerOrigin, ServerFields, model_origin},
    tool::{ToolCall, ToolSpec},
    untrusted,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Serialize, Serializer};
use serde_json::{Value, json, value::RawValue};

// Shared with llama.cpp's other dialect.
pub(crate) use self::reader::Timings;
use crate::{
    answer::text_protocol::{self, join},
    http::{failure::Failure, refusals::Change},
    wire::{
        dialect::{Dialect, EncodedRequest, RequestPlan, ToolsJsonCache, allows_calls_with_schema, check_schema},
        sanitise::{EMPTY_USER_MESSAGE, NO_OUTPUT, PICTURES, WireIds, is_blank, tool_arguments, tool_name},
    },
};

/// Fields that are always required.
const FIXED: [&str; 5] = ["model", "messages", "stream", "tools", "tool_choice"];
/// Field with the format of the answer.
const RESPONSE_FORMAT: &str = "response_format";
/// OpenRouter's request for the cost, as a field that a server may refuse.
const USAGE: &str = "usage";

/// Dialect of one model.
#[derive(Default)]
pub(crate) struct OpenAi {
    tools: ToolsJsonCache,
}

impl Dialect for OpenAi {
    fn encode(&self, plan: &RequestPlan<'_>) -> Result<EncodedRequest, Failure> {
        let RequestPlan { config, target, info, request, form, .. } = *plan;
        let (host, native, origin) = (target.host(), plan.is_native(), model_origin(&info.id, target.display_url()));
        let messages = text_protocol::messages(request, native);
        let tools = self.tools.for_request(plan, wire_tool)?;
        let renamed = form.has(&Change::MaxCompletionTokens);
        let max_tokens = config.max_answer_tokens(request).filter(|_| form.sends("max_tokens"));
        let schema = self.sent_schema(plan).map(check_schema).transpose()?;
        let recipient = Recipient {
            id: &info.id,
            origin: &origin,
            requires_reasoning: form.echoes_reasoning(config),
            requires_alternation: form.has(&Change::WordsInResults),
        };
        let mut body = plan.body();
        body.set("model", &info.id)?;
        let mut wire = wire_messages(&messages, recipient);
        if sends_cache_marks(plan) && form.sends(CACHE) {
            mark(&mut wire);
        }
        body.set("messages", &wire)?;
        body.set_some("tools", tools.as_ref())?;
        // The tools are sent even if calls are not allowed, so that the request starts like the previous one.
        body.set_some("tool_choice", (tools.is_some() && !request.may_call).then_some("none"))?;
        body.set_some("temperature", config.temperature.filter(|_| form.sends("temperature")))?;
        body.set_some("max_tokens", max_tokens.filter(|_| !renamed))?;
        body.set_some("max_completion_tokens", max_tokens.filter(|_| renamed))?;
        body.set_some("stop", (!native && !request.tools.is_empty()).then_some([text_protocol::STOP]))?;
        if let Some((schema, strict)) = schema {
            let form = format!(r#"{{"name":"answer","strict":{strict},"schema":{schema}}}"#);
            body.set_raw(RESPONSE_FORMAT, &format!(r#"{{"type":"json_schema","json_schema":{form}}}"#));
        }
        body.set("stream", &true)?;
        body.set_some("stream_options", form.sends("stream_options").then(|| json!({"include_usage": true})))?;
        let requests_cost = is_openrouter(host) && form.sends(USAGE);
        body.set_some(USAGE, requests_cost.then(|| json!({"include": true})))?;
        let reader = Box::new(reader::Reader::default());
        Ok(EncodedRequest { path: "/chat/completions".to_owned(), body: body.finish(), reader })
    }

    fn optional_fields(&self, plan: &RequestPlan<'_>) -> Vec<String> {
        let RequestPlan { config, target, request, form, .. } = *plan;
        let limits_answer = config.max_answer_tokens(request).is_some();
        let own = [
            ("temperature", config.temperature.is_some()),
            ("max_tokens", limits_answer && !form.has(&Change::MaxCompletionTokens)),
            ("stream_options", true),
            (CACHE, sends_cache_marks(plan)),
            (USAGE, is_openrouter(target.host())),
        ];
        plan.sent_fields(own, &FIXED)
    }

    fn sent_schema<'a>(&self, plan: &RequestPlan<'a>) -> Option<&'a AnswerSchema> {
        plan.schema_in(RESPONSE_FORMAT, allows_calls_with_schema(plan.target.host()))
    }
}

/// Returns true if cache marks are sent for this model, unless the field is configured.
fn sends_cache_marks(plan: &RequestPlan<'_>) -> bool {
    requires_cache_marks(plan.target.host(), &plan.info.id) && !plan.config.body.contains_key(CACHE)
}

fn wire_tool(ToolSpec { name, description, parameters, .. }: &ToolSpec) -> Value {
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

const OPENROUTER: &str = "openrouter.ai";

/// The cache mark, as a field that a server may refuse.
const CACHE: &str = "cache_control";

/// Returns true for OpenRouter's hosts, including the regional ones.
fn is_openrouter(host: &str) -> bool {
    host.strip_suffix(OPENROUTER).is_some_and(|region| region.is_empty() || region.ends_with('.'))
}

/// Returns true if the cache of this model at that host requires marks.
fn requires_cache_marks(host: &str, id: &str) -> bool {
    is_openrouter(host) && id.trim_start_matches('~').starts_with("anthropic/")
}

/// Adds cache marks after the instructions and at the last two positions where the model answers. Each request finds
/// the data that the previous request stored there.
fn mark(messages: &mut [WireMessage<'_>]) {
    let is_answer = |message: &WireMessage<'_>| matches!(message, WireMessage::Assistant { .. });
    let is_cache_position = |at: &usize| !is_answer(&messages[*at]) && messages.get(at + 1).is_none_or(is_answer);
    let is_system = matches!(messages.first(), Some(WireMessage::System { .. }));
    let positions = (0..messages.len()).rev().filter(is_cache_position).take(2).chain(is_system.then_some(0));
    for at in positions.collect::<Vec<usize>>() {
        match &mut messages[at] {
            WireMessage::System { content } | WireMessage::User { content } | WireMessage::Tool { content, .. } => {
                content.mark();
            }
            WireMessage::Assistant { .. } => {}
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: Content<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// Null for calls without text.
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Content<'a>,
    },
}

/// Text and pictures. Text alone is sent as a string, which every server accepts.
#[derive(Debug)]
struct Content<'a>(Vec<Part<'a>>);

#[derive(Debug, Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    shown: PartContent<'a>,
    /// Mark of a cache position.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartContent<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Serialize)]
struct ImageUrl {
    url: String,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [Part { shown: PartContent::Text { text }, cache_control: None }] => text.serialize(serializer),
            parts => parts.serialize(serializer),
        }
    }
}

impl<'a> Content<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self(vec![Part { shown: PartContent::Text { text: text.into() }, cache_control: None }])
    }

    fn add(&mut self, more: Cow<'a, str>) {
        match self.0.last_mut() {
            Some(Part { shown: PartContent::Text { text }, .. }) => join(text.to_mut(), &more),
            _ => self.0.extend(Self::text(more).0),
        }
    }

    /// Adds a picture if its bytes are available.
    fn show(&mut self, shown: &ShownPicture) {
        let Some(content) = &shown.content else { return };
        let url = format!("data:{};base64,{}", shown.picture.media_type, BASE64_STANDARD.encode(content));
        self.0.push(Part { shown: PartContent::ImageUrl { image_url: ImageUrl { url } }, cache_control: None });
    }

    /// Marks the end of the content as a cache position.
    fn mark(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.cache_control = Some(json!({"type": "ephemeral"}));
        }
    }
}

#[derive(Debug, Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: WireCallFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct WireCallFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// Converts the messages into the wire's format.
fn wire_messages<'a>(messages: &'a [Message], recipient: Recipient<'a>) -> Vec<WireMessage<'a>> {
    let mut wire = Vec::with_capacity(messages.len());
    let mut ids = WireIds::default();
    let mut of_results: Vec<&ShownPicture> = Vec::new();
    for message in messages {
        if !matches!(message, Message::Tool { .. }) {
            show_after_results(&mut wire, std::mem::take(&mut of_results));
        }
        match message {
            // Later system messages become user messages from the daemon, which every template supports.
            Message::System { text } => match wire.last_mut() {
                None => wire.push(WireMessage::System { content: Content::text(text) }),
                Some(WireMessage::System { content }) => content.add(text.as_str().into()),
                Some(_) => add_user(&mut wire, text),
            },
            Message::User { text } => match wire.last_mut() {
                Some(WireMessage::Tool { content, .. }) if recipient.requires_alternation && !is_blank(text) => {
                    content.add(untrusted::user_text_after_result(text).into());
                }
                _ => add_user(&mut wire, text),
            },
            Message::Pictures { text, pictures } => {
                add_user(&mut wire, if is_blank(text) { PICTURES } else { text });
                if let Some(WireMessage::User { content }) = wire.last_mut() {
                    pictures.iter().for_each(|picture| content.show(picture));
                }
            }
            Message::Assistant { text, reasoning, tool_calls, origin } => {
                let calls = tool_calls.iter().enumerate();
                let calls = calls.map(|(at, call)| wire_call(call, at == 0, origin, recipient, &mut ids)).collect();
                let thoughts = recipient.thoughts(reasoning.as_deref(), origin, !tool_calls.is_empty());
                let details = origin.details_of(recipient.origin).and_then(raw);
                add_answer(&mut wire, if is_blank(text) { "" } else { text }, thoughts, details, calls);
            }
            Message::Tool { call_id, name: _, text, pictures } => {
                let content = if is_blank(text) { NO_OUTPUT.into() } else { untrusted::escape_reminders(text) };
                wire.push(WireMessage::Tool { tool_call_id: ids.of_result(call_id), content: Content::text(content) });
                of_results.extend(pictures.iter().filter(|shown| shown.content.is_some()));
            }
        }
    }
    show_after_results(&mut wire, of_results);
    // If a turn was stopped and is continued, an incomplete answer may come last.
    if !matches!(wire.last(), Some(WireMessage::User { .. } | WireMessage::Tool { .. })) {
        add_user(&mut wire, EMPTY_USER_MESSAGE);
    }
    wire
}

/// Adds the pictures of all results of a step in a user message, because a result can only have text, and nothing may
/// come between results.
fn show_after_results(wire: &mut Vec<WireMessage<'_>>, pictures: Vec<&ShownPicture>) {
    if pictures.is_empty() {
        return;
    }
    let mut content = Content(Vec::new());
    for shown in pictures {
        content.add(format!("(picture of a result above: /{})", shown.picture.path).into());
        content.show(shown);
    }
    wire.push(WireMessage::User { content });
}

fn add_user<'a>(wire: &mut Vec<WireMessage<'a>>, text: &'a str) {
    if is_blank(text) {
        return;
    }
    match wire.last_mut() {
        Some(WireMessage::User { content }) => return content.add(text.into()),
        // The text is appended to the result, because templates treat a user message as the start of a turn.
        Some(WireMessage::Tool { content, .. }) if untrusted::is_from_daemon(text) => {
            return content.add(untrusted::after_result(text).into());
        }
        _ => {}
    }
    wire.push(WireMessage::User { content: Content::text(text) });
}

/// Merges an answer from the model into the previous one.
fn add_answer<'a>(
    wire: &mut Vec<WireMessage<'a>>,
    text: &'a str,
    thoughts: Option<&'a str>,
    details: Option<&'a RawValue>,
    calls: Vec<WireCall<'a>>,
) {
    if text.is_empty() && calls.is_empty() {
        return;
    }
    if matches!(wire.last(), None | Some(WireMessage::System { .. })) {
        wire.push(WireMessage::User { content: Content::text(EMPTY_USER_MESSAGE) });
    }
    if !matches!(wire.last(), Some(WireMessage::Assistant { .. })) {
        let (content, reasoning_content, reasoning_details) = (None, None, None);
        wire.push(WireMessage::Assistant { content, reasoning_content, reasoning_details, tool_calls: Vec::new() });
    }
    let Some(WireMessage::Assistant { content, reasoning_content, reasoning_details, tool_calls }) = wire.last_mut()
    else {
        return;
    };
    if !text.is_empty() {
        join(content.get_or_insert_default().to_mut(), text);
    }
    if let Some(thoughts) = thoughts {
        join(reasoning_content.get_or_insert_default().to_mut(), thoughts);
    }
    *reasoning_details = details.or(*reasoning_details);
    tool_calls.extend(calls);
}

/// Converts a call unchanged, except for parts that would make servers reject the whole conversation permanently: names
/// with unsupported characters, and arguments that are not a JSON object, which many servers parse to reformat them.
fn wire_call<'a>(
    call: &'a ToolCall,
    is_first: bool,
    origin: &'a AnswerOrigin,
    recipient: Recipient<'_>,
    ids: &mut WireIds<'a>,
) -> WireCall<'a> {
    let fields = origin.of_call(&call.call_id, recipient.origin);
    WireCall {
        id: ids.of_call(&call.call_id, fields.map(|fields| fields.call_id.as_str())),
        r#type: "function",
        function: WireCallFunction { name: tool_name(&call.name), arguments: tool_arguments(&call.arguments) },
        extra_content: recipient.extra_content(fields, is_first),
    }
}

/// Gemini's own placeholder for a call that another model made. From version 3 on, Gemini requires a signature in each
/// step.
const NO_SIGNATURE: &str = r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// Model for which a conversation is written.
#[derive(Debug, Clone, Copy)]
struct Recipient<'a> {
    id: &'a str,
    /// Name of the model in the origin of answers.
    origin: &'a str,
    /// True if the model needs earlier reasoning back.
    requires_reasoning: bool,
    /// True if the model rejects a user message directly after a tool result.
    requires_alternation: bool,
}

impl Recipient<'_> {
    /// Returns the reasoning of an answer, if the model needs it. Such models require the field in every message with
    /// calls, even if the answer is from another model or its reasoning was not stored.
    fn thoughts<'a>(&self, reasoning: Option<&'a str>, origin: &'a AnswerOrigin, has_calls: bool) -> Option<&'a str> {
        let own = reasoning.or(origin.unsent_reasoning.as_deref());
        let thoughts = own.filter(|_| !origin.has_foreign_reasoning(self.origin)).or(has_calls.then_some(""));
        thoughts.filter(|_| self.requires_reasoning)
    }

    /// Returns the call's own signature, or the placeholder for a call from another model if a signature is required.
    fn extra_content<'a>(&self, own: Option<&'a ServerFields>, is_first: bool) -> Option<&'a RawValue> {
        match own {
            Some(fields) => raw(fields.extra_content.as_deref()?),
            None if is_first && requires_signatures(self.id) => raw(NO_SIGNATURE),
            None => None,
        }
    }
}

/// Returns true if the ID is that of a Gemini model that rejects calls without a signature.
fn requires_signatures(id: &str) -> bool {
    let version = id.strip_prefix("models/").unwrap_or(id).strip_prefix("gemini-");
    let major = version.and_then(|version| version.split(|letter: char| !letter.is_ascii_digit()).next());
    major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 3)
}

/// Parses JSON, keeping its original bytes. Returns `None` if it is invalid, as in a journal edited by hand.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claude_on_openrouter_gets_cache_marks() {
        let check = |host, id, expected| assert_eq!(requires_cache_marks(host, id), expected, "{host} {id}");
        check("openrouter.ai", "anthropic/claude-sonnet-4.5", true);
        check("eu.openrouter.ai", "~anthropic/claude-sonnet-latest", true);
        check("openrouter.ai", "openai/gpt-5", false);
        check("openrouter.ai", "other/anthropic/claude", false);
        check("openrouter.ai.evil.example", "anthropic/claude-sonnet-4.5", false);
        check("myopenrouter.ai", "anthropic/claude-sonnet-4.5", false);
        check("127.0.0.1", "anthropic/claude-sonnet-4.5", false);
    }

    #[test]
    fn foreign_call_is_marked_for_gemini() {
        let check = |id: &str, is_required: bool| {
            let recipient = Recipient { id, origin: "", requires_reasoning: false, requires_alternation: false };
            let first = recipient.extra_content(None, true).map(RawValue::get);
            assert_eq!(first, is_required.then_some(NO_SIGNATURE), "{id}");
            assert!(recipient.extra_content(None, false).is_none());
            // No placeholder is added to a call with its own fields, even if they are empty.
            assert!(recipient.extra_content(Some(&ServerFields::default()), true).is_none());
        };
        check("gemini-3-pro-preview", true);
        check("models/gemini-3.6-flash", true);
        check("gemini-12-x", true);
        check("gemini-2.5-pro", false);
        check("gemini-flash-latest", false);
        check("google/gemini-3-pro", false);
        check("gpt-5", false);
    }
}
