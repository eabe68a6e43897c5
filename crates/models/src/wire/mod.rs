//! The wires: what agentd asks in each dialect, and what comes back.
//!
//! - `dialect`: the seam between a call and a wire. `openai`, `responses`, `anthropic`, `llamacpp`: the wires, whose structs
//!   never leave their folders.
//! - Shared by them: `distrust`: thoughts that a server has refused; `last_answers`: which answer was the last one of a
//!   session; `call_ids`: ids of calls, as a request names them; `sendable`, `readable`: what of a history can be sent back
//!   as it is; `answer_format`: the schema of an answer; `written_tools`: tools, as they were written last; `lenient`: texts
//!   and numbers as servers write them.

mod answer_format;
pub(crate) mod anthropic;
mod call_ids;
pub(crate) mod dialect;
mod distrust;
mod last_answers;
mod lenient;
pub(crate) mod llamacpp;
pub(crate) mod openai;
mod readable;
pub(crate) mod responses;
mod sendable;
mod written_tools;
