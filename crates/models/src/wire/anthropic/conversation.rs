//! The conversation in the order that the wire requires: user and assistant alternate, a user message comes first and
//! last, and the results of a message's calls are at the start of the next message. No text may be blank.
//!
//! An answer is sent back unchanged with its signed reasoning to the model that gave it, as long as everything before
//! the answer is sent as originally. Otherwise only its text and calls are sent: a server never accepts reasoning
//! after another prefix.

use std::{collections::HashSet, hash::Hasher as _};

use agentd_core::{
    model::{Message, ShownPicture},
    origin::AnswerOrigin,
    tool::ToolCall,
    untrusted,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json, value::RawValue};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::wire::{
    partial::{AnswerPart, FilledPart, StoredAnswer},
    sanitise::{
        EMPTY_USER_MESSAGE, NO_OUTPUT, PICTURES, WireIds, is_blank, is_plain_id, split_instructions, tool_arguments,
        tool_name,
    },
};

#[derive(Debug)]
pub(super) struct WireMessage {
    pub(super) role: Role,
    pub(super) blocks: Vec<Block>,
}

/// Conversation in the wire's format.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) system: Vec<Block>,
    pub(super) messages: Vec<WireMessage>,
    /// Hash of the whole conversation.
    pub(super) fingerprint: String,
}

/// Model for which a conversation is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipient<'a> {
    /// Name of the model in the origin of answers.
    pub(super) origin: &'a str,
    /// Prefixes of answers whose reasoning the model refuses.
    pub(super) distrusted: &'a HashSet<String>,
    /// True if no reasoning is sent to the model.
    pub(super) without_thoughts: bool,
}

/// Writes a conversation. `tools` are those of the request, as JSON.
pub(super) fn write(messages: &[Message], tools: &str, recipient: Recipient<'_>) -> Conversation {
    let (system, messages) = split_instructions(messages);
    let system = system.into_iter().map(Block::text).collect::<Vec<_>>();
    let prefix = Prefix::new(&system, tools);
    let mut writer = Writer { recipient, ids: WireIds::default(), prefix, sealed: (0, 0), messages: Vec::new() };
    for (message, run) in AnswerPart::split(messages) {
        writer.answers(&run);
        writer.add(message);
    }
    if writer.messages.last().is_none_or(|last| last.role != Role::User) {
        writer.push(Role::User, Block::text(EMPTY_USER_MESSAGE));
    }
    writer.seal();
    Conversation { system, fingerprint: writer.prefix.fingerprint(), messages: writer.messages }
}

/// Returns the prefixes of all answers from that model with stored blocks.
pub(super) fn prefixes_of_answers(messages: &[Message], origin: &str) -> Vec<String> {
    let stored = messages.iter().filter_map(|message| match message {
        Message::Assistant { origin: of_answer, .. } => StoredAnswer::parse(of_answer.blocks_of(origin)?),
        _ => None,
    });
    stored.filter_map(|answer| answer.prefix).collect()
}

struct Writer<'a> {
    recipient: Recipient<'a>,
    ids: WireIds<'a>,
    /// Hash of everything up to the sealed position: a number of messages, and of blocks in the next one.
    prefix: Prefix,
    sealed: (usize, usize),
    messages: Vec<WireMessage>,
}

impl<'a> Writer<'a> {
    fn add(&mut self, message: &'a Message) {
        match message {
            Message::System { text } | Message::User { text } => {
                if !is_blank(text) {
                    self.push(Role::User, Block::text(text));
                }
            }
            Message::Pictures { text, pictures } => {
                self.push(Role::User, Block::text(if is_blank(text) { PICTURES } else { text }));
                for picture in pictures.iter().filter_map(picture) {
                    self.push(Role::User, Block::of(Kind::Other, picture.to_string()));
                }
            }
            Message::Tool { call_id, name: _, text, pictures } => {
                let text = if is_blank(text) { NO_OUTPUT.into() } else { untrusted::escape_reminders(text) };
                let block = Block::result(&self.ids.of_result(call_id), &text, pictures);
                self.push_result(block);
            }
            Message::Assistant { .. } => {}
        }
    }

