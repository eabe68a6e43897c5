//! The capabilities that surround a turn, each an independent link in a file of its own.
//!
//! [`standard`] lists them in order, with the reason for the order; `turn::hooks` is what a link can do.
//! Models read the comments of a type by which a link parses the arguments of its tool.

mod answer_form;
mod approvals;
mod ask_again;
mod attachments;
mod audit;
mod binary_output;
mod client_tools;
mod compaction;
mod condense;
pub(crate) mod delegation;
mod diagnostics;
mod find_tool;
mod handoff;
mod mcp_servers;
mod memory;
mod mentions;
mod mode;
mod open_todos;
mod pins;
mod planning;
mod questions;
mod recall;
mod repair;
mod repetition;
mod search;
mod set_aside;
mod skills;
pub(crate) mod standard;
mod todos;
mod truncation;
mod turn_instructions;
mod undo;

pub(crate) use self::{set_aside::showable, undo::NAME as UNDO_PATCH};
