//! Going back in a session: its files, its talk, or both, as they were before a turn.
//!
//! Files are taken back as `agentctl undo` does, all turns together. The talk goes on in a copy of what came before, which takes the
//! session's name; the session itself stays as it is, under another name. So nothing is lost by it, and it is taken back by going on
//! there.

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

/// Characters of a title that stay in the name of a session that was left.
const MAX_TITLE: usize = 120;

/// A point to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RewindPoint {
    /// Before the turn of that number, from 1.
    Before(u64),
    /// Before so many of the last turns.
    Steps(u64),
}

impl RewindPoint {
    /// The number of the first turn that is left behind, of so many.
    ///
    /// # Errors
    /// When there is no such turn.
    pub(crate) fn turn(self, turns: u64) -> Result<u64, Failure> {
        let turn = match self {
            Self::Before(turn) => turn,
            Self::Steps(steps) => (turns + 1).saturating_sub(steps),
        };
        if turn == 0 || turn > turns {
            let message = format!("there is no such turn: the session has {turns}");
            return Err(Failure::usage(message).hint("turns are counted from 1; `agentctl sessions show` lists them"));
        }
        Ok(turn)
    }
}

/// Takes back what that turn and all after it did to files, brings it back, or foresees that. None where they changed none.
///
/// # Errors
/// When a turn is open, or the changes cannot be read.
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

/// Goes on in a copy of what came before that turn, and returns it. The copy takes the name of the session.
///
/// # Errors
/// When the session cannot be copied.
pub(crate) async fn talk(daemon: &Daemon, view: &SessionView, turn: u64) -> anyhow::Result<SessionId> {
    let summary = &view.session.summary;
    let (id, title) = (summary.id.to_string(), summary.title.as_str());
    let new = match turn - 1 {
        0 => daemon.client.create_session(&anew(&view.session.settings, title)).await?.session.summary.id,
        last => daemon.client.fork_session(&id, Some(last), Some(title), false).await?.session.session.summary.id,
    };
    let known: String = title.chars().take(MAX_TITLE).collect();
    let left = format!("{known} (before the rewind to turn {turn})");
    match daemon.client.rename_session(&id, &left).await {
        Ok(()) => Ok(new),
        // A name is a help, and no part of what was asked for.
        Err(error) if matches!(error.kind, ClientErrorKind::Answered(_)) => Ok(new),
        Err(error) => Err(error.into()),
    }
}

/// A session that begins as that one did.
fn anew(settings: &SessionSettings, title: &str) -> NewSession {
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
