//! Marks of the prompt cache. Claude keeps only what a request marks, and OpenRouter hands such marks on; no other server of
//! this wire is sent any, since many refuse fields that they do not know.

use std::borrow::Cow;

use serde::Serialize;

use super::messages::{Part, UserContent, WireMessage};

/// Host of OpenRouter.
const OPENROUTER: &str = "openrouter.ai";

/// The field, as one that a server may refuse.
pub(super) const CACHE: &str = "cache_control";

/// Returns true for the host of OpenRouter and those of its regions.
pub(super) fn is_openrouter(host: &str) -> bool {
    host.strip_suffix(OPENROUTER).is_some_and(|region| region.is_empty() || region.ends_with('.'))
}

/// Returns true if the cache of this model at that host has to be marked.
pub(super) fn wants_marks(host: &str, id: &str) -> bool {
    is_openrouter(host) && id.trim_start_matches('~').starts_with("anthropic/")
}

/// A message as it is sent.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum SentMessage<'a> {
    Plain(WireMessage<'a>),
    Marked {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<Cow<'a, str>>,
        content: Vec<SentPart<'a>>,
    },
}

#[derive(Serialize)]
pub(super) struct SentPart<'a> {
    #[serde(flatten)]
    part: Part<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct Mark {
    r#type: &'static str,
}

/// The messages, with marks behind the instructions and behind the last two places at which the model answers: each request
/// finds there what the one before it stored.
pub(super) fn sent(messages: Vec<WireMessage<'_>>, marks: bool) -> Vec<SentMessage<'_>> {
    let is_answer = |message: &WireMessage<'_>| matches!(message, WireMessage::Assistant { .. });
    let is_place = |at: &usize| !is_answer(&messages[*at]) && messages.get(at + 1).is_none_or(is_answer);
    let is_system = matches!(messages.first(), Some(WireMessage::System { .. }));
    let places = (0..messages.len()).rev().filter(is_place).take(2).chain(is_system.then_some(0));
    let marked: Vec<usize> = if marks { places.collect() } else { Vec::new() };
    let sent = |(at, message)| if marked.contains(&at) { with_mark(message) } else { SentMessage::Plain(message) };
    messages.into_iter().enumerate().map(sent).collect()
}

fn with_mark(message: WireMessage<'_>) -> SentMessage<'_> {
    let (role, tool_call_id, parts) = match message {
        WireMessage::System { content } => ("system", None, vec![Part::Text { text: content }]),
        WireMessage::User { content: UserContent::Text(text) } => ("user", None, vec![Part::Text { text }]),
        WireMessage::User { content: UserContent::Parts(parts) } => ("user", None, parts),
        WireMessage::Tool { tool_call_id, content } => ("tool", Some(tool_call_id), vec![Part::Text { text: content }]),
        answer @ WireMessage::Assistant { .. } => return SentMessage::Plain(answer),
    };
    let mut content: Vec<_> = parts.into_iter().map(|part| SentPart { part, cache_control: None }).collect();
    if let Some(last) = content.last_mut() {
        last.cache_control = Some(Mark { r#type: "ephemeral" });
    }
    SentMessage::Marked { role, tool_call_id, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claude_at_openrouter_is_sent_marks() {
        let check = |host, id, expected| assert_eq!(wants_marks(host, id), expected, "{host} {id}");
        check("openrouter.ai", "anthropic/claude-sonnet-4.5", true);
        check("eu.openrouter.ai", "~anthropic/claude-sonnet-latest", true);
        check("openrouter.ai", "openai/gpt-5", false);
        check("openrouter.ai", "other/anthropic/claude", false);
        check("openrouter.ai.evil.example", "anthropic/claude-sonnet-4.5", false);
        check("myopenrouter.ai", "anthropic/claude-sonnet-4.5", false);
        check("127.0.0.1", "anthropic/claude-sonnet-4.5", false);
    }
}
