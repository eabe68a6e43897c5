//! One server.
//!
//! - `actor`: starts it when it is called, knows whether it lives, and stops it when nobody needs it.
//! - `budget`: how soon one that ended may be started again.
//! - `connect`: from a configuration to a connection that was greeted and says what it offers.
//! - `process`, `pipes`: a program of this machine, and how messages go to it and come from it.
//! - `bounded`: how much a server may ask of us at once.
//! - `era`: which of the two eras of the protocol it is of. `changes`: what it reports of the newer one.
//! - `http`, `event_stream`: a server behind an address, and the two ways of speaking with it.
//! - `handler`: what a server may ask of us. `calls`: what is under way, so that progress and questions find their call.
//! - `call`: one request, with its time, its cancel and its end.
//! - `listing`: what a server offers, asked for in bounds.

mod actor;
mod bounded;
mod budget;
pub(crate) mod call;
mod changes;
mod connect;
mod era;
mod event_stream;
mod handler;
mod http;
pub(crate) mod listing;
mod pipes;
mod process;

pub use self::actor::Health;
pub(crate) use self::{
    actor::{Lease, Need, ServerHandle},
    connect::{Connection, ServerDeps},
    era::Era,
};
