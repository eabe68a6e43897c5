//! What a person or a program sees of a turn.
//!
//! - [`human`]: text for people; the answer on standard output, everything else on standard error.
//!   - [`stream`] shows the answer as it comes, [`markdown`] renders its finished blocks. [`partial_item`]: what is under way.
//!   - [`tool_line`], [`subject`], [`reads`], [`state_lines`], [`closing`], [`context`], [`spinner`]: the quiet lines around
//!     it. [`status`] and [`input_row`]: the lines below.
//! - [`window`]: what fills the model's window.
//! - [`jsonl`]: a line of JSON for each event, for programs.
//! - [`asking`], [`diff`]: what a person is asked, in words, and what would happen.

pub(crate) mod asking;
pub(crate) mod closing;
pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod human;
pub(crate) mod input_row;
pub(crate) mod jsonl;
pub(crate) mod markdown;
mod partial_item;
mod reads;
#[cfg(test)]
mod screen;
pub(crate) mod spinner;
mod state_lines;
pub(crate) mod status;
pub(crate) mod stream;
mod subject;
pub(crate) mod tool_line;
pub(crate) mod window;

pub(crate) use human::Human;
pub(crate) use jsonl::{Jsonl, type_first};
