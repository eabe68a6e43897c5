//! Language servers: one per folder of the person and language, shared by all sessions.
//!
//! - [`config`]: which servers there are, and their limits.
//! - `pool`: [`LanguagePool`], the port that engine and tools call: finds the server of a file and starts it when it is first
//!   needed. `program`: where programs are.
//! - `edits`: files that sessions have edited, and which errors are new since; `questions`: what tools ask.
//! - `server/`: one actor per server, which starts it, speaks with it, and ends it; it starts it again after a crash.
//! - `message`, `protocol`: the wire. Only the few messages that are needed have types.
//! - `source`: files read without following a link.
//!
//! A server is a program of strangers that works on code of strangers. It runs inside the walls of a
//! [`Confiner`](agentd_core::ports::Confiner) or not at all, and all that it says is bounded before it is looked at.

pub mod config;
mod edits;
mod message;
mod pool;
mod program;
mod protocol;
mod questions;
mod server;
mod source;

pub use config::{LanguageConfig, LanguageLimits, ServerConfig};
pub use pool::{FoundServer, LanguagePool};
pub use program::ProgramPlaces;
