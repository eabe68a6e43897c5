//! A session: one actor, which is the only writer of the session's facts, and the handle through which all other code
//! calls the actor.
//!
//! - `registry`: the sessions in memory. `handle`: [`SessionHandle`]; `shared`: state and news shared by all sessions;
//!   `worktree`: git worktrees.
//! - `actor`: the actor's fields and its loop. `state`: the state derived from the journal, and the pending questions;
//!   `load` restores, cleans and ends a session.
//! - `turns`: starts and ends turns. `launch` spawns their tasks, also after a restart; `queue` steers, queues and
//!   cancels turns and spills oversized inputs to files; `interrupts` raises interrupts and accepts answers.
//! - `routing` chooses the models of a turn, `settings` changes settings.
//! - `aside`: side questions, and the title of a new session.
//! - `context`: the model's view of the session. `project`: the session's project, and the tools that the session
//!   offers.
//! - `journal`: the event writer and its readers. `undo`: reverts file changes of turns.

mod actor;
mod aside;
mod context;
pub(crate) mod journal;
mod project;
pub(crate) mod registry;
mod routing;
pub(crate) mod settings;
pub(crate) mod turns;
mod undo;

use agentd_core::error::ErrorKind;

use crate::error::{EngineError, Result};

pub(crate) use crate::session::actor::wait_until;
pub use crate::session::{
    actor::{SessionView, StartedTurn},
    registry::handle::{CleanOrder, SessionCleaned, SessionHandle},
};

/// Collapses whitespace in a session title and truncates it to 200 characters.
///
/// # Errors
/// Fails if the title is blank.
pub(crate) fn normalise_title(title: &str) -> Result<String> {
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    if title.is_empty() {
        return Err(EngineError::new(ErrorKind::InvalidInput, "the title of a session cannot be empty"));
    }
    Ok(title)
}
