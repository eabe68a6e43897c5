//! Rewinds a session: restores its files, its conversation, or both, to the state before a turn.
//!
//! File changes are undone as by `agentctl undo`, for all these turns at once. The conversation continues in a copy of
//! the earlier part, which gets the session's name; the session itself stays unchanged under another name. A rewind
//! thus loses nothing, and can be reverted by resuming the old session.

use agentd_core::{
    folder::AddedFolder,
    ids::SessionId,
    session::{SessionMode, SessionSettings},
    undo::{TurnChoice, UndoReport, UndoRequest},
};
use agentd_proto::client::{ClientErrorKind, NewSession, SessionView};

use crate::{
    daemon::{self, Daemon},
    failure::Failure,
};

/// Maximum characters of the title in the new name of the old session.
const MAX_TITLE: usize = 120;

/// Target of a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RewindPoint {
    /// Before the turn with this number, counted from 1.
    Before(u64),
    /// Before the last N turns.
    Steps(u64),
}

impl RewindPoint {
    /// Resolves the number of the first turn to drop; `turns` is the number of turns in the session.
    ///
    /// # Errors
    /// Fails if there is no such turn.
    pub(crate) fn turn(self, turns: u64) -> Result<u64, Failure> {
        let turn = match self {
            Self::Before(turn) => turn,
            Self::Steps(steps) => (turns + 1).saturating_sub(steps),
        };
        if turn == 0 || turn > turns {
            let message = format!("no such turn: the session has {turns}");
            return Err(Failure::usage(message).hint("turns are counted from 1; `agentctl sessions show` lists them"));
        }
        Ok(turn)
    }
}

/// Undoes or restores the file changes of this turn and all later ones, or previews the effect. The report is empty if
/// there are no changes.
///
/// # Errors
/// Fails if a turn is open, or the changes cannot be read.
pub(crate) async fn files(
    daemon: &Daemon,
    session: SessionId,
    turn: u64,
    redo: bool,
    preview: bool,
) -> anyhow::Result<UndoReport> {
    let client = daemon::CLIENT.to_owned();
    let request = UndoRequest { turn: Some(TurnChoice::Since(turn)), redo, preview, client };
    Ok(daemon.client.undo(&session.to_string(), &request).await?)
}

/// Copies the conversation before this turn, and returns the id of the copy. The copy takes the session's name.
///
/// # Errors
/// Fails if the session cannot be copied.
pub(crate) async fn talk(daemon: &Daemon, view: &SessionView, turn: u64) -> anyhow::Result<SessionId> {
    let summary = &view.session.summary;
    let (id, title) = (summary.id.to_string(), summary.title.as_str());
    let new = match turn - 1 {
        0 => daemon.client.create_session(&empty_copy(&view.session.settings, title)).await?.session.summary.id,
        last => daemon.client.fork_session(&id, Some(last), Some(title), false).await?.session.session.summary.id,
    };
    let short_title: String = title.chars().take(MAX_TITLE).collect();
    let old_title = format!("{short_title} (before the rewind to turn {turn})");
    match daemon.client.rename_session(&id, &old_title).await {
        Ok(()) => Ok(new),
        // The old session's new name is only for display, so an error here does not fail the rewind.
        Err(error) if matches!(error.kind, ClientErrorKind::Answered(_)) => Ok(new),
        Err(error) => Err(error.into()),
    }
}

/// Returns an empty session with the settings of another one.
fn empty_copy(settings: &SessionSettings, title: &str) -> NewSession {
    NewSession {
        title: Some(title.to_owned()).filter(|title| !title.is_empty()),
        confirm_write: Some(settings.confirm_write),
        confirm_exec: Some(settings.confirm_exec),
        slot: settings.slot,
        project: settings.project.clone(),
        folders: settings.folders.iter().map(AddedFolder::mount).collect(),
        model: settings.model.clone(),
        trace: settings.trace,
        mode: Some(settings.mode).filter(|mode| *mode == SessionMode::Plan),
        ..NewSession::default()
    }
}
