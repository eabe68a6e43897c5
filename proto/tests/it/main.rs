//! Tests of the protocol's public interface: round trips of all types, the socket on a real disk, and the client
//! against a small server over a real socket.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod client;
mod convert;
mod fake;
mod samples;
mod schema;
mod socket;
mod status;
