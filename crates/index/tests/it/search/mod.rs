//! Tests for the index and its searches.

mod loss;
mod persistence;
mod phrases;
mod ranking;
mod regexes;
pub(crate) mod support;
mod visibility;
