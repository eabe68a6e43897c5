//! The embedded model of agentd: a small Llama in the daemon's own process, on the CPU, in pure Rust.
//!
//! [`EmbeddedModel`] is all that others see: an implementation of [`agentd_core::ports::Model`]. Behind it:
//!
//! - `model`: the port, and what is kept of requests where somebody wants to see them.
//! - [`harness`]: what to do about a request. A model this small decides nothing: most answers are fixed texts and results of
//!   tools, and the model writes free text only.
//! - `worker`: the one thread that owns the weights, loads them on first use and releases them when idle.
//! - `inference`: evaluating prompts and answering greedily, unless that goes round in circles.
//! - `gguf`: the file, opened and checked; `llama`: weights, one step through them, and keys and values that can be cut back;
//!   `vocabulary`: text to tokens and turns to prompts.
//! - `config`, with what can be counted from outside, and `error`.
//!
//! # Threads
//!
//! The arithmetic spreads over the threads that `CANDLE_NUM_THREADS` and `RAYON_NUM_THREADS` name in the environment,
//! which is read once when the first model is loaded. The daemon's `main` sets both to [`recommended_threads`] before
//! any thread starts, where the person has not set them.

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
