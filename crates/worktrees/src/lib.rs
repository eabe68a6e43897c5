//! Git worktrees of sessions: created, shown, merged into the main worktree, and removed.
//!
//! - `record`: record of each worktree, written to disk before the worktree is created; and the folders that git can
//!   access.
//! - `git`: runs git in the command sandbox, without external settings and without programs named by a repository;
//!   parses its output.
//! - `create`, `changes`, `merge`, `remove`: one operation each. `changes` also detects files that would block git, and
//!   `remove` finishes operations interrupted by a stop of the daemon.
//!
//! Models write the files in worktrees, and their commands may write to a part of the repository. These files never
//! decide which folders are used or which programs run: the folders come from the record, the index is the daemon's
//! own, hooks, filters and merge drivers are never run, and git can only access the folders that an operation needs.

mod changes;
mod create;
mod git;
mod merge;
mod record;
mod remove;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use agentd_core::{
    ids::SessionId,
    mutex::lock,
    ports::Worktrees,
    worktree::{
        KnownWorktree, MadeWorktree, NewWorktree, WorktreeAccess, WorktreeApplied, WorktreeDiff, WorktreeReport,
    },
};
use agentd_sandbox::{environment::PATH, host::Sandbox};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use self::{
    git::Git,
    record::{Records, Result, WorktreeRecord},
};

/// Worktrees of all sessions, below one folder. Clones share the same state.
#[derive(Debug, Clone)]
pub struct WorktreeFolders(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    records: Records,
    git: Git,
    /// Serialises operations in each repository, by its folder.
    repositories: Mutex<BTreeMap<PathBuf, Arc<AsyncMutex<()>>>>,
    /// Serialises the choice of new names, across repositories.
    naming: Mutex<()>,
    /// Start time of this process. Leftovers of previous runs are older.
    began: SystemTime,
}

impl WorktreeFolders {
    /// Creates the store for worktrees below `base`, which is created with the first worktree. Git runs in this sandbox
    /// with the `PATH` of this environment, and reads the author of commits from the file `config`.
    pub fn new(
        base: PathBuf,
        sandbox: Option<Arc<Sandbox>>,
        environment: &BTreeMap<String, String>,
        config: Option<PathBuf>,
    ) -> Self {
        let path = environment.get("PATH").map_or(PATH, String::as_str).into();
        let git = Git { scratch: base.join(record::SCRATCH), sandbox, path, config };
        Self(Arc::new(Inner {
            records: Records { base },
            git,
            repositories: Mutex::default(),
            naming: Mutex::default(),
            began: SystemTime::now(),
        }))
    }

    /// Returns the folder of all worktrees.
    pub fn base(&self) -> &Path {
        &self.0.records.base
    }

    /// Returns the worktree that contains a folder, by real paths. Reads a record from disk.
    pub fn of_folder(&self, folder: &Path) -> Option<WorktreeAccess> {
        self.0.records.of_folder(folder)
    }
}

impl Worktrees for WorktreeFolders {
    fn make(&self, new: NewWorktree) -> BoxFuture<'_, Result<MadeWorktree>> {
        self.0.create(new).boxed()
    }

    fn known(&self) -> BoxFuture<'_, Result<Vec<KnownWorktree>>> {
        let base = self.base().canonicalize().unwrap_or_else(|_| self.base().to_owned());
        let known = |record: WorktreeRecord| {
            let (top, main) = (base.join(&record.name), record.repository.top);
            KnownWorktree { name: record.name, session: record.session, top, main }
        };
        std::future::ready(self.0.records.all().map(|all| all.into_iter().map(known).collect())).boxed()
    }

    fn report(&self, name: String) -> BoxFuture<'_, Result<WorktreeReport>> {
        self.0.with_lock(name, move |inner, name| async move { inner.report(&name).await }.boxed())
    }

    fn diff(&self, name: String) -> BoxFuture<'_, Result<WorktreeDiff>> {
        self.0.with_lock(name, move |inner, name| async move { inner.diff(&name).await }.boxed())
    }

    fn apply(&self, name: String, message: String) -> BoxFuture<'_, Result<WorktreeApplied>> {
        self.0.with_lock(name, move |inner, name| async move { inner.apply(&name, &message).await }.boxed())
    }

    fn remove(&self, name: String, force: bool) -> BoxFuture<'_, Result<()>> {
        self.0.with_lock(name, move |inner, name| async move { inner.remove(&name, force).await }.boxed())
    }

    fn leave(&self, name: String) -> BoxFuture<'_, Result<bool>> {
        self.0.with_lock(name, move |inner, name| async move { inner.remove_if_merged(&name).await }.boxed())
    }

    fn share_worktree(&self, name: String, heir: SessionId) -> BoxFuture<'_, Result<()>> {
        self.0.with_lock(name, move |inner, name| {
            std::future::ready(inner.records.change(&name, |record| record.session = heir)).boxed()
        })
    }

    fn clean_up(&self) -> BoxFuture<'_, Result<()>> {
        let inner = &self.0;
        async move {
            let mut repositories: Vec<PathBuf> =
                inner.records.all()?.into_iter().map(|record| record.repository.common).collect();
            repositories.sort();
            repositories.dedup();
            // Every operation first finishes interrupted operations in its repository. The lock is released
            // immediately, so that the next operation in a repository is not blocked by the others.
            let settled = |repository: PathBuf| async move { inner.lock_repository(&repository).await.map(drop) };
            join_all(repositories.into_iter().map(settled)).await.into_iter().collect()
        }
        .boxed()
    }
}

impl Inner {
    /// Runs an operation on a worktree, exclusively in its repository, after finishing interrupted operations.
    fn with_lock<'a, T: Send + 'a>(
        &'a self,
        name: String,
        work: impl FnOnce(&'a Self, String) -> BoxFuture<'a, Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        async move {
            let repository = self.records.get(&name)?.repository.common;
            let _lock = self.lock_repository(&repository).await?;
            work(self, name).await
        }
        .boxed()
    }

    /// Locks a repository, and finishes interrupted operations in it.
    async fn lock_repository(&self, repository: &Path) -> Result<OwnedMutexGuard<()>> {
        let mutex = {
            let mut repositories = lock(&self.repositories);
            Arc::clone(repositories.entry(repository.to_owned()).or_default())
        };
        let guard = mutex.lock_owned().await;
        self.finish_all(repository).await?;
        Ok(guard)
    }
}

/// Formats the first names of some files, and the number of further ones.
fn first_names(files: &[PathBuf]) -> String {
    const NAMED: usize = 10;
    let shown = files.iter().take(NAMED).map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
