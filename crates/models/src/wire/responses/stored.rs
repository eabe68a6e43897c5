//! The items of an answer, as they are kept beside what was read of it: those that nothing else holds as they came, and the
//! places of its words and calls between them.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use agentd_core::origin::MAX_SERVER_FIELDS;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::wire::sendable::is_blank;

/// Name of a stored answer.
pub(super) type Fingerprint = u64;

/// The items of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct StoredAnswer<'a> {
    /// The items: words by their length in bytes, which is below zero where they say nothing, or by phase and length; calls by
    /// their ids; all else as it came.
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// Kind of one of its items.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// So many bytes of the words, in a message of that phase.
    Words(usize, Option<Cow<'a, str>>),
    /// So many bytes of words that say nothing.
    Blank(usize),
    /// The call of that id.
    Call(Cow<'a, str>),
    /// An item as it came, which may hold thoughts.
    AsItCame(&'a RawValue, IsThought),
}

/// Set for an item that holds thoughts.
pub(super) type IsThought = bool;

#[derive(Deserialize)]
struct Label<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct WordsInPhase<'a>(#[serde(borrow)] Cow<'a, str>, usize);

impl<'a> StoredAnswer<'a> {
    pub(super) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Its items in their order; none where they cannot be read.
    pub(super) fn places(&self) -> Option<Vec<Place<'a>>> {
        self.items.iter().copied().map(place).collect()
    }
}

/// Fingerprint of a stored answer.
pub(super) fn fingerprint(json: &str) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    json.hash(&mut hasher);
    hasher.finish()
}

fn place(item: &RawValue) -> Option<Place<'_>> {
    let json = item.get();
    Some(match json.as_bytes().first()? {
        b'{' => Place::AsItCame(item, is_thought(item)),
        b'"' => Place::Call(serde_json::from_str::<Text<'_>>(json).ok()?.0),
        b'[' => {
            let WordsInPhase(phase, bytes) = serde_json::from_str(json).ok()?;
            Place::Words(bytes, Some(phase))
        }
        b'-' => Place::Blank(json.get(1..)?.parse().ok()?),
        _ => Place::Words(json.parse().ok()?, None),
    })
}

fn is_thought(item: &RawValue) -> IsThought {
    let label = serde_json::from_str::<Label<'_>>(item.get()).ok().and_then(|label| label.r#type);
    label.as_deref() == Some("reasoning")
}

/// Items of an answer on their way into the journal.
#[derive(Debug, Default, Serialize)]
pub(super) struct AnswerItems {
    items: Vec<Box<RawValue>>,
    #[serde(skip)]
    bytes: usize,
    /// Set once there is one that nothing else holds.
    #[serde(skip)]
    has_own: bool,
}

impl AnswerItems {
    /// Words of a message.
    pub(super) fn words(&mut self, words: &str, phase: Option<&str>) -> Option<()> {
        let bytes = i64::try_from(words.len()).ok()?;
        match phase {
            _ if is_blank(words) => self.push(to_raw_value(&-bytes).ok()?),
            Some(phase) => {
                self.has_own = true;
                self.push(to_raw_value(&(phase, bytes)).ok()?)
            }
            None => self.push(to_raw_value(&bytes).ok()?),
        }
    }

    pub(super) fn call(&mut self, id: &str) -> Option<()> {
        self.push(to_raw_value(id).ok()?)
    }

    pub(super) fn as_it_came(&mut self, item: &RawValue) -> Option<()> {
        self.has_own = true;
        self.push(item.to_owned())
    }

    /// All of them, as JSON; none where words and calls alone say it all.
    pub(super) fn written(self) -> Option<String> {
        if self.has_own { serde_json::to_string(&self).ok() } else { None }
    }

    fn push(&mut self, item: Box<RawValue>) -> Option<()> {
        self.bytes += item.get().len();
        self.items.push(item);
        (self.bytes <= MAX_SERVER_FIELDS).then_some(())
    }
}
