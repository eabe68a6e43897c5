//! Snapshots of the changes that calls make to the files of a session, so that they can be undone.
//!
//! Around a call the trees that a session may change are looked at, path by path, without opening anything that is as
//! it was; what is new is kept by content. So it makes no difference what changed a file: a tool, a command, or a
//! program that a command started.
//!
//! - [`FileSnapshots`] is the port that the engine calls; `session` is the state of one session, `store` what is stored
//!   for all of them.
//! - `before`: what a call starts from; it belongs to the call. Texts that a client holds and the disk does not have are what
//!   undo gives back. It also has the owners of changes if several sessions change the same files at once. `ignored`: folders
//!   that git ignores or stores its data in: their contents are not kept, their names are.
//! - `root`: the way into a tree, following no link; and the encoding of paths.
//! - `looking`, `scan`: looks, with metadata and contents. `tree`: the outcome, and the differences of two of them.
//! - `blobs`, `packs`, `record`: contents and trees on the disk. `record` also lists the contents that a session's changes
//!   need, and recognises later changes after a crash; `store` has the last scan of each project.
//! - `guard`: files that others run or obey, by any name; `set_aside`: how changes of them by commands that nobody looked at are
//!   taken back; `leads`: where guarded names lead; `git_config`: what of git's own is no danger.
//! - `config`: bounds. `restore`: reverts changes.
//!
//! Guarantees and limits: contents of files, links, permissions and folders come back byte for byte. Owners, times,
//! access lists and extended attributes do not; nor what pipes, sockets and devices were. A change that somebody else
//! makes while a call runs cannot be told from the call's own. Files above a size, trees above a number of files, and
//! of a project the folders that git ignores are not recorded. What can be known of that before a call is asked about
//! before it runs; the rest is said with its result, with a count of what it deleted in ignored folders.

mod before;
mod blobs;
mod config;
mod guard;
mod ignored;
mod leads;
mod looking;
mod packs;
mod record;
mod restore;
mod root;
mod scan;
mod session;
mod set_aside;
mod store;
mod tree;

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
    held::lock,
    ids::{CallId, SessionId},
    ports::{Changes, FilesBefore, Snapshots, ToolContext, Workspace},
    tool::FileChange,
    undo::FilesReverted,
};
use futures_util::{FutureExt as _, future::BoxFuture};

pub use self::config::SnapshotConfig;
use self::{
    before::{Before, Overlaps},
    guard::CallGuard,
    session::SessionRecord,
    store::Store,
};
use crate::{backend::client::FileClient, remove::gone};

/// Number of sessions whose last looks are kept in memory. Those of others are read from the disk again. What a call under
/// way needs is its own, and not among them.
const IN_MEMORY: usize = 16;

/// The store of all sessions: contents, which they share, and `{base}/{session}/` each. No tool can reach it.
#[derive(Clone)]
pub struct FileSnapshots {
    base: PathBuf,
    config: SnapshotConfig,
    /// Opened when it is first needed.
    store: Arc<Mutex<Option<Arc<Store>>>>,
    /// True while a removal of unneeded contents is pending.
    collecting: Arc<AtomicBool>,
    /// Sessions in memory, last used last.
    sessions: Arc<Mutex<Vec<(SessionId, Shared)>>>,
    /// The calls that are under way, of all sessions.
    overlaps: Arc<Mutex<Overlaps>>,
    /// One check at a time.
    checks: Arc<Mutex<()>>,
}

type Shared = Arc<Mutex<Option<SessionRecord>>>;

impl FileSnapshots {
    /// Keeps below `base`, which is made when the first call is looked at.
    pub fn new(base: PathBuf, config: SnapshotConfig) -> Self {
        let (store, collecting, sessions, overlaps, checks) = Default::default();
        Self { base, config, store, collecting, sessions, overlaps, checks }
    }

    /// Removes the contents that no session needs any more. Returns how many bytes that gave back.
    ///
    /// # Errors
    /// When the folder cannot be read or changed. What is needed is never removed.
    pub async fn collect(&self) -> Result<u64, WorkspaceError> {
        self.with_store("remove what is no longer needed to undo changes", |store| store.collect()).await
    }

