//! Asynchronous interface of the index. [`LazyIndex`] opens the index on first use and closes it after an idle timeout.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use agentd_core::{knowledge::KnowledgeStats, mutex::lock};
use tokio::{
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
};
use tokio_util::sync::CancellationToken;

use crate::{
    failure::fail_if,
    index::{
        Claim, DocumentId, Entry, IndexConfig, IndexError,
        folder::{catch_damage, files_exist, size},
        indexing::request,
        view::{IndexState, View},
        writer::{self, CLOSE_TIMEOUT, Command, Writer},
    },
    recognition::RecognitionStamp,
    search::{self, Answer, Query, Request, StopConditions},
};

/// Number of concurrent lookups. A query takes about a millisecond, so more lookups would only contend with each other.
const MAX_QUERIES: usize = 4;
/// Number of concurrent scans of whole documents.
const MAX_SCANS: usize = 1;

/// Handle to the index. Clones share one index, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct IndexHandle {
    shared: Arc<IndexState>,
    queue: mpsc::Sender<Command>,
    /// Locks for the documents being indexed, so that no document is indexed twice at the same time.
    locks: Arc<Mutex<HashMap<DocumentId, Weak<tokio::sync::Mutex<()>>>>>,
    queries: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

impl IndexHandle {
    /// Opens the index. If the index is missing or damaged, creates a new one.
    ///
    /// # Errors
    /// Fails if the index folder cannot be used.
    pub async fn open(config: IndexConfig) -> Result<Self, IndexError> {
        let (queue, is_open) = writer::start(config)?;
        let shared = is_open.await.map_err(|_| IndexError::Closed)??;
        let turns = |most| Arc::new(Semaphore::new(most));
        let (queries, scans) = (turns(MAX_QUERIES), turns(MAX_SCANS));
        Ok(Self { shared, queue, locks: Arc::default(), queries, scans })
    }

    /// Returns the folder of the index files.
    pub fn folder(&self) -> &std::path::Path {
        &self.shared.config.folder
    }

    /// Returns the `ids` that are not indexed. If the index was deleted, starts a new one and returns all `ids`.
    ///
    /// # Errors
    /// Fails if the index was deleted and a new one cannot be created.
    pub async fn missing(&self, ids: &[DocumentId]) -> Result<Vec<DocumentId>, IndexError> {
        // The caller is about to use these documents, so protect them from the next sweep.
        self.shared.uses.touch(ids.iter(), (self.shared.config.now)());
        let mut view = self.shared.view();
        let snapshot = Arc::clone(&view);
        if !spawn_blocking(move || files_exist(snapshot.path.as_deref())).await.map_err(|_| IndexError::Closed)? {
            self.recreate(&view, "its folder was deleted").await?;
            view = self.shared.view();
        }
        Ok(ids.iter().filter(|id| !view.entries.contains_key(id)).copied().collect())
    }

