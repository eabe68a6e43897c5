//! Helpers that send a request to a model and collect its answer.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    error::ModelError,
    ids::SessionId,
    model::{Finish, Message, ModelChunk, ModelRequest},
    ports::Model as _,
    tool::{Effect, ToolSpec},
    usage::Usage,
};
use agentd_local::{EmbeddedConfig, EmbeddedModel, EmbeddedStatus};
use futures_util::{FutureExt as _, StreamExt as _};

/// Request that needs the model's weights.
pub(crate) const FREE_TEXT: &str = "Write a poem about the sea.";

/// Creates a model without other model servers on the host.
pub(crate) fn offline_model(config: EmbeddedConfig) -> Arc<EmbeddedModel> {
    EmbeddedModel::new(config, || std::future::ready(Vec::new()).boxed())
}

/// Everything that one call returned.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) pieces: usize,
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Option<Finish>,
}

pub(crate) fn request(messages: Vec<Message>, tools: &[&str], known_paths: &[&str]) -> ModelRequest {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object"}),
        effect: Effect::Read,
    };
    ModelRequest {
        tools: tools.iter().map(spec).collect(),
        may_call: true,
        known_paths: known_paths.iter().map(|path| (*path).to_owned()).collect(),
        ..ModelRequest::new(SessionId::generate(), messages)
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { text: text.to_owned() }
}

/// Sends a request and reads the answer to its end.
pub(crate) async fn collect_answer(model: &EmbeddedModel, request: ModelRequest) -> Result<Answer, ModelError> {
    let mut answer = Answer::default();
    let mut chunks = model.stream(request);
    while let Some(chunk) = chunks.next().await {
        assert_eq!(answer.finish, None, "a chunk after the end");
        match chunk? {
            ModelChunk::Text(piece) => {
                answer.text.push_str(&piece);
                answer.pieces += 1;
            }
            ModelChunk::ToolCall { name, arguments, .. } => answer.calls.push((name, arguments)),
            ModelChunk::Usage(usage) => answer.usage = Some(usage),
            ModelChunk::End(finish) => answer.finish = Some(finish),
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert!(answer.finish.is_some(), "the stream ended without an end chunk");
    Ok(answer)
}

/// Waits until the status fulfils the predicate.
pub(crate) async fn until(model: &Arc<EmbeddedModel>, wanted: impl Fn(EmbeddedStatus) -> bool) -> EmbeddedStatus {
    let mut ticks = tokio::time::interval(Duration::from_millis(2));
    let polling = async {
        loop {
            let status = model.status();
            if wanted(status) {
                return status;
            }
            ticks.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), polling)
        .await
        .unwrap_or_else(|_| panic!("unexpected status: {:?}", model.status()))
}
