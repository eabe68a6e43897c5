//! OpenAI-compatible chat completions, as OpenAI, DeepSeek, Moonshot, GLM, vLLM, Ollama and llama.cpp speak them.
//!
//! - `request`: the body; `tools`: those that it names, as they were written last; `messages`: the conversation in the form
//!   that the strictest templates accept.
//! - `chunk`: one event of the answer, typed and borrowed; `usage`: the places where servers put what it took.
//! - `readable`: whether arguments of a history can be sent back as they are.
//! - `calls`: native tool calls, put together from their pieces; `details`: signed thoughts, likewise; `reader`: events into
//!   the answer.
//! - `call_ids`: ids of calls, as a request names them; `recipient`: who gets back which of a server's own fields.

mod call_ids;
mod calls;
mod chunk;
mod details;
mod messages;
mod readable;
mod reader;
mod recipient;
mod request;
mod tools;
mod usage;

use agentd_core::{model::ModelRequest, origin::model_origin};

// llama.cpp's other dialect shares these.
use self::tools::WrittenTools;
pub(crate) use self::{
    chunk::{Count, Text},
    usage::Timings,
};
use crate::{
    call::{AnswerReader, Dialect, Outgoing},
    config::ModelConfig,
    failure::Failure,
    http::Target,
    learning::RequestForm,
};

/// The dialect of one model.
pub(crate) struct OpenAi {
    config: ModelConfig,
    tools: WrittenTools,
}

impl OpenAi {
    pub(crate) fn new(config: ModelConfig) -> Self {
        Self { config, tools: WrittenTools::default() }
    }
}

impl Dialect for OpenAi {
    fn outgoing(
        &self,
        target: &Target,
        id: &str,
        request: &ModelRequest,
        form: &RequestForm,
    ) -> Result<Outgoing, Failure> {
        let origin = model_origin(id, target.shown());
        let body = request::body(&self.config, form, &self.tools, id, &origin, request)?;
        Ok(Outgoing { path: "/chat/completions".to_owned(), body })
    }

    fn reader(&self) -> Box<dyn AnswerReader> {
        Box::new(reader::Reader::default())
    }
}
