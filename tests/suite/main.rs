//! A single binary with all suites, to keep link times low.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod e2e;
mod tidy;
