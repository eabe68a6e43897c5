//! Tests of the crate's public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod properties;
mod script;
mod trees;
