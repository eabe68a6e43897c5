//! The agent that works in a turn, and the tools by which agents hand work on. Pure.
//!
//! - [`active`]: the agent of a turn: its instructions and its tools; the tools that agents were shown last.
//! - [`handoff_tools`]: the tools for subagents and for handing the session on.

pub(crate) mod active;
pub(crate) mod handoff_tools;
