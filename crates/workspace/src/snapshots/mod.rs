//! Snapshots of the changes that calls make to a session's files, so that they can be undone.
//!
//! Before and after a call, the trees that a session may change are scanned by metadata. Unchanged files are not
//! opened, and new contents are stored by hash. The origin of a change does not matter: it may be a tool, a command, or
//! a program started by a command.
//!
//! - [`FileSnapshots`] is the port that the engine calls. `session` is the state of one session, `store` the state
//!   shared by all sessions.
//! - `base`: initial state of a call, owned by the call. A client's unsaved texts are the old contents that undo
//!   restores. Also attributes changes to calls if several sessions change the same files concurrently.
//! - `baseline`: corrects the initial state by the state before calls that run already.
//! - `ignored_folders`: folders that git ignores or in which it stores its data; only names are recorded, not contents.
//!   Also recognises harmless git settings.
//! - `root`: access to a tree without following links, and the encoding of paths.
//! - `tree_scan`, `scan`: scans of metadata and contents. `tree`: a scanned tree, and the differences between two
//!   trees.
//! - `blobs`, `packs`, `record`: blobs and trees on disk. `record` also lists the blobs that a session's changes
//!   need, and recognises later changes after a crash. `store` has the last scan of each project.
//! - `guard`: files that other programs run or obey, by any name. `guarded_changes`: reverts changes that unreviewed
//!   commands make to guarded files. `leads`: targets of guarded names.
//! - `call_diff`: diff of a call's changes, for people. `known_files`: files that a session has read, and what others
//!   have changed in them since.
//! - `config`: limits. `restore`: reverts changes.
//!
//! Guarantees and limits: contents of files, links, permissions and folders are restored byte for byte. Owners, times,
//! access lists and extended attributes are not restored, nor are pipes, sockets and devices. A change that another
//! program makes during a call cannot be distinguished from the call's own changes. Files above a size, trees above a
//! number of files and, in a project, folders that git ignores are not recorded. Gaps that can be found before a call
//! are included in its approval. Other gaps are reported with the call's result, including the number of files deleted
//! in ignored folders.

mod base;
mod baseline;
mod blobs;
mod call_diff;
mod config;
mod guard;
mod guarded_changes;
mod ignored_folders;
mod known_files;
mod leads;
mod packs;
mod record;
mod restore;
mod root;
mod scan;
mod session;
mod store;
mod tree;
mod tree_scan;

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    ids::{CallId, SessionId},
    mutex::lock,
    ports::{Changes, FilesBefore, ReadRules, Snapshots, ToolContext, Workspace},
    tool::FileChange,
    undo::{FilesReverted, ForeignChange},
};
use futures_util::{FutureExt as _, future::BoxFuture};

pub use self::config::SnapshotConfig;
use self::{
    base::{BaseState, Overlaps},
    guard::CallGuard,
    root::SafePath,
    session::SessionRecord,
    store::Store,
};
use crate::{
    backend::client::FileClient,
    jail::{Jail, OpenPurpose},
    path::{PathPlace, ToolPath, read_only},
    remove::ignore_missing,
};

/// Number of sessions whose last scans are cached in memory. Other scans are read from disk again. The scan of a
/// running call is not counted, because the call owns it.
const IN_MEMORY: usize = 16;

/// Snapshots of all sessions: shared blobs, and `{base}/{session}/` for each session. Tools cannot access them.
#[derive(Clone)]
pub struct FileSnapshots {
    base: PathBuf,
    config: SnapshotConfig,
    /// Opened on first use.
    store: Arc<Mutex<Option<Arc<Store>>>>,
    /// True while a removal of unneeded blobs is pending.
    collecting: Arc<AtomicBool>,
    /// Sessions in memory, least recently used first.
    sessions: Arc<Mutex<Vec<(SessionId, SharedRecord)>>>,
    /// Running calls in all sessions.
    overlaps: Arc<Mutex<Overlaps>>,
    /// Serialises the checks of calls.
    checks: Arc<Mutex<()>>,
}

type SharedRecord = Arc<Mutex<Option<SessionRecord>>>;

impl FileSnapshots {
    /// Creates the store below `base`. The folder is created before the first call.
    pub fn new(base: PathBuf, config: SnapshotConfig) -> Self {
        let (store, collecting, sessions, overlaps, checks) = Default::default();
        Self { base, config, store, collecting, sessions, overlaps, checks }
    }

    /// Removes blobs that no session needs any more. Returns the number of freed bytes.
    ///
    /// # Errors
    /// Fails if the folder cannot be read or changed. Needed blobs are never removed.
    pub async fn collect(&self) -> Result<u64, WorkspaceError> {
        self.with_store("remove old undo data", |store| store.collect()).await
    }

