//! Tests of recordings through the public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod captured;
mod texts;
