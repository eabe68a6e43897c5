//! One server.
//!
//! - `actor`: starts it when it is called, knows whether it lives, when it may be started again, and stops it when nobody
//!   needs it.
//! - `connect`: from a configuration to a connection that was greeted, in one of the two eras of the protocol, and says
//!   what it offers.
//! - `process`: a program of this machine, and how messages go to it and come from it.
//! - `http`: a server behind an address, and the ways of speaking with it.
//! - `handler`: what a server may ask of us, and how much at once. `calls`: what is under way, so that progress and
//!   questions find their call.
//! - `call`: one request, with its time, its cancel and its end.
//! - `listing`: what a server offers, asked for in bounds.

pub(crate) mod actor;
pub(crate) mod call;
pub(crate) mod connect;
mod handler;
mod http;
pub(crate) mod listing;
mod process;
