//! The body of a request.

use std::{collections::HashSet, sync::Arc};

use agentd_core::{answer_schema::AnswerSchema, tool::ToolSpec};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    conversation::{self, Conversation, Recipient},
    item::InputItem,
    stored::Fingerprint,
};
use crate::{
    answer::text_protocol,
    config::{Effort, ModelConfig, Thinking},
    facts::catalogue,
    http::{
        failure::Failure,
        learning::Change,
        request::{json_body, unwritable},
    },
    wire::{
        answer_format::{self, AnswerFormat},
        dialect::{Order, sent_fields},
        written_tools::WrittenTools,
    },
};

/// Fields without which there is no request.
const FIXED: [&str; 7] = ["model", "instructions", "input", "store", "stream", "tools", "tool_choice"];

/// Holds the form of the answer.
const TEXT: &str = "text";
const TEMPERATURE: &str = "temperature";
const MAX_TOKENS: &str = "max_output_tokens";
const CACHE_KEY: &str = "prompt_cache_key";
const CACHE_OPTIONS: &str = "prompt_cache_options";
/// Asks for thoughts in the form in which they can go back.
const INCLUDE: &str = "include";
/// Holds the next two, each of which can be refused by itself.
const REASONING: &str = "reasoning";
const SUMMARY: &str = "reasoning.summary";
const EFFORT: &str = "reasoning.effort";

/// The smallest limit of an answer that servers take.
const MIN_ANSWER: u64 = 16;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    instructions: String,
    input: Vec<InputItem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    /// `none` where the tools are named for the request to begin as the one before it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    /// Nothing is stored at the server: the journal is here.
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_options: Option<CacheOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    stream: bool,
}

/// Asks why the cache does not hold what the request before had in common with this one.
#[derive(Serialize)]
struct CacheOptions {
    comparison_response_id: String,
}

/// Form of the words of the answer.
#[derive(Serialize)]
struct TextSettings {
    format: TextFormat,
}

#[derive(Serialize)]
struct TextFormat {
    r#type: &'static str,
    #[serde(flatten)]
    schema: AnswerFormat,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<WireEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireEffort {
    Set(Effort),
    None(&'static str),
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Always said: where it is absent, a server may hold the schema to rules that few schemas keep.
    strict: bool,
}

/// State that is kept between requests of one model.
pub(super) struct RequestHistory<'a> {
    pub(super) tools: &'a WrittenTools,
    /// Answers whose thoughts were refused.
    pub(super) distrusted: &'a HashSet<Fingerprint>,
    /// The server's id of the answer before.
    pub(super) last_answer: Option<String>,
}

/// Writes the body.
pub(super) fn body(config: &ModelConfig, history: RequestHistory<'_>, order: &Order<'_>) -> Result<String, Failure> {
    let RequestHistory { tools: written, distrusted, last_answer } = history;
    let Order { request, form, info, .. } = *order;
    let native = form.native_tools(config);
    let messages = text_protocol::messages(request, native);
    let tools = (native && !request.tools.is_empty()).then(|| written.of(&request.tools, wire_tool)).transpose();
    let tools = tools.map_err(|error| unwritable(&error))?;
    let origin = info.origin();
    let recipient = Recipient {
        origin: &origin,
        distrusted,
        without_thoughts: form.has(&Change::WithoutSignedThoughts),
        wants_turns: form.has(&Change::WordsInResults),
    };
    let Conversation { instructions, items } = conversation::write(&messages, recipient);
    let schema = sent_schema(config, order).map(AnswerFormat::of).transpose()?;
    let body = Body {
        model: &info.id,
        instructions,
        input: items,
        tool_choice: (tools.is_some() && !request.may_call).then_some("none"),
        tools,
        reasoning: reasoning(config, order),
        include: form.sends(INCLUDE).then_some(["reasoning.encrypted_content"]),
        store: false,
        prompt_cache_key: form.sends(CACHE_KEY).then(|| request.session_id.to_string()),
        prompt_cache_options: last_answer
            .filter(|_| asks_for_reasons(config, order) && form.sends(CACHE_OPTIONS))
            .map(|id| CacheOptions { comparison_response_id: id }),
        text: schema.map(|schema| TextSettings { format: TextFormat { r#type: "json_schema", schema } }),
        temperature: config.temperature.filter(|_| form.sends(TEMPERATURE)),
        max_output_tokens: config
            .most_tokens(request)
            .filter(|_| form.sends(MAX_TOKENS))
            .map(|most| most.max(MIN_ANSWER)),
        stream: true,
    };
    json_body(&body, &form.configured(&config.body))
}

/// Names of fields that the request can do without: ours, and the configured ones.
pub(super) fn optional_fields(config: &ModelConfig, order: &Order<'_>) -> Vec<String> {
    let own = [
        (TEMPERATURE, config.temperature.is_some()),
        (MAX_TOKENS, config.most_tokens(order.request).is_some()),
        (REASONING, reasoning(config, order).is_some()),
        (SUMMARY, tells_thoughts(config, order)),
        (EFFORT, effort(config).is_some()),
        (INCLUDE, true),
        (CACHE_KEY, true),
        (CACHE_OPTIONS, asks_for_reasons(config, order)),
    ];
    sent_fields(order.form, own, config.body.keys(), &FIXED)
}

/// The schema of the answer, where it is sent in its own field: what is configured of that field stands above it.
pub(super) fn sent_schema<'a>(config: &ModelConfig, order: &Order<'a>) -> Option<&'a AnswerSchema> {
    let schema = answer_format::sendable(order.request, order.target.host())?;
    let is_free = !config.body.contains_key(TEXT);
    (is_free && order.form.takes_schema(schema)).then_some(schema)
}

/// Returns whether the server is asked why its cache missed. Only newer models take the question, so somebody has to want it.
fn asks_for_reasons(config: &ModelConfig, order: &Order<'_>) -> bool {
    let is_asked = config.cache_reasons == Some(true);
    is_asked && !order.request.tools.is_empty() && !config.body.contains_key(CACHE_OPTIONS)
}

fn wire_tool(spec: &ToolSpec) -> WireTool<'_> {
    let ToolSpec { name, description, parameters, .. } = spec;
    WireTool { r#type: "function", name, description, parameters, strict: false }
}

fn reasoning(config: &ModelConfig, order: &Order<'_>) -> Option<Reasoning> {
    let reasoning = Reasoning {
        effort: effort(config).filter(|_| order.form.sends(EFFORT)),
        summary: (tells_thoughts(config, order) && order.form.sends(SUMMARY)).then_some("auto"),
    };
    let says_something = reasoning.effort.is_some() || reasoning.summary.is_some();
    (says_something && order.form.sends(REASONING)).then_some(reasoning)
}

fn effort(config: &ModelConfig) -> Option<WireEffort> {
    match config.thinking {
        Some(Thinking::Off) => Some(WireEffort::None("none")),
        _ => config.effort.map(WireEffort::Set),
    }
}

/// Returns whether the model is asked to tell its thoughts, in short: where somebody wants it, or where it is known to think.
fn tells_thoughts(config: &ModelConfig, order: &Order<'_>) -> bool {
    let is_known = || catalogue::published(order.target.host(), &order.info.id).is_some_and(|known| known.thinking);
    config.thinking.map_or_else(is_known, |thinking| thinking == Thinking::Adaptive)
}
