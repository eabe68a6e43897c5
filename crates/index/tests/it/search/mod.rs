//! Tests of the index and its searches.

mod keeping;
mod loss;
mod phrases;
mod ranking;
mod regexes;
pub(crate) mod support;
mod visibility;
