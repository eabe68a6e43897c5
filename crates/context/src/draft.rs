//! A request on its way through the chain.

use std::sync::Arc;

use agentd_core::{
    answer_schema::AnswerSchema,
    ids::SessionId,
    model::{Message, ModelRequest},
};

use super::footprint::Footprint;
use crate::toolset::ToolSet;

/// A request on its way through the chain.
#[derive(Debug)]
pub struct RequestBuilder {
    /// The instructions and the history: they stand at the same place in the next request.
    pub messages: Vec<Message>,
    tools: ToolSet,
    may_call: bool,
    answer_schema: Option<Arc<AnswerSchema>>,
    known_paths: Vec<String>,
    /// The agent that is asked.
    agent: String,
}

impl RequestBuilder {
    /// Starts a request with its messages.
    pub fn new(messages: Vec<Message>, tools: ToolSet, known_paths: Vec<String>) -> Self {
        Self { messages, tools, may_call: true, answer_schema: None, known_paths, agent: String::new() }
    }

    /// The same for that agent.
    pub fn to(self, agent: &str) -> Self {
        Self { agent: agent.to_owned(), ..self }
    }

    /// Names the tools, and lets none be called.
    pub fn forbid_calls(&mut self) {
        self.may_call = false;
    }

    /// The same, whose answer has to be in a form where it is the last of a turn.
    #[must_use]
    pub fn in_form(self, answer_schema: Option<Arc<AnswerSchema>>) -> Self {
        Self { answer_schema, ..self }
    }

    /// The request, and what is needed to tell how much the next one repeats of it.
    pub fn seal(self, session_id: SessionId) -> (ModelRequest, Footprint) {
        let Self { messages, tools, may_call, answer_schema, known_paths, agent } = self;
        let footprint = Footprint::of(&tools, &messages).to(agent);
        let tools = Arc::clone(&tools.specs);
        (
            ModelRequest {
                session_id,
                messages,
                tools,
                may_call,
                answer_schema,
                max_tokens: None,
                has_fallback: false,
                known_paths,
                tap: Default::default(),
            },
            footprint,
        )
    }
}
