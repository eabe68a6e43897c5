//! The real binary: how it starts, what it refuses, how it ends. And what only the parts together can hold: that no
//! history is refused by a provider.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

mod daemon;

mod configuration;
mod frames;
mod histories;
mod lifecycle;
mod stopping;
