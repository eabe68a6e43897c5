//! A session: one actor, the only writer of its facts, and the handle through which everybody speaks to it.
//!
//! - `registry`: the sessions in memory. `handle`: [`SessionHandle`]; `orders`: what is said over it; `shared`: what all sessions
//!   share; `activity`: what those hear who watch all of them; `worktree`: their git worktrees.
//! - `actor`: what the actor holds, and its `state`; `run`: its loop. `load` restores it from the journal, `leaving` cleans it and
//!   ends it.
//! - `turns`: turns begun and ended. `launch` starts their tasks, also after a restart, `queue` adds to them, lets them wait and takes
//!   them back, `room` keeps inputs that do not fit, `asks` raises interrupts and takes answers, `options` is what a client wants
//!   of its turn.
//! - `models`: `routing` chooses the models of a turn, `settings` changes what is set.
//! - `view`: `context` is what a model sees, `visible` which tools it is shown, `project` where it works.
//! - `history`: the `journal` and its readers, `interrupts`, `undo` of what turns did to files, with the `ledger` of it.

mod actor;
pub(crate) mod history;
pub(crate) mod models;
pub(crate) mod registry;
pub(crate) mod turns;
mod view;

pub(crate) use crate::session::registry::handle::plain_title;
pub use crate::session::registry::{
    handle::SessionHandle,
    orders::{ClientLines, SessionView, StartedTurn, TurnStart},
};
