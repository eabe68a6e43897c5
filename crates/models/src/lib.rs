//! The models that are reached over HTTP: what agentd asks, in their dialects, and what they stream back.
//!
//! The way of one call, from the outside in:
//!
//! - [`config`]: what stands in `models.yaml` of one model; [`router`]: which model serves which slot.
//! - `call`: one call from the request to its end. It opens, retries, reads, and turns what a dialect's reader
//!   found into chunks. All robustness lives here once, for every dialect.
//! - `learning`: requests in another form where a server refuses the usual one; `records`: what was learnt, kept on disk.
//! - `http`: clients, addresses and requests; `overlay`: configured fields over their own; `failure`: what went wrong, and
//!   whether trying again can help; `retry`: when to try again; `deadline`: how long to wait for what.
//! - `recording`: what goes over the wire, for whoever keeps it.
//! - `sse`: bytes to events; `answer`: what has been read so far; `runaway`: answers that repeat without end.
//! - `dialect`: the seam to the wires; `openai`, `responses`, `anthropic`, `llamacpp`: the wires. Their wire structs never leave their folders. Shared by
//!   them: `distrust`: thoughts that a server has refused; `last_answers`: which answer was the last one of a session; `call_ids`: ids of calls, as a request names them; `sendable`, `readable`: what of a history can be sent back as it
//!   is; `answer_format`: the schema of an answer; `written_tools`: tools, as they were written last; `lenient`: texts and numbers as servers write them.
//! - `thoughts`: those that a server leaves in the words; `code_spans`: which words are code.
//! - `text_protocol`: tool calls for models whose wire carries none, and calls that a server did not read.
//! - `facts`: what is known of a model, and asked of its server where nobody configured it; `server`: what servers tell of
//!   their models, in the many documents in which they do; `catalogue`: what is published of models; `figures`: all of it, with
//!   who says so.
//! - `window`: how large a model's window is, out of what its server says when a request does not fit.

mod answer;
mod answer_format;
mod anthropic;
mod call;
mod call_ids;
mod catalogue;
mod code_spans;
pub mod config;
mod deadline;
mod dialect;
mod distrust;
mod facts;
mod failure;
mod figures;
mod http;
mod last_answers;
mod learning;
mod lenient;
mod llamacpp;
mod openai;
mod overlay;
mod readable;
mod recording;
mod records;
mod responses;
mod retry;
pub mod router;
mod runaway;
mod sendable;
mod server;
mod sse;
mod text_protocol;
mod thoughts;
mod window;
mod written_tools;

pub use catalogue::default_models;
pub use config::{ChatTemplate, Effort, Fallback, Frame, ModelConfig, ModelConfigError, Thinking, Wire};
pub use records::ModelRecords;
pub use router::{ModelRouter, SlotError, connect};

/// Installs the process's TLS cryptography. Building a client without it would fail, so the router and every test
/// call it first; calling it again, or after somebody else did, changes nothing.
pub fn init_crypto() {
    // An error only says that a provider is there already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
