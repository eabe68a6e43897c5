//! The blocks of an answer, as they are kept beside its items: those that nothing else holds as they came, and the places of
//! its words and calls between them.

use std::borrow::Cow;

use agentd_core::origin::MAX_SERVER_FIELDS;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::wire::sendable::is_blank;

/// The blocks of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct StoredAnswer<'a> {
    /// Fingerprint of what stood before it.
    #[serde(borrow)]
    pub(super) behind: Cow<'a, str>,
    /// The blocks: words by their length in bytes, which is below zero where they say nothing, calls by their ids, all else as it came.
    #[serde(borrow)]
    blocks: Vec<&'a RawBlock>,
}

/// Kind of one of its blocks.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// So many bytes of the words.
    Words(usize),
    /// So many bytes of words that say nothing.
    Blank(usize),
    /// The call of that id.
    Call(Cow<'a, str>),
    /// A block as it came.
    AsItCame(&'a RawBlock),
}

/// A block as it came.
pub(super) type RawBlock = RawValue;

#[derive(Deserialize)]
struct Label<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
}

impl<'a> StoredAnswer<'a> {
    pub(super) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Its blocks in their order; none where they cannot be read.
    pub(super) fn places(&self) -> Option<Vec<Place<'a>>> {
        self.blocks.iter().map(|block| place(block)).collect()
    }
}

fn place(block: &RawBlock) -> Option<Place<'_>> {
    Some(match block.get().as_bytes().first()? {
        b'{' => Place::AsItCame(block),
        b'"' => Place::Call(serde_json::from_str::<Text<'_>>(block.get()).ok()?.0),
        b'-' => Place::Blank(block.get().get(1..)?.parse().ok()?),
        _ => Place::Words(block.get().parse().ok()?),
    })
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns whether a block holds thoughts.
pub(super) fn is_thought(block: &RawBlock) -> bool {
    let label = serde_json::from_str::<Label<'_>>(block.get()).ok().and_then(|label| label.r#type);
    matches!(label.as_deref(), Some("thinking" | "redacted_thinking"))
}

/// Blocks of an answer on their way into the journal.
#[derive(Debug, Default)]
pub(super) struct AnswerBlocks {
    blocks: Vec<Box<RawBlock>>,
    bytes: usize,
    /// Set once there is one that nothing else holds.
    has_own: bool,
}

impl AnswerBlocks {
    pub(super) fn words(&mut self, words: &str) -> Option<()> {
        let bytes = i64::try_from(words.len()).ok()?;
        self.push(to_raw_value(&if is_blank(words) { -bytes } else { bytes }).ok()?)
    }

    pub(super) fn call(&mut self, id: &str) -> Option<()> {
        self.push(to_raw_value(id).ok()?)
    }

    pub(super) fn as_it_came(&mut self, block: Box<RawBlock>) -> Option<()> {
        self.has_own = true;
        self.push(block)
    }

    /// All of them, as JSON; none where words and calls alone say it all.
    pub(super) fn written(self, behind: &str) -> Option<String> {
        #[derive(Serialize)]
        struct Written<'a> {
            behind: &'a str,
            blocks: Vec<Box<RawBlock>>,
        }
        let answer = Written { behind, blocks: self.blocks };
        if self.has_own { serde_json::to_string(&answer).ok() } else { None }
    }

    fn push(&mut self, block: Box<RawBlock>) -> Option<()> {
        self.bytes += block.get().len();
        self.blocks.push(block);
        (self.bytes <= MAX_SERVER_FIELDS).then_some(())
    }
}
