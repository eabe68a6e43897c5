//! Assembles the items of an answer from their pieces. Pieces may arrive before their item, and a server may send whole
//! items.

use std::mem;

use agentd_core::origin::MAX_SERVER_FIELDS;
use serde_json::value::RawValue;

use super::reader::{ItemHead, ItemKey};
use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        lenient::{argument_text, is_json},
        partial::{AnswerParts, CallBounds, PartialCall},
    },
};

/// Maximum number of items of one answer.
const MAX_ITEMS: usize = 4096;

/// Separator between the texts of two messages, and between parts of reasoning.
const SEPARATOR: &str = "\n\n";

/// Items of one answer, in the order in which they started.
#[derive(Debug, Default)]
pub(super) struct PartialItems {
    items: Vec<PartialItem>,
    bounds: CallBounds,
    /// Message that received the most recent text.
    last_message: Option<usize>,
    has_thought: bool,
    /// True if no reasoning has arrived since the last text.
    last_was_text: bool,
    /// True once text arrived out of order, so that it cannot be attributed to items.
    is_out_of_order: bool,
}

#[derive(Debug)]
struct PartialItem {
    index: Option<u64>,
    id: String,
    is_done: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Message(Message),
    Thoughts(Thoughts),
    Call(Box<PartialCall>),
    /// An unknown item, once it is complete.
    Other(Option<Box<RawValue>>),
}

#[derive(Debug, Default)]
struct Message {
    /// Separator between this message's text and that of the previous message.
    separator: &'static str,
    text: String,
    phase: Option<String>,
    is_refusal: bool,
}

#[derive(Debug, Default)]
struct Thoughts {
    /// Part that was emitted last.
    emitted: Option<ThoughtPart>,
    /// The complete item, if it can be sent back.
    raw: Option<Box<RawValue>>,
}

/// Part of a reasoning item: true if it is in the summary, and its number. If a server sends both forms, only the first
/// one is used.
pub(super) type ThoughtPart = (bool, u64);

