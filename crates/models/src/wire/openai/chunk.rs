//! One event of an answer, or a whole answer of a server that does not stream. Typed and borrowed, because this is
//! read hundreds of thousands of times per second; lenient in every place where servers are known to differ.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::{Timings, WireUsage};
use crate::wire::lenient::{Count, Text};

#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<WireUsage<'a>>,
    /// llama.cpp's own account.
    pub(super) timings: Option<Timings>,
    /// Groq's place for the usage.
    #[serde(borrow)]
    pub(super) x_groq: Option<XGroq<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` where the whole event is one.
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    /// Message of an error that comes without a wrapping, as older llama.cpp's do.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct XGroq<'a> {
    #[serde(borrow)]
    pub(super) usage: Option<WireUsage<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    pub(super) index: Option<Count>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// In place of the delta, in a whole answer.
    #[serde(borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// Moonshot's place for the usage.
    #[serde(borrow)]
    pub(super) usage: Option<WireUsage<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    /// Signed or encrypted thoughts, which go back to their server.
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

impl Delta<'_> {
    /// The words of reasoning. Some servers send the same words under two names.
    pub(super) fn reasoning(&self) -> &str {
        let places = [&self.reasoning_content, &self.reasoning, &self.thinking];
        places.into_iter().flatten().map(Text::as_str).find(|text| !text.is_empty()).unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Option<Count>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    /// A signature of the call, which goes back to its server.
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    /// Usually a string with a piece of JSON; some servers send the JSON itself.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}
