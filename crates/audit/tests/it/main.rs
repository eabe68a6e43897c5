//! Tests of the audit log through its public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod damage;
mod log;
mod records;
mod secrets;
mod trim;
mod world;
