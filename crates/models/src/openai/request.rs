//! The body of a request.

use std::sync::Arc;

use agentd_core::{answer_schema::AnswerSchema, model::ModelRequest, tool::ToolSpec};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    messages::{WireMessage, wire_messages},
    recipient::Recipient,
};
use crate::{
    answer_format::AnswerFormat,
    config::ModelConfig,
    failure::Failure,
    http::{json_body, unwritable},
    learning::{Change, RequestForm},
    text_protocol,
    written_tools::WrittenTools,
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
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

/// Writes the body.
pub(super) fn body(
    config: &ModelConfig,
    form: &RequestForm,
    written: &WrittenTools,
    model: &str,
    origin: &str,
    request: &ModelRequest,
    schema: Option<&AnswerSchema>,
) -> Result<String, Failure> {
    let native = form.native_tools(config);
    let in_text;
    let messages = if native {
        &request.messages
    } else {
        in_text = text_protocol::conversation(&request.messages, &request.tools);
        &in_text
    };
    let tools = (native && !request.tools.is_empty()).then(|| written.of(&request.tools, wire_tool)).transpose();
    let tools = tools.map_err(|error| unwritable(&error))?;
    let renamed = form.has(&Change::MaxCompletionTokens);
    let max_tokens = config.most_tokens(request).filter(|_| form.sends("max_tokens"));
    let format = schema.map(AnswerFormat::of).transpose()?;
    let body = Body {
        model,
        messages: wire_messages(
            messages,
            Recipient {
                id: model,
                origin,
                wants_thoughts: form.echoes(config),
                wants_turns: form.has(&Change::WordsInResults),
            },
        ),
        tool_choice: (tools.is_some() && !request.may_call).then_some("none"),
        tools,
        temperature: config.temperature.filter(|_| form.sends("temperature")),
        max_tokens: max_tokens.filter(|_| !renamed),
        max_completion_tokens: max_tokens.filter(|_| renamed),
        stop: (!native && !request.tools.is_empty()).then_some([text_protocol::STOP]),
        response_format: format.map(|json_schema| ResponseFormat { r#type: "json_schema", json_schema }),
        stream: true,
        stream_options: form.sends("stream_options").then_some(StreamOptions { include_usage: true }),
    };
    json_body(&body, &form.configured(&config.body))
}