    /// The bytes of contents that are kept for all sessions. Besides, each of them has little of its own.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub async fn bytes_on_disk(&self) -> Result<u64, WorkspaceError> {
        self.with_store("look at what is kept to undo changes", |store| Ok(store.blobs.bytes())).await
    }

    /// Works with what is kept for all sessions, on a thread that may block.
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

    /// Schedules a removal of unneeded contents: once for all requests meanwhile.
    fn collect_soon(&self) {
        if !self.base.is_dir() || self.collecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let snapshots = self.clone();
        tokio::task::spawn_blocking(move || {
            snapshots.collecting.store(false, Ordering::Release);
            if let Err(error) = snapshots.store().and_then(|store| store.collect()) {
                tracing::warn!("could not remove what is no longer needed to undo changes: {error}");
            }
        });
    }

    /// Works with what is kept of a session, on a thread that may block.
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
            let mut kept = lock(&shared);
            work(match &mut *kept {
                Some(kept) => kept,
                none => none.insert(SessionRecord::open(folder, snapshots.config.clone(), snapshots.store()?)?),
            })
        };
        blocking(doing, work).boxed()
    }

    /// Looks again after a call.
    async fn after(
        self,
        workspace: Arc<Workspace>,
        mut before: Before,
        running: CallInProgress,
    ) -> Result<Changes, WorkspaceError> {
        let checks = Arc::clone(&self.checks);
        let looking = self.work(running.session, "record what the call changed", move |kept| {
            // What one check takes back is no deletion for another.
            let _alone = before.guard.is_some().then(|| lock(&checks));
            before.kept = lock(&running.overlaps).kept(running.session, &running.call);
            let Changes { files, notes, set_aside } = kept.after(&workspace, before)?;
            lock(&running.overlaps).note(running.session, &set_aside.changes);
            let own = lock(&running.overlaps).end(running.session, &running.call, files);
            // What it goes on from was seen by others alone.
            kept.adopt(own.going_on_from)?;
            Ok(Changes { files: own.changes, notes, set_aside })
        });
        looking.await
    }

    fn shared(&self, session: SessionId) -> Shared {
        let mut sessions = lock(&self.sessions);
        let shared = match sessions.iter().position(|(id, _)| *id == session) {
            Some(index) => sessions.remove(index).1,
            None => Shared::default(),
        };
        sessions.push((session, Arc::clone(&shared)));
        while sessions.len() > IN_MEMORY {
            // Not one that is at work: two who write to one folder would not know of each other.
            let Some(idle) = sessions.iter().position(|(_, shared)| Arc::strong_count(shared) == 1) else { break };
            sessions.remove(idle);
        }
        shared
    }
}

/// A call that is under way, from its first look until nobody asks for the second any more.
struct CallInProgress {
    session: SessionId,
    call: CallId,
    overlaps: Arc<Mutex<Overlaps>>,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        // Does nothing where it has ended with its second look.
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
        let (session, overlaps) = (call.session_id, Arc::clone(&self.overlaps));
        let client = FileClient::of(call, call.cancel.clone());
        async move {
            // Nobody else waits while a client is asked.
            let unsaved = match (client, paths.clone()) {
                (Some(client), Some(paths)) => before::texts(client, Arc::clone(&workspace), paths).await,
                _ => HashMap::new(),
            };
            let of_call = Arc::clone(&workspace);
            let looking = self.work(session, "record what files hold before the call", move |kept| {
                let anywhere = paths.is_none();
                lock(&overlaps).begin(session, call_id.clone(), workspace.root.clone(), anywhere);
                let running = CallInProgress { session, call: call_id.clone(), overlaps };
                Ok((kept.before(&workspace, &call_id, paths.as_deref(), unsaved, guard)?, running))
            });
            let (mut before, running) = looking.await?;
            let (gaps, unchecked) = (before.notes.clone(), before.unchecked.clone());
            let (closed, unkept) = (std::mem::take(&mut before.closed), before.unkept());
            let after = self.clone().after(of_call, before, running).boxed();
            Ok(FilesBefore { closed, gaps, unchecked, unkept, after })
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
        let overlaps = Arc::clone(&self.overlaps);
        self.work(session, "find out what the call changed", move |kept| {
            let states = lock(&overlaps).set_aside.clone();
            let changes = kept.unfinished(&workspace, &call, states)?;
            lock(&overlaps).recovered(&changes.set_aside.changes);
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
        self.work(session, "take the changes back", move |kept| {
            let undone = kept.undo(&workspace, changes, preview)?;
            if !preview {
                lock(&overlaps).note(session, &undone.changes);
            }
            Ok(undone)
        })
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
        self.work(to, "keep what another session changed", move |kept| kept.adopt(changes))
    }

    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        lock(&self.sessions).retain(|(id, _)| *id != session);
        let folder = self.base.join(session.to_string());
        async move {
            blocking("remove what is kept to undo changes", move || gone(fs::remove_dir_all(folder))).await?;
            self.collect_soon();
            Ok(())
        }
        .boxed()
    }
}

/// Runs work on a thread that may block. `doing` completes the sentence "could not …".
async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, WorkspaceError> {
    let broke = |error| WorkspaceError::new(ErrorKind::Internal, format!("could not {doing}")).with_source(error);
    tokio::task::spawn_blocking(work).await.map_err(broke)?.map_err(|error| storage(doing, error))
}

fn storage(doing: &str, error: io::Error) -> WorkspaceError {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full; make room",
        _ => "look at the folder `undo` in the data folder of the daemon",
    };
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}")).with_hint(hint).with_source(error)
}
