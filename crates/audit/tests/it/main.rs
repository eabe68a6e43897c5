//! The audit log through its public face.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod damage;
mod log;
mod records;
mod secrets;
mod trim;
mod world;
