//! Tests for the real binary: start, errors and stop. Also checks that all parts together never produce a history that
//! a provider rejects.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod daemon;

mod configuration;
mod frames;
mod histories;
mod lifecycle;
mod stopping;
