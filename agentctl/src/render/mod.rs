//! What a person or a program sees of a turn.
//!
//! - [`human`]: text for people; the answer on standard output, everything else on standard error.
//!   - [`stream`] shows the answer as it comes, [`markdown`] renders its finished blocks.
//!   - [`tool_line`], [`closing`], [`context`], [`spinner`]: the quiet lines around it.
//! - [`window`]: what fills the model's window.
//! - [`jsonl`]: a line of JSON for each event, for programs.
//! - [`asking`], [`diff`]: what a person is asked, in words, and what would happen.
//! - [`sanitize`]: no prose of a model or a tool reaches a terminal but through it. What a person decides on goes through
//!   [`agentd_core::visible`] instead, which leaves nothing out.
//! - [`look`], [`paint`]: what the terminal can do, the colours, and the widths of text.

pub(crate) mod asking;
pub(crate) mod closing;
pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod human;
pub(crate) mod jsonl;
pub(crate) mod look;
pub(crate) mod markdown;
pub(crate) mod paint;
pub(crate) mod sanitize;
#[cfg(test)]
mod screen;
pub(crate) mod spinner;
pub(crate) mod stream;
pub(crate) mod tool_line;
pub(crate) mod window;

pub(crate) use human::Human;
pub(crate) use jsonl::Jsonl;
