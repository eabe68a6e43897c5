//! Compaction: a prefix of the history is replaced by a summary, so that the window never runs full. Nothing is removed
//! from the journal; the model sees less of it.
//!
//! - [`plan`]: what is replaced and what stays; a call and its result are never parted.
//! - [`rules`]: what a person said that reads like a rule, kept word for word.
//! - `facts`: what the history says for certain; `summary`: the seven parts, asked of a model and put together.
//! - `under_way`: what the turn still works on, word for word, and in a file where a summary has no room for it.
//! - `transcript`: the history as Markdown; `history_file`: the file that keeps it so.
//! - `windows`: how large the windows of models are, as configured or as their servers said.
//! - [`run()`]: all of it in order: the file first, then the model, then the journal.

mod facts;
mod history_file;
pub(crate) mod plan;
mod rules;
mod run;
#[cfg(test)]
mod samples;
mod summary;
mod transcript;
mod under_way;
mod windows;

pub(crate) use self::{
    run::{Wanted, refusal, run},
    windows::{Windows, learn},
};
