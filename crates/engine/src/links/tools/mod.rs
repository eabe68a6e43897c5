//! Links that answer tools of their own.

pub(crate) mod client_tools;
pub(crate) mod delegation;
pub(crate) mod find_tool;
pub(crate) mod handoff;
pub(crate) mod mcp_servers;
pub(crate) mod questions;
pub(crate) mod search;
pub(crate) mod todos;
