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
mod http;
pub mod router;
mod wire;

pub use agentd_http::init_crypto;
pub use config::{ChatTemplate, Effort, Fallback, Frame, ModelConfig, ModelConfigError, Thinking, Wire};
pub use facts::{catalogue::default_models, records::ModelRecords};
pub use router::{ModelRouter, SlotError, connect};
