//! Models over real HTTP, against a scripted server on loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic on failure")]

mod answer_schema;
mod anthropic;
mod counting;
mod embeddings;
mod failures;
mod learning;
mod llamacpp;
mod lookup;
mod origins;
mod reading;
mod remarks;
mod requests;
mod responses;
mod retries;
mod routing;
mod text_tools;
mod wires;

use std::sync::Arc;

use agentd_core::{
    error::{ErrorKind, ModelError},
    ids::{CallId, SessionId},
    model::{CallUsage, Finish, Message, ModelChunk, ModelRequest, UnrunReason},
    origin::ServerFields,
    ports::Model,
    tool::{Effect, ToolCall, ToolSpec},
    usage::Usage,
};
use agentd_models::{ModelConfig, Wire, connect};
use agentd_testkit::model_server::{ModelServer, Recorded, Reply};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// Outcome of a call. Adjacent texts are joined, as the network may split them anywhere.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    fields: Vec<ServerFields>,
    whole: Option<ServerFields>,
    unrun: Vec<(String, UnrunReason)>,
    retries: Vec<(u32, u64, String)>,
    discarded: usize,
    runaway: Option<String>,
    notices: Vec<(&'static str, String)>,
    without_tools: bool,
    usage: Option<Usage>,
    spent: CallUsage,
    remarks: Vec<(String, u64)>,
    end: Option<Finish>,
    error: Option<(ErrorKind, String)>,
    hint: Option<String>,
}

impl Outcome {
    fn kind(&self) -> Option<ErrorKind> {
        self.error.as_ref().map(|(kind, _)| *kind)
    }

    fn message(&self) -> &str {
        self.error.as_ref().map_or("", |(_, message)| message)
    }

    /// Returns the usage of all attempts.
    fn paid(&self) -> Usage {
        self.spent.total(Usage::of_call(None))
    }

    fn add(&mut self, chunk: Result<ModelChunk, ModelError>) {
        assert!(self.end.is_none() && self.error.is_none(), "chunk after the end: {chunk:?} after {self:?}");
        if let Ok(chunk) = &chunk {
            self.spent.note(chunk);
        }
        match chunk {
            Ok(ModelChunk::Text(text)) => self.text.push_str(&text),
            Ok(ModelChunk::Reasoning(text)) => self.reasoning.push_str(&text),
            Ok(ModelChunk::ToolCall { name, arguments, fields }) => {
                self.calls.push((name, arguments));
                self.fields.push(fields);
            }
            Ok(ModelChunk::AnswerFields(fields)) => assert!(self.whole.replace(fields).is_none()),
            Ok(ModelChunk::UnrunCall { name, why }) => self.unrun.push((name, why)),
            Ok(ModelChunk::WasReasoning) => self.reasoning.push_str(&std::mem::take(&mut self.text)),
            Ok(ModelChunk::Discarded) => {
                self.usage = None;
                (self.text, self.reasoning) = Default::default();
                self.discarded += 1;
            }
            Ok(ModelChunk::Retry { attempt, delay_ms, reason, .. }) => {
                assert!(self.text.is_empty() && self.reasoning.is_empty(), "a retry after the first token: {self:?}");
                self.usage = None;
                self.retries.push((attempt, delay_ms, reason));
            }
            Ok(ModelChunk::WithoutTools) => {
                assert!(self.text.is_empty() && self.reasoning.is_empty(), "must come before the answer: {self:?}");
                self.without_tools = true;
            }
            Ok(ModelChunk::Notice { code, message }) => self.notices.push((code, message)),
            Ok(ModelChunk::Runaway { what }) => self.runaway = Some(what),
            Ok(ModelChunk::Remark(remark)) => self.remarks.push((remark.reason, remark.tokens)),
            Ok(ModelChunk::Usage(usage)) => self.usage = Some(usage),
            Ok(ModelChunk::End(finish)) => self.end = Some(finish),
            Err(error) => {
                self.hint = error.hint().map(str::to_owned);
                self.error = Some((error.kind(), error.to_string()));
            }
        }
    }
}

/// Returns a configuration for the server, with short waits.
fn config(server: &ModelServer) -> ModelConfig {
    let mut config = ModelConfig::new(Wire::OpenAi, server.base_url());
    config.id = "m".to_owned();
    config.retry_delay_ms = 1;
    config
}

fn request(text: &str) -> ModelRequest {
    let messages = vec![Message::System { text: "Be brief.".to_owned() }, Message::User { text: text.to_owned() }];
    ModelRequest { may_call: true, ..ModelRequest::new(SessionId::generate(), messages) }
}

fn request_with_tools(text: &str) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        effect: Effect::Read,
    };
    ModelRequest { tools: Arc::new([tool("now"), tool("read_file")]), ..request(text) }
}

async fn ask(model: &Arc<dyn Model>, request: ModelRequest) -> Outcome {
    let mut outcome = Outcome::default();
    let mut stream = model.stream(request);
    while let Some(chunk) = stream.next().await {
        outcome.add(chunk);
    }
    assert!(outcome.end.is_some() != outcome.error.is_some(), "no end: {outcome:?}");
    outcome
}

async fn ask_config(config: &ModelConfig) -> Outcome {
    ask(&connect(config).unwrap(), request_with_tools("Hello")).await
}

/// Sends a request to a server with this reply.
async fn ask_over(wire: Wire, reply: Reply) -> Outcome {
    let server = ModelServer::start().await;
    ask_config(&ModelConfig { wire, ..config(server.reply(reply)) }).await
}

fn last(server: &ModelServer) -> Recorded {
    server.requests().pop().unwrap()
}

/// Returns the types of the blocks of a message, or of the items of a request.
fn kinds(parts: &Value) -> Vec<String> {
    parts.as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap().to_owned()).collect()
}

fn user(text: &str) -> Message {
    Message::User { text: text.to_owned() }
}

fn tool_call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { call_id: CallId::from(id.to_owned()), name: "now".to_owned(), arguments: arguments.to_owned() }
}

fn result(id: &str, text: &str) -> Message {
    let (call_id, name) = (CallId::from(id.to_owned()), "now".to_owned());
    Message::Tool { call_id, name, text: text.to_owned(), pictures: Vec::new() }
}

/// Checks the failure after a reply to a model that accepted everything before, and the number of requests.
async fn check_failure(wire: Wire, reply: Reply, kind: ErrorKind, requests: usize, message: &str, hint: &str) {
    let server = ModelServer::start().await;
    server.reply(Reply::text("Hi")).default_reply(reply);
    let model = connect(&ModelConfig { wire, retries: 1, ..config(&server) }).unwrap();
    assert_eq!(ask(&model, request_with_tools("Hi")).await.error, None);
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.kind(), server.requests().len() - 1), (Some(kind), requests), "{outcome:?}");
    assert!(outcome.message().contains(message), "{message}: {outcome:?}");
    assert!(outcome.hint.as_deref().unwrap_or_default().contains(hint), "{hint}: {outcome:?}");
}

/// Sends a request to a server with a prepared script, with the usual configuration.
async fn ask_server(server: &ModelServer) -> Outcome {
    ask_config(&config(server)).await
}
