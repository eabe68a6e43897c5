//! Removing sessions: on a full disk, and damaged ones, too.
//!
//! First the session and those that work for it are retired: from then on everybody else is refused, and nothing of them is
//! under way. Then the journal hides them and notes that their files are still there, all at once and durable. Then the
//! files go. What a crash leaves of them, the next start removes.

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    ids::SessionId,
};

use super::Engine;
use crate::{
    error::EngineError,
    session::registry::{news::SessionNews, orders::SessionHold, shared::Ports, worktree},
};

/// Number of tries for a session that was unloaded just when it was asked.
const TRIES: usize = 3;

impl Engine {
    /// Removes a session and its files for good, and those that worked for it.
    ///
    /// # Errors
    /// When something of one of them is under way, or the journal cannot be changed: then all is as it was. When not all files
    /// can be removed: then the session is gone, and the next cleaning goes on.
    pub async fn delete_session(&self, id: SessionId) -> Result<(), EngineError> {
        self.remove(id, None).await.map(drop)
    }

    /// Removes the files of sessions whose removal was cut off.
    ///
    /// # Errors
    /// When the journal or the files cannot be read or removed.
    pub async fn finish_removals(&self) -> Result<(), EngineError> {
        let left = self.shared.parts.store.files_left().await?;
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!(sessions = left.len(), "removing the files of deleted sessions, which was cut off");
        remove_files(&self.shared.parts, left).await?;
        self.shared.parts.workspaces.clean_leftovers(false).await?;
        Ok(())
    }

    /// Removes a session with all that belongs to it, unless it is needed or was used since `last_used`. Says whether it did.
    pub(super) async fn remove(&self, id: SessionId, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        // Where whoever waits for the removal goes away, it ends with this, and the sessions are found again.
        let hold = SessionHold::default();
        let Some(family) = self.retire(id, last_used, &hold).await? else { return Ok(false) };
        let parts = &self.shared.parts;
        let summary = parts.store.session(id).await.ok().flatten().map(|stored| stored.summary);
        let works_for_another = summary.is_some_and(|summary| summary.parent.is_some());
        parts.store.delete_session(id).await?;
        for gone in &family {
            let is_child = works_for_another || *gone != id;
            self.shared.news.tell(SessionNews::Deleted { session: *gone, is_child });
            parts.toolbox.end_session(*gone).await;
        }
        remove_files(parts, family).await.map_err(|error| {
            let message = format!("session {id} is deleted, but its files are not all removed: {error}");
            EngineError::new(error.kind(), message).with_hint("`agentctl clean` or the next start continues it")
        })?;
        Ok(true)
    }

    /// Ends a session for good, and then those that work for it: only a turn of it makes more of them. None where one of them
    /// is needed.
    async fn retire(
        &self,
        id: SessionId,
        last_used: Option<Timestamp>,
        hold: &SessionHold,
    ) -> Result<Option<Vec<SessionId>>, EngineError> {
        if !self.retire_one(id, last_used, hold).await? {
            return Ok(None);
        }
        let mut family = vec![id];
        for child in self.shared.parts.store.children(id).await? {
            if !self.retire_one(child.id, last_used, hold).await? {
                return Ok(None);
            }
            family.push(child.id);
        }
        Ok(Some(family))
    }

    async fn retire_one(
        &self,
        id: SessionId,
        last_used: Option<Timestamp>,
        hold: &SessionHold,
    ) -> Result<bool, EngineError> {
        let mut retired = self.session(id).await?.retire(hold.mark(), last_used).await;
        for _ in 0..TRIES {
            if !retired.as_ref().is_err_and(|error| error.kind() == ErrorKind::ShuttingDown) {
                break;
            }
            // It was unloaded in that moment. Where the daemon stops, nobody finds it again.
            retired = self.session(id).await?.retire(hold.mark(), last_used).await;
        }
        match retired {
            // A person can remove what cannot even be loaded.
            Err(error) if error.kind() == ErrorKind::Storage && last_used.is_none() => {
                tracing::warn!(session = %id, "a session is removed that cannot be loaded: {error}");
                if self.registry.withhold(id, hold.mark()).await? { Ok(true) } else { Err(error) }
            }
            retired => retired,
        }
    }
}

/// Removes the files of sessions that the journal has hidden, and has it know. What cannot be removed keeps nothing else.
async fn remove_files(parts: &Ports, sessions: Vec<SessionId>) -> Result<(), EngineError> {
    let (mut gone, mut failed) = (Vec::new(), None);
    // Those that worked for others first: their worktrees may be made of another one.
    for id in sessions.into_iter().rev() {
        let removed = async {
            parts.workspaces.remove(id).await?;
            parts.snapshots.remove(id).await?;
            parts.exchanges.remove(id).await?;
            // One that stays is found again.
            worktree::leave(&*parts.workspaces, &*parts.store, id).await;
            Ok::<_, WorkspaceError>(())
        };
        match removed.await {
            Ok(()) => gone.push(id),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if !gone.is_empty()
        && let Err(error) = parts.store.note_files_gone(gone).await
    {
        // They are looked for once more, and not found.
        tracing::warn!("could not record that files of deleted sessions are gone: {error}");
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
