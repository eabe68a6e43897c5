//! Live permissions granted by users: permanent grants, stored in the journal and shared by all sessions, and grants
//! for a single session.

use std::sync::Arc;

use agentd_core::{
    error::{ErrorKind, StoreError},
    grant::Grant,
    ports::Store,
    session::{SessionMode, SessionSettings},
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::{EngineError, Result};

/// Maximum number of pending reloads.
const QUEUE: usize = 64;

/// Live view of the permanent grants.
///
/// One task reads the grants from the journal after each change. Regardless of how changes and reads interleave, every
/// reader eventually sees the stored grants.
#[derive(Clone)]
pub(crate) struct PermanentGrants {
    changes: mpsc::Sender<oneshot::Sender<Result<(), StoreError>>>,
    now: watch::Receiver<Arc<[Grant]>>,
}

impl PermanentGrants {
    /// Spawns the task that reads the grants. The list is empty until the first [`Self::reload`]. The task ends when
    /// the last handle is dropped.
    pub(crate) fn spawn(store: Arc<dyn Store>) -> Self {
        let (changes, mut reload_requests) = mpsc::channel::<oneshot::Sender<Result<(), StoreError>>>(QUEUE);
        let (publish, now) = watch::channel(Arc::from([]));
        tokio::spawn(async move {
            while let Some(reply) = reload_requests.recv().await {
                let read = store.grants().await;
                // If the grants cannot be read, no grant applies, because a revoked rule must not stay in effect.
                let grants = read.as_deref().map(Arc::from).unwrap_or_else(|_| Arc::from([]));
                publish.send_replace(grants);
                let _ = reply.send(read.map(drop));
            }
        });
        Self { changes, now }
    }

    /// Reloads the grants from the journal. The reloaded grants apply in every session when this method returns.
    pub(crate) async fn reload(&self) -> Result<()> {
        let (reply, done) = oneshot::channel();
        self.changes.send(reply).await.map_err(|_| EngineError::stopping())?;
        Ok(done.await.map_err(|_| EngineError::stopping())??)
    }

    /// Returns the current permanent grants.
    pub(crate) fn now(&self) -> Arc<[Grant]> {
        Arc::clone(&self.now.borrow())
    }
}

/// Session settings that take effect at the next call, even within a running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionPermissions {
    /// Rules granted for this session only.
    pub(crate) grants: Arc<[Grant]>,
    pub(crate) mode: SessionMode,
}

impl SessionPermissions {
    pub(crate) fn of(settings: &SessionSettings) -> Self {
        Self { grants: Arc::from(settings.grants.as_slice()), mode: settings.mode }
    }

    /// Returns true if `settings` contains the same permissions.
    pub(crate) fn are_those_of(&self, settings: &SessionSettings) -> bool {
        *self.grants == *settings.grants && self.mode == settings.mode
    }

    /// Returns `settings` with these permissions instead of its own.
    pub(crate) fn applied_to(&self, settings: &SessionSettings) -> SessionSettings {
        SessionSettings { grants: self.grants.to_vec(), mode: self.mode, ..settings.clone() }
    }
}

/// Live permissions of one session. Unlike other settings, permissions can change while a turn runs, so that a revoked
/// rule does not apply to the next call.
#[derive(Clone)]
pub(crate) struct LiveGrants {
    pub(crate) of_session: watch::Receiver<SessionPermissions>,
    pub(crate) permanent: PermanentGrants,
}

impl LiveGrants {
    /// Returns the current permissions of this session only.
    pub(crate) fn of_session(&self) -> SessionPermissions {
        self.of_session.borrow().clone()
    }

    /// Returns the current mode of the session.
    pub(crate) fn mode(&self) -> SessionMode {
        self.of_session.borrow().mode
    }

    /// Waits until the permissions change. Never returns after the sender of the permissions is dropped.
    pub(crate) async fn changed(&mut self) {
        if self.of_session.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the error for revoking a rule that does not exist.
pub(crate) fn unknown_grant(scope: &str, rule: &str) -> EngineError {
    let shown: String = rule.chars().take(200).collect();
    EngineError::new(ErrorKind::NotFound, format!("no such grant: {shown:?} ({scope})"))
        .with_hint("list all grants with `agentctl grants list`")
}
