//! Exchanges with models as they are on a wire, for people who want to see them: a request, and its answer.
//!
//! A request to a model carries a [`RequestTap`]. Whoever writes it to a wire tells the tap of each attempt; without a recorder
//! behind it nothing is copied.

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
        /// The summary of a history that no longer fits.
        Summary = "summary",
        /// A question of a tool while it runs.
        Tool = "tool",
        /// The intent of an input.
        Intent = "intent",
    }
}

/// Source of a request.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeSource {
    /// Session in whose trace it is kept: that of the person, where the request is of one that works for it.
    pub owner: SessionId,
    /// Session that asks.
    pub session_id: SessionId,
    /// Turn that asks; none where it has not begun.
    pub turn_id: Option<TurnId>,
    /// Identifier that ties it to logs and telemetry.
    pub trace_id: Option<TraceId>,
    /// Number of the model call in its turn, from 1; that of the last one before it where it is none itself.
    pub step: u32,
    /// Purpose.
    pub purpose: ExchangePurpose,
    /// Agent that asks.
    pub agent: String,
}

/// One attempt to have an answer, as it is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest<'a> {
    /// Name of the wire.
    pub wire: &'a str,
    /// Id of the model.
    pub model: &'a str,
    /// Address, without what is secret in it; empty where nothing is sent over a network.
    pub url: &'a str,
    /// Headers, with masks in place of secret values.
    pub headers: &'a [(String, String)],
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Body.
    pub body: &'a str,
}

/// End of an attempt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReceivedAnswer {
    /// Status, where the server answered.
    pub status: Option<u16>,
    /// Headers that say something of the request.
    pub headers: Vec<(String, String)>,
    /// Body, as much of it as is kept.
    pub body: Vec<u8>,
    /// Bytes that the body had in all.
    pub bytes: u64,
    /// Time from the request to the first byte of the body.
    pub first_byte: Option<Duration>,
    /// Time from the request to the first words, thoughts or calls.
    pub first_token: Option<Duration>,
    /// Time from the request to the end.
    pub duration: Duration,
    /// Tokens, as the server counted them.
    pub usage: Option<Usage>,
    /// Its end.
    pub outcome: ExchangeOutcome,
    /// Message of the failure.
    pub error: Option<String>,
}

names! {
    /// End of an exchange.
    #[derive(Default)]
    pub enum ExchangeOutcome {
        /// The answer is whole.
        #[default]
        Whole = "whole",
        /// The server paused it, and goes on with it in answer to the next request.
        Paused = "paused",
        /// It failed.
        Failed = "failed",
        /// Nobody read it to its end: the turn was cancelled, or had enough.
        Abandoned = "abandoned",
    }
}

/// Keeps the exchanges of one request. Nothing here waits, and nothing fails: what cannot be kept is missing later.
pub trait ExchangeRecorder: Send + Sync {
    /// Takes an attempt that is about to be sent, and returns the key by which its end is told.
    fn sent(&self, request: &SentRequest<'_>) -> u64;

    /// Takes the end of an attempt.
    fn ended(&self, key: u64, answer: ReceivedAnswer);
}

/// The way of a request to whoever keeps it; a closed one keeps nothing.
///
/// It is no part of what is asked, so all taps are equal.
#[derive(Clone, Default)]
pub struct RequestTap(Option<Arc<dyn ExchangeRecorder>>);

impl RequestTap {
    /// A tap with that recorder behind it, if there is one.
    pub fn new(recorder: Option<Arc<dyn ExchangeRecorder>>) -> Self {
        Self(recorder)
    }

    /// The recorder, where exchanges are kept.
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

/// An exchange as it was kept.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Its number in the trace, from 1. It keeps it.
    pub number: u64,
    /// Source.
    #[serde(flatten)]
    pub source: ExchangeSource,
    /// Time at which it was sent.
    pub at: Timestamp,
    /// Number of the request before it in the same conversation, as far as it is still kept.
    pub before: Option<u64>,
    /// The request.
    pub request: KeptRequest,
    /// The answer; none where the end of the exchange is not known.
    pub answer: Option<KeptAnswer>,
}

/// A request as it was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRequest {
    /// Name of the wire.
    pub wire: String,
    /// Id of the model.
    pub model: String,
    /// Address; empty where nothing was sent over a network.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Headers, with masks in place of secret values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Bytes of the body as it was sent.
    pub bytes: u64,
    /// Set if the body was too long to be kept whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// The body; none in a list, and where what it repeats cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// An answer as it was kept.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// Status, where the server answered.
    pub status: Option<u16>,
    /// Headers that say something of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Bytes of the body as it came.
    pub bytes: u64,
    /// Set if the body was too long to be kept whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Microseconds from the request to the first byte of the body.
    pub first_byte_us: Option<u64>,
    /// Microseconds from the request to the first words, thoughts or calls.
    pub first_token_us: Option<u64>,
    /// Microseconds from the request to the end.
    pub duration_us: u64,
    /// Tokens, as the server counted them.
    pub usage: Option<Usage>,
    /// Its end.
    pub outcome: ExchangeOutcome,
    /// Message of the failure.
    pub error: Option<String>,
    /// The body; none in a list.
    pub body: Option<String>,
}

/// Exchanges of a session, as they were read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptExchanges {
    /// Those that were asked for, in the order of their numbers.
    pub exchanges: Vec<Exchange>,
    /// Remarks on what is missing, a sentence each.
    pub remarks: Vec<String>,
}
