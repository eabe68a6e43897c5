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
    if let Message::Pictures { text, pictures } = message {
        let words = Fingerprint::of(&["user", text], tokens::estimate("user") + tokens::estimate(text));
        return pictures.iter().map(|shown| picture(&shown.picture)).fold(words, Fingerprint::and);
    }
    let mut texts = Vec::new();
    match message {
        Message::System { text } => texts.extend(["system", text]),
        Message::User { text } | Message::Pictures { text, .. } => texts.extend(["user", text]),
        Message::Assistant { text, reasoning, tool_calls, .. } => {
            texts.extend(["assistant", text]);
            texts.extend(reasoning.as_deref());
            for call in tool_calls {
                texts.extend([call.call_id.as_str(), &call.name, &call.arguments]);
            }
        }
        Message::Tool { call_id, name, text } => texts.extend(["tool", call_id.as_str(), name, text]),
    }
    Fingerprint::of(&texts, texts.iter().map(|text| tokens::estimate(text)).sum())
}

/// Fingerprint of a picture. No two have the same path.
pub fn picture(picture: &Picture) -> Fingerprint {
    let tokens = tokens::of_picture(picture.width, picture.height);
    Fingerprint { bytes: picture.bytes, ..Fingerprint::of(&["picture", &picture.path], tokens) }
}

/// Fingerprints of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Whom it asked.
    agent: String,
    tools: Fingerprint,
    messages: Vec<(SegmentKind, Fingerprint)>,
}

impl Footprint {
    /// Fingerprints of a request with these tools and messages.
    pub fn of(tools: &ToolSet, messages: &[Message]) -> Self {
        let messages = messages.iter().map(|message| (history::kind(message), print(message))).collect();
        Self { agent: String::new(), tools: tools.print, messages }
    }

    /// The same of a request to that agent: with another one tools and instructions change by their nature.
    pub fn to(self, agent: String) -> Self {
        Self { agent, ..self }
    }

    /// The same request without its tools.
    pub fn without_tools(self) -> Self {
        Self { tools: Fingerprint::default(), ..self }
    }

    /// The tools that it names.
    pub fn tools(&self) -> Fingerprint {
        self.tools
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
        Footprint::of(&ToolSet::none(), messages)
    }

    #[test]
    fn a_request_that_grows_at_its_end_repeats_all_of_the_one_before() {
        let first = footprint(&[system("be kind"), user("hello")]);
        let second = footprint(&[system("be kind"), user("hello"), user("more")]);
        let report = second.report(Some(&first));
        assert_eq!(report.broken_by, None);
        assert_eq!(report.repeated_bytes, ("systembe kind".len() + "userhello".len()) as u64);
        assert_eq!(report.previous_bytes, report.repeated_bytes);
        assert_eq!(report.bytes, report.repeated_bytes + 8);
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