    /// Writes adjacent answers, unchanged if possible.
    fn answers(&mut self, mut rest: &[AnswerPart<'a>]) {
        if rest.is_empty() {
            return;
        }
        if self.messages.is_empty() {
            self.push(Role::User, Block::text(EMPTY_USER_MESSAGE));
        }
        while let Some((first, after)) = rest.split_first() {
            let (blocks, next) = self.unchanged_answer(rest).unwrap_or_else(|| (self.plain(first), after));
            for block in blocks {
                self.push(Role::Assistant, block);
            }
            rest = next;
        }
        self.trim_answer();
    }

    /// Returns the unchanged blocks of the first answer in these parts, and the remaining parts, or `None` if it must
    /// not be sent unchanged.
    fn unchanged_answer<'r>(&mut self, rest: &'r [AnswerPart<'a>]) -> Option<(Vec<Block>, &'r [AnswerPart<'a>])> {
        let origin = self.recipient.origin;
        if rest.iter().all(|part| part.origin.blocks_of(origin).is_none()) {
            return None;
        }
        self.seal();
        let fingerprint = self.prefix.fingerprint();
        (1..=rest.len()).find_map(|parts| Some((self.unchanged_blocks(&rest[..parts], &fingerprint)?, &rest[parts..])))
    }

    /// Returns the unchanged blocks of an answer that consists of these parts, or `None` if it must not be sent
    /// unchanged.
    fn unchanged_blocks(&mut self, parts: &[AnswerPart<'a>], fingerprint: &str) -> Option<Vec<Block>> {
        let stored = parts.last()?.origin.blocks_of(self.recipient.origin).and_then(StoredAnswer::parse)?;
        let is_refused = self.recipient.without_thoughts || self.recipient.distrusted.contains(fingerprint);
        if is_refused || stored.prefix.as_deref() != Some(fingerprint) {
            return None;
        }
        let recipient = self.recipient;
        let server_id = |call: &ToolCall, origin| server_id(call, origin, recipient.origin);
        let filled = stored.filled(parts, &mut self.ids, server_id)?;
        let mut blocks = Vec::new();
        // False once a part is missing. Later reasoning would follow another prefix.
        let mut is_whole = true;
        for part in filled {
            match part {
                FilledPart::Text(text, _) => blocks.push(Block::text(&text)),
                FilledPart::Call(call, id) => {
                    blocks.push(Block::call(&id, &tool_name(&call.name), &call.arguments));
                }
                FilledPart::Missing => is_whole = false,
                FilledPart::Original(raw, is_thought) if is_whole => blocks.push(Block::original(raw, is_thought)),
                FilledPart::Original(..) | FilledPart::Blank => {}
            }
        }
        Some(blocks)
    }

    /// Returns only the text and calls of a part.
    fn plain(&mut self, part: &AnswerPart<'a>) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !is_blank(part.text) {
            blocks.push(Block::text(part.text));
        }
        for call in part.calls {
            let id = self.ids.of_call(&call.call_id, server_id(call, part.origin, self.recipient.origin));
            blocks.push(Block::call(&id, &tool_name(&call.name), &call.arguments));
        }
        blocks
    }

    /// Removes reasoning from the end of the answer, where the wire does not allow it.
    fn trim_answer(&mut self) {
        let Some(answer) = self.messages.last_mut().filter(|last| last.role == Role::Assistant) else { return };
        while answer.blocks.last().is_some_and(|block| block.kind == Kind::Thoughts) {
            answer.blocks.pop();
        }
        if answer.blocks.is_empty() {
            self.messages.pop();
        }
        let end = self.messages.last().map_or((0, 0), |last| (self.messages.len() - 1, last.blocks.len()));
        self.sealed = self.sealed.min(end);
    }

    fn push(&mut self, role: Role, block: Block) {
        match self.messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.blocks.push(block),
            None => self.messages.push(WireMessage { role, blocks: vec![block] }),
        }
    }

    /// Inserts a result before everything else in its message.
    fn push_result(&mut self, block: Block) {
        match self.messages.last_mut().filter(|last| last.role == Role::User) {
            Some(last) => {
                let at = last.blocks.iter().take_while(|block| block.kind == Kind::Result).count();
                last.blocks.insert(at, block);
            }
            None => self.push(Role::User, block),
        }
    }

    /// Adds everything that is written to the prefix.
    fn seal(&mut self) {
        let (from, done) = self.sealed;
        for (at, message) in self.messages.iter().enumerate().skip(from) {
            for block in message.blocks.iter().skip(if at == from { done } else { 0 }) {
                self.prefix.add(if message.role == Role::User { b'u' } else { b'a' }, &block.json);
            }
            self.sealed = (at, message.blocks.len());
        }
    }
}

/// Returns the server's own ID for a call, if it can be sent back.
fn server_id<'a>(call: &ToolCall, origin: &'a AnswerOrigin, recipient: &str) -> Option<&'a str> {
    let fields = origin.of_call(&call.call_id, recipient)?;
    Some(fields.call_id.as_str()).filter(|id| is_plain_id(id))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) json: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Result,
    Thoughts,
    Other,
}

impl Block {
    pub(super) fn text(text: &str) -> Self {
        Self::of(Kind::Other, json!({"type": "text", "text": text}).to_string())
    }

    /// Creates a block for a call. The arguments keep their bytes.
    pub(super) fn call(id: &str, name: &str, arguments: &str) -> Self {
        let (id, name, input) = (json!(id), json!(name), tool_arguments(arguments));
        Self::of(Kind::Other, format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{}}}"#, input.trim()))
    }

    fn result(id: &str, text: &str, pictures: &[ShownPicture]) -> Self {
        let pictures: Vec<Value> = pictures.iter().filter_map(picture).collect();
        let content = match pictures.as_slice() {
            [] => json!(text),
            pictures => [&[json!({"type": "text", "text": text})][..], pictures].concat().into(),
        };
        Self::of(Kind::Result, json!({"type": "tool_result", "tool_use_id": id, "content": content}).to_string())
    }

    /// Creates a block of an answer from its original bytes.
    fn original(raw: &RawValue, is_thought: bool) -> Self {
        Self::of(if is_thought { Kind::Thoughts } else { Kind::Other }, raw.get().to_owned())
    }

    fn of(kind: Kind, json: String) -> Self {
        Self { json, kind }
    }
}

