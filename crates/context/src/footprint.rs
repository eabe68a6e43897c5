//! A request on its way through the chain, and what is remembered of it, so that it can be told how much the next one repeats of it: a
//! server with a cache computes only what comes after the first difference.

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
    /// Its size in bytes.
    pub bytes: u64,
    /// About how many tokens it has.
    pub tokens: u64,
}

impl Fingerprint {
    /// Fingerprint of these texts, which have about this many tokens.
    pub fn of(texts: &[&str], tokens: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        texts.hash(&mut hasher);
        Self { hash: hasher.finish(), bytes: texts.iter().map(|text| text.len() as u64).sum(), tokens }
    }

    /// This and then that.
    pub fn and(self, next: Self) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.hash, next.hash).hash(&mut hasher);
        Self { hash: hasher.finish(), bytes: self.bytes + next.bytes, tokens: self.tokens + next.tokens }
    }
}

/// Fingerprint of one message.
pub fn print(message: &Message) -> Fingerprint {
    let texts = match message {
        Message::System { text } => vec!["system", text],
        Message::User { text } | Message::Pictures { text, .. } => vec!["user", text],
        Message::Assistant { text, reasoning, tool_calls, .. } => {
            let calls = tool_calls.iter().flat_map(|call| [call.call_id.as_str(), &call.name, &call.arguments]);
            ["assistant", text].into_iter().chain(reasoning.as_deref()).chain(calls).collect()
        }
        Message::Tool { call_id, name, text } => vec!["tool", call_id.as_str(), name, text],
    };
    let words = Fingerprint::of(&texts, texts.iter().map(|text| tokens::estimate(text)).sum());
    let Message::Pictures { pictures, .. } = message else { return words };
    pictures.iter().map(|shown| picture(&shown.picture)).fold(words, Fingerprint::and)
}

/// Fingerprint of a picture. No two have the same path.
pub fn picture(picture: &Picture) -> Fingerprint {
    let tokens = tokens::of_picture(picture.width, picture.height);
    Fingerprint { bytes: picture.bytes, ..Fingerprint::of(&["picture", &picture.path], tokens) }
}

/// Fingerprints of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Whom it asked: of another agent tools and instructions differ by their nature.
    agent: String,
    /// The tools that it names.
    pub tools: Fingerprint,
    messages: Vec<(SegmentKind, Fingerprint)>,
}

impl Footprint {
    /// Fingerprints of a request with these tools and messages to that agent.
    pub fn of(agent: String, tools: &ToolSet, messages: &[Message]) -> Self {
        let messages = messages.iter().map(|message| (history::kind(message), print(message))).collect();
        Self { agent, tools: tools.print, messages }
    }

    /// About how many tokens of it are tools and instructions.
    pub fn fixed(&self) -> u64 {
        let is_fixed = |(kind, _): &&(SegmentKind, Fingerprint)| *kind == SegmentKind::Instructions;
        let instructions = self.messages.iter().take_while(is_fixed).map(|(_, print)| print.tokens);
        self.tools.tokens + instructions.sum::<u64>()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sum(|print| print.bytes)
    }

    /// About how many tokens it has.
    pub fn tokens(&self) -> u64 {
        self.sum(|print| print.tokens)
    }

    fn sum(&self, of: impl Fn(&Fingerprint) -> u64) -> u64 {
        of(&self.tools) + self.messages.iter().map(|(_, print)| of(print)).sum::<u64>()
    }

    /// Report on how much of this request repeats the one before it.
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

    /// Why a segment is not as it was.
    fn changed(&self, before: &Self, segment: &str) -> String {
        if self.agent == before.agent { segment.to_owned() } else { "agent".to_owned() }
    }
}

/// A request on its way through the chain.
#[derive(Debug)]
pub struct RequestBuilder {
    /// The instructions and the history: they stand at the same place in the next request.
    pub messages: Vec<Message>,
    /// The tools that it names.
    pub tools: ToolSet,
    /// Set if these may be called.
    pub may_call: bool,
    /// The form that its answer has to be in where it is the last of a turn.
    pub answer_schema: Option<Arc<AnswerSchema>>,
    /// Paths for models whose arguments are constrained.
    pub known_paths: Vec<String>,
    /// The agent that is asked.
    pub agent: String,
}

impl RequestBuilder {
    /// The request, and what is needed to tell how much the next one repeats of it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Message {
        Message::User { text: text.to_owned() }
    }

    fn system(text: &str) -> Message {
        Message::System { text: text.to_owned() }
    }

    fn footprint(messages: &[Message]) -> Footprint {
        Footprint::of(String::new(), &ToolSet::none(), messages)
    }

    #[test]
    fn the_first_difference_is_named() {
        let first = footprint(&[system("be kind"), user("hello"), user("more")]);
        let other = footprint(&[system("be rude"), user("hello"), user("more")]);
        let report = other.report(Some(&first));
        assert_eq!((report.broken_by.as_deref(), report.repeated_bytes), (Some("instructions"), 0));
        let shorter = footprint(&[system("be kind"), user("hello")]);
        assert_eq!(shorter.report(Some(&first)).broken_by.as_deref(), Some("history"));
        assert_eq!(shorter.report(None).previous_bytes, 0);
    }
}
