//! OpenAI-compatible chat completions, as OpenAI, DeepSeek, Moonshot, GLM, vLLM, Ollama and llama.cpp speak them.
//!
//! - `request`: the body; `tools`: those that it names, as they were written last; `messages`: the conversation in the form
//!   that the strictest templates accept.
//! - `chunk`: one event of the answer, typed and borrowed; `usage`: the places where servers put what it took.
//! - `readable`: whether arguments of a history can be sent back as they are.
//! - `calls`: native tool calls, put together from their pieces; `reader`: events into the answer.
//! - `adaptation`: what a server refused, and is not sent again.

mod adaptation;
mod calls;
mod chunk;
mod messages;
mod readable;
mod reader;
mod request;
mod tools;
mod usage;

use agentd_core::model::ModelRequest;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::OnceCell;

// llama.cpp's other dialect shares these.
use self::{adaptation::Adaptation, tools::WrittenTools};
pub(crate) use self::{
    chunk::{Count, Text},
    usage::Timings,
};
use crate::{
    call::{AdaptedForm, AnswerReader, Dialect, Outgoing},
    config::ModelConfig,
    deadline::Deadline,
    failure::Failure,
    http::Target,
};

/// The id that is sent where none is configured and the server lists none.
const UNNAMED_MODEL: &str = "default";

/// The dialect of one model.
pub(crate) struct OpenAi {
    config: ModelConfig,
    adaptation: Adaptation,
    tools: WrittenTools,
    /// The first model that the server lists, asked once, where no id is configured.
    listed_id: OnceCell<String>,
}

impl OpenAi {
    pub(crate) fn new(config: ModelConfig) -> Self {
        Self { config, adaptation: Adaptation::default(), tools: WrittenTools::default(), listed_id: OnceCell::new() }
    }

    async fn model_id(&self, target: &Target) -> &str {
        if !self.config.id.is_empty() {
            return &self.config.id;
        }
        let deadline = target.deadlines.listing();
        let asked = self.listed_id.get_or_try_init(|| async { first_listed(target, &deadline).await.ok_or(()) });
        // A server that lists nothing now may still answer, or list something later.
        asked.await.map_or(UNNAMED_MODEL, String::as_str)
    }
}

impl Dialect for OpenAi {
    fn outgoing<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ModelRequest,
        _deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Outgoing, Failure>> {
        Box::pin(async move {
            let id = self.model_id(target).await;
            let body = request::body(&self.config, &self.adaptation, &self.tools, id, request)?;
            Ok(Outgoing { path: "/chat/completions", body })
        })
    }

    fn reader(&self) -> Box<dyn AnswerReader> {
        Box::new(reader::Reader::default())
    }

    fn adapt(&self, refusal: &str, named_only: bool) -> Option<AdaptedForm> {
        self.adaptation.adapt(refusal, named_only && self.config.uses_native_tools())
    }

    fn can_forbid_calls(&self) -> bool {
        self.adaptation.names_tools_only()
    }

    fn name_tools_no_more(&self) {
        self.adaptation.name_tools_no_more();
    }
}

#[derive(Deserialize)]
struct Listing {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

async fn first_listed(target: &Target, deadline: &Deadline) -> Option<String> {
    let body = target.get("/models", deadline).await?;
    let listing: Listing = serde_json::from_slice(&body).ok()?;
    listing.data.into_iter().next().map(|listed| listed.id)
}
