//! Async API of the audit log. Commands go through a bounded queue to the writer thread; reads use blocking tasks.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use agentd_core::{
    audit::{AuditEntry, AuditFact, AuditHead, AuditRecord, AuditReport, RecordQuery},
    error::{AuditError, ErrorKind},
    ports::{Audit, AuditReader, Clock},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::{
    mpsc::{self, error::SendError},
    oneshot,
};

use crate::{
    place::LogEnd,
    read,
    trim::{TrimLimits, TrimReport},
    verify,
    writer::{Command, End, SecretFilter, Thread},
};

/// Capacity of the writer's queue; callers wait when it is full.
const QUEUE: usize = 1024;
/// Default size at which a file is rotated, in bytes.
const ROTATE_AT: u64 = 64 << 20;
/// Maximum number of attempts to compare the end of the log with the file without a concurrent write.
const MAX_ATTEMPTS: usize = 10;

/// Configuration of an [`AuditLog`].
#[derive(Clone)]
pub struct AuditConfig {
    /// Folder of `audit.jsonl`. The lock on the data folder ensures that only one log is open in the folder.
    pub folder: PathBuf,
    /// Size at which a file is rotated, in bytes.
    pub rotate_at: u64,
    /// Head of the log as last stored elsewhere. The log must include at least this line.
    pub noted: Option<AuditHead>,
    /// Removes secrets from text.
    pub clean: Arc<dyn Fn(&str) -> String + Send + Sync>,
    /// Clock for the log's own entries.
    pub clock: Arc<dyn Clock>,
}

impl AuditConfig {
    /// Returns the default configuration for a log in `folder`.
    pub fn new(
        folder: impl Into<PathBuf>,
        clean: impl Fn(&str) -> String + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { folder: folder.into(), rotate_at: ROTATE_AT, noted: None, clean: Arc::new(clean), clock }
    }
}

/// Handle to an open audit log.
pub struct AuditLog {
    folder: PathBuf,
    /// Head stored elsewhere when the log was opened.
    noted: Option<AuditHead>,
    /// Bounded, so that callers wait while the disk is slow.
    queue: mpsc::Sender<Command>,
    /// Writer thread. The first `close` takes and joins it.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    /// Opens the log, and creates it if it is missing. Damage is recorded in the log and does not prevent opening.
    /// Blocks briefly.
    ///
    /// # Errors
    /// Fails if the folder or its files cannot be written.
    pub fn open(config: AuditConfig) -> Result<Self, AuditError> {
        let AuditConfig { folder, rotate_at, noted, clean, clock } = config;
        let failed = |error| storage_error("open", &folder, error);
        let (log, own) = LogEnd::open(&folder, None, noted.as_ref(), clock.now()).map_err(failed)?;
        let head = log.head.clone();
        tracing::info!(line = head.n, hash = head.hash, "the audit log continues here");
        for fact in &own {
            if let AuditFact::LogDamaged { found, .. } = fact {
                tracing::warn!("the audit log changed since the last run: {found}; see `agentctl audit verify`");
            }
        }
        let (queue, commands) = mpsc::channel(QUEUE);
        let thread = Thread {
            folder: folder.clone(),
            rotate_at,
            clean: clean as SecretFilter,
            clock,
            commands,
            log: Some(log),
            head,
            own,
            unsynced: false,
            failing: false,
        };
        // This runtime only provides waits with a timeout; the thread's own work blocks.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("audit-write".into())
            .spawn(move || runtime.block_on(thread.run()))
            .map_err(failed)?;
        Ok(Self { folder, noted, queue, thread: Mutex::new(Some(thread)) })
    }

    /// Returns the last line of the log, or `None` if some line up to it may not be on disk yet. If a copy is noted
    /// elsewhere, it can later prove that no line up to this one was changed.
    pub async fn synced_head(&self) -> Option<AuditHead> {
        self.end().await.ok().filter(|end| end.synced).map(|end| end.head)
    }

