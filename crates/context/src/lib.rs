//! The context of a model: a fixed system message, then the history. Whatever varies is added at the end by the engine,
//! so that each request repeats the one before it. Pure: the only files touched are those that show what was cut.
//!
//! - [`mod@system`]: the fixed message, with what it tells of the machine and the project; `history`: from items to messages;
//!   `toolset`: the tools of a turn.
//! - [`footprint`]: a request under construction, and how much it repeats of the one before it; [`meter`]: how full the window is;
//!   [`windows`]: how large the windows of models are, also those of servers that read a part of a request in silence;
//!   [`tokens`]: about how many tokens a text has.
//! - [`text`]: what is shown of a text that is too long, and text of others made harmless.
//! - [`compaction`]: what makes room in a history.

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
    meter::{ContextMeter, MAX_SHOWN_PICTURES, Next},
    system::system,
    toolset::ToolSet,
};
