//! The context of a model: a fixed system message, then the history. Whatever varies is added at the end by the engine,
//! so that each request repeats the one before it. Pure: the only files touched are those that show what was cut.
//!
//! - `system`: the fixed message; `surroundings`: what it tells of the machine and the project; `history`: from items to messages; `toolset`: the tools of a turn.
//! - [`draft`]: a request under construction, stable part and reminders apart; `frame`: text of others made harmless in it.
//! - `footprint`: how much a request repeats of the one before it; [`meter`]: how full the window is; `windows`: how large
//!   the windows of models are; `cuts`: servers that read a part of a request in silence; [`tokens`]: about how many tokens a text has.
//! - `long_text`, `excerpt`: what is shown of a text that is too long.
//! - [`compaction`]: what makes room in a history.

pub mod brief;
pub mod compaction;
pub mod cuts;
pub mod draft;
pub mod excerpt;
pub mod footprint;
pub mod frame;
pub mod history;
pub mod long_text;
pub mod meter;
pub mod recall;
pub mod surroundings;
mod system;
pub mod tokens;
pub mod toolset;
pub mod windows;

pub use self::{
    draft::RequestBuilder,
    meter::{ContextMeter, MAX_SHOWN_PICTURES, Next},
    system::system,
    toolset::ToolSet,
};