    /// Removes the oldest rotated files until `limits` are met, or only counts them in a trial. Each removal is
    /// recorded in the log first, so that the chain stays verifiable.
    ///
    /// # Errors
    /// Fails if a file cannot be read or removed, or the log cannot be written. A file whose removal was not recorded
    /// still exists.
    pub async fn trim(&self, limits: TrimLimits) -> Result<TrimReport, AuditError> {
        let trimmed = self.ask(|reply| Command::Trim(limits, reply)).await?;
        trimmed.map_err(|error| storage_error("remove old files of", &self.folder, error))
    }

    /// Writes pending entries and stops the thread. Returns the last line if all lines up to it are known to be on
    /// disk. Further calls do nothing.
    pub async fn close(&self) -> Option<AuditHead> {
        let closed = self.ask(Command::Close).await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The result is ignored, because the thread has also ended if it panicked or the runtime is shutting down.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        closed.ok().filter(|end| end.synced).map(|end| end.head)
    }

    async fn end(&self) -> Result<End, AuditError> {
        self.ask(Command::End).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, AuditError> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(command(reply)).await.map_err(|_| closed_error())?;
        answer.await.map_err(|_| closed_error())
    }

    /// Returns the number of bytes at the end of the file that this process did not write, or `None` if the log kept
    /// changing during the check.
    async fn foreign_bytes(&self) -> Option<u64> {
        for _ in 0..MAX_ATTEMPTS {
            let before = self.end().await.ok()?;
            let metadata = tokio::fs::symlink_metadata(self.folder.join(crate::read::CURRENT)).await;
            if before == self.end().await.ok()? {
                // A missing or shorter file breaks the chain, which `verify` reports.
                return Some(metadata.map_or(0, |metadata| metadata.len()).saturating_sub(before.size?));
            }
        }
        None
    }
}

impl Audit for AuditLog {
    fn record(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>> {
        async { self.ask(|reply| Command::Write(Box::new(entry), Some(reply))).await? }.boxed()
    }

    fn note(&self, entry: AuditEntry) -> BoxFuture<'_, ()> {
        async {
            let sent = self.queue.send(Command::Write(Box::new(entry), None)).await;
            if let Err(SendError(Command::Write(entry, _))) = sent {
                tracing::error!("{} was not recorded: the audit log is closed", entry.fact.name());
            }
        }
        .boxed()
    }
}

impl AuditReader for AuditLog {
    fn records(&self, query: RecordQuery) -> BoxFuture<'_, Result<Vec<AuditRecord>, AuditError>> {
        async move {
            // Writes all entries noted before this call, so that the result includes them.
            self.end().await?;
            blocking("read", &self.folder, move |folder| read::newest(folder, &query)).await
        }
        .boxed()
    }

    fn verify(&self, noted: Option<String>) -> BoxFuture<'_, Result<AuditReport, AuditError>> {
        async move {
            let head = self.end().await?.head;
            let expect =
                verify::ExpectedLog { heads: self.noted.iter().cloned().chain([head]).collect(), noted, growing: true };
            let mut report = blocking("verify", &self.folder, move |folder| verify::verify(folder, &expect)).await?;
            if let Some(bytes @ 1..) = self.foreign_bytes().await {
                verify::add_foreign(&mut report, bytes);
            }
            Ok(report)
        }
        .boxed()
    }
}

async fn blocking<T: Send + 'static>(
    action: &str,
    folder: &Path,
    work: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
) -> Result<T, AuditError> {
    let folder_buf = folder.to_path_buf();
    let done = tokio::task::spawn_blocking(move || work(&folder_buf)).await;
    done.map_err(|error| storage_error(action, folder, std::io::Error::other(error)))?
        .map_err(|error| storage_error(action, folder, error))
}

fn storage_error(action: &str, folder: &Path, error: std::io::Error) -> AuditError {
    AuditError::new(ErrorKind::Storage, format!("could not {action} the audit log in {}: {error}", folder.display()))
        .with_hint("audit.jsonl and audit.head must be regular files that you own, on a writable disk with free space")
        .with_source(error)
}

fn closed_error() -> AuditError {
    AuditError::new(ErrorKind::ShuttingDown, "could not write the audit log: it is closed")
        .with_hint("the daemon is stopping; start it again with `agentctl start`")
}
