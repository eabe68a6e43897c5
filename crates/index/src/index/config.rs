//! What the index may cost.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::{chunk::ChunkConfig, limits::ReadingLimits};

/// Limits on the cost of the index.
#[derive(Clone)]
pub struct IndexConfig {
    /// The folder of its files. It is made when it is not there; other versions in it are removed.
    pub folder: PathBuf,
    /// Set if nothing of it is written to the folder: it is gone when it is closed.
    pub in_memory: bool,
    /// Bytes of memory in which chunks gather before they are written. At least 15,000,000.
    pub memory: usize,
    /// Number of finished documents that may wait for others, so that they are written together.
    pub commit_documents: usize,
    /// Time that a finished document may wait for others.
    pub commit_wait: Duration,
    /// After how long without work the memory for writing is given back.
    pub rest_after: Duration,
    /// For how long a document without use is kept in any case, as long as it is no older.
    pub stale_after: Duration,
    /// After how long without use a document is removed.
    pub gone_after: Duration,
    /// Size of the files, in bytes, above which stale documents go early.
    pub most_bytes: u64,
    /// Size of the pieces of documents that it holds. What is in it already keeps its own.
    pub chunks: ChunkConfig,
    /// Amounts of a document that are read at once.
    pub reading: ReadingLimits,
    /// Seconds since 1970. Given from outside, so that days can pass in a test.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl IndexConfig {
    /// The defaults, in this folder, by this clock.
    pub fn new(folder: PathBuf, now: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self {
            folder,
            in_memory: false,
            memory: 16_000_000,
            commit_documents: 64,
            commit_wait: Duration::from_millis(500),
            rest_after: Duration::from_secs(60),
            stale_after: Duration::from_hours(24),
            gone_after: Duration::from_hours(30 * 24),
            most_bytes: 4 * 1024 * 1024 * 1024,
            chunks: ChunkConfig::default(),
            reading: ReadingLimits::default(),
            now,
        }
    }
}

impl fmt::Debug for IndexConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexConfig")
            .field("folder", &self.folder)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}
