//! Git worktrees of sessions: made with a session, merged and removed by people, and left to them where a session goes.

use std::path::PathBuf;

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    ports::Worktrees,
    session::SessionSettings,
    worktree::{KnownWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

use crate::{
    error::EngineError,
    front::Engine,
    session::registry::worktree::{FolderClosure, leave, ported, users, with_worktree},
};

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
        Ok(self.ported()?.diff(known.name).await?)
    }

    /// Merges a worktree into what its main tree has checked out: all of it or nothing.
    ///
    /// # Errors
    /// Of kind `Busy` while a turn runs in it or in the main tree, of kind `Conflict` where files are in the way.
    pub async fn apply_worktree(&self, named: &str) -> Result<WorktreeApplied, EngineError> {
        let known = self.worktree(named).await?;
        let _closed = self.close(&known, vec![known.top.clone(), known.main.clone()]).await?;
        let KnownWorktree { name, session, .. } = known;
        let title = self.shared.ports.store.session(session).await?.map(|stored| stored.summary.title);
        let title: String = title.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let title: String = title.chars().take(TITLE).collect();
        let subject = if title.is_empty() { format!("Changes of session {session}") } else { title };
        let message = format!("{subject}\n\nMade in the worktree {name} by the agentd session {session}.");
        Ok(self.ported()?.apply(name, message).await?)
    }

    /// Removes a worktree and its branch, and returns its name.
    ///
    /// # Errors
    /// Of kind `Busy` while a turn runs in it, of kind `Conflict` where it has changes that are merged nowhere, unless forced.
    pub async fn remove_worktree(&self, named: &str, force: bool) -> Result<String, EngineError> {
        let known = self.worktree(named).await?;
        let _closed = self.close(&known, vec![known.top.clone()]).await?;
        self.ported()?.remove(known.name.clone(), force).await?;
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

    /// Stores a new session, with its worktree if it wishes for one.
    pub(super) async fn store_new(&self, id: SessionId, settings: SessionSettings) -> Result<(), EngineError> {
        let settings = with_worktree(&self.shared.ports, id, settings).await?;
        let parts = &self.shared.ports;
        if let Err(error) = parts.store.create_session(id, parts.clock.now(), settings, Vec::new()).await {
            leave(parts, id).await;
            return Err(error.into());
        }
        Ok(())
    }

    /// A worktree by its name, or by a session that works in it.
    async fn worktree(&self, named: &str) -> Result<KnownWorktree, EngineError> {
        let all = self.ported()?.known().await?;
        if let Some(found) = all.iter().find(|known| known.name == named) {
            return Ok(found.clone());
        }
        let unknown = || {
            EngineError::new(ErrorKind::NotFound, format!("there is no worktree {named:?}, and no session has it"))
                .with_hint("`agentctl worktree list` shows all")
        };
        if let Ok(gone) = named.parse::<SessionId>()
            && let Some(found) = all.iter().find(|known| known.session == gone)
        {
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

    fn ported(&self) -> Result<&dyn Worktrees, EngineError> {
        ported(&self.shared.ports)
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
