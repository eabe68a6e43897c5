//! The wires: requests and answers of each dialect.
//!
//! - `dialect`: the interface between a call and a wire, common parts of bodies, and the memory of a dialect across
//!   requests. `openai`, `responses`, `anthropic`, `llamacpp`: the wires, whose structs are private to their folders.
//! - Shared by the wires: `sanitise`: sanitising a history, and IDs of calls; `partial`: incomplete and stored parts of
//!   an answer; `lenient`: lenient parsing of texts and numbers.

pub(crate) mod anthropic;
pub(crate) mod dialect;
mod lenient;
pub(crate) mod llamacpp;
pub(crate) mod openai;
mod partial;
pub(crate) mod responses;
mod sanitise;
