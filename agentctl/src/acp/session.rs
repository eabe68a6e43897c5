//! A session that the editor has open.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_client_protocol_schema::v1::{SessionConfigOption, SessionId as WireId};
use agentd_core::{
    ids::{InterruptId, SessionId},
    session::SessionMode,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{servers::EditorServers, updates::Updates};
use crate::turn::SocketLine;

/// A session that was made, loaded or resumed on this connection.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) id: SessionId,
    /// The same id, as the protocol has it.
    pub(super) wire: WireId,
    /// The real path of the folder that the editor named.
    pub(super) folder: PathBuf,
    /// The same as it named it.
    named: PathBuf,
    /// Held while settings are changed, or read and told: what was read before a change is never told behind it.
    pub(super) settings: tokio::sync::Mutex<()>,
    /// Held while a cancel is on its way to the daemon: a prompt that comes after it is not cancelled by it.
    pub(super) cancelling: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<SessionState>,
}

/// A turn whose prompt has ended with a question, and which goes on with the next one.
#[derive(Debug)]
pub(super) struct SuspendedTurn {
    /// The line to it: what happens meanwhile comes with the next prompt.
    pub(super) line: SocketLine,
    /// The translator of its events.
    pub(super) updates: Updates,
    /// Questions that were put in words.
    pub(super) asked: HashSet<InterruptId>,
}

/// A turn of another process that is followed, without a prompt, since the session was opened.
#[derive(Debug)]
pub(super) struct FollowedTurn {
    /// Cancels the turn.
    pub(super) cancel: CancellationToken,
    /// Leaves the turn to a prompt.
    pub(super) handover: CancellationToken,
    /// The task that follows.
    pub(super) task: JoinHandle<()>,
}

/// A folder that an editor has open.
#[derive(Debug, Clone)]
pub(super) struct EditorFolder {
    /// Its real path.
    pub(super) real: PathBuf,
    /// Its path as the editor names it.
    pub(super) named: PathBuf,
}

/// Things about it that change.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// Ends the prompt that runs.
    prompt: Option<CancellationToken>,
    /// The turn that is followed without a prompt.
    guest: Option<FollowedTurn>,
    /// The mode that the editor was told of.
    pub(super) mode: SessionMode,
    /// The options that the editor was told of.
    pub(super) options: Vec<SessionConfigOption>,
    /// Words that wait for the next turn, where the editor shows no notices.
    pub(super) notices: Vec<String>,
    /// Questions that were put in words, which the next message answers.
    pub(super) questions: HashSet<InterruptId>,
    /// The turn that such a question suspended, as far as the editor was told of it.
    pub(super) suspended: Option<Box<SuspendedTurn>>,
    /// MCP servers that the editor brought.
    pub(super) servers: Option<EditorServers>,
    watch: Option<JoinHandle<()>>,
}

impl OpenSession {
    /// A session with nothing under way.
    pub(super) fn new(id: SessionId, folder: EditorFolder) -> Self {
        let EditorFolder { real, named } = folder;
        Self {
            id,
            wire: WireId::new(id.to_string()),
            folder: real,
            named,
            settings: tokio::sync::Mutex::default(),
            cancelling: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// The name that the editor has for a project's folder.
    pub(super) fn named(&self, project: &Path) -> PathBuf {
        if project == self.folder { self.named.clone() } else { project.to_owned() }
    }

    /// Its state.
    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a prompt; none where one runs.
    pub(super) fn begin(&self) -> Option<CancellationToken> {
        let mut state = self.state();
        if state.prompt.is_some() {
            return None;
        }
        let cancel = CancellationToken::new();
        state.prompt = Some(cancel.clone());
        Some(cancel)
    }

    /// Ends the prompt that ran.
    pub(super) fn end(&self) {
        self.state().prompt = None;
    }

    /// Cancels the turn of the prompt that runs, or that is followed without one, and tells whether there was one.
    pub(super) fn cancel(&self) -> bool {
        let state = self.state();
        let guest = state.guest.as_ref().filter(|guest| !guest.task.is_finished()).map(|guest| &guest.cancel);
        state.prompt.as_ref().or(guest).inspect(|cancel| cancel.cancel()).is_some()
    }

    /// Follows a turn without a prompt, unless a prompt runs.
    pub(super) fn follow(&self, follow: impl FnOnce() -> FollowedTurn) {
        let mut state = self.state();
        if state.prompt.is_none() {
            state.guest = Some(follow());
        }
    }

    /// Takes over the turn that is followed without a prompt: where it goes on, it is suspended after this.
    pub(super) async fn take_over(&self) {
        let Some(guest) = self.state().guest.take() else { return };
        if !guest.cancel.is_cancelled() {
            guest.handover.cancel();
        }
        // One that broke has nothing to hand over.
        let _ = guest.task.await;
    }

    /// Returns whether changes from elsewhere are heard.
    pub(super) fn is_watched(&self) -> bool {
        self.state().watch.as_ref().is_some_and(|watch| !watch.is_finished())
    }

    /// Ends the task that hears of changes.
    pub(super) fn unwatch(&self) {
        if let Some(watch) = self.state().watch.take() {
            watch.abort();
        }
    }

    /// Takes the task that hears of changes, which ends with the session.
    pub(super) fn watched_by(&self, watch: JoinHandle<()>) {
        if let Some(before) = self.state().watch.replace(watch) {
            before.abort();
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.unwatch();
    }
}
