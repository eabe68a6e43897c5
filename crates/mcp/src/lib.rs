//! MCP servers, as tools of agentd.
//!
//! - [`config`]: which servers there are, and what a person sets of them.

pub mod config;
