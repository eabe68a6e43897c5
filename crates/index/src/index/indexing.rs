//! A document on its way into the index.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};

use super::{
    error::IndexError,
    id::DocumentId,
    view::{About, Entry},
    writer::Command,
};
use crate::chunk::Chunk;

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
            let owner = ask(&queue, |reply| Command::Begin { id, title, reply }).await?;
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
    #[must_use]
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
            ask(&self.queue, |reply| Command::Add { owner, chunks, reply }).await?;
        }
    }

    /// That was all of it. When this returns, it can be found, and stays so whatever happens to the process.
    ///
    /// # Errors
    /// When it cannot be written. Then nothing of it is there.
    pub async fn finish(mut self, about: About) -> Result<Arc<Entry>, IndexError> {
        let owner = self.owner;
        let entry = ask(&self.queue, |reply| Command::Finish { owner, about, reply }).await?;
        self.is_done = true;
        Ok(entry)
    }
}

impl Drop for Indexing {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let command = Command::Abandon { owner: self.owner };
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
pub(crate) async fn ask<T>(
    queue: &mpsc::Sender<Command>,
    command: impl FnOnce(oneshot::Sender<Result<T, IndexError>>) -> Command,
) -> Result<T, IndexError> {
    let (reply, answer) = oneshot::channel();
    queue.send(command(reply)).await.map_err(|_| IndexError::Closed)?;
    answer.await.map_err(|_| IndexError::Closed)?
}
