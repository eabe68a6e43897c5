//! What a model sees, pure: a fixed system message, then the history. Whatever varies is added at the end by the links, so
//! that each request repeats the one before it.
//!
//! - `system`: the fixed message; `history`: from items to messages; `toolset`: the tools of a turn.
//! - [`draft`]: a request under construction, stable part and reminders apart; `frame`: text of others made harmless in it.
//! - `footprint`: how much a request repeats of the one before it; [`meter`]: how full the window is; `windows`: how large
//!   the windows of models are; [`tokens`]: about how many tokens a text has.
//! - `long_text`, `excerpt`: what is shown of a text that is too long.
//! - [`compaction`]: what makes room in a history.

pub(crate) mod compaction;
pub(crate) mod draft;
pub(crate) mod excerpt;
pub(crate) mod footprint;
pub(crate) mod frame;
pub(crate) mod history;
pub(crate) mod long_text;
pub(crate) mod meter;
mod system;
pub(crate) mod tokens;
pub(crate) mod toolset;
pub(crate) mod windows;

pub(crate) use self::{
    draft::RequestBuilder,
    meter::{ContextMeter, MAX_SHOWN_PICTURES, Next},
    system::system,
    toolset::ToolSet,
};
