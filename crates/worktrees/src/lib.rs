//! Git worktrees of sessions: made, shown, merged into the main tree, and removed.
//!
//! - `record`: what is known of each, on the disk before the worktree is; and what git reaches.
//! - `git`: runs git, in the sandbox of commands, with settings of which none comes from elsewhere, and without the
//!   programs that a repository names; and its answers.
//! - `making`, `changes`, `applying`, `removing`: one operation each. `changes` has what git would stumble over, too, and
//!   `removing` what a stop of the daemon cut off.
//!
//! Models write what is in worktrees, and commands in them may write to a part of the repository. So nothing of that says
//! where anything is or what is run: folders are those of the record, the index is the daemon's own, hooks, filters and drivers
//! of merges are never run, and git itself reaches only the folders that an operation needs.

mod applying;
mod changes;
mod git;
mod making;
mod record;
mod removing;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use agentd_core::{
    held::lock,
    ids::SessionId,
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
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use self::{
    git::Git,
    record::{Records, Result, WorktreeRecord},
};

/// The worktrees of all sessions, below one folder. Cloneable; all clones are one.
#[derive(Debug, Clone)]
pub struct WorktreeFolders(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    records: Records,
    git: Git,
    /// One operation at a time in each repository, by its folder.
    turns: Mutex<BTreeMap<PathBuf, Arc<Turn<()>>>>,
    /// One new name at a time, in whatever repository.
    naming: Mutex<()>,
    /// Start of this life: what an earlier one has left is older.
    began: SystemTime,
}

impl WorktreeFolders {
    /// Worktrees below `base`, which is made with the first. Git runs in this sandbox, with the variables of this
    /// environment that say where programs are, and takes the author of commits from this file.
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
            turns: Mutex::default(),
            naming: Mutex::default(),
            began: SystemTime::now(),
        }))
    }

    /// The folder of all worktrees.
    pub fn base(&self) -> &Path {
        &self.0.records.base
    }

    /// The worktree that a folder is in, by real paths. It reads a record.
    pub fn of_folder(&self, folder: &Path) -> Option<WorktreeAccess> {
        self.0.records.of_folder(folder)
    }
}

impl Worktrees for WorktreeFolders {
    fn make(&self, new: NewWorktree) -> BoxFuture<'_, Result<MadeWorktree>> {
        self.0.made(new).boxed()
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
        self.0.alone(name, move |inner, name| async move { inner.reported(&name).await }.boxed())
    }

    fn diff(&self, name: String) -> BoxFuture<'_, Result<WorktreeDiff>> {
        self.0.alone(name, move |inner, name| async move { inner.difference(&name).await }.boxed())
    }

    fn apply(&self, name: String, message: String) -> BoxFuture<'_, Result<WorktreeApplied>> {
        self.0.alone(name, move |inner, name| async move { inner.applied(&name, &message).await }.boxed())
    }

    fn remove(&self, name: String, force: bool) -> BoxFuture<'_, Result<()>> {
        self.0.alone(name, move |inner, name| async move { inner.removed(&name, force).await }.boxed())
    }

    fn leave(&self, name: String) -> BoxFuture<'_, Result<bool>> {
        self.0.alone(name, move |inner, name| async move { inner.left(&name).await }.boxed())
    }

    fn hand_over(&self, name: String, heir: SessionId) -> BoxFuture<'_, Result<()>> {
        self.0.alone(name, move |inner, name| {
            std::future::ready(inner.records.change(&name, |record| record.session = heir)).boxed()
        })
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        let inner = &self.0;
        async move {
            let mut repositories: Vec<PathBuf> =
                inner.records.all()?.into_iter().map(|record| record.repository.common).collect();
            repositories.sort();
            repositories.dedup();
            // Each operation does so first. A turn ends at once: the next one of its repository would wait for it.
            let settled = |repository: PathBuf| async move { inner.turn(&repository).await.map(drop) };
            join_all(repositories.into_iter().map(settled)).await.into_iter().collect()
        }
        .boxed()
    }
}

impl Inner {
    /// Runs an operation on a worktree with no other beside it in its repository, behind what an earlier one left undone.
    fn alone<'a, T: Send + 'a>(
        &'a self,
        name: String,
        work: impl FnOnce(&'a Self, String) -> BoxFuture<'a, Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        async move {
            let repository = self.records.get(&name)?.repository.common;
            let _turn = self.turn(&repository).await?;
            work(self, name).await
        }
        .boxed()
    }

    /// Waits for the end of the operation in a repository, and finishes what an earlier one left undone.
    async fn turn(&self, repository: &Path) -> Result<OwnedMutexGuard<()>> {
        let turn = {
            let mut turns = lock(&self.turns);
            Arc::clone(turns.entry(repository.to_owned()).or_default())
        };
        let held = turn.lock_owned().await;
        self.finish_all(repository).await?;
        Ok(held)
    }
}

/// A few names of files, and how many more there are.
fn named(files: &[PathBuf]) -> String {
    const NAMED: usize = 10;
    let shown = files.iter().take(NAMED).map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
