//! The capabilities around a turn, each an independent link.
//!
//! [`standard`] lists them in order, with the reasons for the order; `turn::hooks` defines what a link can do. Doc
//! comments on the argument types of a link's tool are part of the tool's schema, which models read.

mod gates;
mod history;
mod nudges;
mod preamble;
pub(crate) mod results;
pub(crate) mod standard;
pub(crate) mod tools;

pub(crate) use crate::links::{gates::audit::check_preview_size, history::repair, results::undo::NAME as UNDO_PATCH};
