//! Requests to servers: addresses, deadlines, failures, retries, and other forms where a server refuses the usual one.
//!
//! - `target`: addresses and clients, and how long to wait for what; `request`: requests and their answers, and what goes over the
//!   wire, for whoever keeps it.
//! - `retry`: when to try again; `failure`: what went wrong, and whether trying again can help.
//! - `learning`: requests in another form where a server refuses the usual one.
//! - `sse`: bytes to events.

pub(crate) mod failure;
pub(crate) mod learning;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod sse;
pub(crate) mod target;
