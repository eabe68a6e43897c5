//! Writer thread, the only thread that changes the index files.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tantivy::{IndexWriter, Term, indexer::IndexWriterOptions};
use tokio::sync::{mpsc, oneshot};

use super::{
    DocumentId, IndexConfig, IndexError,
    folder::{Folder, busy_merge_policy, catch_damage, files_exist, idle_merge_policy, size},
    indexing::{Batch, PendingDocument, Reply, chunk_document, entry_document},
    view::{DocumentProperties, Entries, Entry, IndexState, LastUses, View, scan_content, select_evicted},
};
use crate::{analyze::Dictionary, chunk::Chunk};

/// Maximum number of queued commands. A command has at most a few dozen chunks.
const QUEUE_CAPACITY: usize = 8;

/// Memory in which chunks are buffered before they are written, in bytes. The library's minimum is 15,000,000.
const BUFFER_BYTES: usize = 16_000_000;
/// Number of complete documents that trigger a commit.
const COMMIT_DOCUMENTS: usize = 64;
/// Maximum time that a complete document waits for a commit.
const COMMIT_WAIT: Duration = Duration::from_millis(500);

/// Interval between sweeps for unused documents, in seconds.
const SWEEP_INTERVAL: u64 = 3600;

/// Command for the writer.
pub(crate) type Command = Box<dyn FnOnce(&mut Writer) + Send>;

/// Resolves to the shared state once the index is open.
pub(crate) type OpenIndex = oneshot::Receiver<Result<Arc<IndexState>, IndexError>>;

/// Starts the writer thread, which opens the index and then reports the result.
pub(crate) fn start(config: IndexConfig) -> io::Result<(mpsc::Sender<Command>, OpenIndex)> {
    let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
    let (opened, is_open) = oneshot::channel();
    thread::Builder::new().name("index-writer".to_owned()).spawn(move || {
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build();
        match timer.map_err(IndexError::from).and_then(|timer| Ok((timer, Writer::open(config)?))) {
            Ok((timer, writer)) => {
                if opened.send(Ok(Arc::clone(&writer.shared))).is_ok() {
                    writer.run(queue, &timer);
                }
            }
            // The caller may no longer wait for the answer.
            Err(error) => drop(opened.send(Err(error))),
        }
    })?;
    Ok((sender, is_open))
}

/// State of the writer thread.
pub(crate) struct Writer {
    shared: Arc<IndexState>,
    folder: Folder,
    /// The library's writer. It only exists while there is work, because it uses much memory. It is only dropped [at
    /// rest](Self::rest) or after a failure, since dropping it kills running merges.
    writer: Option<IndexWriter>,
    entries: Arc<Entries>,
    batch: Batch,
    /// Numbers of documents whose chunks the next commit removes.
    orphans: Vec<u32>,
    next_owner: u32,
    /// Time since which complete documents have been waiting for a commit, if any are.
    waiting_since: Option<Instant>,
    swept_at: u64,
    epoch: u64,
    /// True if nothing has been written since segments were last merged for a rest.
    is_merged: bool,
    /// Caller that waits for the writer to end.
    closing: Option<Reply<()>>,
}

impl Writer {
    fn open(config: IndexConfig) -> Result<Self, IndexError> {
        let dictionary = Arc::new(Dictionary::default());
        let (mut folder, mut damage) = Folder::open(&config, &dictionary)?;
        let found = match catch_damage(|| scan_content(&folder)) {
            Ok(found) => found,
            Err(error) if error.is_damage() => {
                damage = Some(error.to_string());
                folder.path.as_deref().map_or(Ok(()), std::fs::remove_dir_all)?;
                (folder, _) = Folder::open(&config, &dictionary)?;
                scan_content(&folder)?
            }
            Err(error) => return Err(error),
        };
        if let Some(reason) = damage {
            tracing::warn!(why = %reason, "rebuilding the damaged search index; documents are indexed again when needed");
        }
        let entries = Arc::new(found.entries);
        let uses = LastUses::default();
        if let Some(path) = &folder.path {
            uses.load(path);
        }
        let view = View::new(&folder, Arc::clone(&entries), 0);
        Ok(Self {
            shared: Arc::new(IndexState::new(config, dictionary, uses, view)),
            folder,
            writer: None,
            entries,
            batch: Batch::default(),
            orphans: found.orphans,
            next_owner: found.next_owner,
            waiting_since: None,
            swept_at: 0,
            epoch: 0,
            is_merged: false,
            closing: None,
        })
    }

