//! The body of a request.

use std::collections::HashSet;

use agentd_core::{answer_schema::AnswerSchema, model::ModelRequest, tool::ToolSpec};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    block::{self, Block, Role},
    conversation::{self, Conversation, Recipient, WireMessage},
};
use crate::{
    answer::text_protocol,
    config::{Effort, ModelConfig, Thinking},
    http::{
        failure::Failure,
        learning::Change,
        request::{unwritable, with_configured},
    },
    wire::{
        answer_format,
        dialect::{Order, sent_fields},
        written_tools::WrittenTools,
    },
};

/// Host of Anthropic's own server.
const ANTHROPIC: &str = "api.anthropic.com";

/// The tokens that an answer may have where nobody says, if the window has room for four such answers.
const MAX_ANSWER: u64 = 32_000;

/// Part of the window that an answer may have where nobody says.
const ANSWER_PART: u64 = 4;

/// Fields without which there is no request.
const FIXED: [&str; 7] = ["model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice"];

/// The mark of the cache, as a field that a server may refuse.
const CACHE: &str = "cache_control";
const THINKING: &str = "thinking";
/// Holds the effort.
const OUTPUT: &str = "output_config";
const DIAGNOSTICS: &str = "diagnostics";
const TEMPERATURE: &str = "temperature";

/// State that is kept between requests of one model.
pub(super) struct RequestHistory<'a> {
    pub(super) tools: &'a WrittenTools,
    /// Prefixes of answers whose thoughts were refused.
    pub(super) distrusted: &'a HashSet<String>,
    /// The server's id of the answer before.
    pub(super) last_answer: Option<String>,
}

/// A written request.
pub(super) struct Written {
    pub(super) body: String,
    /// Fingerprint of the conversation, behind which its answer will stand.
    pub(super) behind: String,
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

/// All but the conversation.
#[derive(Serialize)]
struct Settings {
    /// `none` where the tools are named for the request to begin as the one before it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<TypeOnly>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequences: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<Diagnostics>,
    stream: bool,
}

/// Asks why the cache does not hold what the request before had in common with this one.
#[derive(Serialize)]
struct Diagnostics {
    /// Null where there is none: it is asked all the same, for this answer to be the next one's.
    previous_message_id: Option<String>,
}

#[derive(Serialize)]
struct TypeOnly {
    r#type: &'static str,
}

#[derive(Serialize)]
struct ThinkingSettings {
    r#type: &'static str,
    /// Some models tell nothing of their thoughts unless asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<&'static str>,
}

#[derive(Serialize)]
struct OutputSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat>,
}

#[derive(Serialize)]
struct OutputFormat {
    r#type: &'static str,
    schema: Box<RawValue>,
}

/// Writes the body.
pub(super) fn write(config: &ModelConfig, history: RequestHistory<'_>, order: &Order<'_>) -> Result<Written, Failure> {
    let RequestHistory { tools: written, distrusted, last_answer } = history;
    let Order { request, form, info, .. } = *order;
    // Calls in a history without tools are refused, so both go into the words.
    let native = form.native_tools(config) && !request.tools.is_empty();
    let messages = text_protocol::messages(request, native);
    let tools =
        native.then(|| written.of(&request.tools, wire_tool)).transpose().map_err(|error| unwritable(&error))?;
    let tools = tools.as_deref().map(serde_json::value::RawValue::get).unwrap_or_default();
    let origin = info.origin();
    let without_thoughts = form.has(&Change::WithoutSignedThoughts);
    let recipient = Recipient { origin: &origin, distrusted, without_thoughts };
    let conversation = conversation::write(&messages, tools, recipient).map_err(|error| unwritable(&error))?;
    let settings =
        serde_json::to_string(&settings(config, order, native, last_answer)?).map_err(|error| unwritable(&error))?;
    let is_cached = caches(config) && form.sends(CACHE);
    let written = Parts { conversation: &conversation, paused: order.paused, tools, settings: &settings };
    let body = assembled(&info.id, &written, is_cached);
    Ok(Written { body: with_configured(body, &form.configured(&config.body))?, behind: conversation.behind })
}

/// The fields that a request can do without.
pub(super) fn optional_fields(config: &ModelConfig, order: &Order<'_>) -> Vec<String> {
    let own = [
        (TEMPERATURE, config.temperature.is_some()),
        (THINKING, thinking(config, order).is_some()),
        (OUTPUT, config.effort.is_some()),
        (CACHE, caches(config)),
        (DIAGNOSTICS, asks_for_reasons(config, order)),
    ];
    sent_fields(order.form, own, config.body.keys(), &FIXED)
}

fn wire_tool(spec: &ToolSpec) -> WireTool<'_> {
    WireTool { name: &spec.name, description: &spec.description, input_schema: &spec.parameters }
}

/// The schema of the answer, where its field is ours to set. This wire calls tools as usual beside it.
pub(super) fn sent_schema<'a>(config: &ModelConfig, order: &Order<'a>) -> Option<&'a AnswerSchema> {
    let Order { request, form, .. } = *order;
    let schema = request.answer_schema.as_deref()?;
    // Calls in the words are in no such form.
    let in_words = request.may_call && !request.tools.is_empty() && !form.native_tools(config);
    Some(schema).filter(|schema| !in_words && !config.body.contains_key(OUTPUT) && form.takes_schema(schema))
}

