//! The blocks of an answer, put together from their pieces.

use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{
    conversation::Block,
    reader::{BlockHead, Delta},
};
use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        lenient::is_json,
        partial::{AnswerParts, CallBounds, PartialCall},
        sendable::is_blank,
    },
};

/// Blocks that one answer may have.
const MAX_BLOCKS: usize = 4096;

/// The blocks of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct PartialBlocks {
    blocks: Vec<PartialBlock>,
    bounds: CallBounds,
    /// Set once something came that has no place: then no thoughts go back, for they would stand behind another prefix.
    is_odd: bool,
}

#[derive(Debug)]
struct PartialBlock {
    index: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Words(String),
    Thoughts {
        words: String,
        signature: String,
    },
    Call(Box<PartialCall>),
    /// A block that is not understood, and the pieces of its input.
    Other {
        raw: Box<RawValue>,
        input: String,
    },
}

impl PartialBlocks {
    /// Begins a block.
    pub(super) fn begin(
        &mut self,
        target: &Target,
        index: u64,
        raw: &RawValue,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let Ok(head) = serde_json::from_str::<BlockHead<'_>>(raw.get()) else {
            self.is_odd = true;
            return Ok(());
        };
        if self.blocks.len() == MAX_BLOCKS {
            return Err(Failure::protocol(format!(
                "the model at {target} answered with more than {MAX_BLOCKS} blocks"
            )));
        }
        let body = match &*head.r#type {
            "text" => Body::Words(String::new()),
            "thinking" => Body::Thoughts { words: String::new(), signature: head.signature.to_string() },
            "tool_use" => {
                self.bounds.begin(target)?;
                Body::Call(Box::new(PartialCall::new(&head.id, &head.name)))
            }
            _ => Body::Other { raw: raw.to_owned(), input: String::new() },
        };
        let separates = matches!(body, Body::Thoughts { .. })
            && matches!(self.blocks.last(), Some(PartialBlock { body: Body::Thoughts { words, .. }, .. }) if !words.is_empty());
        self.blocks.push(PartialBlock { index, body });
        answer.size += 1;
        if separates {
            answer.push(Kind::Reasoning, "\n\n");
        }
        // Whole blocks have their content at once.
        self.words(index, &head.text, answer);
        self.thoughts(index, &head.thinking, answer);
        if let Some(input) = head.input.filter(|input| !matches!(input.get(), "{}" | "null")) {
            self.input(target, index, input.get(), answer)?;
        }
        Ok(())
    }

    /// Adds a piece to a block.
    pub(super) fn add(
        &mut self,
        target: &Target,
        index: u64,
        delta: &Delta<'_>,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        match &*delta.r#type {
            "text_delta" => self.words(index, &delta.text, answer),
            "thinking_delta" => self.thoughts(index, &delta.thinking, answer),
            "signature_delta" => match self.block(index) {
                Some(Body::Thoughts { signature, .. }) => signature.push_str(&delta.signature),
                _ => self.is_odd = true,
            },
            "input_json_delta" => return self.input(target, index, &delta.partial_json, answer),
            // Sources of words, without which they go back as well.
            "citations_delta" => {}
            _ => self.is_odd = true,
        }
        Ok(())
    }

    /// The calls. One without arguments has none of them, unless the answer was cut before they came.
    pub(super) fn calls(&self, is_cut: bool) -> Vec<RawCall> {
        let last = self.blocks.len().saturating_sub(1);
        let call = |(at, block): (usize, &PartialBlock)| match &block.body {
            Body::Call(call) => Some(call.read(!(is_cut && at == last))),
            _ => None,
        };
        self.blocks.iter().enumerate().filter_map(call).collect()
    }

    /// All blocks as they are kept, behind that prefix; none where nothing has to go back but words and calls.
    pub(super) fn stored(&self, behind: &str) -> Option<String> {
        if self.is_odd {
            self.warn_where_thoughts_are_lost();
            return None;
        }
        let mut stored = AnswerParts::default();
        let fits = self.blocks.iter().try_for_each(|block| match &block.body {
            Body::Words(words) if words.is_empty() => Some(()),
            Body::Words(words) => stored.words(words, None),
            Body::Call(call) => stored.call(&call.id),
            // Of thoughts that were cut there is no signature yet, and without one they are refused.
            Body::Thoughts { signature, .. } if signature.is_empty() => Some(()),
            Body::Thoughts { words, signature } => stored.as_it_came(&signed(words, signature)?),
            Body::Other { raw, input } => stored.as_it_came(&with_input(raw, input)?),
        });
        if fits.is_none() {
            self.warn_where_thoughts_are_lost();
            return None;
        }
        stored.written(Some(behind))
    }

    /// All blocks in the form of a message; none where they cannot go back.
    pub(super) fn message(&self) -> Option<String> {
        let blocks = self.blocks.iter().filter_map(|block| match &block.body {
            Body::Words(words) => (!is_blank(words)).then(|| Some(Block::text(words).json().to_owned())),
            Body::Call(call) => Some(Some(Block::call(&call.id, &call.name, &call.arguments).json().to_owned())),
            Body::Thoughts { words, signature } => {
                (!signature.is_empty()).then(|| Some(signed(words, signature)?.get().to_owned()))
            }
            Body::Other { raw, input } => Some(with_input(raw, input).map(|raw| raw.get().to_owned())),
        });
        let blocks: Vec<String> = blocks.collect::<Option<_>>()?;
        (!self.is_odd && !blocks.is_empty()).then(|| format!("[{}]", blocks.join(",")))
    }

    fn warn_where_thoughts_are_lost(&self) {
        if self.blocks.iter().any(|block| matches!(block.body, Body::Thoughts { .. } | Body::Other { .. })) {
            tracing::warn!("blocks of an answer are too large or cannot be read, and do not go back");
        }
    }

    fn words(&mut self, index: u64, words: &str, answer: &mut Answer) {
        match self.block(index) {
            _ if words.is_empty() => {}
            Some(Body::Words(before)) => before.push_str(words),
            _ => self.is_odd = true,
        }
        answer.push(Kind::Text, words);
    }

    fn thoughts(&mut self, index: u64, thoughts: &str, answer: &mut Answer) {
        match self.block(index) {
            _ if thoughts.is_empty() => {}
            Some(Body::Thoughts { words, .. }) => words.push_str(thoughts),
            _ => self.is_odd = true,
        }
        answer.push(Kind::Reasoning, thoughts);
    }

    fn input(&mut self, target: &Target, index: u64, piece: &str, answer: &mut Answer) -> Result<(), Failure> {
        self.bounds.take(target, piece.len(), answer)?;
        match self.block(index) {
            Some(Body::Call(call)) => call.push(piece, answer),
            Some(Body::Other { input, .. }) => input.push_str(piece),
            _ => self.is_odd = true,
        }
        Ok(())
    }

    /// The last block of that number.
    fn block(&mut self, index: u64) -> Option<&mut Body> {
        self.blocks.iter_mut().rev().find(|block| block.index == index).map(|block| &mut block.body)
    }
}

/// Signed thoughts, as they go back.
fn signed(words: &str, signature: &str) -> Option<Box<RawValue>> {
    to_raw_value(&json!({"type": "thinking", "thinking": words, "signature": signature})).ok()
}

/// A block as it came, with the input that came behind it.
fn with_input(raw: &RawValue, input: &str) -> Option<Box<RawValue>> {
    if !is_json(raw.get()) {
        return None;
    }
    if input.is_empty() {
        return Some(raw.to_owned());
    }
    let mut block: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).ok()?;
    block.insert("input".to_owned(), serde_json::from_str(input).ok()?);
    to_raw_value(&block).ok()
}
