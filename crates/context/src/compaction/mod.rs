//! Compaction, which replaces a prefix of the history by a summary, so that the window never runs full. Nothing is
//! removed from the journal; only less of the history is visible to the model. This module is pure, and the engine
//! carries out the compaction.
//!
//! - [`plan`]: decides which items are replaced. A call and its result are never separated.
//! - [`offload`]: moves old call results to files before anything is replaced.
//! - [`verbatim`]: retains the user's own messages verbatim.
//! - `facts`: facts that are certain from the history. `summary`: composes the seven parts, some of them written by a
//!   model.
//! - `transcript`: the history as Markdown.

pub mod facts;
pub mod offload;
pub mod plan;
#[cfg(test)]
pub(crate) mod samples;
pub mod summary;
pub mod transcript;
pub mod verbatim;
