//! Ports that only a play has, and its folder, which goes with the play.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use agentd_core::{
    Timestamp,
    audit::AuditEntry,
    error::{AuditError, WorkspaceError},
    ids::{CallId, SessionId},
    ports::{Audit, Changes, Clock, FilesBefore, Snapshots, ToolContext, Workspace},
    tool::{FileChange, FileChangeKind},
    undo::{FilesReverted, UndoOutcome, UndoneFile},
};
use agentd_replay::Play;
use futures_util::future::BoxFuture;

/// The time of a play: that of the recorded turn, as long as nothing real happens in it.
pub(super) struct PlayedClock(Option<Mutex<Timestamp>>);

impl PlayedClock {
    pub(super) fn new(play: Play) -> Self {
        let is_played = matches!(play, Play::Learn | Play::Strict);
        Self(is_played.then(|| Mutex::new(Timestamp::UNIX_EPOCH)))
    }

    /// Sets the time.
    pub(super) fn set(&self, now: Timestamp) {
        if let Some(time) = &self.0 {
            *time.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

impl Clock for PlayedClock {
    fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(Timestamp::now, |time| *time.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps nothing, as nothing runs.
pub(super) struct NoAudit;

impl Audit for NoAudit {
    fn record(&self, _: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn note(&self, _: AuditEntry) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Changes no file: nothing runs, and what a recording says of files is a stranger's word.
pub(super) struct NoSnapshots;

impl Snapshots for NoSnapshots {
    fn before<'a>(
        &'a self,
        _: &'a ToolContext,
        _: Option<&'a [String]>,
    ) -> BoxFuture<'a, Result<FilesBefore, WorkspaceError>> {
        let after = Box::pin(std::future::ready(Ok(Changes::default())));
        let (closed, gaps, unkept) = (Vec::new(), Vec::new(), Vec::new());
        Box::pin(std::future::ready(Ok(FilesBefore { closed, gaps, unchecked: None, unkept, after })))
    }

    fn unfinished<'a>(
        &'a self,
        _: SessionId,
        _: &'a Workspace,
        _: &'a CallId,
    ) -> BoxFuture<'a, Result<Changes, WorkspaceError>> {
        Box::pin(std::future::ready(Ok(Changes::default())))
    }

    /// Tells that all is as it is wanted.
    fn undo<'a>(
        &'a self,
        _: SessionId,
        _: &'a Workspace,
        changes: Vec<FileChange>,
        _: bool,
    ) -> BoxFuture<'a, Result<FilesReverted, WorkspaceError>> {
        let done = |change: FileChange| UndoneFile {
            path: change.path,
            change: match change.change {
                FileChangeKind::Created => FileChangeKind::Deleted,
                FileChangeKind::Deleted => FileChangeKind::Created,
                FileChangeKind::Modified => FileChangeKind::Modified,
            },
            outcome: UndoOutcome::Done,
            reason: None,
            diff: None,
        };
        let files = changes.into_iter().map(done).collect();
        Box::pin(std::future::ready(Ok(FilesReverted { files, changes: Vec::new() })))
    }

    fn remove(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Folder of one play.
pub(super) struct PlayFolder(PathBuf);

impl PlayFolder {
    /// Makes one below `base`, for its owner alone.
    pub(super) fn create(base: &Path) -> io::Result<Self> {
        let path = base.join(SessionId::generate().to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PlayFolder {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        // Tools may have left much in it.
        let remove = move || {
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!("the folder of a replay stays until the next start: {error}");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Removes all folders of plays.
pub(super) fn sweep(base: &Path) {
    match fs::remove_dir_all(base) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("what replays left in {} cannot be removed: {error}", base.display());
        }
        _ => {}
    }
}
