//! Tests for the real binary: startup, errors and shutdown. Also checks that the daemon as a whole never produces a
//! history that a provider rejects.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod daemon;

mod configuration;
mod frames;
mod histories;
mod lifecycle;
mod stopping;
