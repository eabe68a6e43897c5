//! A request on its way through the chain: what is stable, and what is only said this once.

use std::sync::Arc;

use agentd_core::{
    ids::SessionId,
    model::{Message, ModelRequest},
};

use super::footprint::Footprint;
use crate::{frame::harmless, toolset::ToolSet};

/// A request on its way through the chain.
#[derive(Debug)]
pub struct RequestBuilder {
    /// The instructions and the history: they stand at the same place in the next request.
    pub messages: Vec<Message>,
    /// Varying part: it is said at the very end, and not again in the next request.
    reminders: Vec<String>,
    tools: ToolSet,
    may_call: bool,
    known_paths: Vec<String>,
    /// The agent that is asked.
    agent: String,
}

impl RequestBuilder {
    /// Starts a request with the stable part of its messages.
    pub fn new(messages: Vec<Message>, tools: ToolSet, known_paths: Vec<String>) -> Self {
        Self { messages, reminders: Vec::new(), tools, may_call: true, known_paths, agent: String::new() }
    }

    /// The same for that agent.
    pub fn to(self, agent: &str) -> Self {
        Self { agent: agent.to_owned(), ..self }
    }

    /// Reminds the model of something, in this request only.
    pub fn remind(&mut self, text: impl Into<String>) {
        self.reminders.push(text.into());
    }

    /// Names the tools, and lets none be called.
    pub fn forbid_calls(&mut self) {
        self.may_call = false;
    }

    /// The request, and what is needed to tell how much the next one repeats of it.
    pub fn seal(self, session_id: SessionId) -> (ModelRequest, Footprint) {
        let Self { mut messages, reminders, tools, may_call, known_paths, agent } = self;
        let mut footprint = Footprint::of(&tools, &messages).to(agent);
        if !reminders.is_empty() {
            // Files and todos are named in them, whose names others gave.
            let text = format!("<system_reminder>\n{}\n</system_reminder>", harmless(&reminders.join("\n")));
            footprint.end_with(&text);
            add_to_end(&mut messages, text);
        }
        let tools = Arc::clone(&tools.specs);
        (ModelRequest { session_id, messages, tools, may_call, max_tokens: None, known_paths }, footprint)
    }
}

/// Adds a text at the very end, where it changes nothing that was sent before.
fn add_to_end(messages: &mut Vec<Message>, text: String) {
    match messages.last_mut() {
        Some(Message::User { text: last }) => {
            last.push_str("\n\n");
            last.push_str(&text);
        }
        _ => messages.push(Message::User { text }),
    }
}
