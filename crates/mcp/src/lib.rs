//! MCP servers, as tools of agentd.
//!
//! - [`config`]: which servers there are, and what a person sets of them.
//! - [`pool`]: all servers together: one process each, shared by sessions, started when it is called; [`toolbox`]: the
//!   same as a [`Toolbox`](agentd_core::ports::Toolbox).
//! - `server`: one server: an actor that starts it, knows whether it lives, and stops it when nobody needs it.
//! - `connections`: which of them are open, and which end where there are too many.
//! - [`catalogue`]: what a server offers, as it was last seen, kept on the disk; [`published`]: what of that models are
//!   offered, under which names.
//! - `schema`, `answer`: what servers say, made fit for models. All of it is the word of strangers.
//! - `elicitation`: questions of servers to a person. `sampling`: their requests to a model, which a person allows.
//! - `calls`: those that are under way with one server. `http_client`: requests to servers.
//! - [`login`]: who is known where, for servers behind an address.
//! - [`variables`]: those that the configuration names and only clients have.
//! - [`session`]: servers that a client brings for one session.
//! - `reason`: why a server is not there, in words of servers without secrets.
//! - [`guard`]: the process between agentd and a server, which leaves nothing of the server behind.

mod answer;
mod calls;
pub mod catalogue;
pub mod config;
mod connections;
mod elicitation;
pub mod guard;
mod http_client;
pub mod log;
pub mod login;
pub mod pool;
pub mod published;
mod reason;
mod sampling;
mod schema;
mod server;
pub mod session;
pub mod toolbox;
pub mod variables;

pub use self::{
    config::{McpConfig, PluginCheck, ServerConfig},
    guard::{GUARD_ARGUMENT, run_guard},
    pool::McpPool,
    reason::{Clean, Reason},
    server::actor::Health,
    session::SessionServers,
    toolbox::McpToolbox,
};