    /// Returns the total size of the blobs of all sessions, in bytes. Each session's other records are small.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub async fn bytes_on_disk(&self) -> Result<u64, WorkspaceError> {
        self.with_store("inspect the undo data", |store| Ok(store.blobs.bytes())).await
    }

    /// Runs work on the shared store, on a blocking thread.
    async fn with_store<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Store) -> io::Result<T> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let snapshots = self.clone();
        blocking(doing, move || work(&*snapshots.store()?)).await
    }

    fn store(&self) -> io::Result<Arc<Store>> {
        let mut store = lock(&self.store);
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let opened = Arc::new(Store::open(self.base.clone(), self.config.max_total_bytes)?);
        *store = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Schedules a removal of unneeded blobs. Requests made before it starts share the same removal.
    fn collect_soon(&self) {
        if !self.base.is_dir() || self.collecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let snapshots = self.clone();
        tokio::task::spawn_blocking(move || {
            snapshots.collecting.store(false, Ordering::Release);
            if let Err(error) = snapshots.store().and_then(|store| store.collect()) {
                tracing::warn!("could not remove old undo data: {error}");
            }
        });
    }

    /// Runs `work` on a session's record, on a blocking thread.
    fn work<T: Send + 'static>(
        &self,
        session: SessionId,
        doing: &'static str,
        work: impl FnOnce(&mut SessionRecord) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let shared = self.shared(session);
        let folder = self.base.join(session.to_string());
        let snapshots = self.clone();
        let work = move || {
            let mut record = lock(&shared);
            work(match &mut *record {
                Some(record) => record,
                none => none.insert(SessionRecord::open(folder, snapshots.config.clone(), snapshots.store()?)?),
            })
        };
        blocking(doing, work).boxed()
    }

    /// Scans again after a call. Only the diff of a call that may change any file is made, because other tools show
    /// their changes themselves.
    async fn after(
        self,
        workspace: Arc<Workspace>,
        mut before: BaseState,
        running: CallInProgress,
        quotes: ReadRules,
    ) -> Result<Changes, WorkspaceError> {
        let (checks, has_diff) = (Arc::clone(&self.checks), !before.scoped);
        let recording = self.work(running.session, "record the changes of the call", move |record| {
            // Files set aside by one check must not appear as deleted in another.
            let _alone = before.guard.is_some().then(|| lock(&checks));
            // Dropped before the next check, which may rely on a call that still runs.
            let running = running;
            lock(&running.overlaps).update(running.session, &mut before);
            let Changes { files, notes, set_aside, .. } = record.after(&workspace, before)?;
            lock(&running.overlaps).note_check(running.session, &set_aside.changes);
            let own = lock(&running.overlaps).end(running.session, &running.call, files);
            // The only effect of a failure is a surplus report to the model.
            let _ = record.note_own(&workspace, &own.changes, has_diff);
            // Only other sessions have recorded the initial state of these changes.
            record.adopt(own.continued_from)?;
            Ok(Changes { files: own.changes, notes, set_aside, diff: None })
        });
        let changes = recording.await?;
        if !has_diff || changes.files.is_empty() {
            return Ok(changes);
        }
        let files = changes.files.clone();
        let compare = move |store: &Store| Ok(call_diff::of_changes(&files, &store.blobs, &quotes));
        // The changes are recorded, also if they cannot be shown.
        let diff = self.with_store("compare the changed files", compare).await.unwrap_or_default();
        Ok(Changes { diff, ..changes })
    }

    fn shared(&self, session: SessionId) -> SharedRecord {
        let mut sessions = lock(&self.sessions);
        let shared = match sessions.iter().position(|(id, _)| *id == session) {
            Some(index) => sessions.remove(index).1,
            None => SharedRecord::default(),
        };
        sessions.push((session, Arc::clone(&shared)));
        while sessions.len() > IN_MEMORY {
            // A record in use must stay cached: two records would write to one folder without coordination.
            let Some(idle) = sessions.iter().position(|(_, shared)| Arc::strong_count(shared) == 1) else { break };
            sessions.remove(idle);
        }
        shared
    }
}

/// Running call, from its first scan until the second scan is done or dropped.
struct CallInProgress {
    session: SessionId,
    call: CallId,
    overlaps: Arc<Mutex<Overlaps>>,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        // Does nothing if the second scan has already ended the call.
        lock(&self.overlaps).end(self.session, &self.call, Vec::new());
    }
}

