//! Removes sessions, even if they are damaged or the disk is full, and cleans sessions that were unused for a long
//! time. Also lists, diffs, merges and removes the sessions' git worktrees, and leaves worktrees with changes to the
//! user when their session is removed.
//!
//! A removal first retires the session and its subagents: from then on, they refuse all access and have no work in
//! progress. Then the journal hides them and records durably, in one step, that their files remain. Then the files are
//! deleted. After a crash, the next start deletes the remaining files.
//!
//! The caller decides which data is too old. This module guarantees that nothing is removed from a session that is in
//! use, waits for an answer, or is pinned.

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
    error::{EngineError, Result},
    front::Engine,
    session::{
        CleanOrder, SessionCleaned,
        registry::{
            shared::SessionNews,
            worktree::{FolderClosure, release_worktrees, sessions_using, worktrees_port},
        },
    },
};

/// Number of retries if the session is unloaded concurrently.
const MAX_TRIES: usize = 3;

/// Maximum length of a session title in a commit message, in characters.
const MAX_TITLE: usize = 60;

impl Engine {
    /// Deletes a session, its subagents and their files permanently.
    ///
    /// # Errors
    /// Fails if one of the sessions has work in progress or the journal cannot be changed, in which case nothing is
    /// changed. Also fails if not all files can be removed, in which case the session is gone and the next cleaning
    /// continues.
    pub async fn delete_session(&self, id: SessionId) -> Result<()> {
        self.remove(id, None).await.map(drop)
    }

    /// Removes the files of sessions whose removal was interrupted.
    ///
    /// # Errors
    /// Fails if the journal or the files cannot be read or removed.
    pub async fn finish_removals(&self) -> Result<()> {
        let left = self.shared.ports.store.files_left().await?;
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!(sessions = left.len(), "resuming the removal of files of deleted sessions");
        remove_files(&self.shared.ports, left).await?;
        self.shared.ports.workspaces.clean_leftovers(false).await?;
        Ok(())
    }

    /// Removes a session with all its data, unless the session is needed or was used after `last_used`. Returns true if
    /// the session was removed.
    async fn remove(&self, id: SessionId, last_used: Option<Timestamp>) -> Result<bool> {
        // If this future is cancelled, the hold is dropped and the sessions can be found again.
        let hold = Arc::new(());
        let Some(family) = self.retire(id, last_used, &hold).await? else { return Ok(false) };
        let ports = &self.shared.ports;
        let summary = ports.store.session(id).await.ok().flatten().map(|stored| stored.summary);
        let works_for_another = summary.is_some_and(|summary| summary.parent.is_some());
        ports.store.delete_session(id).await?;
        for gone in &family {
            let is_child = works_for_another || *gone != id;
            self.shared.news.publish(SessionNews::Deleted { session: *gone, is_child });
            ports.toolbox.end_session(*gone).await;
        }
        remove_files(ports, family).await.map_err(|error| {
            let message = format!("session {id} was deleted, but some of its files remain: {error}");
            EngineError::new(error.kind(), message).with_hint("`agentctl clean` or the next start removes them")
        })?;
        Ok(true)
    }

