//! One part of a message, as JSON; and what stands before an answer. A server binds signed thoughts to that: where anything of it
//! is another since, they must not go back.

use std::hash::Hasher as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::wire::sendable::tool_arguments;

/// Mark behind which a server keeps what it has computed.
const CACHED: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    json: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Result,
    Thoughts,
    Other,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text { text: &'a str },
    Image { source: ImageSource<'a> },
    ToolUse { id: &'a str, name: &'a str, input: &'a RawValue },
    ToolResult { tool_use_id: &'a str, content: &'a str },
}

#[derive(Serialize)]
struct ImageSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: String,
}

impl Block {
    pub(super) fn text(text: &str) -> serde_json::Result<Self> {
        Self::of(Kind::Other, &WireBlock::Text { text })
    }

    pub(super) fn picture(media_type: &str, content: &[u8]) -> serde_json::Result<Self> {
        let source = ImageSource { r#type: "base64", media_type, data: BASE64_STANDARD.encode(content) };
        Self::of(Kind::Other, &WireBlock::Image { source })
    }

    /// A call, whose arguments keep their bytes.
    pub(super) fn call(id: &str, name: &str, arguments: &str) -> serde_json::Result<Self> {
        let arguments = tool_arguments(arguments);
        Self::of(Kind::Other, &WireBlock::ToolUse { id, name, input: serde_json::from_str(&arguments)? })
    }

    pub(super) fn result(id: &str, text: &str) -> serde_json::Result<Self> {
        Self::of(Kind::Result, &WireBlock::ToolResult { tool_use_id: id, content: text })
    }

    /// A block of an answer as it came.
    pub(super) fn as_it_came(raw: &RawValue, is_thought: bool) -> Self {
        Self { json: raw.get().to_owned(), kind: if is_thought { Kind::Thoughts } else { Kind::Other } }
    }

    pub(super) fn json(&self) -> &str {
        &self.json
    }

    pub(super) fn is_result(&self) -> bool {
        self.kind == Kind::Result
    }

    pub(super) fn is_thought(&self) -> bool {
        self.kind == Kind::Thoughts
    }

    /// Writes it, with the mark of the cache where it is to have one.
    pub(super) fn write_to(&self, out: &mut String, is_cached: bool) {
        out.push_str(&self.json);
        if is_cached {
            mark(out);
        }
    }

    fn of(kind: Kind, block: &WireBlock<'_>) -> serde_json::Result<Self> {
        Ok(Self { json: serde_json::to_string(block)?, kind })
    }
}

/// Puts the mark of the cache into the object at the end of a text.
pub(super) fn mark(out: &mut String) {
    if out.ends_with('}') {
        out.pop();
        out.push_str(CACHED);
        out.push('}');
    }
}

/// All that stands before a place in a conversation, as a hash of 128 bits. All of a request goes through it in front of the first
/// token, so it is a fast one: whoever finds another text with the same hash has his own thoughts refused by the server.
pub(super) struct Prefix(SipHasher13);

impl Prefix {
    /// The prefix of a conversation: instructions and tools.
    pub(super) fn new(system: &[Block], tools: &str) -> Self {
        let mut prefix = Self(SipHasher13::new());
        prefix.add(b't', tools);
        for block in system {
            prefix.add(b's', block.json());
        }
        prefix
    }

    /// Adds a block of a message.
    pub(super) fn append(&mut self, role: Role, block: &Block) {
        self.add(if role == Role::User { b'u' } else { b'a' }, block.json());
    }

    /// Fingerprint of all of it.
    pub(super) fn fingerprint(&self) -> String {
        format!("{:032x}", self.0.finish128().as_u128())
    }

    fn add(&mut self, kind: u8, json: &str) {
        self.0.write(&[kind]);
        self.0.write(&json.len().to_le_bytes());
        self.0.write(json.as_bytes());
    }
}
