//! Output of a turn for people and programs.
//!
//! - [`human`]: text for people; the answer on standard output, everything else on standard error.
//!   - [`stream`] shows the answer while it streams, [`markdown`] renders its complete blocks. [`partial_item`]: items in
//!     progress.
//!   - [`tool_line`], [`subject`], [`reads`], [`state_lines`], [`closing`], [`context`], [`spinner`]: the quiet lines
//!     around it. [`status`] and [`input_row`]: the lines below.
//! - [`window`]: the parts of the model's window.
//! - [`jsonl`]: a line of JSON for each event, for programs.
//! - [`asking`], [`diff`]: texts of questions, and previews.

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
