//! Git worktrees of sessions: made, shown, merged into the main tree, and removed.
//!
//! - `record`: what is known of each, on the disk before the worktree is. `repository`: the repository around a project,
//!   found without git.
//! - `git`: runs git, in the sandbox of commands, with settings of which none comes from elsewhere.
//! - `making`, `changes`, `applying`, `removing`: one operation each. `unfinished`: what a stop of the daemon cut off.
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
mod repository;
mod unfinished;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    ids::SessionId,
    ports::Worktrees,
    worktree::{MadeWorktree, NewWorktree, WorktreeAccess, WorktreeApplied, WorktreeDiff, WorktreeReport},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::Mutex;

use self::{git::Git, record::Records};
use crate::sandbox::Sandbox;

/// The worktrees of all sessions, below one folder. Cloneable; all clones are one.
#[derive(Debug, Clone)]
pub struct WorktreeFolders(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    records: Records,
    git: Git,
    /// One operation at a time.
    turn: Mutex<()>,
}

impl WorktreeFolders {
    /// Worktrees below `base`, which is made with the first. Git runs in this sandbox, with the variables of this
    /// environment that say where programs are, and takes the author of commits from this file.
    #[must_use]
    pub fn new(
        base: PathBuf,
        sandbox: Option<Arc<Sandbox>>,
        environment: &BTreeMap<String, String>,
        config: Option<PathBuf>,
    ) -> Self {
        let path = environment.get("PATH").map(OsString::from);
        let git = Git::new(base.join(record::SCRATCH), sandbox, path, config);
        Self(Arc::new(Inner { records: Records::new(base), git, turn: Mutex::default() }))
    }

    /// The folder of all worktrees.
    pub(crate) fn base(&self) -> &Path {
        self.0.records.base()
    }

    /// The worktree that a folder is in, by real paths. It reads a record.
    pub(crate) fn of_folder(&self, folder: &Path) -> Option<WorktreeAccess> {
        let found = self.0.records.of_folder(folder)?;
        // Git removes them with the last branch in them. Without them only commits fail.
        let _ = making::own_folders(&found.common);
        Some(found)
    }
}

impl Worktrees for WorktreeFolders {
    fn make(&self, new: NewWorktree) -> BoxFuture<'_, Result<MadeWorktree, WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.made(new).await }.boxed())
    }

    fn names(&self) -> BoxFuture<'_, Result<Vec<(String, SessionId)>, WorkspaceError>> {
        let all = self.0.records.all();
        std::future::ready(all.map(|all| all.into_iter().map(|record| (record.name, record.session)).collect())).boxed()
    }

    fn report(&self, name: String) -> BoxFuture<'_, Result<WorktreeReport, WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.reported(&name).await }.boxed())
    }

    fn diff(&self, name: String) -> BoxFuture<'_, Result<WorktreeDiff, WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.difference(&name).await }.boxed())
    }

    fn apply(&self, name: String, message: String) -> BoxFuture<'_, Result<WorktreeApplied, WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.applied(&name, &message).await }.boxed())
    }

    fn remove(&self, name: String, force: bool) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.removed(&name, force).await }.boxed())
    }

    fn leave(&self, name: String) -> BoxFuture<'_, Result<bool, WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.left(&name).await }.boxed())
    }

    fn hand_over(&self, name: String, heir: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        self.0.alone(move |inner| async move { inner.records.change(&name, |record| record.session = heir) }.boxed())
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        // Each operation does so first.
        self.0.alone(|_| std::future::ready(Ok(())).boxed())
    }
}

impl Inner {
    /// Runs an operation with no other beside it, behind what an earlier one left undone.
    fn alone<'a, T: 'a>(
        &'a self,
        work: impl FnOnce(&'a Self) -> BoxFuture<'a, Result<T, WorkspaceError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, WorkspaceError>> {
        async move {
            let _turn = self.turn.lock().await;
            self.finish_all().await?;
            work(self).await
        }
        .boxed()
    }
}

fn conflict(message: String, hint: impl Into<String>) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Conflict, message).with_hint(hint)
}

fn refused(message: String, hint: impl Into<String>) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint(hint)
}

fn storage(doing: &str, error: std::io::Error) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}"))
        .with_hint("look at the folder `worktrees` in the daemon's data folder")
        .with_source(error)
}

/// A few names of files, and how many more there are.
fn named(files: &[String]) -> String {
    const NAMED: usize = 10;
    let shown = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
