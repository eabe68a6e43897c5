//! In-memory files, and the port that records their changes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    ids::{CallId, SessionId},
    ports::{Changes, FilesBefore, Snapshots, ToolContext, Workspace},
    tool::{FileChange, FileChangeKind, FileKind, FileState},
    undo::{FilesReverted, UndoOutcome, UndoneFile, inverse_change},
};
use futures_util::{FutureExt as _, future::BoxFuture};

type Files = BTreeMap<String, String>;

/// Files by path, shared by all sessions. The hash of a file is its content.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<Files>>,
    /// Targets of links, by path.
    links: Mutex<Files>,
    before: Mutex<BTreeMap<CallId, Files>>,
    /// True if the scans after calls fail.
    broken: AtomicBool,
}

impl MemoryDisk {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looks(&self) -> MutexGuard<'_, BTreeMap<CallId, Files>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the scan after every later call fail.
    pub fn simulate_failures(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Writes a file. Empty content removes it.
    pub fn write(&self, path: &str, content: &str) {
        if content.is_empty() {
            self.files().remove(path);
        } else {
            self.files().insert(path.to_owned(), content.to_owned());
        }
    }

    /// Returns the content of a file, or an empty string if the file is missing.
    pub fn read(&self, path: &str) -> String {
        self.files().get(path).cloned().unwrap_or_default()
    }

    /// Turns a path into a link to another path, replacing any previous link.
    pub fn link(&self, path: &str, leads_to: &str) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.insert(path.to_owned(), leads_to.to_owned());
    }

    /// Returns the target of a path if it is a link.
    pub fn leads_to(&self, path: &str) -> Option<String> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn take_back(&self, change: FileChange, preview: bool, undone: &mut FilesReverted) {
        let now = self.files().get(&change.path).map(|content| state(content));
        let inverse = inverse_change(&change);
        let (outcome, reason) = if !change.is_recorded() {
            (UndoOutcome::Failed, Some("it was not recorded".to_owned()))
        } else if now == change.before {
            (UndoOutcome::Already, None)
        } else if now != change.after || change.late {
            (UndoOutcome::Conflict, Some("it has been changed since".to_owned()))
        } else {
            (UndoOutcome::Done, None)
        };
        let shown = |state: &Option<FileState>| state.as_ref().map_or("", |state| &state.hash).to_owned();
        let diff = Some(format!("-{}\n+{}\n", shown(&change.after), shown(&change.before)));
        undone.files.push(UndoneFile { path: change.path.clone(), change: inverse.change, outcome, reason, diff });
        if outcome == UndoOutcome::Done && !preview {
            self.write(&change.path, &shown(&change.before));
            undone.changes.push(inverse);
        }
    }
}

fn state(content: &str) -> FileState {
    FileState { kind: FileKind::File, hash: content.to_owned(), size: content.len() as u64, mode: 0o644 }
}

fn changes_since(files: &Mutex<Files>, before: &Files) -> Changes {
    let now = files.lock().unwrap_or_else(PoisonError::into_inner);
    let paths: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let files = paths
        .into_iter()
        .filter(|path| before.get(*path) != now.get(*path))
        .map(|path| {
            let (was, is) = (before.get(path), now.get(path));
            let change = match (was, is) {
                (None, _) => FileChangeKind::Created,
                (_, None) => FileChangeKind::Deleted,
                _ => FileChangeKind::Modified,
            };
            FileChange {
                before: was.map(|content| state(content)),
                after: is.map(|content| state(content)),
                ..FileChange::new(path, change)
            }
        })
        .collect();
    Changes { files, ..Changes::default() }
}

impl Snapshots for MemoryDisk {
    fn before<'a>(
        &'a self,
        call: &'a ToolContext,
        _: Option<&'a [String]>,
    ) -> BoxFuture<'a, Result<FilesBefore, WorkspaceError>> {
        let before = self.files().clone();
        self.looks().insert(call.call_id.clone(), before.clone());
        let files = Arc::clone(&self.files);
        let is_broken = self.broken.load(Ordering::Relaxed);
        let after = async move {
            if is_broken {
                return Err(WorkspaceError::new(ErrorKind::Storage, "could not scan the disk"));
            }
            Ok(changes_since(&files, &before))
        };
        let after = after.boxed();
        let (closed, gaps, unstored) = (Vec::new(), Vec::new(), Vec::new());
        std::future::ready(Ok(FilesBefore { closed, gaps, unchecked: None, unstored, after })).boxed()
    }

    fn unfinished<'a>(
        &'a self,
        _: SessionId,
        _: &'a Workspace,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<Changes, WorkspaceError>> {
        let before = self.looks().get(call).cloned();
        std::future::ready(Ok(before.map(|before| changes_since(&self.files, &before)).unwrap_or_default())).boxed()
    }

    fn undo<'a>(
        &'a self,
        _: SessionId,
        _: &'a Workspace,
        changes: Vec<FileChange>,
        preview: bool,
    ) -> BoxFuture<'a, Result<FilesReverted, WorkspaceError>> {
        let mut undone = FilesReverted::default();
        for change in changes {
            self.take_back(change, preview, &mut undone);
        }
        std::future::ready(Ok(undone)).boxed()
    }

    fn remove(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        std::future::ready(Ok(())).boxed()
    }
}