    /// Returns true if all these documents are indexed and none is outdated. Does not check the disk: a search itself
    /// detects that the index was deleted.
    pub(crate) fn has_all<'a>(
        &self,
        mut ids: impl Iterator<Item = &'a DocumentId>,
        recognition: &RecognitionStamp,
    ) -> bool {
        let view = self.shared.view();
        ids.all(|id| view.entries.get(id).is_some_and(|entry| !entry.about.is_outdated(recognition)))
    }

    /// Returns the indexed documents that were replaced: they were read from the path of one of `documents` but are
    /// not among them.
    pub(crate) fn replaced(&self, documents: impl Iterator<Item = (DocumentId, Option<u64>)>) -> Vec<DocumentId> {
        let (ids, places): (HashSet<DocumentId>, HashSet<Option<u64>>) = documents.unzip();
        let is_replaced = |entry: &&Arc<Entry>| {
            entry.about.place.is_some() && places.contains(&entry.about.place) && !ids.contains(&entry.id)
        };
        self.shared.view().entries.values().filter(is_replaced).map(|entry| entry.id).collect()
    }

    /// Returns the entry of an indexed document.
    pub fn entry(&self, id: &DocumentId) -> Option<Arc<Entry>> {
        self.shared.view().entries.get(id).cloned()
    }

    /// Claims the exclusive right to index a document. Returns `None` if the document is already indexed and not
    /// outdated. Waits while another task indexes the same document.
    ///
    /// # Errors
    /// Fails if the index was deleted and a new one cannot be created.
    pub async fn claim(&self, id: &DocumentId, recognition: &RecognitionStamp) -> Result<Option<Claim>, IndexError> {
        let document_lock = self.lock_of(id).lock_owned().await;
        if self.has_all(std::iter::once(id), recognition) && self.missing(std::slice::from_ref(id)).await?.is_empty() {
            return Ok(None);
        }
        Ok(Some(Claim { queue: self.queue.clone(), id: *id, document_lock }))
    }

    /// Removes a document. Returns true if it was indexed.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub async fn remove(&self, id: &DocumentId) -> Result<bool, IndexError> {
        let id = *id;
        request(&self.queue, move |writer, reply| drop(reply.send(writer.remove(&id)))).await
    }

    /// Removes documents that have not been used for a long time and returns the number of removed documents. Indexing
    /// a document also triggers this, at most once an hour.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub async fn sweep(&self) -> Result<usize, IndexError> {
        request(&self.queue, |writer, reply| drop(reply.send(writer.sweep()))).await
    }

    /// Searches only the documents that the request names.
    ///
    /// # Errors
    /// Fails if cancelled, or if the index is damaged or was deleted. In the last two cases, a new index is created
    /// and the caller can retry after indexing.
    pub async fn search(&self, request: Request, cancel: CancellationToken) -> Result<Answer, IndexError> {
        // A regular expression may need to scan whole texts.
        let turns = if matches!(request.query, Query::Regex(_)) { &self.scans } else { &self.queries };
        let turn = tokio::select! {
            turn = Arc::clone(turns).acquire_owned() => turn.map_err(|_| IndexError::Closed)?,
            () = cancel.cancelled() => return Err(IndexError::Cancelled),
        };
        let documents = request.documents.iter().map(|document| &document.id);
        self.shared.uses.touch(documents, (self.shared.config.now)());
        let (shared, view) = (Arc::clone(&self.shared), self.shared.view());
        let snapshot = Arc::clone(&view);
        let found = spawn_blocking(move || {
            let _turn = turn;
            fail_if(!files_exist(snapshot.path.as_deref()), || IndexError::Lost("its folder was deleted".to_owned()))?;
            let stop = StopConditions { deadline: Instant::now() + request.within, cancel };
            catch_damage(|| search::search(&snapshot, &shared.dictionary, &request, &stop))
        });
        let found = found.await.map_err(|_| IndexError::Closed)?;
        if let Err(IndexError::Lost(reason)) = &found {
            self.recreate(&view, reason).await?;
        }
        found
    }

    /// Returns the texts of an indexed document for embedding, with their keys.
    pub(crate) async fn texts(&self, id: DocumentId) -> Result<Vec<(u64, String)>, IndexError> {
        let view = self.shared.view();
        spawn_blocking(move || catch_damage(|| view.texts(&id))).await.map_err(|_| IndexError::Closed)?
    }

    /// Returns the size of the index.
    ///
    /// # Errors
    /// Fails if the daemon is shutting down.
    pub async fn stats(&self) -> Result<KnowledgeStats, IndexError> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || {
            let view = shared.view();
            let stale_after = shared.config.stale_after.as_secs();
            let now = (shared.config.now)();
            let is_stale = |entry: &Arc<Entry>| now.saturating_sub(shared.uses.last(entry)) >= stale_after;
            KnowledgeStats {
                documents: view.entries.len() as u64,
                chunks: view.entries.values().map(|entry| u64::from(entry.chunks)).sum(),
                bytes: size(view.path.as_deref()),
                stale: view.entries.values().filter(|entry| is_stale(entry)).count() as u64,
                folder: shared.config.folder.clone(),
            }
        })
        .await
        .map_err(|_| IndexError::Closed)
    }

    /// Returns true if closing the index would not have to wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.is_idle() || self.queue.is_closed()
    }

    /// Commits pending writes, waits for merges and ends the writer thread. Later requests fail with
    /// [`IndexError::Closed`].
    ///
    /// # Errors
    /// Fails if closing takes too long. No data is lost.
    pub async fn close(&self) -> Result<(), IndexError> {
        let closed = request(&self.queue, Writer::close);
        match tokio::time::timeout(CLOSE_TIMEOUT, closed).await {
            Ok(Err(IndexError::Closed)) => Ok(()),
            Ok(closed) => closed,
            Err(_) => Err(IndexError::Internal("it took too long to close".to_owned())),
        }
    }

    async fn recreate(&self, view: &View, reason: &str) -> Result<(), IndexError> {
        let (epoch, reason) = (view.epoch, reason.to_owned());
        request(&self.queue, move |writer, reply| drop(reply.send(writer.rebuild_since(epoch, &reason)))).await
    }

    fn lock_of(&self, id: &DocumentId) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = lock(&self.locks);
        if let Some(lock) = locks.get(id).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(*id, Arc::downgrade(&lock));
        lock
    }
}

