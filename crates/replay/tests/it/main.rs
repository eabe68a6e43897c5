//! Recordings through their public face.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod captured;
mod texts;
