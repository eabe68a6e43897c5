//! Removing sessions, on a full disk and damaged ones, too; and cleaning those that nobody has used for long.
//!
//! First the session and those that work for it are retired: from then on everybody else is refused, and nothing of them is
//! under way. Then the journal hides them and notes that their files are still there, all at once and durable. Then the
//! files go. What a crash leaves of them, the next start removes.
//!
//! What is too old is for the caller to say; that nothing is removed of a session that somebody uses, that waits for somebody or
//! that is pinned, is seen to here.
//!
//! And git worktrees of sessions: made with a session, merged and removed by people, and left to them where a session goes.

use std::{path::PathBuf, sync::Arc};

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    files::FilesRemoved,
    ids::SessionId,
    worktree::{KnownWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

use crate::{
    config::Ports,
    error::EngineError,
    front::Engine,
    session::{
        CleanOrder, SessionCleaned,
        registry::{
            shared::SessionNews,
            worktree::{FolderClosure, leave, ported, users},
        },
    },
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
        let left = self.shared.ports.store.files_left().await?;
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!(sessions = left.len(), "removing the files of deleted sessions, which was cut off");
        remove_files(&self.shared.ports, left).await?;
        self.shared.ports.workspaces.clean_leftovers(false).await?;
        Ok(())
    }

    /// Removes a session with all that belongs to it, unless it is needed or was used since `last_used`. Says whether it did.
    async fn remove(&self, id: SessionId, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        // Where whoever waits for the removal goes away, it ends with this, and the sessions are found again.
        let hold = Arc::new(());
        let Some(family) = self.retire(id, last_used, &hold).await? else { return Ok(false) };
        let parts = &self.shared.ports;
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
        hold: &Arc<()>,
    ) -> Result<Option<Vec<SessionId>>, EngineError> {
        if !self.retire_one(id, last_used, hold).await? {
            return Ok(None);
        }
        let mut family = vec![id];
        for child in self.shared.ports.store.children(id).await? {
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
        hold: &Arc<()>,
    ) -> Result<bool, EngineError> {
        let mut retired = self.session(id).await?.retire(Arc::downgrade(hold), last_used).await;
        for _ in 0..TRIES {
            if !retired.as_ref().is_err_and(|error| error.kind() == ErrorKind::ShuttingDown) {
                break;
            }
            // It was unloaded in that moment. Where the daemon stops, nobody finds it again.
            retired = self.session(id).await?.retire(Arc::downgrade(hold), last_used).await;
        }
        match retired {
            // A person can remove what cannot even be loaded.
            Err(error) if error.kind() == ErrorKind::Storage && last_used.is_none() => {
                tracing::warn!(session = %id, "a session is removed that cannot be loaded: {error}");
                if self.registry.withhold(id, Arc::downgrade(hold)).await? { Ok(true) } else { Err(error) }
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
            leave(parts, id).await;
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
            let found = self.shared.ports.workspaces.clean(id, order.areas.clone(), true).await?;
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
        let store = &self.shared.ports.store;
        let Some(stored) = store.session(id).await? else { return Ok(false) };
        let is_needed = stored.settings.pinned || stored.open_turn.is_some() || !stored.queue.is_empty();
        let may_expire = !is_needed
            && stored.summary.updated_at <= last_used
            && self.registry.live(id).await?.is_none()
            && store.pending_interrupts(Some(id)).await?.is_empty();
        Ok(may_expire && (trial || self.remove(id, Some(last_used)).await?))
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
        Ok(self.shared.ports.workspaces.clean_leftovers(trial).await?)
    }
}

/// Characters of a session's title in the message of a commit.
const TITLE: usize = 60;

impl Engine {
    /// All worktrees, sorted by name.
    ///
    /// # Errors
    /// When they, or the journal, cannot be read.
    pub async fn worktrees(&self) -> Result<Vec<WorktreeReport>, EngineError> {
        let Some(worktrees) = self.shared.ports.workspaces.worktrees() else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for known in worktrees.known().await? {
            let is_orphan = self.shared.ports.store.session(known.session).await?.is_none();
            match worktrees.report(known.name).await {
                Ok(report) => all.push(WorktreeReport { is_orphan, ..report }),
                // It was removed just now.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// Difference of a worktree, which is named by its name or by a session, from the newest commit that its main tree has as well.
    ///
    /// # Errors
    /// When there is none, or git fails.
    pub async fn diff_worktree(&self, named: &str) -> Result<WorktreeDiff, EngineError> {
        let known = self.worktree(named).await?;
        Ok(ported(&self.shared.ports)?.diff(known.name).await?)
    }

    /// Merges a worktree into what its main tree has checked out: all of it or nothing.
    ///
    /// # Errors
    /// Of kind `Busy` while a turn runs in it or in the main tree, of kind `Conflict` where files are in the way.
    pub async fn apply_worktree(&self, named: &str) -> Result<WorktreeApplied, EngineError> {
        let known = self.worktree(named).await?;
        let _closed = self.close(&known, vec![known.top.clone(), known.main.clone()]).await?;
        let KnownWorktree { name, session, .. } = known;
        let title = self.summary(session).await?.map(|summary| summary.title).unwrap_or_default();
        let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE).collect();
        let subject = if title.is_empty() { format!("Changes of session {session}") } else { title };
        let message = format!("{subject}\n\nMade in the worktree {name} by the agentd session {session}.");
        Ok(ported(&self.shared.ports)?.apply(name, message).await?)
    }

    /// Removes a worktree and its branch, and returns its name.
    ///
    /// # Errors
    /// Of kind `Busy` while a turn runs in it, of kind `Conflict` where it has changes that are merged nowhere, unless forced.
    pub async fn remove_worktree(&self, named: &str, force: bool) -> Result<String, EngineError> {
        let known = self.worktree(named).await?;
        let _closed = self.close(&known, vec![known.top.clone()]).await?;
        ported(&self.shared.ports)?.remove(known.name.clone(), force).await?;
        Ok(known.name)
    }

    /// Finishes what a stop of the daemon cut off, and removes worktrees without changes whose sessions are gone.
    ///
    /// # Errors
    /// When they, or the journal, cannot be read.
    pub async fn settle_worktrees(&self) -> Result<(), EngineError> {
        let parts = &self.shared.ports;
        let Some(worktrees) = parts.workspaces.worktrees() else { return Ok(()) };
        let all = worktrees.known().await?;
        if all.is_empty() {
            return Ok(());
        }
        worktrees.settle().await?;
        for KnownWorktree { session, .. } in all {
            // One that is being made for a session just now has it soon.
            if self.live_session(session).await?.is_none() && parts.store.session(session).await?.is_none() {
                leave(parts, session).await;
            }
        }
        Ok(())
    }

    /// A worktree by its name, or by a session that works in it.
    async fn worktree(&self, named: &str) -> Result<KnownWorktree, EngineError> {
        let all = ported(&self.shared.ports)?.known().await?;
        let unknown = || {
            let message = format!("there is no worktree {named:?}, and no session has it");
            EngineError::not_found(message, "`agentctl worktree list` shows all")
        };
        let of_gone = |gone: SessionId| all.iter().find(|known| known.session == gone);
        let found = all.iter().find(|known| known.name == named).or_else(|| of_gone(named.parse().ok()?));
        if let Some(found) = found {
            return Ok(found.clone());
        }
        let session = match self.find_session(named).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(unknown()),
            found => found?,
        };
        let stored = self.shared.ports.store.session(session).await?;
        let own = stored.and_then(|stored| stored.settings.worktree).map(|worktree| worktree.name);
        let is_own = |known: &&KnownWorktree| own.as_ref().map_or(known.session == session, |own| *own == known.name);
        all.iter().find(is_own).cloned().ok_or_else(unknown)
    }

    /// Closes folders, so that no turn begins in them. Refused while one runs, or waits for its time, in a session that can change
    /// files there.
    async fn close(&self, known: &KnownWorktree, folders: Vec<PathBuf>) -> Result<FolderClosure, EngineError> {
        // First, so that no turn begins behind the look.
        let closed = self.shared.closed.close(folders.clone());
        let users = users(&self.shared.ports, &folders).await?;
        for id in users.into_iter().chain([known.session]) {
            let Some(live) = self.live_session(id).await? else { continue };
            if live.show().await.is_ok_and(|view| view.live_turn.is_some() || !view.session.queue.is_empty()) {
                let message = format!(
                    "a turn runs in the session {id}, which works in the worktree {} or its main tree",
                    known.name
                );
                return Err(EngineError::busy(message, "wait for its end, answer what it waits for, or cancel it"));
            }
        }
        Ok(closed)
    }
}