/// Index that is opened on demand. Clones share one index.
#[derive(Clone)]
pub(super) struct LazyIndex {
    config: Arc<IndexConfig>,
    state: Arc<tokio::sync::Mutex<State>>,
}

#[derive(Default)]
struct State {
    index: Option<Arc<IndexHandle>>,
    used: Option<tokio::time::Instant>,
    is_closed: bool,
}

impl LazyIndex {
    /// Creates a closed index. Nothing is opened or started before [`take`](Self::take).
    pub(super) fn new(config: IndexConfig) -> Self {
        Self { config: Arc::new(config), state: Arc::default() }
    }

    pub(super) fn config(&self) -> &IndexConfig {
        &self.config
    }

    /// Returns the index, opening it if necessary. The index stays open at least as long as the caller holds the
    /// handle.
    pub(super) async fn take(&self) -> Result<Arc<IndexHandle>, IndexError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        fail_if(state.is_closed, || IndexError::Closed)?;
        state.used = Some(tokio::time::Instant::now());
        if let Some(index) = &state.index {
            return Ok(Arc::clone(index));
        }
        let (config, shared) = (IndexConfig::clone(&self.config), Arc::downgrade(&self.state));
        // Opened in a separate task that is not cancelled with the caller: a cancelled open would leave the files
        // locked for the next caller.
        let opened = tokio::spawn(async move {
            let after = config.rest_after;
            let index = Arc::new(IndexHandle::open(config).await?);
            state.index = Some(Arc::clone(&index));
            // This task ends with the index and only holds a weak reference to it.
            tokio::spawn(close_when_idle(shared, after));
            Ok(index)
        });
        opened.await.map_err(|_| IndexError::Closed)?
    }

    pub(super) async fn is_open(&self) -> bool {
        self.state.lock().await.index.is_some()
    }

    /// Commits pending writes and closes the index permanently.
    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(index) = state.index.take() {
            close(index).await;
        }
    }
}

/// Closes the index after it has been idle for `after`, to free its memory and end its thread.
async fn close_when_idle(state: Weak<tokio::sync::Mutex<State>>, after: Duration) {
    loop {
        tokio::time::sleep(after).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock().await;
        let is_idle = state.used.is_none_or(|used| used.elapsed() >= after);
        match state.index.take() {
            None => return,
            // Not closed while segments are merged: the next caller would have to wait, or would find the files still
            // locked.
            Some(index) if is_idle && Arc::strong_count(&index) == 1 && index.is_idle() => {
                // The lock prevents a concurrent `take`, because two open indexes would conflict.
                close(index).await;
                return;
            }
            in_use => state.index = in_use,
        }
    }
}

async fn close(index: Arc<IndexHandle>) {
    if let Err(error) = index.close().await {
        tracing::warn!("the document index was not changed: {error}");
    }
    drop(index);
    release_memory();
}

/// Returns freed memory to the system, used after the index has closed.
///
/// The allocator keeps freed blocks for later allocations, some tens of megabytes for the dictionary and the writer. A
/// daemon that is idle for days would never reuse these blocks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator offers this as a foreign function only")]
pub fn release_memory() {
    // SAFETY: `malloc_trim` takes a number and no pointer, may be called at any time from any thread, and only affects
    // pages that contain no allocation.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Does nothing: other allocators return memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_memory() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Kind,
        index::{ContentHash, DocumentId, DocumentProperties},
    };

    #[tokio::test(start_paused = true)]
    async fn index_is_not_closed_while_written() {
        let folder = tempfile::tempdir().unwrap();
        let config = IndexConfig::new(folder.path().join("index"), Arc::new(|| 1_700_000_000));
        let after = config.rest_after;
        let index = LazyIndex::new(config);
        let id = DocumentId::new(ContentHash::of(b"slow"), Kind::Pdf, 1);
        let open = index.take().await.unwrap();
        let claim = open.claim(&id, &RecognitionStamp::default()).await.unwrap().unwrap();
        let indexing = claim.begin(None).await.unwrap();
        drop(open);
        tokio::time::sleep(after * 3).await;
        assert!(index.is_open().await);
        tokio::time::resume();
        indexing.finish(DocumentProperties::default()).await.unwrap();
        index.close().await;
        assert!(!index.is_open().await);
    }
}
