//! Recorded exchanges with model servers: a request and its answer in the form sent over the network.
//!
//! A request to a model contains a [`RequestTap`], and the code that sends the request reports each attempt to the tap.
//! Without a recorder, nothing is copied.

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
        /// A summary of a history that does not fit into the window.
        Summary = "summary",
        /// A request made by a running tool.
        Tool = "tool",
        /// The classification of an input's intent.
        Intent = "intent",
        /// The title of a session.
        Title = "title",
        /// A side question of a user.
        SideQuestion = "side_question",
    }
}

/// Origin of a request.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeSource {
    /// Session whose trace contains the exchange. If a subagent sent the request, this is the user's session.
    pub owner: SessionId,
    /// Session that sent the request.
    pub session_id: SessionId,
    /// Turn that the request belongs to. `None` if the turn has not started, and for requests beside the turns.
    pub turn_id: Option<TurnId>,
    /// ID that links the request to logs and telemetry.
    pub trace_id: Option<TraceId>,
    /// Number of the model call in its turn, starting at 1. If the request is not a step, the number of the preceding
    /// step.
    pub step: u32,
    /// Purpose of the request.
    pub purpose: ExchangePurpose,
    /// Agent that sent the request.
    pub agent: String,
}

/// Attempt that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest<'a> {
    /// Name of the wire protocol.
    pub wire: &'a str,
    /// ID of the model.
    pub model: &'a str,
    /// URL without secrets. Empty if the request is not sent over a network.
    pub url: &'a str,
    /// Headers with secret values masked.
    pub headers: &'a [(String, String)],
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    /// Body of the request.
    pub body: &'a str,
}

/// End of an attempt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReceivedAnswer {
    /// HTTP status, if the server answered.
    pub status: Option<u16>,
    /// Response headers with information about the request.
    pub headers: Vec<(String, String)>,
    /// Body of the answer, truncated to the recorded size.
    pub body: Vec<u8>,
    /// Size of the complete body in bytes.
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
        /// The server paused the answer, which the next request continues.
        Paused = "paused",
        /// The attempt ended with an error.
        Failed = "failed",
        /// The answer was not read completely, because the turn was cancelled or needed no more of it.
        Abandoned = "abandoned",
    }
}

/// Recorder for the exchanges of one request. Methods must not block or fail. If an exchange cannot be stored, it is
/// later reported as missing.
pub trait ExchangeRecorder: Send + Sync {
    /// Records an attempt that is about to be sent. Returns the key for [`Self::ended`].
    fn sent(&self, request: &SentRequest<'_>) -> u64;

    /// Records the end of an attempt.
    fn ended(&self, key: u64, answer: ReceivedAnswer);
}

/// Handle that connects a request to its recorder. A closed tap records nothing.
///
/// Taps are not part of a request's content, so all taps compare as equal.
#[derive(Clone, Default)]
pub struct RequestTap(Option<Arc<dyn ExchangeRecorder>>);

impl RequestTap {
    /// Creates a tap with this recorder, or a closed tap without a recorder.
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

/// Recorded exchange with a model server.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Stable number in the trace, starting at 1.
    pub number: u64,
    /// Origin of the request.
    #[serde(flatten)]
    pub source: ExchangeSource,
    /// Time when the request was sent.
    pub at: Timestamp,
    /// Number of the previous request in the same conversation, if the trace still contains it.
    pub before: Option<u64>,
    /// Recorded request of the exchange.
    pub request: StoredRequest,
    /// Recorded answer. `None` if the end of the exchange is unknown.
    pub answer: Option<StoredAnswer>,
}

/// Recorded request to a model server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRequest {
    /// Name of the wire protocol.
    pub wire: String,
    /// ID of the model.
    pub model: String,
    /// URL of the server. Empty if the request was not sent over a network.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Headers with secret values masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    /// Size of the sent body in bytes.
    pub bytes: u64,
    /// True if the body was too long to be stored completely.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Body of the request. `None` in lists, and if the body refers to an earlier request that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Recorded answer from a model server.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// HTTP status, if the server answered.
    pub status: Option<u16>,
    /// Response headers with information about the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Size of the received body in bytes.
    pub bytes: u64,
    /// True if the body was too long to be stored completely.
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

/// Exchanges of a session that were read from its trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredExchanges {
    /// Requested exchanges, sorted by number.
    pub exchanges: Vec<Exchange>,
    /// Remarks on missing exchanges, one sentence each.
    pub remarks: Vec<String>,
}