    fn run(mut self, mut queue: mpsc::Receiver<Command>, timer: &tokio::runtime::Runtime) {
        while self.closing.is_none() {
            let command = if let Some(since) = self.waiting_since {
                match self.next_while_waiting(since, &mut queue, timer) {
                    Some(command) => Some(command),
                    None => {
                        self.commit();
                        continue;
                    }
                }
            } else if self.writer.is_some() {
                let rest_after = self.shared.config.rest_after;
                match timer.block_on(async { tokio::time::timeout(rest_after / 2, queue.recv()).await }) {
                    Ok(command) => command,
                    Err(_) => {
                        self.idle();
                        continue;
                    }
                }
            } else {
                self.shared.set_busy(false);
                queue.blocking_recv()
            };
            let Some(command) = command else { break };
            command(&mut self);
        }
        self.batch.fail(&IndexError::Closed);
        self.rest();
        if let Some(reply) = self.closing.take() {
            // Releases the lock on the files before the caller is notified.
            drop(self);
            let _ = reply.send(Ok(()));
        }
    }

    /// Returns the next command while complete documents wait for a commit, or `None` if it is time to commit.
    /// Documents only wait while other documents are open, in order to share one commit and its disk sync.
    fn next_while_waiting(
        &self,
        since: Instant,
        queue: &mut mpsc::Receiver<Command>,
        timer: &tokio::runtime::Runtime,
    ) -> Option<Command> {
        if self.batch.done.len() >= COMMIT_DOCUMENTS {
            return None;
        }
        if self.batch.open.is_empty() {
            return queue.try_recv().ok();
        }
        let left = COMMIT_WAIT.checked_sub(since.elapsed())?;
        timer.block_on(async { tokio::time::timeout(left, queue.recv()).await }).ok().flatten()
    }

    /// Ends the thread after the current command. `reply` is sent once everything has been committed.
    pub(crate) fn close(&mut self, reply: Reply<()>) {
        self.closing = Some(reply);
    }

    /// Discards a document that its caller dropped.
    pub(crate) fn discard(&mut self, owner: u32) {
        if self.batch.open.remove(&owner).is_some() {
            self.orphans.push(owner);
        }
    }

    /// Rebuilds the index, unless it has already been rebuilt since `epoch`.
    pub(crate) fn rebuild_since(&mut self, epoch: u64, reason: &str) -> Result<(), IndexError> {
        if epoch == self.epoch { self.recreate(reason) } else { Ok(()) }
    }

    /// Opens a document and returns its number.
    pub(crate) fn begin(&mut self, id: DocumentId, title: Option<String>) -> Result<u32, IndexError> {
        if !files_exist(self.folder.path.as_deref()) {
            self.recreate("its folder was deleted")?;
        }
        if (self.shared.config.now)().saturating_sub(self.swept_at) >= SWEEP_INTERVAL {
            self.sweep()?;
        }
        self.ensure_writer()?;
        let owner = self.next_owner;
        self.next_owner += 1;
        self.batch.open.insert(owner, PendingDocument { id, title, chunks: 0, last: None });
        Ok(owner)
    }

    /// Adds chunks to an open document.
    pub(crate) fn add(&mut self, owner: u32, chunks: &[Chunk]) -> Result<(), IndexError> {
        let Some(open) = self.batch.open.get_mut(&owner) else { return Err(self.batch.failure()) };
        let numbered = chunks.iter().map(|chunk| (open.number(&chunk.place), chunk));
        let numbered: Vec<(u32, &Chunk)> = numbered.collect();
        let document =
            |(ordinal, chunk)| chunk_document(&self.folder.fields, owner, ordinal, open.title.as_deref(), chunk);
        let documents: Vec<_> = numbered.into_iter().map(document).collect();
        let gate = Arc::clone(&self.folder.gate);
        self.write(|writer| {
            for document in documents {
                gate.enter();
                writer.add_document(document)?;
            }
            Ok(())
        })
    }

