//! What people have allowed, live: for good, which is kept in the journal and seen by every session at once, and for one
//! session, which that session keeps itself.

use std::sync::Arc;

use agentd_core::{
    error::{ErrorKind, StoreError},
    grant::Grant,
    ports::Store,
    session::{SessionMode, SessionSettings},
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::EngineError;

/// Changes that wait to be taken in at the most.
const QUEUE: usize = 64;

/// The rules that are kept for good, as they are now.
///
/// One task reads them from the journal after each change. So however changes and reads meet, what everybody sees in
/// the end is what is stored.
#[derive(Clone)]
pub(crate) struct KeptHandle {
    changes: mpsc::Sender<oneshot::Sender<Result<(), StoreError>>>,
    now: watch::Receiver<Arc<[Grant]>>,
}

impl KeptHandle {
    /// Starts the task. Until the first [`Self::reload`], nothing is kept. It ends with the last handle.
    pub(crate) fn spawn(store: Arc<dyn Store>) -> Self {
        let (changes, mut asked) = mpsc::channel::<oneshot::Sender<Result<(), StoreError>>>(QUEUE);
        let (publish, now) = watch::channel(Arc::from([]));
        tokio::spawn(async move {
            while let Some(reply) = asked.recv().await {
                let read = store.grants().await;
                // Where nobody knows what is kept, nothing is: a rule that was taken back must not live on.
                let grants = read.as_deref().map(Arc::from).unwrap_or_else(|_| Arc::from([]));
                publish.send_replace(grants);
                let _ = reply.send(read.map(drop));
            }
        });
        Self { changes, now }
    }

    /// Takes in what was changed in the journal. It holds in every session when this returns.
    pub(crate) async fn reload(&self) -> Result<(), EngineError> {
        let (reply, done) = oneshot::channel();
        self.changes.send(reply).await.map_err(|_| EngineError::stopping())?;
        Ok(done.await.map_err(|_| EngineError::stopping())??)
    }

    /// The rules as they are now.
    pub(crate) fn now(&self) -> Arc<[Grant]> {
        Arc::clone(&self.now.borrow())
    }
}

/// Part of a session's settings that holds for the next call, also of a turn that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionPermissions {
    /// The rules of this session alone.
    pub(crate) grants: Arc<[Grant]>,
    pub(crate) mode: SessionMode,
}

impl SessionPermissions {
    /// Permissions in these settings.
    pub(crate) fn of(settings: &SessionSettings) -> Self {
        Self { grants: Arc::from(settings.grants.as_slice()), mode: settings.mode }
    }

    /// Returns whether these settings say the same.
    pub(crate) fn are_those_of(&self, settings: &SessionSettings) -> bool {
        *self.grants == *settings.grants && self.mode == settings.mode
    }

    /// These permissions in place of those of the settings.
    pub(crate) fn over(&self, settings: &SessionSettings) -> SessionSettings {
        SessionSettings { grants: self.grants.to_vec(), mode: self.mode, ..settings.clone() }
    }
}

/// Permissions of one session, live: unlike the other settings of a turn they change while the turn runs, so that a rule
/// that is revoked does not hold for the next call.
#[derive(Clone)]
pub(crate) struct LiveGrants {
    pub(crate) of_session: watch::Receiver<SessionPermissions>,
    pub(crate) kept: KeptHandle,
}

impl LiveGrants {
    /// Permissions of this session alone, as they are now.
    pub(crate) fn of_session(&self) -> SessionPermissions {
        self.of_session.borrow().clone()
    }

    /// The session's mode, as it is now.
    pub(crate) fn mode(&self) -> SessionMode {
        self.of_session.borrow().mode
    }

    /// Waits until the permissions of the session change.
    pub(crate) async fn changed(&mut self) {
        if self.of_session.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// There is nothing to take back.
pub(crate) fn not_kept(place: &str, rule: &str) -> EngineError {
    let shown: String = rule.chars().take(200).collect();
    EngineError::new(ErrorKind::NotFound, format!("no rule {shown:?} is kept {place}"))
        .with_hint("agentctl grants list shows what is kept, word for word")
}
