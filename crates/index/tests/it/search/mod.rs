//! The index and what is found in it.

mod keeping;
mod loss;
mod phrases;
mod ranking;
mod regexes;
pub(crate) mod support;
mod visibility;
