//! One event of an answer, or a whole answer of a server that does not stream. Typed and borrowed, and lenient: kinds that are
//! not known are passed over, and so are fields.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::WireUsage;
use crate::wire::lenient::{Count, Text};

#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Text<'a>>,
    /// Number of the block that it is about.
    pub(super) index: Option<Count>,
    /// The beginning of an answer.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    /// The beginning of a block.
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    /// A piece of a block, or the end of the answer.
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) usage: Option<WireUsage>,
    /// Changes that the server made to the request, told at its beginning or its end.
    #[serde(borrow)]
    pub(super) input_transformations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// The blocks of a whole answer.
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    /// Why a whole answer ended.
    #[serde(borrow)]
    pub(super) stop_reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Text<'a>>,
    /// Why the answer ended.
    #[serde(borrow)]
    pub(super) stop_reason: Option<Text<'a>>,
}

/// The head of an answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageHead<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    pub(super) usage: Option<WireUsage>,
    #[serde(borrow)]
    pub(super) diagnostics: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input_transformations: Option<&'a RawValue>,
}

/// A block at its beginning, or a whole one.
#[derive(Debug, Deserialize)]
pub(super) struct BlockHead<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

impl Event<'_> {
    pub(super) fn kind(&self) -> &str {
        self.r#type.as_ref().map(Text::as_str).unwrap_or_default()
    }
}
