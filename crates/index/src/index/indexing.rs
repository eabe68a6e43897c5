//! Documents on their way into the index, as whoever brings them and as the writer has them.

use std::{collections::HashMap, sync::Arc};

use tantivy::TantivyDocument;
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};

use super::{
    DocumentId, IndexError,
    schema::{ENTRY_ORDINAL, Fields, key},
    view::{About, Entry},
    writer::{Command, Writer},
};
use crate::{chunk::Chunk, document::DocumentPlace};

/// Number of chunks that go to the writer at once.
const AT_ONCE: usize = 64;

/// The right to index a document, which nobody else has meanwhile. It begins when the document is known.
#[derive(Debug)]
pub struct Claim {
    queue: mpsc::Sender<Command>,
    id: DocumentId,
    alone: OwnedMutexGuard<()>,
}

impl Claim {
    pub(crate) const fn new(queue: mpsc::Sender<Command>, id: DocumentId, alone: OwnedMutexGuard<()>) -> Self {
        Self { queue, id, alone }
    }

    /// Begins.
    ///
    /// # Errors
    /// When nothing can be written.
    pub async fn begin(self, title: Option<String>) -> Result<Indexing, IndexError> {
        let Self { queue, id, alone } = self;
        // On a task of its own: given up half-way, the writer would wait for a document with which nobody goes on.
        let begun = tokio::spawn(async move {
            let owner = ask(&queue, move |writer, reply| drop(reply.send(writer.begin(id, title)))).await?;
            Ok(Indexing { queue, owner, chunks: 0, is_done: false, _alone: alone })
        });
        begun.await.map_err(|_| IndexError::Closed)?
    }
}

/// A document on its way into the index. It is there when [`finish`](Self::finish) has returned, and dropping this before
/// leaves nothing of it.
#[derive(Debug)]
pub struct Indexing {
    queue: mpsc::Sender<Command>,
    owner: u32,
    chunks: u32,
    is_done: bool,
    /// Nobody else indexes the same document meanwhile.
    _alone: OwnedMutexGuard<()>,
}

impl Indexing {
    /// Number of its chunks so far.
    pub const fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Its next chunks. Waits while the writer is behind.
    ///
    /// # Errors
    /// When they cannot be written. Then the document comes to nothing.
    pub async fn add(&mut self, chunks: Vec<Chunk>) -> Result<(), IndexError> {
        let mut rest = chunks.into_iter();
        loop {
            let chunks: Vec<Chunk> = rest.by_ref().take(AT_ONCE).collect();
            if chunks.is_empty() {
                return Ok(());
            }
            self.chunks += u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            let owner = self.owner;
            ask(&self.queue, move |writer, reply| drop(reply.send(writer.add(owner, &chunks)))).await?;
        }
    }

    /// That was all of it. When this returns, it can be found, and stays so whatever happens to the process.
    ///
    /// # Errors
    /// When it cannot be written. Then nothing of it is there.
    pub async fn finish(mut self, about: About) -> Result<Arc<Entry>, IndexError> {
        let owner = self.owner;
        let entry = ask(&self.queue, move |writer, reply| writer.finish(owner, about, reply)).await?;
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
        let command: Command = Box::new(move |writer| writer.abandon(owner));
        if let Err(mpsc::error::TrySendError::Full(command)) = self.queue.try_send(command) {
            let queue = self.queue.clone();
            // Outside a runtime nothing can wait; then it is cleaned away at the next start.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { queue.send(command).await });
            }
        }
    }
}

/// Asks the writer, and waits for its answer.
pub(crate) async fn ask<T: Send + 'static>(
    queue: &mpsc::Sender<Command>,
    command: impl FnOnce(&mut Writer, Reply<T>) + Send + 'static,
) -> Result<T, IndexError> {
    let (reply, answer) = oneshot::channel();
    queue.send(Box::new(move |writer| command(writer, reply))).await.map_err(|_| IndexError::Closed)?;
    answer.await.map_err(|_| IndexError::Closed)?
}

/// An answer that somebody waits for.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, IndexError>>;

/// A document of which chunks come in.
#[derive(Debug)]
pub(crate) struct PendingDocument {
    pub(crate) id: DocumentId,
    pub(crate) title: Option<String>,
    pub(crate) chunks: u32,
    /// Ordinal of the last chunk, and where it stands.
    last: Option<(u32, DocumentPlace)>,
}

impl PendingDocument {
    pub(crate) const fn new(id: DocumentId, title: Option<String>) -> Self {
        Self { id, title, chunks: 0, last: None }
    }

    /// Counts the next chunk, and returns its ordinal. One is left free where a page ends, so that ordinals follow each other within
    /// a page only.
    pub(crate) fn number(&mut self, place: &DocumentPlace) -> u32 {
        let is_section = |place: &DocumentPlace| matches!(place, DocumentPlace::Section { .. });
        // Where a section ends, the text goes on.
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

/// The documents that the writer is at.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// By their numbers: those of which chunks come in.
    pub(crate) open: HashMap<u32, PendingDocument>,
    /// Those that are whole and wait to be written for good, with whoever waits for that.
    pub(crate) done: Vec<(Arc<Entry>, Reply<Arc<Entry>>)>,
    /// Why the last ones came to nothing: whoever goes on with them is told so.
    failure: Option<IndexError>,
}

impl Batch {
    /// All of them come to nothing. Tells which numbers they had.
    pub(crate) fn fail(&mut self, error: &IndexError) -> Vec<u32> {
        let mut owners: Vec<u32> = self.open.drain().map(|(owner, _)| owner).collect();
        for (entry, reply) in self.done.drain(..) {
            owners.push(entry.owner);
            // Who no longer waits needs no answer.
            let _ = reply.send(Err(error.clone()));
        }
        self.failure = Some(error.clone());
        owners
    }

    /// Why a document that was open is not open any longer.
    pub(crate) fn failure(&self) -> IndexError {
        self.failure.clone().unwrap_or_else(|| IndexError::Internal("the document is not being indexed".to_owned()))
    }
}

/// A chunk as the library takes it.
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
    document.add_bytes(fields.record, &record(chunk));
    document
}

/// The entry of a document as the library takes it.
pub(crate) fn entry_document(fields: &Fields, entry: &Entry) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_u64(fields.key, key(entry.owner, ENTRY_ORDINAL));
    document.add_u64(fields.owner, u64::from(entry.owner));
    document.add_bytes(fields.record, &record(entry));
    document
}

/// Neither has a map whose keys are no strings, so it cannot fail; what is empty cannot be read back and is told then.
fn record(of: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_default()
}
