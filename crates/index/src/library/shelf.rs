//! The index while it is needed: opened by whoever needs it first, and put away when nobody has for a while.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

use crate::{
    handle::IndexHandle,
    index::{IndexConfig, IndexError},
};

/// The index, open or put away. Clones are of the same one.
#[derive(Debug, Clone)]
pub(super) struct LazyIndex {
    config: Arc<IndexConfig>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    index: Option<Arc<IndexHandle>>,
    used: Option<Instant>,
    is_closed: bool,
}

impl LazyIndex {
    /// Nothing is opened and nothing runs before the index is taken.
    pub(super) fn new(config: IndexConfig) -> Self {
        Self { config: Arc::new(config), state: Arc::default() }
    }

    pub(super) fn config(&self) -> &IndexConfig {
        &self.config
    }

    /// The index. It stays open at least as long as somebody holds it.
    pub(super) async fn take(&self) -> Result<Arc<IndexHandle>, IndexError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        if state.is_closed {
            return Err(IndexError::Closed);
        }
        state.used = Some(Instant::now());
        if let Some(index) = &state.index {
            return Ok(Arc::clone(index));
        }
        let (config, shared) = (IndexConfig::clone(&self.config), Arc::downgrade(&self.state));
        // On a task of its own, which nobody gives up half-way: the next one would find the files still taken.
        let opened = tokio::spawn(async move {
            let after = config.rest_after;
            let index = Arc::new(IndexHandle::open(config).await?);
            state.index = Some(Arc::clone(&index));
            // It ends with the index, and holds nothing meanwhile.
            tokio::spawn(put_away(shared, after));
            Ok(index)
        });
        opened.await.map_err(|_| IndexError::Closed)?
    }

    /// Returns whether it is open.
    pub(super) async fn is_open(&self) -> bool {
        self.state.lock().await.index.is_some()
    }

    /// Writes down what is under way, and opens it no more.
    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(index) = state.index.take() {
            close(index).await;
        }
    }
}

/// Puts the index away once nobody has used it for that long, so that its memory and its thread are not kept for nothing.
async fn put_away(state: Weak<Mutex<State>>, after: Duration) {
    loop {
        tokio::time::sleep(after).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock().await;
        let is_idle = state.used.is_none_or(|used| used.elapsed() >= after);
        match state.index.take() {
            None => return,
            // It is not closed while segments are merged: who needs it meanwhile would wait, or find the files still taken.
            Some(index) if is_idle && Arc::strong_count(&index) == 1 && index.is_asleep() => {
                // Nobody can take it meanwhile: two would be in each other's way.
                close(index).await;
                return;
            }
            in_use => state.index = in_use,
        }
    }
}

async fn close(index: Arc<IndexHandle>) {
    if let Err(error) = index.close().await {
        tracing::warn!("the index of documents was left as it was: {error}");
    }
    drop(index);
    give_back();
}

/// Gives freed memory back to the system, here after the index has closed.
///
/// The allocator keeps freed blocks for whoever asks next, of the dictionary and the writer some tens of megabytes. In a
/// daemon that idles for days nobody asks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator offers this as a foreign function only")]
pub fn give_back() {
    // SAFETY: `malloc_trim` takes a number and no pointer, may be called at any time from any thread, and touches
    // nothing but pages that hold no allocation.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Kind,
        index::{About, ContentHash, DocumentId},
    };

    #[tokio::test(start_paused = true)]
    async fn an_index_that_is_written_is_not_put_away() {
        let folder = tempfile::tempdir().unwrap();
        let config = IndexConfig::new(folder.path().join("index"), Arc::new(|| 1_700_000_000));
        let after = config.rest_after;
        let index = LazyIndex::new(config);
        let id = DocumentId::new(ContentHash::of(b"slow"), Kind::Pdf, 1);
        let indexing = index.take().await.unwrap().begin(&id, None).await.unwrap().unwrap();
        tokio::time::sleep(after * 3).await;
        assert!(index.is_open().await);
        tokio::time::resume();
        indexing.finish(About::default()).await.unwrap();
        index.close().await;
        assert!(!index.is_open().await);
    }
}