/// Returns the block of a picture, or `None` if its bytes are not available.
fn picture(shown: &ShownPicture) -> Option<Value> {
    let data = BASE64_STANDARD.encode(shown.content.as_ref()?);
    let source = json!({"type": "base64", "media_type": shown.picture.media_type, "data": data});
    Some(json!({"type": "image", "source": source}))
}

/// Hash of 128 bits of everything before a position in a conversation. The hash must be fast, as every request is
/// hashed before its first token. It need not be secure, as a forged collision would only make the server refuse the
/// forger's own reasoning.
struct Prefix(SipHasher13);

impl Prefix {
    /// Creates the prefix of a conversation from instructions and tools.
    fn new(system: &[Block], tools: &str) -> Self {
        let mut prefix = Self(SipHasher13::new());
        prefix.add(b't', tools);
        for block in system {
            prefix.add(b's', &block.json);
        }
        prefix
    }

    fn fingerprint(&self) -> String {
        format!("{:032x}", self.0.finish128().as_u128())
    }

    fn add(&mut self, kind: u8, json: &str) {
        self.0.write(&[kind]);
        self.0.write(&json.len().to_le_bytes());
        self.0.write(json.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use agentd_core::{
        ids::CallId,
        origin::{ItemOrigin, ServerFields},
    };
    use proptest::prelude::*;

    const ORIGIN: &str = "m@host/v1";

    fn write_conversation(messages: &[Message]) -> Conversation {
        let recipient = Recipient { origin: ORIGIN, distrusted: &HashSet::new(), without_thoughts: false };
        write(messages, "[]", recipient)
    }

    /// Returns an answer after that prefix with signed reasoning, a call and its result.
    fn answer(number: usize, content: &str, prefix: &str) -> [Message; 2] {
        let call_id = CallId::from(format!("c{number}"));
        let fields = ServerFields { call_id: format!("toolu_{number}"), ..ServerFields::default() };
        let thoughts = json!({"type": "thinking", "thinking": content, "signature": format!("s{number}")});
        let blank = content.trim().is_empty();
        let bytes = i64::try_from(content.len()).unwrap() * if blank { -1 } else { 1 };
        let blocks = json!({"behind": prefix, "blocks": [thoughts, bytes, format!("toolu_{number}")]}).to_string();
        let of = |fields: ServerFields| Arc::new(ItemOrigin { model: ORIGIN.to_owned(), fields });
        let origin = AnswerOrigin {
            calls: vec![(call_id.clone(), of(fields))],
            whole: Some(of(ServerFields { blocks: Some(blocks), ..ServerFields::default() })),
            unsent_reasoning: None,
            thinker: None,
        };
        let call = ToolCall { call_id: call_id.clone(), name: "now".to_owned(), arguments: "{}".to_owned() };
        let text = if blank { String::new() } else { content.to_owned() };
        [
            Message::Assistant { text, reasoning: None, tool_calls: vec![call], origin },
            Message::Tool { call_id, name: "now".to_owned(), text: content.to_owned(), pictures: Vec::new() },
        ]
    }

    fn blocks(conversation: &Conversation) -> Vec<(Role, Block)> {
        let of = |message: &WireMessage| {
            message.blocks.iter().map(|block| (message.role, block.clone())).collect::<Vec<_>>()
        };
        conversation.messages.iter().flat_map(of).collect()
    }

    fn thoughts(conversation: &Conversation) -> usize {
        blocks(conversation).iter().filter(|(_, block)| block.kind == Kind::Thoughts).count()
    }

    proptest! {
        #[test]
        fn changed_prefix_drops_all_later_reasoning(
            content in proptest::collection::vec("[a-zé\"\\\\ \n]{0,12}", 1..8),
            changed in any::<prop::sample::Index>(),
        ) {
            let mut messages = vec![
                Message::System { text: "s".to_owned() },
                Message::User { text: "begin".to_owned() },
            ];
            let mut before = write_conversation(&messages);
            for (number, content) in content.iter().enumerate() {
                messages.extend(answer(number, content, &before.fingerprint));
                messages.push(Message::User { text: format!("and {content}") });
                let next = write_conversation(&messages);
                prop_assert_eq!(&blocks(&next)[..blocks(&before).len()], &blocks(&before)[..]);
                prop_assert_eq!(thoughts(&next), number + 1);
                before = next;
            }
            // A user's message changes: all answers after it lose their reasoning, earlier ones do not.
            let at = changed.index(content.len());
            messages[4 + 3 * at] = Message::User { text: "something else".to_owned() };
            let after = write_conversation(&messages);
            prop_assert_eq!(thoughts(&after), at + 1);
            prop_assert_eq!(blocks(&after).len(), blocks(&before).len() - (content.len() - at - 1));
        }
    }
}
