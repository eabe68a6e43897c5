//! What is said over a handle of a session: starts of turns and their answers, orders to clean or end it, and what keeps it.

use std::sync::{Arc, OnceLock, Weak};

use agentd_core::{
    Timestamp,
    error::ErrorKind,
    files::FilesRemoved,
    ids::{SessionId, TurnId},
    interrupt::Interrupt,
    ports::WorkspaceArea,
    session::StoredSession,
    turn::StartTurn,
};

use crate::{
    client::{ClientLine, FileLine},
    error::EngineError,
    session::history::journal::Subscription,
};

/// A turn that was accepted.
pub struct StartedTurn {
    /// Its id.
    pub turn_id: TurnId,
    /// Its events, from the first. A turn that waits behind another has none until its time comes.
    pub events: Subscription,
    /// It ran before, and the input was added to it.
    pub joined: bool,
}

/// A session, as a person wants to see it.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// State in the journal.
    pub session: StoredSession,
    /// Pending interrupts.
    pub pending: Vec<Interrupt>,
    /// The turn that runs or waits.
    pub live_turn: Option<TurnId>,
}

/// The answer to everybody else while a session is being removed.
pub(crate) fn being_deleted(id: SessionId) -> EngineError {
    EngineError::new(ErrorKind::NotFound, format!("session {id} is being deleted"))
        .with_hint("begin a new one; agentctl sessions list shows all that are left")
}

/// Keeps sessions from everybody but whoever removes them, while it is there.
#[derive(Debug, Default)]
pub(crate) struct SessionHold(Arc<()>);

impl SessionHold {
    /// The mark of this hold on a session.
    pub(crate) fn mark(&self) -> HoldMark {
        HoldMark(Arc::downgrade(&self.0))
    }
}

/// The trace that a hold leaves on a session.
#[derive(Debug, Clone)]
pub(crate) struct HoldMark(Weak<()>);

impl HoldMark {
    pub(crate) fn is_held(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Keeps a session from being retired and cleaned while it is there: somebody brings it files.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) _keeps: Arc<()>,
}

/// The order to end for good.
pub(crate) struct Retirement {
    /// When the session was used last, as far as is known: where it was used since, or is needed, it stays. None where a person
    /// has it removed: then only what is under way keeps it.
    pub(crate) last_used: Option<Timestamp>,
    pub(crate) mark: HoldMark,
    pub(crate) fate: Arc<OnceLock<EngineError>>,
    pub(crate) held: Arc<OnceLock<HoldMark>>,
}

/// Order to clean a session.
#[derive(Debug, Clone, Default)]
pub struct CleanOrder {
    /// The folders of its workspace, each where nothing in it was changed since that moment.
    pub areas: Vec<(WorkspaceArea, Timestamp)>,
    /// Set if what is needed to undo changes of files goes.
    pub undo: bool,
    /// When the session, or one that works for it, was used last, as far as is known: where one was used since, it stays as
    /// it is. None where nobody looked.
    pub last_used: Option<Timestamp>,
    /// Nothing is removed: it is only told what would be.
    pub trial: bool,
}

/// Parts of a session that were removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCleaned {
    /// Of its workspace.
    pub areas: Vec<(WorkspaceArea, FilesRemoved)>,
    /// Set if what is needed to undo changes of files went.
    pub undo: bool,
}

/// A turn to start, with the lines to its client.
#[derive(Debug)]
pub struct TurnStart {
    /// The start itself.
    pub start: StartTurn,
    /// The lines.
    pub lines: ClientLines,
}

/// Lines to the client of a turn.
#[derive(Debug, Default)]
pub struct ClientLines {
    /// The line for calls of its tools. Without one its tools are left out.
    pub tools: Option<ClientLine>,
    /// The lines to those who hold files of the project, the one last that is asked first.
    pub files: Vec<FileLine>,
}

impl ClientLines {
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_none() && self.files.is_empty()
    }
}

impl From<StartTurn> for TurnStart {
    fn from(start: StartTurn) -> Self {
        Self { start, lines: ClientLines::default() }
    }
}
