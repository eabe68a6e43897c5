//! A request under construction, and its footprint. The footprint shows how much of a request the next request repeats,
//! because a server with a cache only computes the part after the first difference.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use agentd_core::{
    answer_schema::AnswerSchema,
    context::{PromptReport, SegmentKind},
    files::Picture,
    ids::SessionId,
    model::{Message, ModelRequest},
};

use crate::{history, tokens, toolset::ToolSet};

/// Fingerprint of one part of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fingerprint {
    hash: u64,
    /// Size of the part in bytes.
    pub bytes: u64,
    /// Estimated number of tokens.
    pub tokens: u64,
}

impl Fingerprint {
    /// Creates the fingerprint of texts with an estimated number of tokens.
    pub fn of(texts: &[&str], tokens: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        texts.hash(&mut hasher);
        Self { hash: hasher.finish(), bytes: texts.iter().map(|text| text.len() as u64).sum(), tokens }
    }

    /// Combines two fingerprints. The order matters.
    pub fn and(self, next: Self) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.hash, next.hash).hash(&mut hasher);
        Self { hash: hasher.finish(), bytes: self.bytes + next.bytes, tokens: self.tokens + next.tokens }
    }
}

/// Returns the fingerprint of one message.
pub fn print(message: &Message) -> Fingerprint {
    let texts = match message {
        Message::System { text } => vec!["system", text],
        Message::User { text } | Message::Pictures { text, .. } => vec!["user", text],
        Message::Assistant { text, reasoning, tool_calls, .. } => {
            let calls = tool_calls.iter().flat_map(|call| [call.call_id.as_str(), &call.name, &call.arguments]);
            ["assistant", text].into_iter().chain(reasoning.as_deref()).chain(calls).collect()
        }
        Message::Tool { call_id, name, text, .. } => vec!["tool", call_id.as_str(), name, text],
    };
    let text = Fingerprint::of(&texts, texts.iter().map(|text| tokens::estimate(text)).sum());
    message.pictures().iter().map(|shown| picture(&shown.picture)).fold(text, Fingerprint::and)
}

/// Returns the fingerprint of a picture. Paths of pictures are unique, so the content is not included.
pub fn picture(picture: &Picture) -> Fingerprint {
    let tokens = tokens::of_picture(picture.width, picture.height);
    Fingerprint { bytes: picture.bytes, ..Fingerprint::of(&["picture", &picture.path], tokens) }
}

/// Fingerprints of a request's parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Agent that sends the request. Different agents always have different tools and instructions.
    agent: String,
    /// Fingerprint of the tools.
    pub tools: Fingerprint,
    messages: Vec<(SegmentKind, Fingerprint)>,
}

impl Footprint {
    /// Creates the footprint of a request to an agent.
    pub fn of(agent: String, tools: &ToolSet, messages: &[Message]) -> Self {
        let messages = messages.iter().map(|message| (history::kind(message), print(message))).collect();
        Self { agent, tools: tools.print, messages }
    }

    /// Returns the estimated tokens of tools and instructions.
    pub fn fixed_tokens(&self) -> u64 {
        let is_fixed = |(kind, _): &&(SegmentKind, Fingerprint)| *kind == SegmentKind::Instructions;
        let instructions = self.messages.iter().take_while(is_fixed).map(|(_, print)| print.tokens);
        self.tools.tokens + instructions.sum::<u64>()
    }

    /// Returns the size of the request in bytes.
    pub fn bytes(&self) -> u64 {
        self.sum(|print| print.bytes)
    }

    /// Returns the estimated tokens of the request.
    pub fn tokens(&self) -> u64 {
        self.sum(|print| print.tokens)
    }

    fn sum(&self, measure: impl Fn(&Fingerprint) -> u64) -> u64 {
        measure(&self.tools) + self.messages.iter().map(|(_, print)| measure(print)).sum::<u64>()
    }

    /// Reports how much of this request repeats the previous one.
    pub fn report(&self, before: Option<&Self>) -> PromptReport {
        let mut report = PromptReport { bytes: self.bytes(), tokens: self.tokens(), ..PromptReport::default() };
        let Some(before) = before else { return report };
        report.previous_bytes = before.bytes();
        if self.tools != before.tools {
            report.broken_by = Some(self.changed(before, SegmentKind::Tools.as_str()));
            return report;
        }
        let pairs = self.messages.iter().zip(&before.messages);
        let same = pairs.take_while(|(now, then)| now.1 == then.1).count();
        let repeated = self.messages[..same].iter().fold(self.tools, |sum, (_, print)| sum.and(*print));
        (report.repeated_bytes, report.repeated_tokens) = (repeated.bytes, repeated.tokens);
        report.broken_by = before.messages.get(same).map(|(kind, _)| self.changed(before, kind.as_str()));
        report
    }

    /// Returns the reason why a segment has changed.
    fn changed(&self, before: &Self, segment: &str) -> String {
        if self.agent == before.agent { segment.to_owned() } else { "agent".to_owned() }
    }
}

/// Request that is being built.
#[derive(Debug)]
pub struct RequestBuilder {
    /// Instructions and history. These messages have the same positions in the next request.
    pub messages: Vec<Message>,
    /// Tools of the request.
    pub tools: ToolSet,
    /// True if the tools may be called.
    pub may_call: bool,
    /// Required format of the answer, if this request asks for the last answer of a turn.
    pub answer_schema: Option<Arc<AnswerSchema>>,
    /// Known paths, for models with constrained arguments.
    pub known_paths: Vec<String>,
    /// Agent that sends the request.
    pub agent: String,
}

impl RequestBuilder {
    /// Finishes the request. Returns the request and its footprint for comparison with the next request.
    pub fn seal(self, session_id: SessionId) -> (ModelRequest, Footprint) {
        let Self { messages, tools, may_call, answer_schema, known_paths, agent } = self;
        let footprint = Footprint::of(agent, &tools, &messages);
        let request = ModelRequest {
            tools: Arc::clone(&tools.specs),
            may_call,
            answer_schema,
            known_paths,
            ..ModelRequest::new(session_id, messages)
        };
        (request, footprint)
    }
}
