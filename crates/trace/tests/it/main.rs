//! The crate's public face.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod properties;
mod script;
mod trees;
