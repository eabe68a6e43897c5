//! The wires: what agentd asks in each dialect, and what comes back.
//!
//! - `dialect`: the seam between a call and a wire, what all bodies have in common, and what a dialect remembers from one request to
//!   the next. `openai`, `responses`, `anthropic`, `llamacpp`: the wires, whose structs never leave their folders.
//! - Shared by them: `sendable`: what of a history can be sent back as it is, and ids of calls; `partial`: parts of an answer while
//!   they come, and as they are kept; `lenient`: texts and numbers as servers write them.

pub(crate) mod anthropic;
pub(crate) mod dialect;
mod lenient;
pub(crate) mod llamacpp;
pub(crate) mod openai;
mod partial;
pub(crate) mod responses;
mod sendable;
