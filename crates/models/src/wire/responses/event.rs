//! One event of an answer, or a whole answer of a server that does not stream. Typed and borrowed, and lenient: kinds that are
//! not known are passed over, and so are fields.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::WireUsage;
use crate::wire::lenient::{Count, Text};

#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    r#type: Option<Text<'a>>,
    pub(super) sequence_number: Option<Count>,
    /// Number of the item that it is about, and its id.
    output_index: Option<Count>,
    #[serde(borrow)]
    item_id: Option<Text<'a>>,
    /// Part of that item.
    pub(super) summary_index: Option<Count>,
    pub(super) content_index: Option<Count>,
    /// A piece of it.
    #[serde(borrow)]
    pub(super) delta: Option<Text<'a>>,
    /// The arguments of a call, whole.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    /// The item itself.
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    /// The answer so far, or all of it.
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `response` for a whole answer.
    #[serde(borrow)]
    pub(super) object: Option<Text<'a>>,
}

/// Name of the item that an event is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemPlace<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: &'a str,
}

/// An answer, at its end or whole.
#[derive(Debug, Deserialize)]
pub(super) struct WholeResponse<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    pub(super) usage: Option<WireUsage>,
    /// The server's account of its cache.
    #[serde(borrow)]
    pub(super) prompt_cache_diagnostics: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) incomplete_details: Option<IncompleteDetails<'a>>,
}

/// The server's account of its cache.
#[derive(Debug, Deserialize)]
pub(super) struct CacheDiagnostics<'a> {
    #[serde(borrow)]
    r#type: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    cache_missed_tokens: Option<Count>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
}

/// An item at its beginning, or a whole one.
#[derive(Debug, Deserialize)]
pub(super) struct ItemHead<'a> {
    #[serde(borrow)]
    r#type: Option<Text<'a>>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    call_id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<ContentPart<'a>>>,
    #[serde(borrow)]
    pub(super) summary: Option<Vec<ContentPart<'a>>>,
    #[serde(borrow)]
    encrypted_content: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    refusal: Option<Text<'a>>,
}

fn str_of<'s>(text: &'s Option<Text<'_>>) -> &'s str {
    text.as_ref().map(Text::as_str).unwrap_or_default()
}

impl Event<'_> {
    pub(super) fn kind(&self) -> &str {
        str_of(&self.r#type)
    }

    pub(super) fn place(&self) -> ItemPlace<'_> {
        ItemPlace { index: self.output_index.map(|index| index.0), id: str_of(&self.item_id) }
    }

    pub(super) fn piece(&self) -> &str {
        str_of(&self.delta)
    }

    /// The error that it tells; none where the field is null.
    pub(super) fn told_error(&self) -> Option<&RawValue> {
        self.error.filter(|error| error.get() != "null")
    }

    pub(super) fn is_whole(&self) -> bool {
        str_of(&self.object) == "response"
    }
}

impl WholeResponse<'_> {
    pub(super) fn id(&self) -> &str {
        str_of(&self.id)
    }

    pub(super) fn status(&self) -> &str {
        str_of(&self.status)
    }

    pub(super) fn told_error(&self) -> Option<&RawValue> {
        self.error.filter(|error| error.get() != "null")
    }

    /// Why it is not complete.
    pub(super) fn incomplete_reason(&self) -> &str {
        self.incomplete_details.as_ref().map(|details| str_of(&details.reason)).unwrap_or_default()
    }
}

impl CacheDiagnostics<'_> {
    /// Why the cache missed, and about how many tokens that concerns.
    pub(super) fn miss(&self) -> Option<(&str, u64)> {
        let is_miss = str_of(&self.r#type) == "cache_miss";
        is_miss.then(|| (str_of(&self.reason), self.cache_missed_tokens.unwrap_or_default().0))
    }
}

impl ItemHead<'_> {
    pub(super) fn kind(&self) -> &str {
        str_of(&self.r#type)
    }

    pub(super) fn id(&self) -> &str {
        str_of(&self.id)
    }

    pub(super) fn call_id(&self) -> &str {
        str_of(&self.call_id)
    }

    pub(super) fn name(&self) -> &str {
        str_of(&self.name)
    }

    pub(super) fn phase(&self) -> Option<&str> {
        Some(str_of(&self.phase)).filter(|phase| !phase.is_empty())
    }

    /// Returns whether the limit of the answer has cut it.
    pub(super) fn is_cut(&self) -> bool {
        str_of(&self.status) == "incomplete"
    }

    /// Returns whether thoughts have what their server wants back: without, it looks for them among stored ones.
    pub(super) fn can_go_back(&self) -> bool {
        let has_content = self.content.as_ref().is_some_and(|content| !content.is_empty());
        !self.is_cut() && (has_content || !str_of(&self.encrypted_content).is_empty())
    }
}

impl ContentPart<'_> {
    pub(super) fn words(&self) -> &str {
        str_of(&self.text)
    }

    pub(super) fn refusal(&self) -> &str {
        str_of(&self.refusal)
    }
}
