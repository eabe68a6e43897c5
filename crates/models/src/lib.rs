//! The models that are reached over HTTP: what agentd asks, in their dialects, and what they stream back.
//!
//! The way of one call, from the outside in:
//!
//! - [`config`]: what stands in `models.yaml` of one model; [`router`]: which model serves which slot.
//! - `call`: one call from the request to its end. It opens, retries, reads, and turns what a dialect's reader
//!   found into chunks. All robustness lives here once, for every dialect.
//! - `wire`: requests and answers of each dialect.
//! - `facts`: what is known of a model, and asked of its server where nobody configured it; `server`: what servers tell of
//!   their models; `catalogue`: what is published of models; `records`: what was learnt, kept on disk; `figures`: all of it,
//!   with who says so.
//! - `answer`: what has been read so far; `runaway`: answers that repeat without end; `thoughts`: those that a server leaves
//!   in the words; `code_spans`: which words are code; `text_protocol`: tool calls for models whose wire carries none, and
//!   calls that a server did not read.
//! - `http`: requests to servers, and what can go wrong with them.

mod answer;
mod call;
pub mod config;
mod facts;
/// Requests to servers: addresses, deadlines, failures, retries, and other forms where a server refuses the usual one.
///
/// - `target`: addresses and clients, and how long to wait for what; `request`: requests and their answers, and what goes over the
///   wire, for whoever keeps it.
/// - `retry`: when to try again; `failure`: what went wrong, and whether trying again can help.
/// - `learning`: requests in another form where a server refuses the usual one.
/// - `sse`: bytes to events.
mod http {
    pub(crate) mod failure;
    pub(crate) mod learning;
    pub(crate) mod request;
    pub(crate) mod retry;
    pub(crate) mod sse;
    pub(crate) mod target;
}
pub mod router;
/// The wires: what agentd asks in each dialect, and what comes back.
///
/// - `dialect`: the seam between a call and a wire, what all bodies have in common, and what a dialect remembers from one request to
///   the next. `openai`, `responses`, `anthropic`, `llamacpp`: the wires, whose structs never leave their folders.
/// - Shared by them: `sendable`: what of a history can be sent back as it is, and ids of calls; `partial`: parts of an answer while
///   they come, and as they are kept; `lenient`: texts and numbers as servers write them.
mod wire {
    pub(crate) mod anthropic;
    pub(crate) mod dialect;
    mod lenient;
    pub(crate) mod llamacpp;
    pub(crate) mod openai;
    mod partial;
    pub(crate) mod responses;
    mod sendable;
}

pub use agentd_http::init_crypto;
pub use config::{ChatTemplate, Effort, Fallback, Frame, ModelConfig, ModelConfigError, Thinking, Wire};
pub use facts::{catalogue::default_models, records::ModelRecords};
pub use router::{ModelRouter, SlotError, connect};
