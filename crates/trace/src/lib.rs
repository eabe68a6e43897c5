//! A turn as a tree of spans, made from the events of the journal and from nothing else: a turn that a crash cut off has its
//! tree, too.
//!
//! - [`turns`] makes the trees of a session. The journal knows less of older turns, which are estimated.
//! - [`span`]: the tree, as it is shown and written as JSON.
//! - `nest`: subagents are sessions of their own; their turns become a part of the tree.
//! - `build` reads the events, `arena` has the tree while it grows, and holds children inside their parents.
//! - [`requests`]: requests as they were on the wire, made readable and compared.

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
