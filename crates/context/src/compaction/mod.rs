//! Compaction: a prefix of the history is replaced by a summary, so that the window never runs full. Nothing is removed
//! from the journal; the model sees less of it. Pure: the engine carries it out.
//!
//! - [`plan`]: what is replaced and what stays; a call and its result are never parted.
//! - [`offload`]: old results of calls, moved to files before anything is replaced.
//! - [`verbatim`]: the person's own messages, kept word for word.
//! - `facts`: what the history says for certain; `summary`: the seven parts, asked of a model and put together.
//! - `transcript`: the history as Markdown.

pub mod facts;
pub mod offload;
pub mod plan;
#[cfg(test)]
pub(crate) mod samples;
pub mod summary;
pub mod transcript;
pub mod verbatim;
