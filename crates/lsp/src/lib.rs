//! Language servers, one per project root and language, shared by all sessions.
//!
//! - [`config`]: configured servers and their limits.
//! - `pool`: [`LanguagePool`], the port for engine and tools. The pool finds the server for a file and starts it on
//!   first use. `program`: lookup of programs.
//! - `edits`: files edited by sessions, and newly introduced errors. `questions`: queries from tools.
//! - `server/`: one actor per server, which starts, queries and stops the server, and restarts it after a crash.
//! - `message`, `protocol`: JSON-RPC and the few LSP types that are needed.
//! - `source`: file access that never follows links.
//!
//! A server is untrusted code that processes untrusted files. It only runs inside a
//! [`Confiner`](agentd_core::ports::Confiner), and its output is bounded before it is processed.

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