    /// Completes a document, which is then committed with others.
    pub(crate) fn finish(&mut self, owner: u32, about: DocumentProperties, reply: Reply<Arc<Entry>>) {
        let Some(PendingDocument { id, title, chunks, .. }) = self.batch.open.remove(&owner) else {
            drop(reply.send(Err(self.batch.failure())));
            return;
        };
        let entry = Arc::new(Entry { id, title, about, chunks, indexed_at: (self.shared.config.now)(), owner });
        let document = entry_document(&self.folder.fields, &entry);
        self.batch.done.push((Arc::clone(&entry), reply));
        let previous = self.entries.get(&entry.id).map(|previous| previous.owner);
        let owner_field = self.folder.fields.owner;
        // On failure, the caller is notified together with the rest of the batch.
        let written = self.write(|writer| {
            writer.add_document(document)?;
            if let Some(previous) = previous {
                writer.delete_term(Term::from_field_u64(owner_field, u64::from(previous)));
            }
            Ok(())
        });
        if written.is_ok() {
            self.waiting_since.get_or_insert_with(Instant::now);
        }
    }

    pub(crate) fn remove(&mut self, id: &DocumentId) -> Result<bool, IndexError> {
        let Some(entry) = self.entries.get(id).cloned() else { return Ok(false) };
        self.remove_entries(&[entry])?;
        Ok(true)
    }

    /// Removes unused documents and returns the number of removed documents.
    pub(crate) fn sweep(&mut self) -> Result<usize, IndexError> {
        let now = (self.shared.config.now)();
        self.swept_at = now;
        let evicted = select_evicted(&self.entries, &self.shared, size(self.folder.path.as_deref()), now);
        if !evicted.is_empty() {
            tracing::info!(documents = evicted.len(), "removed unused documents from the search index");
            self.remove_entries(&evicted)?;
        }
        Ok(evicted.len())
    }

    fn remove_entries(&mut self, evicted: &[Arc<Entry>]) -> Result<(), IndexError> {
        self.orphans.extend(evicted.iter().map(|entry| entry.owner));
        let entries = Arc::make_mut(&mut self.entries);
        for entry in evicted {
            entries.remove(&entry.id);
        }
        self.ensure_writer()?;
        self.write(commit)?;
        self.publish_commit()
    }

    /// Commits complete documents and notifies their callers.
    fn commit(&mut self) {
        self.waiting_since = None;
        if self.write(commit).is_ok()
            && let Err(error) = self.publish_commit()
        {
            self.discard_batch(&error);
        }
    }

    /// Publishes the last commit and notifies the callers.
    fn publish_commit(&mut self) -> Result<(), IndexError> {
        catch_damage(|| Ok(self.folder.reader.reload()?))?;
        let done = std::mem::take(&mut self.batch.done);
        let entries = Arc::make_mut(&mut self.entries);
        for (entry, _) in &done {
            entries.insert(entry.id, Arc::clone(entry));
        }
        self.publish();
        for (entry, reply) in done {
            let _ = reply.send(Ok(entry));
        }
        Ok(())
    }

    fn publish(&self) {
        self.shared.publish(View::new(&self.folder, Arc::clone(&self.entries), self.epoch));
    }

    /// Creates the library's writer if necessary and applies pending deletions.
    fn ensure_writer(&mut self) -> Result<(), IndexError> {
        if self.writer.is_none() {
            let options = IndexWriterOptions::builder()
                .memory_budget_per_thread(BUFFER_BYTES)
                .num_worker_threads(1)
                .num_merge_threads(1)
                .build();
            self.folder.gate.clear();
            let writer: IndexWriter = catch_damage(|| Ok(self.folder.index.writer_with_options(options)?))?;
            (self.writer, self.is_merged) = (Some(writer), true);
            self.shared.set_busy(true);
        }
        if let Some(writer) = &self.writer {
            if std::mem::take(&mut self.is_merged) {
                writer.set_merge_policy(busy_merge_policy(self.shared.config.in_memory));
            }
            for owner in self.orphans.drain(..) {
                writer.delete_term(Term::from_field_u64(self.folder.fields.owner, u64::from(owner)));
            }
        }
        Ok(())
    }

