//! Documents that are being indexed: [`Claim`] and [`Indexing`] for callers, `Batch` for the writer.

use std::{collections::HashMap, sync::Arc};

use tantivy::TantivyDocument;
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};

use super::{
    DocumentId, IndexError,
    schema::{ENTRY_ORDINAL, Fields, key},
    view::{DocumentProperties, Entry},
    writer::{Command, Writer},
};
use crate::{chunk::Chunk, document::DocumentPlace};

/// Maximum number of chunks per command to the writer.
const CHUNKS_PER_COMMAND: usize = 64;

/// Exclusive right to index a document, obtained before any part of it has been read.
#[derive(Debug)]
pub struct Claim {
    pub(crate) queue: mpsc::Sender<Command>,
    pub(crate) id: DocumentId,
    pub(crate) document_lock: OwnedMutexGuard<()>,
}

impl Claim {
    /// Starts to index the document.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub async fn begin(self, title: Option<String>) -> Result<Indexing, IndexError> {
        let Self { queue, id, document_lock } = self;
        // Runs in a separate task, which is not cancelled with the caller: otherwise the writer could wait for a
        // document that is never finished.
        let indexing = tokio::spawn(async move {
            let owner = request(&queue, move |writer, reply| drop(reply.send(writer.begin(id, title)))).await?;
            Ok(Indexing { queue, owner, chunks: 0, is_done: false, _document_lock: document_lock })
        });
        indexing.await.map_err(|_| IndexError::Closed)?
    }
}

/// Document that is being indexed. The document becomes searchable when [`finish`](Self::finish) returns. If this value
/// is dropped earlier, nothing of the document remains.
#[derive(Debug)]
pub struct Indexing {
    queue: mpsc::Sender<Command>,
    owner: u32,
    chunks: u32,
    is_done: bool,
    /// Prevents other tasks from indexing the same document.
    _document_lock: OwnedMutexGuard<()>,
}

impl Indexing {
    /// Returns the number of chunks added so far.
    pub const fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Adds chunks. Waits while the writer's queue is full.
    ///
    /// # Errors
    /// Fails if the chunks cannot be written. In that case, the document is lost and must be indexed again.
    pub async fn add(&mut self, chunks: Vec<Chunk>) -> Result<(), IndexError> {
        let mut rest = chunks.into_iter();
        loop {
            let chunks: Vec<Chunk> = rest.by_ref().take(CHUNKS_PER_COMMAND).collect();
            if chunks.is_empty() {
                return Ok(());
            }
            self.chunks += u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            let owner = self.owner;
            request(&self.queue, move |writer, reply| drop(reply.send(writer.add(owner, &chunks)))).await?;
        }
    }

    /// Completes the document. Once this returns, the document is searchable and survives a crash.
    ///
    /// # Errors
    /// Fails if the document cannot be written. In that case, nothing is stored.
    pub async fn finish(mut self, about: DocumentProperties) -> Result<Arc<Entry>, IndexError> {
        let owner = self.owner;
        let entry = request(&self.queue, move |writer, reply| writer.finish(owner, about, reply)).await?;
        self.is_done = true;
        Ok(entry)
    }
}

impl Drop for Indexing {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let owner = self.owner;
        let command: Command = Box::new(move |writer| writer.discard(owner));
        if let Err(mpsc::error::TrySendError::Full(command)) = self.queue.try_send(command) {
            let queue = self.queue.clone();
            // Without a runtime, no task can wait for the queue. In that case, the chunks are removed at the next
            // start.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { queue.send(command).await });
            }
        }
    }
}

/// Sends a command to the writer and waits for its answer.
pub(crate) async fn request<T: Send + 'static>(
    queue: &mpsc::Sender<Command>,
    command: impl FnOnce(&mut Writer, Reply<T>) + Send + 'static,
) -> Result<T, IndexError> {
    let (reply, answer) = oneshot::channel();
    queue.send(Box::new(move |writer| command(writer, reply))).await.map_err(|_| IndexError::Closed)?;
    answer.await.map_err(|_| IndexError::Closed)?
}

/// Channel for the answer to a command.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, IndexError>>;

/// Document that is receiving chunks.
#[derive(Debug)]
pub(crate) struct PendingDocument {
    pub(crate) id: DocumentId,
    pub(crate) title: Option<String>,
    pub(crate) chunks: u32,
    /// Ordinal and place of the last chunk.
    pub(super) last: Option<(u32, DocumentPlace)>,
}

impl PendingDocument {
    /// Counts the next chunk and returns its ordinal. One ordinal is skipped after each page, so that consecutive
    /// ordinals always belong to the same page.
    pub(crate) fn number(&mut self, place: &DocumentPlace) -> u32 {
        let is_section = |place: &DocumentPlace| matches!(place, DocumentPlace::Section { .. });
        // Text continues across the end of a section.
        let is_text = is_section(place) && self.last.as_ref().is_some_and(|(_, last)| is_section(last));
        let ordinal = match &self.last {
            Some((last, before)) => last.saturating_add(if before.is_same(place) || is_text { 1 } else { 2 }),
            None => 0,
        };
        self.chunks = self.chunks.saturating_add(1);
        self.last = Some((ordinal, place.clone()));
        ordinal
    }
}

/// Documents that the writer is working on.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Documents that still receive chunks, by their number.
    pub(crate) open: HashMap<u32, PendingDocument>,
    /// Complete documents that wait for a commit, with their callers.
    pub(crate) done: Vec<(Arc<Entry>, Reply<Arc<Entry>>)>,
    /// Error that discarded the last batch, reported to callers that continue with a document in that batch.
    failure: Option<IndexError>,
}

impl Batch {
    /// Discards all documents and returns their numbers.
    pub(crate) fn fail(&mut self, error: &IndexError) -> Vec<u32> {
        let mut owners: Vec<u32> = self.open.drain().map(|(owner, _)| owner).collect();
        for (entry, reply) in self.done.drain(..) {
            owners.push(entry.owner);
            // The caller may no longer wait for the answer.
            let _ = reply.send(Err(error.clone()));
        }
        self.failure = Some(error.clone());
        owners
    }

    /// Returns the reason why a document is no longer open.
    pub(crate) fn failure(&self) -> IndexError {
        self.failure.clone().unwrap_or_else(|| IndexError::Internal("the document is not being indexed".to_owned()))
    }
}

/// Converts a chunk to a library document.
pub(crate) fn chunk_document(
    fields: &Fields,
    owner: u32,
    ordinal: u32,
    title: Option<&str>,
    chunk: &Chunk,
) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_u64(fields.key, key(owner, ordinal));
    document.add_u64(fields.owner, u64::from(owner));
    document.add_text(fields.words, &chunk.text);
    document.add_text(fields.exact, &chunk.text);
    for heading in title.into_iter().chain(chunk.heading.as_deref()) {
        document.add_text(fields.heading, heading);
    }
    document.add_bytes(fields.record, &serialize_record(chunk));
    document
}

/// Converts an entry to a library document.
pub(crate) fn entry_document(fields: &Fields, entry: &Entry) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_u64(fields.key, key(entry.owner, ENTRY_ORDINAL));
    document.add_u64(fields.owner, u64::from(entry.owner));
    document.add_bytes(fields.record, &serialize_record(entry));
    document
}

/// Serialises a chunk or an entry. Serialisation cannot fail, as neither contains a map with non-string keys. An empty
/// record would be reported when it is read.
fn serialize_record(of: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_default()
}