impl PartialItems {
    /// Starts an item, or finds an item that has already started.
    pub(super) fn begin<'r>(
        &mut self,
        target: &Target,
        key: ItemKey<'_>,
        raw: &'r RawValue,
    ) -> Result<Option<(usize, ItemHead<'r>)>, Failure> {
        let Ok(head) = serde_json::from_str::<ItemHead<'_>>(raw.get()) else {
            self.is_out_of_order = true;
            return Ok(None);
        };
        let key = ItemKey { id: if key.id.is_empty() { &head.id } else { key.id }, ..key };
        let at = match self.find(key) {
            Some(at) if mem::discriminant(&self.items[at].body) == mem::discriminant(&empty(&head.r#type)) => at,
            // An item of another kind with the same number is a separate item. Pieces of the first item must not change
            // it.
            Some(_) => {
                self.is_out_of_order = true;
                self.push(target, ItemKey { index: None, ..key }, &head.r#type)?
            }
            None => self.push(target, key, &head.r#type)?,
        };
        match &mut self.items[at] {
            PartialItem { is_done: true, .. } => return Ok(None),
            PartialItem { body: Body::Message(message), .. } if !head.phase.is_empty() => {
                message.phase = Some(head.phase.to_string());
            }
            PartialItem { body: Body::Call(call), .. } => {
                head.call_id.clone_into(&mut call.id);
                head.name.clone_into(&mut call.name);
            }
            _ => {}
        }
        Ok(Some((at, head)))
    }

    /// Processes a complete item.
    pub(super) fn finish(
        &mut self,
        target: &Target,
        key: ItemKey<'_>,
        raw: &RawValue,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let Some((at, head)) = self.begin(target, key, raw)? else { return Ok(()) };
        self.items[at].is_done = !head.is_cut();
        answer.size += 1;
        let is_sent_back = match &self.items[at].body {
            Body::Thoughts(_) => head.can_be_sent_back(),
            body => matches!(body, Body::Other(_)),
        };
        let original = if is_sent_back { self.stored_original(at, raw) } else { None };
        match &mut self.items[at].body {
            Body::Message(message) => {
                let parts = head.content.as_deref().unwrap_or_default();
                let whole: String = parts.iter().flat_map(|part| [&*part.text, &*part.refusal]).collect();
                let is_refusal = parts.iter().any(|part| !part.refusal.is_empty());
                // Only text that has not arrived in pieces is new.
                let rest = whole.strip_prefix(message.text.as_str()).unwrap_or_default();
                self.add_text(at, rest, is_refusal, answer);
            }
            Body::Thoughts(thoughts) => {
                thoughts.raw = original;
                if thoughts.emitted.is_some() {
                    return Ok(());
                }
                let has_summary = head.summary.as_ref().is_some_and(|summary| !summary.is_empty());
                let parts = if has_summary { &head.summary } else { &head.content };
                for (part, number) in parts.iter().flatten().zip(0..) {
                    self.add_thought(at, (has_summary, number), &part.text, answer);
                }
            }
            Body::Call(_) => {
                if let Some(arguments) = head.arguments {
                    self.complete_arguments(target, at, arguments, answer)?;
                }
            }
            Body::Other(item) => *item = original,
        }
        Ok(())
    }

    /// Returns the original bytes of an item, as long as the total stays within the storage limit.
    fn stored_original(&mut self, at: usize, raw: &RawValue) -> Option<Box<RawValue>> {
        if !is_json(raw.get()) {
            return None;
        }
        // A cut item is sent again at the end, so its earlier size does not count.
        let others = self.items.iter().enumerate().filter(|(other, _)| *other != at);
        let bytes: usize = others.filter_map(|(_, item)| item.raw()).map(|raw| raw.get().len()).sum();
        let has_capacity = bytes + raw.get().len() <= MAX_SERVER_FIELDS;
        self.is_out_of_order |= !has_capacity;
        has_capacity.then(|| raw.to_owned())
    }

    /// Returns true if the model has refused to answer.
    pub(super) fn is_refusal(&self) -> bool {
        self.items.iter().any(|item| matches!(&item.body, Body::Message(message) if message.is_refusal))
    }

    /// Returns the calls. A call without arguments gets an empty object, unless the answer was cut before they arrived.
    pub(super) fn calls(&self, is_cut: bool) -> Vec<RawCall> {
        let call = |item: &PartialItem| match &item.body {
            Body::Call(call) => Some(call.read(item.is_done || !is_cut)),
            _ => None,
        };
        self.in_order().into_iter().filter_map(call).collect()
    }

    /// Returns all items in stored form, or `None` if only text and calls need to be sent back.
    pub(super) fn stored(&self) -> Option<String> {
        let mut stored = AnswerParts::default();
        let fits = self.in_order().into_iter().try_for_each(|item| match &item.body {
            Body::Message(message) => {
                if !message.separator.is_empty() {
                    stored.text(message.separator, None)?;
                }
                if message.text.is_empty() { Some(()) } else { stored.text(&message.text, message.phase.as_deref()) }
            }
            Body::Call(call) => stored.call(&call.id),
            Body::Thoughts(_) | Body::Other(_) => item.raw().map_or(Some(()), |raw| stored.original(raw)),
        });
        let stored = if fits.is_some() && !self.is_out_of_order { stored.into_json(None) } else { None };
        if stored.is_none() && self.items.iter().any(|item| item.raw().is_some()) {
            tracing::warn!("items of an answer are too large or out of order and are not sent back");
        }
        stored
    }

    /// Returns the items by number, or in order of arrival if any has no number.
    fn in_order(&self) -> Vec<&PartialItem> {
        let mut items: Vec<&PartialItem> = self.items.iter().collect();
        if items.iter().all(|item| item.index.is_some()) {
            items.sort_by_key(|item| item.index);
        }
        items
    }

    /// Returns the item with that number, or with that ID. If a server does not number its items, the numbers in the
    /// whole answer are positions.
    fn find(&self, key: ItemKey<'_>) -> Option<usize> {
        let by_id = || self.items.iter().rposition(|item| !key.id.is_empty() && item.id == key.id);
        let Some(index) = key.index else { return by_id() };
        // An item with another ID only matches if no item has this ID.
        let has_other_id =
            |at: usize| !key.id.is_empty() && !self.items[at].id.is_empty() && self.items[at].id != key.id;
        let by_position = || {
            let at = usize::try_from(index).ok()?;
            self.items.get(at).is_some_and(|item| item.index.is_none()).then_some(at)
        };
        match self.items.iter().rposition(|item| item.index == Some(index)).or_else(by_position) {
            Some(at) if has_other_id(at) => by_id().or(Some(at)),
            found => found.or_else(by_id),
        }
    }

    fn push(&mut self, target: &Target, key: ItemKey<'_>, kind: &str) -> Result<usize, Failure> {
        if self.items.len() == MAX_ITEMS {
            return Err(Failure::protocol(format!("the model at {target} answered with more than {MAX_ITEMS} items")));
        }
        let body = empty(kind);
        if matches!(body, Body::Call(_)) {
            self.bounds.add_call(target)?;
        }
        self.items.push(PartialItem { index: key.index, id: key.id.to_owned(), is_done: false, body });
        Ok(self.items.len() - 1)
    }

    /// Returns the item for a piece of this kind. Creates the item if it has not started yet.
    pub(super) fn find_or_create(&mut self, target: &Target, key: ItemKey<'_>, kind: &str) -> Result<usize, Failure> {
        let wanted = mem::discriminant(&empty(kind));
        let fits = |body: &Body| mem::discriminant(body) == wanted;
        let last = || match (key.index, key.id) {
            (None, "") => self.items.iter().rposition(|item| fits(&item.body)),
            _ => None,
        };
        match self.find(key).or_else(last) {
            Some(at) if fits(&self.items[at].body) => Ok(at),
            Some(_) => {
                self.is_out_of_order = true;
                let same = |item: &PartialItem| fits(&item.body) && (item.id == key.id || item.index.is_none());
                match self.items.iter().rposition(same) {
                    Some(at) => Ok(at),
                    None => self.push(target, ItemKey { index: None, ..key }, kind),
                }
            }
            None => self.push(target, key, kind),
        }
    }

    /// Adds text to a message.
    pub(super) fn add_text(&mut self, at: usize, text: &str, is_refusal: bool, answer: &mut Answer) {
        let before = self.last_message.filter(|before| *before != at);
        let later = before.and_then(|before| self.items[before].index);
        let index = self.items[at].index;
        let Body::Message(message) = &mut self.items[at].body else { return };
        message.is_refusal |= is_refusal;
        if text.is_empty() {
            return;
        }
        if before.is_some() {
            self.is_out_of_order |=
                !message.text.is_empty() || later.is_some_and(|later| index.is_some_and(|own| own < later));
            if message.text.is_empty() && self.last_was_text {
                message.separator = SEPARATOR;
                answer.push(Kind::Text, SEPARATOR);
            }
        }
        message.text.push_str(text);
        (self.last_message, self.last_was_text) = (Some(at), true);
        answer.push(Kind::Text, text);
    }

    /// Adds text to a part of a reasoning item.
    pub(super) fn add_thought(&mut self, at: usize, part: ThoughtPart, text: &str, answer: &mut Answer) {
        let Body::Thoughts(thoughts) = &mut self.items[at].body else { return };
        if text.is_empty() || thoughts.emitted.is_some_and(|emitted| emitted.0 != part.0) {
            return;
        }
        let begins = thoughts.emitted.replace(part) != Some(part);
        if begins && self.has_thought {
            answer.push(Kind::Reasoning, SEPARATOR);
        }
        (self.has_thought, self.last_was_text) = (true, false);
        answer.push(Kind::Reasoning, text);
    }

    /// Adds a piece of the arguments of a call.
    pub(super) fn add_arguments(
        &mut self,
        target: &Target,
        at: usize,
        piece: &str,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let Body::Call(call) = &mut self.items[at].body else { return Ok(()) };
        self.bounds.add_bytes(target, piece.len(), answer)?;
        call.push(piece, answer);
        Ok(())
    }

    /// Sets the complete arguments of a call. They replace the pieces if they differ.
    pub(super) fn complete_arguments(
        &mut self,
        target: &Target,
        at: usize,
        whole: &RawValue,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let whole = argument_text(whole);
        let Body::Call(call) = &mut self.items[at].body else { return Ok(()) };
        if call.arguments == whole {
            return Ok(());
        }
        self.bounds.subtract(call.arguments.len());
        **call = PartialCall::new(&call.id, &call.name);
        self.add_arguments(target, at, &whole, answer)
    }
}

impl PartialItem {
    /// Returns the original bytes of the item, if it is sent back unchanged.
    fn raw(&self) -> Option<&RawValue> {
        match &self.body {
            Body::Thoughts(Thoughts { raw, .. }) | Body::Other(raw) => raw.as_deref(),
            Body::Message(_) | Body::Call(_) => None,
        }
    }
}

fn empty(kind: &str) -> Body {
    match kind {
        "message" => Body::Message(Message::default()),
        "reasoning" => Body::Thoughts(Thoughts::default()),
        "function_call" => Body::Call(Box::new(PartialCall::new("", ""))),
        _ => Body::Other(None),
    }
}
