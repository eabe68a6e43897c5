//! The agent that works in a turn, and the tools by which agents hand work on. Pure.
//!
//! - [`active`]: the agent of a turn: its instructions and its tools.
//! - [`delegate_tool`], [`transfer_tool`]: the tools for subagents and for handing the session on.
//! - [`toolset_cache`]: what agents were shown last.

pub(crate) mod active;
pub(crate) mod delegate_tool;
pub(crate) mod toolset_cache;
pub(crate) mod transfer_tool;

pub(crate) use self::active::ActiveAgent;
