//! OpenAI-compatible chat completions, as OpenAI, DeepSeek, Moonshot, GLM, vLLM, Ollama and llama.cpp speak them.
//!
//! - `request`: the body; `messages`: the conversation in the form
//!   that the strictest templates accept; `cache`: marks of the prompt cache, where a server takes them.
//! - `chunk`: one event of the answer, typed and borrowed; `usage`: the places where servers put what it took.
//! - `calls`: native tool calls, put together from their pieces; `details`: signed thoughts, likewise; `reader`: events into
//!   the answer.
//! - `recipient`: who gets back which of a server's own fields.

mod cache;
mod calls;
mod chunk;
mod details;
mod messages;
mod reader;
mod recipient;
mod request;
mod usage;

use agentd_core::answer_schema::AnswerSchema;

// llama.cpp's other dialect shares it.
pub(crate) use self::usage::Timings;
use crate::{
    config::ModelConfig,
    http::{failure::Failure, learning::Change},
    wire::{
        answer_format,
        dialect::{Dialect, Order, Outgoing, sent_fields},
        written_tools::WrittenTools,
    },
};

/// Fields without which there is no request.
const FIXED: [&str; 5] = ["model", "messages", "stream", "tools", "tool_choice"];

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
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let body = request::body(&self.config, &self.tools, order, self.sent_schema(order))?;
        let reader = Box::new(reader::Reader::default());
        Ok(Outgoing { path: "/chat/completions".to_owned(), body, reader })
    }

    fn optional_fields(&self, order: &Order<'_>) -> Vec<String> {
        let form = order.form;
        let limits_answer = self.config.most_tokens(order.request).is_some();
        let own = [
            ("temperature", self.config.temperature.is_some()),
            ("max_tokens", limits_answer && !form.has(&Change::MaxCompletionTokens)),
            ("stream_options", true),
            (cache::CACHE, request::marks(&self.config, order.target.host(), &order.info.id)),
            (request::USAGE, cache::is_openrouter(order.target.host())),
        ];
        sent_fields(form, own, self.config.body.keys(), &FIXED)
    }

    fn sent_schema<'a>(&self, order: &Order<'a>) -> Option<&'a AnswerSchema> {
        let schema = answer_format::sendable(order.request, order.target.host())?;
        let is_ours = !self.config.body.contains_key(request::RESPONSE_FORMAT);
        Some(schema).filter(|schema| is_ours && order.form.takes_schema(schema))
    }
}
