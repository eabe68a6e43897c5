//! Incomplete parts of an answer while their pieces arrive. Also the stored form of an answer: parts in their original
//! bytes that are stored nowhere else, and the positions of text and calls between them.

use std::borrow::Cow;

use agentd_core::{
    model::Message,
    origin::{AnswerOrigin, MAX_SERVER_CALL_ID, MAX_SERVER_FIELDS, ServerFields},
    tool::ToolCall,
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::sanitise::{WireIds, is_blank};
use crate::{
    answer::{
        Answer, MAX_ARGUMENT_BYTES, MAX_CALLS, RawCall,
        runaway::{ARGUMENTS, Guard},
    },
    http::{failure::Failure, target::Target},
};

/// Call whose pieces are arriving.
#[derive(Debug)]
pub(crate) struct PartialCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The server's signature of the call, which is sent back.
    pub(crate) extra_content: Option<String>,
    guard: Guard,
}

impl PartialCall {
    pub(crate) fn new(id: &str, name: &str) -> Self {
        let (id, name) = (id.to_owned(), name.to_owned());
        Self { id, name, arguments: String::new(), extra_content: None, guard: Guard::new(ARGUMENTS) }
    }

    /// Adds a piece of the arguments.
    pub(crate) fn push(&mut self, piece: &str, answer: &mut Answer) {
        answer.began = true;
        self.arguments.push_str(piece);
        if let Some(runaway) = self.guard.check(piece) {
            answer.runaway = Some(runaway.description);
        }
    }

    /// Returns the call. A complete call without arguments gets an empty object.
    pub(crate) fn read(&self, is_whole: bool) -> RawCall {
        let has_none = is_whole && self.arguments.trim().is_empty();
        let arguments = if has_none { "{}".to_owned() } else { self.arguments.clone() };
        let call_id = Some(self.id.clone()).filter(|id| id.len() <= MAX_SERVER_CALL_ID).unwrap_or_default();
        let fields = ServerFields { call_id, extra_content: self.extra_content.clone(), ..ServerFields::default() };
        RawCall { name: self.name.clone(), arguments, fields }
    }
}

/// Limits for all calls in an answer.
#[derive(Debug, Default)]
pub(crate) struct CallBounds {
    calls: usize,
    bytes: usize,
}

impl CallBounds {
    /// Counts another call in the answer.
    pub(crate) fn add_call(&mut self, target: &Target) -> Result<(), Failure> {
        self.calls += 1;
        if self.calls <= MAX_CALLS {
            return Ok(());
        }
        Err(Failure::protocol(format!(
            "the model at {target} requested more than {MAX_CALLS} tool calls in one answer"
        ))
        .hint("try again, or use another model"))
    }

    /// Counts a piece of arguments of this length.
    pub(crate) fn add_bytes(&mut self, target: &Target, bytes: usize, answer: &mut Answer) -> Result<(), Failure> {
        self.bytes += bytes;
        answer.size += bytes;
        if self.bytes <= MAX_ARGUMENT_BYTES {
            return Ok(());
        }
        Err(Failure::protocol(format!("the model at {target} wrote more than 1 MiB of tool arguments"))
            .hint("ask the model to work in smaller steps"))
    }

