//! Lines of a trace.

use agentd_core::{
    Timestamp,
    exchange::{ExchangeSource, KeptAnswer, KeptRequest},
    ids::SessionId,
};
use serde::{Deserialize, Serialize};

use crate::delta::Delta;

/// Version of the form of the lines.
pub(crate) const VERSION: u32 = 1;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Head of a file.
    Trace(Header),
    /// A request that was sent.
    Request(Box<RequestLine>),
    /// End of an exchange.
    Answer(AnswerLine),
    /// Lines that are missing here.
    Lost(LostLines),
}

/// Head of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) session_id: SessionId,
    /// Number of the first request in it.
    pub(crate) first: u64,
}

/// A request that was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestLine {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) source: ExchangeSource,
    pub(crate) request: KeptRequest,
    pub(crate) body: Delta,
}

/// End of an exchange.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AnswerLine {
    pub(crate) number: u64,
    pub(crate) answer: KeptAnswer,
}

/// Lines that are missing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LostLines {
    /// Their number.
    pub(crate) count: u64,
}

impl Line {
    /// The line with its end.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self).ok()?;
        bytes.push(b'\n');
        Some(bytes)
    }
}
