//! Models reached over HTTP, in several dialects.
//!
//! In the order of a call:
//!
//! - [`config`]: settings of one model in `models.yaml`; `key`: API keys that are read again; [`router`]: the models of
//!   the slots.
//! - `call`: one call from the request to its end. It sends, retries, reads, and converts the output of a dialect's
//!   reader into chunks. Robustness is implemented here once, for all dialects.
//! - `wire`: requests and answers of each dialect.
//! - `facts`: facts about a model, with their sources, queried from its server if they are not configured; `server`:
//!   facts reported by servers; `catalogue`: published facts; `records`: learnt facts, stored on disk.
//! - `answer`: the answer read so far; `runaway`: detection of endless repetition; `thoughts`: reasoning that a server
//!   leaves in the text; `code_spans`: detection of code; `text_protocol`: tool calls for models whose wire has none,
//!   and calls that a server did not parse.
//! - `embeddings`: vectors of texts, so that texts are found by their meaning.
//! - `http`: requests to servers and their failures.

mod answer;
mod call;
pub mod config;
mod embeddings;
mod facts;
mod http;
mod key;
pub mod router;
mod wire;

pub use agentd_http::{Certificates, init_crypto};
pub use config::{ChatTemplate, Effort, Fallback, Frame, ModelConfig, ModelConfigError, Thinking, Wire};
pub use embeddings::{EmbeddingStore, EmbeddingsConfig};
pub use facts::{catalogue::default_models, records::ModelRecords};
pub use key::RenewableKey;
pub use router::{ModelRouter, SlotError, connect};
