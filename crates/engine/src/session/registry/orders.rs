//! What a session is told to do before it leaves, and what keeps it.

use std::sync::{Arc, OnceLock, Weak};

use agentd_core::{Timestamp, files::FilesRemoved, ports::WorkspaceArea};

use crate::error::EngineError;

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
