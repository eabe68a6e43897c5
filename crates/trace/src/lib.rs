//! A turn as a tree of spans, built only from journal events: a turn that a crash cut off also has a tree.
//!
//! - [`turns`] builds the trees of a session. The journal has fewer details for older turns, so they are estimated.
//! - [`span`]: the tree, as shown and as written in JSON.
//! - `nest`: adds the turns of subagents, which are separate sessions, to the tree.
//! - `build` reads the events; `arena` contains the growing tree and clamps children to their parents.
//! - [`requests`]: requests as sent on the wire, formatted and compared.

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
