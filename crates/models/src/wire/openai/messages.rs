//! The conversation in the form that the strictest chat templates accept: one system message at the front, then the
//! person and the model in turns, results only behind their calls.
//!
//! What a server sent beside words and calls goes back as it came to the model that it came from, and to no other.

use std::borrow::Cow;

use agentd_core::{
    model::{Message, ShownPicture},
    origin::{AnswerOrigin, ServerFields},
    tool::ToolCall,
    untrusted,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::answer::text_protocol::join;
use crate::wire::sendable::{GO_ON, NO_OUTPUT, PICTURES, WireIds, is_blank, tool_arguments, tool_name};

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum WireMessage<'a> {
    System {
        content: Content<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// Null beside calls that came without words.
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Content<'a>,
    },
}

/// Words and pictures. Words alone are sent as a text, which every server takes.
#[derive(Debug)]
pub(super) struct Content<'a>(Vec<Part<'a>>);

#[derive(Debug, Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    shown: PartContent<'a>,
    /// The mark of the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartContent<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Debug, Serialize)]
struct Mark {
    r#type: &'static str,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [Part { shown: PartContent::Text { text }, cache_control: None }] => text.serialize(serializer),
            parts => parts.serialize(serializer),
        }
    }
}

impl<'a> Content<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self(vec![Part { shown: PartContent::Text { text: text.into() }, cache_control: None }])
    }

    fn add(&mut self, more: Cow<'a, str>) {
        match self.0.last_mut() {
            Some(Part { shown: PartContent::Text { text }, .. }) => join(text.to_mut(), &more),
            _ => self.0.extend(Self::text(more).0),
        }
    }

    /// Adds the pictures whose bytes are there.
    fn show(&mut self, pictures: &[ShownPicture]) {
        for shown in pictures {
            let Some(content) = &shown.content else { continue };
            let url = format!("data:{};base64,{}", shown.picture.media_type, BASE64_STANDARD.encode(content));
            self.0.push(Part { shown: PartContent::ImageUrl { image_url: ImageUrl { url } }, cache_control: None });
        }
    }

    /// Marks its end for the cache.
    pub(super) fn mark(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.cache_control = Some(Mark { r#type: "ephemeral" });
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: WireCallFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct WireCallFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// Writes the messages.
pub(super) fn wire_messages<'a>(messages: &'a [Message], recipient: Recipient<'a>) -> Vec<WireMessage<'a>> {
    let mut wire = Vec::with_capacity(messages.len());
    let mut ids = WireIds::default();
    for message in messages {
        match message {
            // System messages after the first are told as the daemon's words to the model, which every template knows.
            Message::System { text } => match wire.last_mut() {
                None => wire.push(WireMessage::System { content: Content::text(text) }),
                Some(WireMessage::System { content }) => content.add(text.as_str().into()),
                Some(_) => add_user(&mut wire, text),
            },
            Message::User { text } => match wire.last_mut() {
                Some(WireMessage::Tool { content, .. }) if recipient.wants_turns && !is_blank(text) => {
                    content.add(untrusted::said_behind_result(text).into());
                }
                _ => add_user(&mut wire, text),
            },
            Message::Pictures { text, pictures } => {
                add_user(&mut wire, if is_blank(text) { PICTURES } else { text });
                if let Some(WireMessage::User { content }) = wire.last_mut() {
                    content.show(pictures);
                }
            }
            Message::Assistant { text, reasoning, tool_calls, origin } => {
                let calls = tool_calls.iter().enumerate();
                let calls = calls.map(|(at, call)| wire_call(call, at == 0, origin, recipient, &mut ids)).collect();
                let thoughts = recipient.thoughts(reasoning.as_deref(), origin, !tool_calls.is_empty());
                let details = origin.details_of(recipient.origin).and_then(raw);
                add_answer(&mut wire, if is_blank(text) { "" } else { text }, thoughts, details, calls);
            }
            Message::Tool { call_id, name: _, text } => {
                let content = if is_blank(text) { NO_OUTPUT.into() } else { untrusted::unreminded(text) };
                wire.push(WireMessage::Tool { tool_call_id: ids.of_result(call_id), content: Content::text(content) });
            }
        }
    }
    // Half an answer may stand last, where its turn was stopped and is continued.
    if !matches!(wire.last(), Some(WireMessage::User { .. } | WireMessage::Tool { .. })) {
        add_user(&mut wire, GO_ON);
    }
    wire
}

fn add_user<'a>(wire: &mut Vec<WireMessage<'a>>, text: &'a str) {
    if is_blank(text) {
        return;
    }
    match wire.last_mut() {
        Some(WireMessage::User { content }) => return content.add(text.into()),
        // In the result it stands in nobody's way: templates take what a person says for the start of a turn.
        Some(WireMessage::Tool { content, .. }) if untrusted::is_of_daemon(text) => {
            return content.add(untrusted::behind_result(text).into());
        }
        _ => {}
    }
    wire.push(WireMessage::User { content: Content::text(text) });
}

/// Adds an answer of the model to the one before it.
fn add_answer<'a>(
    wire: &mut Vec<WireMessage<'a>>,
    text: &'a str,
    thoughts: Option<&'a str>,
    details: Option<&'a RawValue>,
    calls: Vec<WireCall<'a>>,
) {
    if text.is_empty() && calls.is_empty() {
        return;
    }
    if matches!(wire.last(), None | Some(WireMessage::System { .. })) {
        wire.push(WireMessage::User { content: Content::text(GO_ON) });
    }
    if !matches!(wire.last(), Some(WireMessage::Assistant { .. })) {
        let (content, reasoning_content, reasoning_details) = (None, None, None);
        wire.push(WireMessage::Assistant { content, reasoning_content, reasoning_details, tool_calls: Vec::new() });
    }
    let Some(WireMessage::Assistant { content, reasoning_content, reasoning_details, tool_calls }) = wire.last_mut()
    else {
        return;
    };
    if !text.is_empty() {
        join(content.get_or_insert_default().to_mut(), text);
    }
    if let Some(thoughts) = thoughts {
        join(reasoning_content.get_or_insert_default().to_mut(), thoughts);
    }
    *reasoning_details = details.or(*reasoning_details);
    tool_calls.extend(calls);
}

/// A call as it was, except for what would make servers refuse the whole conversation for good: names with foreign
/// characters, and arguments that are no JSON object, which many servers read to write them in their own form.
fn wire_call<'a>(
    call: &'a ToolCall,
    is_first: bool,
    origin: &'a AnswerOrigin,
    recipient: Recipient<'_>,
    ids: &mut WireIds<'a>,
) -> WireCall<'a> {
    let fields = origin.of_call(&call.call_id, recipient.origin);
    WireCall {
        id: ids.of_call(&call.call_id, fields.map(|fields| fields.call_id.as_str())),
        r#type: "function",
        function: WireCallFunction { name: tool_name(&call.name), arguments: tool_arguments(&call.arguments) },
        extra_content: recipient.extra_content(fields, is_first),
    }
}

