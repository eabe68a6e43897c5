//! The capabilities that surround a turn, each an independent link in a file of its own.
//!
//! [`order`] has the trait, the order and the reason for the order.

mod approvals;
mod audit;
mod bytes;
pub(crate) mod compaction;
pub(crate) mod delegation;
mod excerpt;
mod feedback;
mod files;
pub(crate) mod handoff;
mod large_results;
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
    large_results::ResultLimits,
    order::{Chain, Invocation, Link, Next},
    trail::Trail,
    undo::NAME as UNDO_PATCH,
};
