//! The body of a request.

use std::sync::Arc;

use agentd_core::{answer_schema::AnswerSchema, origin::model_origin, tool::ToolSpec};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    cache::{self, CACHE, SentMessage},
    messages::wire_messages,
    recipient::Recipient,
};
use crate::{
    answer::text_protocol,
    config::ModelConfig,
    http::{
        failure::Failure,
        learning::Change,
        request::{json_body, unwritable},
    },
    wire::{answer_format::AnswerFormat, dialect::Order, written_tools::WrittenTools},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<SentMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    /// `none` where the tools are named for the request to begin as the one before it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    /// OpenRouter's question for the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageWish>,
}

/// The field of the form of the answer.
pub(super) const RESPONSE_FORMAT: &str = "response_format";

#[derive(Serialize)]
struct ResponseFormat {
    r#type: &'static str,
    json_schema: AnswerFormat,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

fn wire_tool(spec: &ToolSpec) -> WireTool<'_> {
    let function = WireFunction { name: &spec.name, description: &spec.description, parameters: &spec.parameters };
    WireTool { r#type: "function", function }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The field of the money, as one that a server may refuse.
pub(super) const USAGE: &str = "usage";

#[derive(Serialize)]
struct UsageWish {
    include: bool,
}

/// Returns true if the cache of this model is to be marked, unless a person has said so otherwise.
pub(super) fn marks(config: &ModelConfig, host: &str, id: &str) -> bool {
    cache::wants_marks(host, id) && !config.body.contains_key(CACHE)
}

/// Writes the body.
pub(super) fn body(
    config: &ModelConfig,
    written: &WrittenTools,
    order: &Order<'_>,
    schema: Option<&AnswerSchema>,
) -> Result<String, Failure> {
    let Order { target, info, request, form, .. } = *order;
    let (host, model, origin) = (target.host(), info.id.as_str(), model_origin(&info.id, target.shown()));
    let native = form.native_tools(config);
    let messages = text_protocol::messages(request, native);
    let tools = (native && !request.tools.is_empty()).then(|| written.of(&request.tools, wire_tool)).transpose();
    let tools = tools.map_err(|error| unwritable(&error))?;
    let renamed = form.has(&Change::MaxCompletionTokens);
    let max_tokens = config.most_tokens(request).filter(|_| form.sends("max_tokens"));
    let format = schema.map(AnswerFormat::of).transpose()?;
    let recipient = Recipient {
        id: model,
        origin: &origin,
        wants_thoughts: form.echoes(config),
        wants_turns: form.has(&Change::WordsInResults),
    };
    let body = Body {
        model,
        messages: cache::sent(wire_messages(&messages, recipient), marks(config, host, model) && form.sends(CACHE)),
        tool_choice: (tools.is_some() && !request.may_call).then_some("none"),
        tools,
        temperature: config.temperature.filter(|_| form.sends("temperature")),
        max_tokens: max_tokens.filter(|_| !renamed),
        max_completion_tokens: max_tokens.filter(|_| renamed),
        stop: (!native && !request.tools.is_empty()).then_some([text_protocol::STOP]),
        response_format: format.map(|json_schema| ResponseFormat { r#type: "json_schema", json_schema }),
        stream: true,
        stream_options: form.sends("stream_options").then_some(StreamOptions { include_usage: true }),
        usage: (cache::is_openrouter(host) && form.sends(USAGE)).then_some(UsageWish { include: true }),
    };
    json_body(&body, &form.configured(&config.body))
}
