//! HTTP requests to servers: URLs, deadlines, failures, retries, and other forms of refused requests.
//!
//! - `target`: URLs, clients and deadlines; `request`: sending requests, and recording the exchanged bytes.
//! - `retry`: the retry policy; `failure`: failures, and whether a retry can help.
//! - `refusals`: other forms of requests that a server refuses.
//! - `sse`: decoding of events.

pub(crate) mod failure;
pub(crate) mod refusals;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod sse;
pub(crate) mod target;
