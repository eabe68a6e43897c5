//! A request as the harness reads it: what was asked last, and what this turn's tool returned.

use agentd_core::{
    ids::CallId,
    model::{Message, ModelRequest},
    tool::ToolCall,
};
use serde_json::Value;

/// Prefixes of messages that the daemon writes for larger models. They are not the person's words.
const OTHERS: [&str; 4] = ["<memory>\n", "<skills>\n", "<files>\n", "<conversation_summary>\n"];
/// Beginning of the line in which `agentctl` names the files that come with a prompt.
const HANDED_OVER: &str = "\n\nUploaded file";
/// Characters of a request that are read.
const LONGEST: usize = 2000;

/// A request, read.
pub(crate) struct OpenRequest<'a> {
    /// The person's words.
    pub(crate) text: String,
    /// Earlier requests, newest first.
    pub(crate) earlier: Vec<&'a str>,
    /// Result of the call of this turn, if there was one.
    pub(crate) outcome: Option<Outcome<'a>>,
    /// Paths of the files that are in view.
    pub(crate) paths: &'a [String],
}

/// Result of a call.
pub(crate) struct Outcome<'a> {
    pub(crate) tool: &'a str,
    pub(crate) text: &'a str,
    arguments: Value,
}

impl Outcome<'_> {
    /// An argument of the call; empty if it had none of that name.
    pub(crate) fn argument(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl<'a> OpenRequest<'a> {
    /// Reads a request. The daemon's system message and reminders are not for this model.
    pub(crate) fn read(request: &'a ModelRequest) -> Self {
        let mut said: Vec<&str> = Vec::new();
        let mut calls: Vec<&ToolCall> = Vec::new();
        let mut outcome = None;
        for message in &request.messages {
            match message {
                Message::System { .. } | Message::Pictures { .. } => {}
                Message::User { text } => {
                    if OTHERS.iter().any(|tag| text.starts_with(tag)) || without_reminders(text).is_empty() {
                        continue;
                    }
                    said.push(text);
                    calls.clear();
                    outcome = None;
                }
                Message::Assistant { tool_calls, .. } => calls.extend(tool_calls),
                Message::Tool { call_id, name, text } => {
                    outcome = Some(Outcome { tool: name, text, arguments: arguments_of(&calls, call_id) });
                }
            }
        }
        let text = said.pop().map(without_reminders).unwrap_or_default();
        let text = beginning(text.split(HANDED_OVER).next().unwrap_or_default().trim()).to_owned();
        let said = said.into_iter().rev().map(beginning).collect();
        Self { text, earlier: said, outcome, paths: &request.known_paths }
    }
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end])
}

fn arguments_of(calls: &[&ToolCall], call_id: &CallId) -> Value {
    let call = calls.iter().rev().find(|call| call.call_id == *call_id);
    call.and_then(|call| serde_json::from_str(&call.arguments).ok()).unwrap_or_default()
}

/// A text without the reminders that the daemon adds for larger models.
fn without_reminders(text: &str) -> String {
    const START: &str = "<system_reminder>";
    const END: &str = "</system_reminder>";
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        kept.push_str(before);
        rest = after.split_once(END).map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}
