//! The capabilities that surround a turn, each an independent link in a file of its own.
//!
//! [`order`] has the trait, the order and the reason for the order.

mod approvals;
mod audit;
mod bytes;
pub(crate) mod compaction;
pub(crate) mod delegation;
pub(crate) mod excerpt;
mod feedback;
mod files;
mod finding;
pub(crate) mod handoff;
pub(crate) mod large_results;
mod memory;
mod mentions;
mod order;
mod questions;
mod repair;
mod search;
mod skills;
mod todos;
mod trail;
mod undo;

pub(crate) use self::{
    approvals::showable,
    finding::NAME as FIND_TOOL,
    large_results::ResultLimits,
    order::{Chain, Invocation, Link, Next},
    trail::Trail,
    undo::NAME as UNDO_PATCH,
};
