//! A session: one actor, the only writer of its facts, and the handle through which everybody speaks to it.
//!
//! - `registry`: the sessions in memory. `handle`: [`SessionHandle`]; `shared`: what all of them share, and what those hear who
//!   watch all of them; `worktree`: their git worktrees.
//! - `actor`: what the actor holds, and its loop. `state`: what it remembers of the journal, and the questions that wait; `load`
//!   restores it, cleans it and ends it.
//! - `turns`: turns begun and ended. `launch` starts their tasks, also after a restart, `queue` adds to them, lets them wait, takes
//!   them back, and keeps inputs that do not fit; `asks` raises interrupts and takes answers, `options` is what a client wants
//!   of its turn.
//! - `routing` chooses the models of a turn, `settings` changes what is set.
//! - `context` is what a model sees; `project`: where the session works, and which tools it shows.
//! - the `journal` and its readers, and `undo` of what turns did to files.

mod actor;
mod context;
pub(crate) mod journal;
mod project;
pub(crate) mod registry;
mod routing;
pub(crate) mod settings;
pub(crate) mod turns;
mod undo;

use agentd_core::error::ErrorKind;

use crate::error::EngineError;

pub(crate) use crate::session::actor::at;
pub use crate::session::{
    actor::{SessionView, StartedTurn},
    registry::handle::{CleanOrder, SessionCleaned, SessionHandle},
};

/// A session's name in one line, and not too long.
///
/// # Errors
/// When nothing is left of it.
pub(crate) fn plain_title(title: &str) -> Result<String, EngineError> {
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    if title.is_empty() {
        return Err(EngineError::new(ErrorKind::InvalidInput, "a session's name cannot be empty"));
    }
    Ok(title)
}