/// Gemini's own word for a call that another model made: from its third version on it demands a signature of each step.
const NO_SIGNATURE: &str = r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// The model that a conversation is written for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipient<'a> {
    /// Its id.
    pub(super) id: &'a str,
    /// Its name in the origin of what it said.
    pub(super) origin: &'a str,
    /// Set if it wants earlier thoughts back.
    pub(super) wants_thoughts: bool,
    /// Set if it takes no words of the person right behind a tool's result.
    pub(super) wants_turns: bool,
}

impl Recipient<'_> {
    /// The thoughts of an answer, if it wants them. Such models demand the field beside calls also where the answer has none:
    /// it is of another model, or its thoughts were not kept.
    fn thoughts<'a>(&self, reasoning: Option<&'a str>, origin: &'a AnswerOrigin, has_calls: bool) -> Option<&'a str> {
        let own = reasoning.or(origin.unsent_reasoning.as_deref());
        let thoughts = own.filter(|_| !origin.is_thought_by_another(self.origin)).or(has_calls.then_some(""));
        thoughts.filter(|_| self.wants_thoughts)
    }

    /// The signature of a call: its own, or the word for one of another model, in the place where it demands one.
    fn extra_content<'a>(&self, own: Option<&'a ServerFields>, is_first: bool) -> Option<&'a RawValue> {
        match own {
            Some(fields) => raw(fields.extra_content.as_deref()?),
            None if is_first && demands_signatures(self.id) => raw(NO_SIGNATURE),
            None => None,
        }
    }
}

/// Returns whether the id is that of a Gemini that refuses calls without a signature.
fn demands_signatures(id: &str) -> bool {
    let version = id.strip_prefix("models/").unwrap_or(id).strip_prefix("gemini-");
    let major = version.and_then(|version| version.split(|letter: char| !letter.is_ascii_digit()).next());
    major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 3)
}

/// JSON as it came; none where it is none, as in a journal that was changed by hand.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_another_model_says_so_to_gemini() {
        let check = |id: &str, demands: bool| {
            let recipient = Recipient { id, origin: "", wants_thoughts: false, wants_turns: false };
            let first = recipient.extra_content(None, true).map(RawValue::get);
            assert_eq!(first, demands.then_some(NO_SIGNATURE), "{id}");
            assert!(recipient.extra_content(None, false).is_none());
            // Its own are as they came, also where none had come.
            assert!(recipient.extra_content(Some(&ServerFields::default()), true).is_none());
        };
        check("gemini-3-pro-preview", true);
        check("models/gemini-3.6-flash", true);
        check("gemini-12-x", true);
        check("gemini-2.5-pro", false);
        check("gemini-flash-latest", false);
        check("google/gemini-3-pro", false);
        check("gpt-5", false);
    }
}