impl Snapshots for FileSnapshots {
    fn before<'a>(
        &'a self,
        call: &'a ToolContext,
        paths: Option<&'a [String]>,
    ) -> BoxFuture<'a, Result<FilesBefore, WorkspaceError>> {
        let guard = CallGuard::of(call, paths.is_some());
        let guard = (call.guarded.clone(), guard, call.confinement.is_checked());
        let (workspace, call_id, paths) = (Arc::clone(&call.workspace), call.call_id.clone(), paths.map(<[_]>::to_vec));
        let (session, overlaps, quotes) = (call.session_id, Arc::clone(&self.overlaps), call.reading.clone());
        let client = FileClient::of(call, call.cancel.clone());
        async move {
            // Requested outside `work`, so that a slow client does not block other sessions.
            let unsaved = match (client, paths.clone()) {
                (Some(client), Some(paths)) => base::texts(client, Arc::clone(&workspace), paths).await,
                _ => HashMap::new(),
            };
            let of_call = Arc::clone(&workspace);
            let recording = self.work(session, "record the files before the call", move |record| {
                let is_unscoped = paths.is_none();
                lock(&overlaps).begin(session, call_id.clone(), workspace.root.clone(), is_unscoped);
                let running = CallInProgress { session, call: call_id.clone(), overlaps };
                let earlier = || lock(&running.overlaps).earlier(session, &call_id);
                let before = record.before(&workspace, &call_id, paths.as_deref(), unsaved, guard, earlier)?;
                lock(&running.overlaps).scanned(session, &before);
                Ok((before, running))
            });
            let (mut before, running) = recording.await?;
            let (gaps, unchecked) = (before.notes.clone(), before.unchecked.clone());
            let (closed, unstored) = (std::mem::take(&mut before.closed), before.unstored());
            let after = self.clone().after(of_call, before, running, quotes).boxed();
            Ok(FilesBefore { closed, gaps, unchecked, unstored, after })
        }
        .boxed()
    }

    fn unfinished<'a>(
        &'a self,
        session: SessionId,
        workspace: &'a Workspace,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<Changes, WorkspaceError>> {
        let (workspace, call) = (workspace.clone(), call.clone());
        let (overlaps, checks) = (Arc::clone(&self.overlaps), Arc::clone(&self.checks));
        self.work(session, "determine the changes of the call", move |record| {
            let _alone = lock(&checks);
            let states = lock(&overlaps).set_aside.clone();
            let changes = record.unfinished(&workspace, &call, states)?;
            lock(&overlaps).note_recovered(session, &changes.set_aside.changes);
            let _ = record.note_own(&workspace, &changes.files, true);
            Ok(changes)
        })
    }

    fn undo<'a>(
        &'a self,
        session: SessionId,
        workspace: &'a Workspace,
        changes: Vec<FileChange>,
        preview: bool,
    ) -> BoxFuture<'a, Result<FilesReverted, WorkspaceError>> {
        let workspace = workspace.clone();
        let overlaps = Arc::clone(&self.overlaps);
        self.work(session, "undo the changes", move |record| {
            let undone = record.undo(&workspace, changes, preview)?;
            if !preview {
                lock(&overlaps).note(session, &undone.changes);
                // The model is informed of an undo in another way.
                let _ = record.note_own(&workspace, &undone.changes, true);
            }
            Ok(undone)
        })
    }

    fn note_read(&self, call: &ToolContext, path: String) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        let jail = Jail::new(Arc::clone(&call.workspace));
        self.work(call.session_id, "remember the file that was read", move |record| {
            // The daemon appends to its own files.
            let is_users = |path: &ToolPath| {
                path.place() != PathPlace::Own || !read_only().any(|area| path.rest().starts_with(area))
            };
            let path = jail.resolve_path(&path, OpenPurpose::Read).ok().filter(is_users);
            let path = path.and_then(|path| SafePath::read(&path.to_string()));
            path.map_or(Ok(()), |path| record.note_read(jail.workspace(), path))
        })
    }

    fn changed_by_others(
        &self,
        session: SessionId,
        workspace: Arc<Workspace>,
    ) -> BoxFuture<'_, Result<Vec<ForeignChange>, WorkspaceError>> {
        if !self.base.join(session.to_string()).join(record::KNOWN_FILES).exists() {
            return std::future::ready(Ok(Vec::new())).boxed();
        }
        self.work(session, "compare the files that were read", move |record| record.changed_by_others(&workspace))
    }

    fn adopt(
        &self,
        _from: SessionId,
        to: SessionId,
        changes: Vec<FileChange>,
    ) -> BoxFuture<'_, Result<Vec<FileChange>, WorkspaceError>> {
        if changes.is_empty() {
            return std::future::ready(Ok(changes)).boxed();
        }
        self.work(to, "store the changes of another session", move |record| record.adopt(changes))
    }

    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        lock(&self.sessions).retain(|(id, _)| *id != session);
        let folder = self.base.join(session.to_string());
        async move {
            blocking("remove the undo data", move || ignore_missing(fs::remove_dir_all(folder))).await?;
            self.collect_soon();
            Ok(())
        }
        .boxed()
    }
}

/// Runs work on a blocking thread. `doing` completes the sentence "could not …".
async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, WorkspaceError> {
    let panicked = |error| WorkspaceError::new(ErrorKind::Internal, format!("could not {doing}")).with_source(error);
    tokio::task::spawn_blocking(work).await.map_err(panicked)?.map_err(|error| storage(doing, error))
}

fn storage(doing: &str, error: io::Error) -> WorkspaceError {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full; free some space",
        _ => "check the folder `undo` in the daemon's data folder",
    };
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}")).with_hint(hint).with_source(error)
}
