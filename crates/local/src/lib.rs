//! Embedded model of agentd: a small Llama in the daemon's process, on the CPU, in pure Rust.
//!
//! The public interface is [`EmbeddedModel`], an implementation of [`agentd_core::ports::Model`]. The modules are:
//!
//! - `model`: the port, and the recording of exchanges.
//! - [`harness`]: decides how to answer a request. A model this small makes no decisions: most answers are fixed texts
//!   and tool results, and the model only writes free text.
//! - `worker`: the thread that owns the weights, loads them on first use and releases them when idle.
//! - `inference`: evaluation of prompts and greedy decoding with loop detection.
//! - `gguf`: validated model file. `llama`: weights, forward pass, and a key-value cache that can be truncated.
//!   `vocabulary`: tokenization and chat formats.
//! - `config`: settings and status. `error`: errors with advice.
//!
//! # Threads
//!
//! The arithmetic uses as many threads as `CANDLE_NUM_THREADS` and `RAYON_NUM_THREADS` specify. Both variables are read
//! once, when the first model is loaded. The daemon's `main` sets both to [`recommended_threads`] before any thread
//! starts, unless the user has set them.

mod config;
mod error;
mod gguf;
mod harness;
mod inference;
mod llama;
mod model;
mod vocabulary;
mod worker;

pub use config::{DEFAULT_CONTEXT, EmbeddedConfig, EmbeddedStatus, Neighbour, Neighbours, recommended_threads};
pub use model::EmbeddedModel;
