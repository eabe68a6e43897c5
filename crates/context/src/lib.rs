//! Builds a model's context: a fixed system message followed by the history. The engine appends the variable parts, so
//! that each request starts with the previous one. The crate performs no I/O.
//!
//! - [`mod@system`]: the fixed message, including facts about the machine and the project. `history`: converts items to
//!   messages. `toolset`: the tools of a turn.
//! - [`footprint`]: a request under construction, and the part that repeats the previous request. [`meter`]: fill level
//!   of the window. [`windows`]: window sizes of models, including servers that silently truncate requests. [`tokens`]:
//!   token estimates.
//! - [`text`]: excerpts of long texts, and functions that escape untrusted text.
//! - [`compaction`]: reduces the size of a history.

pub mod compaction;
pub mod footprint;
pub mod history;
pub mod meter;
pub mod recall;
pub mod system;
pub mod text;
pub mod tokens;
pub mod toolset;
pub mod windows;

pub use crate::{
    footprint::RequestBuilder,
    meter::{ContextMeter, MAX_SHOWN_PICTURES, NextRequest},
    system::system,
    toolset::ToolSet,
};