    /// Runs a write operation. A failure discards the whole batch, since the library does not report which part was
    /// written.
    fn write(&mut self, act: impl FnOnce(&mut IndexWriter) -> Result<(), IndexError>) -> Result<(), IndexError> {
        let written = self.ensure_writer().and_then(|()| match &mut self.writer {
            Some(writer) => catch_damage(|| {
                act(writer).map_err(|error| match error {
                    // The library only reports that its writer is dead. A commit returns the cause.
                    IndexError::Internal(_) => writer.commit().err().map_or(error, IndexError::from),
                    error => error,
                })
            }),
            None => Err(IndexError::Closed),
        });
        if let Err(error) = &written {
            self.discard_batch(error);
        }
        written
    }

    fn discard_batch(&mut self, error: &IndexError) {
        tracing::warn!(%error, "could not write the search index");
        self.waiting_since = None;
        self.orphans.extend(self.batch.fail(error));
        self.writer = None;
        self.folder.gate.clear();
        if error.is_damage() || !files_exist(self.folder.path.as_deref()) {
            if let Err(error) = self.recreate(&error.to_string()) {
                tracing::warn!(%error, "could not rebuild the search index");
            }
        } else if let Err(error) = self.reload_view() {
            tracing::warn!(%error, "could not scan the search index");
        }
    }

    /// Reloads the index from the last commit.
    fn reload_view(&mut self) -> Result<(), IndexError> {
        catch_damage(|| Ok(self.folder.reader.reload()?))?;
        let found = catch_damage(|| scan_content(&self.folder))?;
        self.entries = Arc::new(found.entries);
        self.orphans = found.orphans;
        self.publish();
        Ok(())
    }

    /// Deletes the index and creates an empty one.
    fn recreate(&mut self, reason: &str) -> Result<(), IndexError> {
        tracing::warn!(why = %reason, "rebuilding the search index; documents are indexed again when needed");
        self.waiting_since = None;
        self.batch.fail(&IndexError::Lost(reason.to_owned()));
        self.orphans.clear();
        self.writer = None;
        match self.folder.path.as_deref().map_or(Ok(()), std::fs::remove_dir_all) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        (self.folder, _) = Folder::open(&self.shared.config, &self.shared.dictionary)?;
        self.entries = Arc::default();
        self.epoch += 1;
        self.publish();
        Ok(())
    }

    /// Handles a period without commands. The first call starts merges, and the second call waits for them and
    /// releases the writer. A command that arrives between the two calls does not wait for the merges.
    fn idle(&mut self) {
        let is_busy = self.writer.is_some() && self.batch.open.is_empty();
        if !is_busy || self.is_merged || self.shared.config.in_memory {
            return self.rest();
        }
        // A commit makes the library look for segments to merge.
        let merging = self.write(|writer| {
            writer.set_merge_policy(idle_merge_policy());
            commit(writer)
        });
        self.is_merged = merging.is_ok();
    }

    /// Releases all resources that are only needed for writing, once merges have finished.
    fn rest(&mut self) {
        if !self.batch.open.is_empty() {
            return;
        }
        // Done before waiting for merges, because closing may time out during the wait.
        if let Some(path) = &self.folder.path
            && let Err(error) = self.shared.uses.save(path, |id| self.entries.contains_key(id))
        {
            tracing::debug!(%error, "could not store the times when documents were last used");
        }
        if !self.orphans.is_empty() && self.writer.is_some() {
            // A failure is logged, and the removal is retried at the next start.
            let _ = self.write(commit);
        }
        if let Some(writer) = self.writer.take() {
            let finished = catch_damage(|| {
                writer.wait_merging_threads()?;
                Ok(self.folder.reader.reload()?)
            });
            if let Err(error) = finished {
                tracing::warn!(%error, "could not stop the search index");
            }
            self.publish();
        }
    }
}

fn commit(writer: &mut IndexWriter) -> Result<(), IndexError> {
    writer.commit()?;
    Ok(())
}

/// Time limit for closing, since a merge may take long.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
