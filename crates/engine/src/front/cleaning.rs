//! Cleaning sessions that nobody has used for long. What is too old is for the caller to say; that nothing is removed of a
//! session that somebody uses, that waits for somebody or that is pinned, is seen to here.

use agentd_core::{Timestamp, files::FilesRemoved, ids::SessionId};

use super::Engine;
use crate::{
    error::EngineError,
    session::registry::orders::{CleanOrder, SessionCleaned},
};

impl Engine {
    /// Removes what was not used for long of a session, and tells of it in its history. None where the session is in use,
    /// waits, or is pinned: then nothing is removed.
    ///
    /// # Errors
    /// When there is no such session, or the journal or the files cannot be read or written.
    pub async fn clean_session(&self, id: SessionId, order: CleanOrder) -> Result<Option<SessionCleaned>, EngineError> {
        if self.registry.live(id).await?.is_some() {
            return Ok(None);
        }
        if !order.undo {
            // Most have nothing to clean, and need not be loaded for that.
            let found = self.shared.parts.workspaces.clean(id, order.areas.clone(), true).await?;
            if found.is_empty() {
                return Ok(Some(SessionCleaned::default()));
            }
        }
        self.session(id).await?.clean(order).await
    }

    /// Deletes a session for good, as [`Self::delete_session`] does, unless it is in use, waits or is pinned, or it or one that
    /// works for it was used since `last_used`. Says whether it did, or would in a trial.
    ///
    /// # Errors
    /// As of [`Self::delete_session`].
    pub async fn expire_session(&self, id: SessionId, last_used: Timestamp, trial: bool) -> Result<bool, EngineError> {
        // Most that stay need not be loaded for that. All others decide themselves.
        if !self.may_expire(id, last_used).await? {
            return Ok(false);
        }
        if trial { Ok(true) } else { self.remove(id, Some(last_used)).await }
    }

    async fn may_expire(&self, id: SessionId, last_used: Timestamp) -> Result<bool, EngineError> {
        let store = &self.shared.parts.store;
        let Some(stored) = store.session(id).await? else { return Ok(false) };
        let is_needed = stored.settings.pinned || stored.open_turn.is_some() || !stored.queue.is_empty();
        Ok(!is_needed
            && stored.summary.updated_at <= last_used
            && self.registry.live(id).await?.is_none()
            && store.pending_interrupts(Some(id)).await?.is_empty())
    }

    /// Removes what was left of sessions and workspaces whose removal was cut off. A trial only counts.
    ///
    /// # Errors
    /// When the files cannot be read or removed.
    pub async fn clean_leftovers(&self, trial: bool) -> Result<FilesRemoved, EngineError> {
        if !trial {
            if let Err(error) = self.settle_worktrees().await {
                tracing::warn!(hint = error.hint(), "worktrees are as they were left: {error}");
            }
            self.finish_removals().await?;
        }
        Ok(self.shared.parts.workspaces.clean_leftovers(trial).await?)
    }
}
