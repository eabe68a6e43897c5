//! Workspaces without files. The daemon's own texts are stored in memory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    files::{FilePiece, SessionTree},
    folder::Mounts,
    guide::{GuideLimits, Guides},
    ids::SessionId,
    ports::{Artifact, ArtifactDir, Workspace, Workspaces},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::Notify;

use crate::scripted::NoWorkspaces;

/// Stored texts, by session and path.
#[derive(Debug, Default)]
pub struct MemoryWorkspaces {
    kept: Mutex<BTreeMap<(SessionId, String), Vec<u8>>>,
    /// Uploaded files, by path.
    uploads: Mutex<BTreeMap<String, Vec<u8>>>,
    guides: Mutex<Guides>,
    full: AtomicBool,
    gone: AtomicBool,
    /// Gate at which uploads and removals wait, if set.
    gate: Mutex<Option<Arc<Gate>>>,
}

/// Gate at which file operations wait until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    reached: Notify,
    open: Notify,
}

impl Gate {
    /// Waits until an operation has reached the gate.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets the waiting operation continue.
    pub fn open(&self) {
        self.open.notify_one();
    }
}

impl MemoryWorkspaces {
    fn texts(&self) -> MutexGuard<'_, BTreeMap<(SessionId, String), Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the guides that workspaces return from now on.
    pub fn set_guides(&self, guides: Guides) {
        *self.guides.lock().unwrap_or_else(PoisonError::into_inner) = guides;
    }

    /// Makes each upload and each removal wait at a gate from now on, before it takes effect.
    pub fn hold(&self) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&gate));
        gate
    }

    /// Removes the gate, so that later operations do not wait.
    pub fn remove_gate(&self) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn wait_at_gate(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(gate) = gate {
            gate.reached.notify_one();
            gate.open.notified().await;
        }
    }

    /// Simulates a full disk: only the first half of an appended piece is written, and the call returns an error.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Simulates from now on that the user's folder is missing.
    pub fn simulate_missing_folder(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Deletes the texts under a path.
    pub fn lose(&self, path: &str) {
        self.texts().retain(|(_, known), _| known != path);
    }

    /// Returns the uploaded files, by path.
    pub fn uploads(&self) -> BTreeMap<String, Vec<u8>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the text under a path that [`Workspaces::keep`] returned.
    pub fn kept(&self, session: SessionId, path: &str) -> Option<Vec<u8>> {
        self.texts().get(&(session, path.to_owned())).cloned()
    }

    /// Returns the paths of all texts of a session, sorted.
    pub fn kept_paths(&self, session: SessionId) -> Vec<String> {
        self.texts().keys().filter(|(id, _)| *id == session).map(|(_, path)| path.clone()).collect()
    }
}

impl Workspaces for MemoryWorkspaces {
    fn open(&self, session: SessionId, mounts: Mounts) -> BoxFuture<'_, Result<Workspace, WorkspaceError>> {
        if self.gone.load(Ordering::Relaxed) {
            let gone = WorkspaceError::new(ErrorKind::NotFound, "the project folder is gone");
            return std::future::ready(Err(gone)).boxed();
        }
        NoWorkspaces.open(session, mounts).boxed()
    }

    fn clear_temp(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        async move {
            self.wait_at_gate().await;
            self.texts().retain(|(id, _), _| *id != session);
            Ok(())
        }
        .boxed()
    }

    fn add_upload(
        &self,
        _: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        async move {
            self.wait_at_gate().await;
            let path = format!("uploads/{name}");
            self.uploads.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), content);
            Ok(path)
        }
        .boxed()
    }

    fn store_input(
        &self,
        _: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, "txt"));
        let candidate = |number| match number {
            1 => format!("uploads/{name}"),
            number => format!("uploads/{stem}-{number}.{ending}"),
        };
        let is_free = |path: &String| uploads.get(path).is_none_or(|known| *known == content);
        let path = (1..1000).map(candidate).find(is_free).unwrap_or_default();
        if self.full.load(Ordering::Relaxed) && !uploads.contains_key(&path) {
            let full = WorkspaceError::new(ErrorKind::Storage, "the disk is full").with_hint("make room");
            return std::future::ready(Err(full)).boxed();
        }
        uploads.insert(path.clone(), content);
        std::future::ready(Ok(path)).boxed()
    }

    fn read_file(
        &self,
        _: SessionTree,
        path: String,
        offset: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<FilePiece, WorkspaceError>> {
        let content = self.texts().iter().find(|((_, known), _)| *known == path).map(|(_, content)| content.clone());
        let piece = content.ok_or_else(|| WorkspaceError::new(ErrorKind::NotFound, format!("there is no {path}")));
        let piece = piece.map(|whole| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let content = whole.iter().copied().skip(from).take(limit).collect();
            FilePiece { content, size: whole.len() as u64, modified: None }
        });
        std::future::ready(piece).boxed()
    }

    fn read_text(&self, _: SessionTree, path: String, limit: usize) -> BoxFuture<'_, Option<String>> {
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let content = uploads.get(&path).filter(|content| content.len() < limit).cloned();
        std::future::ready(content.and_then(|content| String::from_utf8(content).ok())).boxed()
    }

    fn keep(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        if self.full.load(Ordering::Relaxed) {
            let full = WorkspaceError::new(ErrorKind::Storage, "the disk is full").with_hint("make room");
            return std::future::ready(Err(full)).boxed();
        }
        let result = ArtifactDir::check_name(&name).map(|()| {
            let path = format!("{}/{name}", area.as_str());
            self.texts().insert((session, path.clone()), content);
            path
        });
        std::future::ready(result).boxed()
    }

    fn append_artifact(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        from: Option<u64>,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Artifact, WorkspaceError>> {
        let result = ArtifactDir::check_name(&name).and_then(|()| {
            let path = format!("{}/{name}", area.as_str());
            let mut texts = self.texts();
            let text = texts.entry((session, path.clone())).or_default();
            text.truncate(from.and_then(|from| usize::try_from(from).ok()).unwrap_or(usize::MAX));
            if self.full.load(Ordering::Relaxed) {
                text.extend(&content[..content.len() / 2]);
                return Err(WorkspaceError::new(ErrorKind::Storage, "the disk is full"));
            }
            text.extend(content);
            Ok(Artifact { path, bytes: text.len() as u64 })
        });
        std::future::ready(result).boxed()
    }

    fn guides<'a>(&'a self, _: &'a Workspace, _: GuideLimits) -> BoxFuture<'a, Guides> {
        let guides = self.guides.lock().unwrap_or_else(PoisonError::into_inner).clone();
        std::future::ready(guides).boxed()
    }

    fn paths<'a>(&'a self, _: &'a Workspace, _: usize) -> BoxFuture<'a, Result<Vec<String>, WorkspaceError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}
