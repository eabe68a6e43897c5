//! The capabilities that surround a turn, each an independent link.
//!
//! [`standard`] lists them in order, with the reason for the order; `turn::hooks` is what a link can do.
//! Models read the comments of a type by which a link parses the arguments of its tool.

mod gates;
mod history;
mod nudges;
mod preamble;
pub(crate) mod results;
pub(crate) mod standard;
pub(crate) mod tools;

pub(crate) use crate::links::{gates::audit::showable, results::undo::NAME as UNDO_PATCH};