/// Settings of the answer, where there are any.
fn output(config: &ModelConfig, order: &Order<'_>) -> Result<Option<OutputSettings>, Failure> {
    let effort = config.effort.filter(|_| order.form.sends(OUTPUT));
    let schema = sent_schema(config, order).map(answer_format::raw).transpose()?;
    let format = schema.map(|schema| OutputFormat { r#type: "json_schema", schema });
    Ok((effort.is_some() || format.is_some()).then_some(OutputSettings { effort, format }))
}

fn settings(
    config: &ModelConfig,
    order: &Order<'_>,
    native: bool,
    last_answer: Option<String>,
) -> Result<Settings, Failure> {
    let Order { request, form, .. } = *order;
    let in_text = !native && !request.tools.is_empty();
    Ok(Settings {
        tool_choice: (native && !request.may_call).then_some(TypeOnly { r#type: "none" }),
        thinking: thinking(config, order).filter(|_| form.sends(THINKING)),
        output_config: output(config, order)?,
        temperature: config.temperature.filter(|_| form.sends(TEMPERATURE)),
        max_tokens: max_tokens(config, request, order),
        stop_sequences: in_text.then_some([text_protocol::STOP]),
        diagnostics: (asks_for_reasons(config, order) && form.sends(DIAGNOSTICS))
            .then_some(Diagnostics { previous_message_id: last_answer }),
        stream: true,
    })
}

/// Thinking as it is configured; where it is not, adaptive for models of which their server tells that they can.
fn thinking(config: &ModelConfig, order: &Order<'_>) -> Option<ThinkingSettings> {
    let can = order.abilities.adaptive_thinking == Some(true);
    match config.thinking.or(can.then_some(Thinking::Adaptive))? {
        Thinking::Adaptive => Some(ThinkingSettings { r#type: "adaptive", display: Some("summarized") }),
        Thinking::Off => Some(ThinkingSettings { r#type: "disabled", display: None }),
    }
}

/// The wire wants a limit in every request.
fn max_tokens(config: &ModelConfig, request: &ModelRequest, order: &Order<'_>) -> u64 {
    let most = order.abilities.max_answer.unwrap_or(u64::MAX);
    let learnt = order.form.answer_limit().unwrap_or(MAX_ANSWER);
    let usual = MAX_ANSWER.min(learnt).min(order.info.context_window / ANSWER_PART).max(1);
    config.most_tokens(request).unwrap_or(usual).min(most)
}

/// Returns whether the places behind which the server keeps what it has computed are ours to choose: it takes four at the most.
fn caches(config: &ModelConfig) -> bool {
    !config.body.contains_key(CACHE)
}

/// Returns whether the server is asked why its cache missed: its maker's own is, unless somebody says otherwise. Requests without
/// tools are no part of a conversation.
fn asks_for_reasons(config: &ModelConfig, order: &Order<'_>) -> bool {
    let is_asked = config.cache_reasons.unwrap_or(order.target.host() == ANTHROPIC);
    is_asked && !order.request.tools.is_empty() && !config.body.contains_key(DIAGNOSTICS)
}

/// Parts of a body.
struct Parts<'a> {
    conversation: &'a Conversation,
    /// The beginning of the answer.
    paused: Option<&'a str>,
    tools: &'a str,
    settings: &'a str,
}

/// The whole body. The cache is marked behind the tools, the instructions, and the last messages of this request and of the one
/// before it, whose mark finds again what was kept then.
fn assembled(id: &str, parts: &Parts<'_>, is_cached: bool) -> String {
    let Parts { conversation: Conversation { system, messages, .. }, paused, tools, settings } = *parts;
    let blocks = messages.iter().flat_map(|message| &message.blocks).chain(system);
    let bytes: usize = blocks.map(|block| block.json().len() + 8).sum();
    let mut body = String::with_capacity(bytes + tools.len() + settings.len() + 1024);
    body.push_str(&format!("{{\"model\":{}", Value::from(id)));
    if !system.is_empty() {
        body.push_str(",\"system\":");
        push_blocks(&mut body, system, is_cached);
    }
    body.push_str(",\"messages\":[");
    let marked = marked(messages);
    for (at, WireMessage { role, blocks }) in messages.iter().enumerate() {
        if at > 0 {
            body.push(',');
        }
        let role = if *role == Role::User { "user" } else { "assistant" };
        body.push_str(&format!("{{\"role\":\"{role}\",\"content\":"));
        push_blocks(&mut body, blocks, is_cached && marked.contains(&Some(at)));
        body.push('}');
    }
    if let Some(begun) = paused {
        body.push_str(&format!(",{{\"role\":\"assistant\",\"content\":{begun}}}"));
    }
    body.push(']');
    if let Some(all_but_end) = tools.strip_suffix(']') {
        body.push_str(",\"tools\":");
        body.push_str(all_but_end);
        if is_cached {
            block::mark(&mut body);
        }
        body.push(']');
    }
    body.push(',');
    body.push_str(settings.trim_start_matches('{'));
    body
}

/// Messages behind which the cache is marked: the person's last two.
fn marked(messages: &[WireMessage]) -> [Option<usize>; 2] {
    let mut of_user = messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::User);
    [of_user.next().map(|(at, _)| at), of_user.next().map(|(at, _)| at)]
}

fn push_blocks(out: &mut String, blocks: &[Block], is_cached: bool) {
    out.push('[');
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        block.write_to(out, is_cached && at + 1 == blocks.len());
    }
    out.push(']');
}
