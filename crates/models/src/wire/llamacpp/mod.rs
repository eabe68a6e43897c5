//! llama.cpp's own `/completion`: the conversation as one prompt, tools in the text.
//!
//! - `template`: the conversation as a prompt; `reader`: events into the answer.

mod reader;
mod template;

use agentd_core::model::ModelRequest;
use serde::Serialize;

use crate::{
    answer::text_protocol,
    config::ModelConfig,
    http::{failure::Failure, request::json_body},
    wire::dialect::{Dialect, Order, Outgoing},
};

/// The dialect of one model.
pub(crate) struct LlamaCpp {
    config: ModelConfig,
}

#[derive(Serialize)]
struct Body<'a> {
    prompt: String,
    stream: bool,
    /// Keeps the repeated prefix of the conversation computed.
    cache_prompt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_predict: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop: Vec<&'a str>,
}

impl LlamaCpp {
    pub(crate) fn new(config: ModelConfig) -> Self {
        Self { config }
    }

    fn body(&self, request: &ModelRequest) -> Result<String, Failure> {
        let template = &self.config.chat_template;
        let messages = text_protocol::conversation(&request.messages, &request.tools);
        let mut stop: Vec<&str> = template.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty()).collect();
        if !request.tools.is_empty() {
            stop.push(text_protocol::STOP);
        }
        let body = Body {
            prompt: template::prompt(template, &messages),
            stream: true,
            cache_prompt: true,
            temperature: self.config.temperature,
            n_predict: self.config.most_tokens(request),
            stop,
        };
        json_body(&body, &self.config.body)
    }
}

impl Dialect for LlamaCpp {
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let body = self.body(order.request)?;
        // `/completion` lives at the server's root.
        Ok(Outgoing { path: order.target.beside("/completion"), body, reader: Box::new(reader::Reader) })
    }
}
