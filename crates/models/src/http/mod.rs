//! Requests to servers: addresses, deadlines, failures, retries, and other forms where a server refuses the usual one.
//!
//! - `target`: addresses and clients, and how long to wait for what; `request`: requests and their answers.
//! - `retry`: when to try again; `failure`: what went wrong, and whether trying again
//!   can help; `window`: the size of a model's window, out of what its server says when a request does not fit.
//! - `learning`: requests in another form where a server refuses the usual one.
//! - `sse`: bytes to events; `recording`: what goes over the wire, for whoever keeps it.

pub(crate) mod failure;
pub(crate) mod learning;
pub(crate) mod recording;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod sse;
pub(crate) mod target;
pub(crate) mod window;
