//! A turn as a tree of spans. The tree is built only from journal events, so that a turn interrupted by a crash has
//! one, too.
//!
//! - [`turns`] builds the trees of a session. The journal has fewer details on older turns, for which they are
//!   estimated.
//! - [`span`]: the tree, as shown and as written in JSON.
//! - `nest`: adds the turns of subagents, which have separate sessions, to the tree.
//! - `build`: reads the events. `arena`: contains the growing tree, and clamps children to their parents.
//! - [`requests`]: formats and compares requests as sent to the server.

mod arena;
mod build;
pub mod nest;
pub mod requests;
pub mod span;

pub use self::{
    build::turns,
    nest::{nest, nest_all, subagent_sessions},
    span::{InterruptSpan, ModelCallSpan, Span, SpanKind, SubagentSpan, ToolSpan, TurnEnd, TurnTrace},
};