    /// Retires a session before its subagents, because only the session's turns create more subagents. Returns `None`
    /// if one of the sessions is needed.
    async fn retire(
        &self,
        id: SessionId,
        last_used: Option<Timestamp>,
        hold: &Arc<()>,
    ) -> Result<Option<Vec<SessionId>>> {
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

    async fn retire_one(&self, id: SessionId, last_used: Option<Timestamp>, hold: &Arc<()>) -> Result<bool> {
        let mut retired = self.session(id).await?.retire(Arc::downgrade(hold), last_used).await;
        for _ in 0..MAX_TRIES {
            if !retired.as_ref().is_err_and(|error| error.kind() == ErrorKind::ShuttingDown) {
                break;
            }
            // The session was unloaded in the meantime, and cannot be loaded again while the daemon is stopping.
            retired = self.session(id).await?.retire(Arc::downgrade(hold), last_used).await;
        }
        match retired {
            // The user can also remove a session that cannot be loaded.
            Err(error) if error.kind() == ErrorKind::Storage && last_used.is_none() => {
                tracing::warn!(session = %id, "removing a session that cannot be loaded: {error}");
                if self.registry.withhold(id, Arc::downgrade(hold)).await? { Ok(true) } else { Err(error) }
            }
            retired => retired,
        }
    }

    /// Removes unused data of a session and records the removal in the session's history. Returns `None`, without
    /// removing anything, if the session is in use, waits for an answer, or is pinned.
    ///
    /// # Errors
    /// Fails if there is no such session, or the journal or the files cannot be read or written.
    pub async fn clean_session(&self, id: SessionId, order: CleanOrder) -> Result<Option<SessionCleaned>> {
        if self.registry.live(id).await?.is_some() {
            return Ok(None);
        }
        if !order.undo {
            // Most sessions have nothing to clean, and are not loaded for this check.
            let found = self.shared.ports.workspaces.clean(id, order.areas.clone(), true).await?;
            if found.is_empty() {
                return Ok(Some(SessionCleaned::default()));
            }
        }
        self.session(id).await?.clean(order).await
    }

    /// Deletes a session like [`Self::delete_session`], unless the session is in use, waiting or pinned, or it or a
    /// subagent was used after `last_used`. Returns true if the session was deleted or, in a trial, would be.
    ///
    /// # Errors
    /// Same as [`Self::delete_session`].
    pub async fn expire_session(&self, id: SessionId, last_used: Timestamp, trial: bool) -> Result<bool> {
        // Most sessions that stay are ruled out without loading them. The actors of the remaining sessions decide.
        let store = &self.shared.ports.store;
        let Some(stored) = store.session(id).await? else { return Ok(false) };
        let is_needed = stored.settings.pinned || stored.open_turn.is_some() || !stored.queue.is_empty();
        let may_expire = !is_needed
            && stored.summary.updated_at <= last_used
            && self.registry.live(id).await?.is_none()
            && store.pending_interrupts(Some(id)).await?.is_empty();
        Ok(may_expire && (trial || self.remove(id, Some(last_used)).await?))
    }

    /// Removes leftovers of interrupted removals. A trial only counts them.
    ///
    /// # Errors
    /// Fails if the files cannot be read or removed.
    pub async fn clean_leftovers(&self, trial: bool) -> Result<FilesRemoved> {
        if !trial {
            if let Err(error) = self.settle_worktrees().await {
                tracing::warn!(hint = error.hint(), "could not clean up worktrees: {error}");
            }
            self.finish_removals().await?;
        }
        Ok(self.shared.ports.workspaces.clean_leftovers(trial).await?)
    }

    /// Lists all worktrees, sorted by name.
    ///
    /// # Errors
    /// Fails if the worktrees or the journal cannot be read.
    pub async fn worktrees(&self) -> Result<Vec<WorktreeReport>> {
        let Some(worktrees) = self.shared.ports.workspaces.worktrees() else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for worktree in worktrees.known().await? {
            let is_orphan = self.shared.ports.store.session(worktree.session).await?.is_none();
            match worktrees.report(worktree.name).await {
                Ok(report) => all.push(WorktreeReport { is_orphan, ..report }),
                // The worktree was removed in the meantime.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// Returns the diff of a worktree against its merge base with the main worktree. `named` is the name of the
    /// worktree or a session.
    ///
    /// # Errors
    /// Fails if there is no such worktree, or git fails.
    pub async fn diff_worktree(&self, named: &str) -> Result<WorktreeDiff> {
        let worktree = self.worktree(named).await?;
        Ok(worktrees_port(&self.shared.ports)?.diff(worktree.name).await?)
    }

    /// Merges a worktree atomically into the branch checked out in its main worktree.
    ///
    /// # Errors
    /// Fails with kind `Busy` while a turn is open in the worktree or in the main worktree, and with kind `Conflict` if
    /// files cannot be merged or have changes in the main worktree.
    pub async fn apply_worktree(&self, named: &str) -> Result<WorktreeApplied> {
        let worktree = self.worktree(named).await?;
        let _closed = self.close(&worktree, vec![worktree.top.clone(), worktree.main.clone()]).await?;
        let KnownWorktree { name, session, .. } = worktree;
        let title = self.summary(session).await?.map(|summary| summary.title).unwrap_or_default();
        let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_TITLE).collect();
        let subject = if title.is_empty() { format!("Changes of session {session}") } else { title };
        let message = format!("{subject}\n\nMade in the worktree {name} by the agentd session {session}.");
        Ok(worktrees_port(&self.shared.ports)?.apply(name, message).await?)
    }

    /// Removes a worktree and its branch, and returns its name.
    ///
    /// # Errors
    /// Fails with kind `Busy` while a turn is open in the worktree, and with kind `Conflict` if the worktree has
    /// unmerged changes, unless `force` is set.
    pub async fn remove_worktree(&self, named: &str, force: bool) -> Result<String> {
        let worktree = self.worktree(named).await?;
        let _closed = self.close(&worktree, vec![worktree.top.clone()]).await?;
        worktrees_port(&self.shared.ports)?.remove(worktree.name.clone(), force).await?;
        Ok(worktree.name)
    }

    /// Finishes operations that were interrupted because the daemon stopped, and removes unchanged worktrees whose
    /// sessions are gone.
    ///
    /// # Errors
    /// Fails if the worktrees or the journal cannot be read.
    pub async fn settle_worktrees(&self) -> Result<()> {
        let ports = &self.shared.ports;
        let Some(worktrees) = ports.workspaces.worktrees() else { return Ok(()) };
        let all = worktrees.known().await?;
        if all.is_empty() {
            return Ok(());
        }
        worktrees.clean_up().await?;
        for KnownWorktree { session, .. } in all {
            // A worktree of a session that is being created is not an orphan.
            if self.live_session(session).await?.is_none() && ports.store.session(session).await?.is_none() {
                release_worktrees(ports, session).await;
            }
        }
        Ok(())
    }

    /// Finds a worktree by its name, or by a session that works in it.
    async fn worktree(&self, named: &str) -> Result<KnownWorktree> {
        let all = worktrees_port(&self.shared.ports)?.known().await?;
        let unknown = || {
            let message = format!("no such worktree: {named:?}");
            EngineError::not_found(message, "list all with `agentctl worktree list`")
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

    /// Closes folders, so that no turn can begin in these folders. Fails if a session that can change files in them has
    /// an open or queued turn.
    async fn close(&self, worktree: &KnownWorktree, folders: Vec<PathBuf>) -> Result<FolderClosure> {
        // The folders are closed before the check, so that no turn can begin after the check.
        let closed = self.shared.closed.close(folders.clone());
        let sessions_using = sessions_using(&self.shared.ports, &folders).await?;
        for id in sessions_using.into_iter().chain([worktree.session]) {
            let Some(live) = self.live_session(id).await? else { continue };
            if live.show().await.is_ok_and(|view| view.live_turn.is_some() || !view.session.queue.is_empty()) {
                let message = format!(
                    "a turn is running in session {id}, in the worktree {} or its main worktree",
                    worktree.name
                );
                return Err(EngineError::busy(message, "wait for it to end, answer its question, or cancel it"));
            }
        }
        Ok(closed)
    }
}

/// Removes the files of hidden sessions and records the removal in the journal. If one removal fails, the others
/// continue.
async fn remove_files(ports: &Ports, sessions: Vec<SessionId>) -> Result<()> {
    let (mut gone, mut failed) = (Vec::new(), None);
    // Subagents first, because their worktrees may be based on the parent's worktree.
    for id in sessions.into_iter().rev() {
        let removed = async {
            ports.workspaces.remove(id).await?;
            ports.snapshots.remove(id).await?;
            ports.exchanges.remove(id).await?;
            // A later cleaning finds a worktree that remains.
            release_worktrees(ports, id).await;
            Ok::<_, WorkspaceError>(())
        };
        match removed.await {
            Ok(()) => gone.push(id),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if !gone.is_empty()
        && let Err(error) = ports.store.record_files_removed(gone).await
    {
        // The next cleaning retries these sessions, and will find no files.
        tracing::warn!("could not record the removal of files of deleted sessions: {error}");
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
