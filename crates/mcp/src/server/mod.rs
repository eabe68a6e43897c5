//! Connection to one server.
//!
//! - `actor`: starts the server on demand, monitors it, delays restarts after failures, and stops it when it is idle.
//! - `connect`: creates an initialised connection from a configuration, in one of the two protocol eras.
//! - `process`: local servers, and their messages over standard input and output.
//! - `http`: HTTP servers, and their transports.
//! - `handler`: requests from a server, and their limits. `calls` has the calls in flight, to which progress and
//!   questions are assigned.
//! - `call`: a single request, with its time limits, cancellation and result.
//! - `listing`: bounded listing of a server's tools.

pub(crate) mod actor;
pub(crate) mod call;
pub(crate) mod connect;
mod handler;
mod http;
pub(crate) mod listing;
mod process;
