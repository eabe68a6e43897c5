//! MCP servers as sources of tools.
//!
//! - [`config`]: configured servers, and the user's settings for them.
//! - [`pool`]: all servers together. Sessions share one process per server, which is started on its first call.
//!   [`toolbox`]: the pool as a [`Toolbox`](agentd_core::ports::Toolbox).
//! - `server`: actor for one server, which starts it, monitors it, and stops it when it is idle.
//! - `connections`: open connections, and eviction if there are too many.
//! - [`catalogue`]: last known tools of a server, stored on the disk. [`published_tools`]: the tools that models are
//!   offered, and their names.
//! - `schema`, `answer`: conversion of servers' schemas and answers for models. Both are untrusted.
//! - `elicitation`: questions from servers to the user. `sampling`: model requests from servers, subject to the user's
//!   approval.
//! - `calls`: calls in flight to one server. `http_client`: HTTP requests to servers.
//! - [`login`]: logins to HTTP servers.
//! - [`variables`]: variables in the configuration whose values come from clients.
//! - [`session`]: servers that a client provides for one session.
//! - `reason`: reason why a server is unavailable, with the server's messages but without secrets.
//! - [`guard`]: process between agentd and a server, which leaves no server processes behind.

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
pub mod published_tools;
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
    reason::{Reason, SecretFilter},
    server::actor::Health,
    session::SessionServers,
    toolbox::McpToolbox,
};
