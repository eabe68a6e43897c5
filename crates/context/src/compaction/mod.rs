//! Compaction: replaces a prefix of the history by a summary, so that the window never overflows. Nothing is removed
//! from the journal; only the model sees less of the history. This module is pure; the engine executes the compaction.
//!
//! - [`plan`]: decides which items are replaced. A call and its result are never separated.
//! - [`offload`]: moves old call results to files before anything is replaced.
//! - [`verbatim`]: retains the user's own messages verbatim.
//! - `facts`: facts derived from the history without a model. `summary`: composes the seven parts, some of which a
//!   model writes.
//! - `transcript`: the history as Markdown.

pub mod facts;
pub mod offload;
pub mod plan;
#[cfg(test)]
pub(crate) mod samples;
pub mod summary;
pub mod transcript;
pub mod verbatim;
