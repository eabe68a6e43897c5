//! Recorded exchanges with model servers: a request and its answer, as sent over the wire.
//!
//! A request to a model carries a [`RequestTap`]. The code that sends it reports each attempt to the tap. Without a
//! recorder, nothing is copied.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{SessionId, TraceId, TurnId},
    usage::Usage,
};

names! {
    /// Purpose of a request.
    #[derive(Default)]
    pub enum ExchangePurpose {
        /// A step of a turn.
        #[default]
        Turn = "turn",
        /// A summary of a history that no longer fits into the window.
        Summary = "summary",
        /// A request made by a running tool.
        Tool = "tool",
        /// The classification of an input's intent.
        Intent = "intent",
    }
}

/// Origin of a request.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeSource {
    /// Session whose trace stores the exchange: the user's session if a subagent sent the request.
    pub owner: SessionId,
    /// Session that sent the request.
    pub session_id: SessionId,
    /// Turn of the request. `None` if the turn has not begun.
    pub turn_id: Option<TurnId>,
    /// Id that links the request to logs and telemetry.
    pub trace_id: Option<TraceId>,
    /// Number of the model call in its turn, from 1. If the request is not a step, the number of the last step before
    /// it.
    pub step: u32,
    /// Purpose of the request.
    pub purpose: ExchangePurpose,
    /// Agent that sent the request.
    pub agent: String,
}

/// An attempt that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest<'a> {
    /// Name of the wire protocol.
    pub wire: &'a str,
    /// Id of the model.
    pub model: &'a str,
    /// URL without secrets; empty if nothing is sent over a network.
    pub url: &'a str,
    /// Headers with secret values masked.
    pub headers: &'a [(String, String)],
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Body of the request.
    pub body: &'a str,
}

/// End of an attempt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReceivedAnswer {
    /// HTTP status, if the server answered.
    pub status: Option<u16>,
    /// Headers with information about the request.
    pub headers: Vec<(String, String)>,
    /// Stored part of the body.
    pub body: Vec<u8>,
    /// Full size of the body, in bytes.
    pub bytes: u64,
    /// Time from the request to the first byte of the body.
    pub first_byte: Option<Duration>,
    /// Time from the request to the first text, reasoning or call.
    pub first_token: Option<Duration>,
    /// Time from the request to the end.
    pub duration: Duration,
    /// Tokens as counted by the server.
    pub usage: Option<Usage>,
    /// Outcome of the attempt.
    pub outcome: ExchangeOutcome,
    /// Error message, if the attempt failed.
    pub error: Option<String>,
}

names! {
    /// Outcome of an exchange.
    #[derive(Default)]
    pub enum ExchangeOutcome {
        /// The answer is complete.
        #[default]
        Whole = "whole",
        /// The server paused the answer and continues it with the next request.
        Paused = "paused",
        /// The attempt ended in an error.
        Failed = "failed",
        /// The answer was not read to its end because the turn was cancelled or needed no more of it.
        Abandoned = "abandoned",
    }
}

/// Recorder for the exchanges of one request. Its methods must not block or fail: an exchange that cannot be stored is
/// missing later.
pub trait ExchangeRecorder: Send + Sync {
    /// Records an attempt that is about to be sent, and returns the key for [`Self::ended`].
    fn sent(&self, request: &SentRequest<'_>) -> u64;

    /// Records the end of an attempt.
    fn ended(&self, key: u64, answer: ReceivedAnswer);
}

/// Handle from a request to its recorder. A closed tap records nothing.
///
/// Taps are not part of a request's content, so all taps compare as equal.
#[derive(Clone, Default)]
pub struct RequestTap(Option<Arc<dyn ExchangeRecorder>>);

impl RequestTap {
    /// Creates a tap with this recorder, or a closed one.
    pub fn new(recorder: Option<Arc<dyn ExchangeRecorder>>) -> Self {
        Self(recorder)
    }

    /// Returns the recorder, if exchanges are recorded.
    pub fn recorder(&self) -> Option<&Arc<dyn ExchangeRecorder>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for RequestTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "RequestTap(open)" } else { "RequestTap(closed)" })
    }
}

impl PartialEq for RequestTap {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An exchange as it was recorded.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Stable number in the trace, from 1.
    pub number: u64,
    /// Origin of the request.
    #[serde(flatten)]
    pub source: ExchangeSource,
    /// Time at which the request was sent.
    pub at: Timestamp,
    /// Number of the previous request in the same conversation, if it is still stored.
    pub before: Option<u64>,
    /// Request as it was recorded.
    pub request: StoredRequest,
    /// Answer as it was recorded. `None` if the end of the exchange is unknown.
    pub answer: Option<StoredAnswer>,
}

/// A request as it was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRequest {
    /// Name of the wire protocol.
    pub wire: String,
    /// Id of the model.
    pub model: String,
    /// URL; empty if nothing was sent over a network.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Headers with secret values masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Size of the body as sent, in bytes.
    pub bytes: u64,
    /// True if the body was too long to be stored whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Body of the request. `None` in lists, and if the body repeats an earlier request that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// An answer as it was recorded.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// HTTP status, if the server answered.
    pub status: Option<u16>,
    /// Headers with information about the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Size of the body as received, in bytes.
    pub bytes: u64,
    /// True if the body was too long to be stored whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Microseconds from the request to the first byte of the body.
    pub first_byte_us: Option<u64>,
    /// Microseconds from the request to the first text, reasoning or call.
    pub first_token_us: Option<u64>,
    /// Microseconds from the request to the end.
    pub duration_us: u64,
    /// Tokens as counted by the server.
    pub usage: Option<Usage>,
    /// Outcome of the exchange.
    pub outcome: ExchangeOutcome,
    /// Error message, if the exchange failed.
    pub error: Option<String>,
    /// Body of the answer. `None` in lists.
    pub body: Option<String>,
}

/// Exchanges of a session, as read from its trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredExchanges {
    /// Requested exchanges, ordered by number.
    pub exchanges: Vec<Exchange>,
    /// Remarks on missing exchanges, one sentence each.
    pub remarks: Vec<String>,
}