    /// Subtracts arguments that are replaced.
    pub(crate) fn subtract(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

/// Parts of a stored answer: blocks of the Messages wire, or items of the Responses wire.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct StoredAnswer<'a> {
    /// Hash of the conversation before the answer. Only blocks have one.
    #[serde(rename = "behind")]
    pub(crate) prefix: Option<String>,
    /// The parts. Text is represented by its length in bytes, negative if it is blank, or by phase and length. Calls
    /// are represented by their IDs, and all other parts by their original bytes.
    #[serde(alias = "items")]
    blocks: Vec<&'a RawValue>,
}

impl<'a> StoredAnswer<'a> {
    pub(crate) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns the parts of the answer in order, filled with the text and calls of the conversation, or `None` if the
    /// answer cannot be parsed or does not match them.
    pub(crate) fn filled(
        &self,
        parts: &[AnswerPart<'a>],
        ids: &mut WireIds<'a>,
        server_id: impl Fn(&ToolCall, &'a AnswerOrigin) -> Option<&'a str>,
    ) -> Option<Vec<FilledPart<'a>>> {
        let text: String = parts.iter().map(|part| part.text).collect();
        let mut rest = text.as_str();
        let mut calls = parts.iter().flat_map(|part| part.calls.iter().map(|call| (call, part.origin))).peekable();
        let mut filled = Vec::new();
        for part in self.blocks.iter().copied() {
            let json = part.get();
            filled.push(match json.as_bytes().first()? {
                b'{' => FilledPart::Original(part, is_thought(json)),
                // Blank text is not sent, and may not have been stored.
                b'-' => {
                    let bytes = json.get(1..)?.parse().ok()?;
                    let blank = rest.split_at_checked(bytes).filter(|(text, _)| is_blank(text));
                    rest = blank.map_or(rest, |(_, after)| after);
                    continue;
                }
                b'"' => {
                    let id: String = serde_json::from_str(json).ok()?;
                    match calls.next_if(|(call, origin)| server_id(call, origin) == Some(&id)) {
                        Some((call, origin)) => {
                            let own = ids.of_call(&call.call_id, server_id(call, origin));
                            FilledPart::Call(call, Some(own).filter(|own| *own == id)?)
                        }
                        None => FilledPart::Missing,
                    }
                }
                first => {
                    let (phase, bytes) = match first {
                        b'[' => serde_json::from_str::<(Option<String>, usize)>(json).ok()?,
                        _ => (None, json.parse().ok()?),
                    };
                    let (text, after) = rest.split_at_checked(bytes)?;
                    rest = after;
                    if is_blank(text) { FilledPart::Blank } else { FilledPart::Text(text.to_owned(), phase) }
                }
            });
        }
        (is_blank(rest) && calls.next().is_none()).then_some(filled)
    }
}

/// Answer in a conversation, or a part of one.
#[derive(Clone, Copy)]
pub(crate) struct AnswerPart<'a> {
    pub(crate) text: &'a str,
    pub(crate) calls: &'a [ToolCall],
    pub(crate) origin: &'a AnswerOrigin,
}

impl<'a> AnswerPart<'a> {
    /// Splits a conversation. Adjacent answers are grouped, as they are items of one answer or answers without a user
    /// message in between. Every other message is separate.
    pub(crate) fn split(messages: &'a [Message]) -> impl Iterator<Item = (&'a Message, Vec<Self>)> {
        let part = |message: &'a Message| match message {
            Message::Assistant { text, tool_calls, origin, reasoning: _ } => {
                Some(Self { text, calls: tool_calls, origin })
            }
            _ => None,
        };
        let are_answers = |message: &Message, next: &Message| {
            [message, next].iter().all(|message| matches!(message, Message::Assistant { .. }))
        };
        let runs = messages.chunk_by(are_answers);
        runs.map(move |run| (&run[0], run.iter().filter_map(part).collect()))
    }
}

/// Part of a stored answer that is sent back.
#[derive(Debug)]
pub(crate) enum FilledPart<'a> {
    /// Text, in a message with that phase.
    Text(String, Option<String>),
    /// Blank text, which is not sent.
    Blank,
    /// A call with its ID.
    Call(&'a ToolCall, Cow<'a, str>),
    /// A call that was cut or not run.
    Missing,
    /// A part with its original bytes; true if it is reasoning.
    Original(&'a RawValue, bool),
}

fn is_thought(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Label<'a> {
        #[serde(borrow)]
        r#type: Option<Cow<'a, str>>,
    }
    let label = serde_json::from_str::<Label<'_>>(json).ok().and_then(|label| label.r#type);
    matches!(label.as_deref(), Some("thinking" | "redacted_thinking" | "reasoning"))
}

/// Parts of an answer to be stored in the journal.
#[derive(Debug, Default)]
pub(crate) struct AnswerParts {
    parts: Vec<String>,
    bytes: usize,
    /// True once a part exists that is stored nowhere else.
    has_original: bool,
}

impl AnswerParts {
    pub(crate) fn text(&mut self, text: &str, phase: Option<&str>) -> Option<()> {
        let bytes = text.len();
        match phase {
            _ if is_blank(text) => self.push(format!("-{bytes}")),
            Some(phase) => {
                self.has_original = true;
                self.push(json!([phase, bytes]).to_string())
            }
            None => self.push(bytes.to_string()),
        }
    }

    pub(crate) fn call(&mut self, id: &str) -> Option<()> {
        self.push(json!(id).to_string())
    }

    pub(crate) fn original(&mut self, part: &RawValue) -> Option<()> {
        self.has_original = true;
        self.push(part.get().to_owned())
    }

    /// Returns all parts as JSON: blocks if `prefix` is set, otherwise items, or `None` if text and calls alone are
    /// sufficient.
    pub(crate) fn into_json(self, prefix: Option<&str>) -> Option<String> {
        let parts = self.parts.join(",");
        self.has_original.then(|| match prefix {
            Some(prefix) => format!(r#"{{"behind":{},"blocks":[{parts}]}}"#, json!(prefix)),
            None => format!(r#"{{"items":[{parts}]}}"#),
        })
    }

    fn push(&mut self, part: String) -> Option<()> {
        self.bytes += part.len();
        self.parts.push(part);
        (self.bytes <= MAX_SERVER_FIELDS).then_some(())
    }
}
