//! The writer thread.
//!
//! The cost of an append is the time that its commit waits for the disk. The thread therefore commits all queued
//! changes at once. While one batch is being written, the next batch accumulates. Each change runs in its own
//! savepoint, so that a rejected change does not affect the others. While idle, the thread overwrites deleted data and
//! updates the search index, in small pieces.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use agentd_core::{error::StoreError, mutex::lock};
use rusqlite::{Connection, Transaction, TransactionBehavior, config::DbConfig};
use tokio::sync::{mpsc, oneshot};

use crate::{
    StoreConfig,
    append::Rows,
    change::{Batch, Change, Command},
    codec::Fault,
    mark::{self, Anchor, Mark, Reserve},
    search::CatchUp,
    upkeep::{self, UnerasedSessions, Upkeep},
};

/// Number of stored events after which the search index is updated. Updating it for each turn is unnecessary.
const MAX_UNINDEXED: u64 = 1000;

/// Counters of the writer since the journal was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Commits that reached the disk.
    pub commits: u64,
    /// Appends in these commits.
    pub appends: u64,
    /// Events in these appends.
    pub events: u64,
}

impl StoreStats {
    /// Counts one commit, and returns the number of its events.
    fn add(&mut self, changes: &[Change], outcomes: &[Result<(), Fault>]) -> u64 {
        let before = self.events;
        let stored = changes.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(change, _)| change);
        let mut changed = false;
        for change in stored {
            changed = true;
            let Some(count) = change.events() else { continue };
            self.appends += 1;
            self.events += count as u64;
        }
        self.commits += u64::from(changed);
        self.events - before
    }
}

/// Handle to the writer thread.
pub(crate) struct Writer {
    /// Command queue. Bounded, so that callers wait if the disk is slow.
    queue: mpsc::Sender<Command>,
    counters: Arc<Mutex<StoreStats>>,
    /// True if the journal was closed. False if the thread ended for another reason, such as a panic.
    closed: Arc<AtomicBool>,
    /// Number of removed sessions that cannot be overwritten.
    stuck: Arc<AtomicU64>,
    /// Handle of the thread. The first close takes the handle and waits for the thread to end.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        mark: Mark,
        upkeep: Upkeep,
        config: &StoreConfig,
        anchor: Arc<Anchor>,
    ) -> Result<Self, Fault> {
        let (queue, commands) = mpsc::channel(config.max_waiting.max(1));
        let counters = Arc::default();
        let unerased = UnerasedSessions::default();
        let stuck = unerased.stuck();
        let thread = Thread {
            connection,
            mark,
            rows: Rows::new(config.time_zone),
            commands,
            counters: Arc::clone(&counters),
            // Continues the work of an earlier process.
            catch_up: Some(CatchUp::default()),
            unsearched: 0,
            upkeep: Some(upkeep),
            unerased,
            busy_timeout: config.busy_timeout,
            anchor,
            reserve: Reserve::beside(&config.path),
        };
        let thread = std::thread::Builder::new().name("journal-write".into()).spawn(move || thread.run())?;
        Ok(Self { queue, counters, closed: Arc::default(), stuck, thread: Mutex::new(Some(thread)) })
    }

    /// Applies a change and makes it durable. Dropping the future does not undo the change.
    pub(crate) async fn write(&self, change: Change, journal: &Path) -> Result<(), StoreError> {
        let action = change.action();
        let (reply, answer) = oneshot::channel();
        let answer = match self.queue.send(Command::Write { change, reply }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(no_reply(&self.closed))),
            Err(_) => Err(no_reply(&self.closed)),
        };
        answer.map_err(|fault| fault.while_doing(action, journal))
    }

    /// Requests an update of the search index, without waiting for the update.
    pub(crate) fn catch_up(&self) {
        // If the queue is full, the next search requests the update again.
        let _ = self.queue.try_send(Command::CatchUp);
    }

    /// Rewrites the whole file. No other write is performed during the rewrite.
    pub(crate) async fn rewrite(&self) -> Result<(), Fault> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Command::Rewrite(reply)).await.map_err(|_| no_reply(&self.closed))?;
        answer.await.unwrap_or_else(|_| Err(no_reply(&self.closed)))
    }

    /// Writes queued changes, moves the log into the database and ends the thread. A second close does nothing.
    pub(crate) async fn close(&self) -> Result<(), Fault> {
        self.closed.store(true, Ordering::Release);
        let (reply, answer) = oneshot::channel();
        let outcome = match self.queue.send(Command::Close(reply)).await {
            Ok(()) => answer.await.unwrap_or(Ok(())),
            Err(_) => Ok(()),
        };
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            join(thread).await;
        }
        outcome
    }

    pub(crate) fn stuck(&self) -> u64 {
        self.stuck.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> StoreStats {
        *lock(&self.counters)
    }
}

/// Returns the error for a reply that was dropped.
pub(crate) fn no_reply(closed: &AtomicBool) -> Fault {
    if closed.load(Ordering::Acquire) { Fault::Closed } else { Fault::Lost }
}

/// Waits for a thread to end without blocking the async runtime.
pub(crate) async fn join(thread: JoinHandle<()>) {
    // A panic of the thread and a runtime that is shutting down are both ignored, because the thread has ended.
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
}

/// State of the thread itself.
struct Thread {
    connection: Connection,
    mark: Mark,
    rows: Rows,
    commands: mpsc::Receiver<Command>,
    counters: Arc<Mutex<StoreStats>>,
    /// Progress of the index update. `None` if the index is up to date.
    catch_up: Option<CatchUp>,
    /// Number of events stored since the last update of the index.
    unsearched: u64,
    /// Pending maintenance of the file. At startup, it completes the maintenance of an earlier process.
    upkeep: Option<Upkeep>,
    unerased: UnerasedSessions,
    busy_timeout: Duration,
    anchor: Arc<Anchor>,
    reserve: Reserve,
}

impl Thread {
    /// Returns the next command. Commands take precedence over maintenance, and maintenance over index updates.
    fn next(&mut self) -> Option<Command> {
        while self.upkeep.is_some() || self.catch_up.is_some() {
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => self.work_while_idle(),
            }
        }
        self.commands.blocking_recv()
    }

    /// Performs one small piece of idle-time work.
    fn work_while_idle(&mut self) {
        let Self { connection, mark, upkeep, unerased, catch_up, busy_timeout, reserve, .. } = self;
        if let Some(work) = upkeep {
            let piece = catch_unwind(AssertUnwindSafe(|| work.piece(connection, mark, unerased, *busy_timeout)));
            let has_more = piece.unwrap_or(Err(Fault::Lost)).unwrap_or_else(|fault| {
                tracing::warn!(?fault, "deleted data may not be overwritten yet; the next deletion or start continues");
                work.skip_to_log()
            });
            if !has_more {
                *upkeep = None;
                // Restores the reserve, which a removal may have used.
                reserve.ensure();
            }
        } else if let Some(work) = catch_up {
            let piece = catch_unwind(AssertUnwindSafe(|| work.piece(connection)));
            let has_more = piece.unwrap_or(Err(Fault::Lost)).unwrap_or_else(|fault| {
                tracing::warn!(?fault, "the search index is not up to date; the next search continues");
                false
            });
            if !has_more {
                *catch_up = None;
            }
        }
    }

    fn run(mut self) {
        while let Some(first) = self.next() {
            let mut batch = Batch::default();
            batch.gather(first, &mut self.commands);
            let removes = batch.removes();
            if !batch.changes.is_empty() {
                self.write(&mut batch);
            }
            if let Some(reply) = batch.rewrite.take() {
                self.rows.clear();
                let _ = reply.send(upkeep::rewrite(&self.connection));
            }
            if removes {
                self.upkeep = Some(Upkeep::new(true));
            }
            if batch.wants_index {
                self.catch_up.get_or_insert_default();
            }
            if let Some(reply) = batch.close {
                let _ = reply.send(self.close());
                return;
            }
        }
        // All handles were dropped, so there is no receiver for the outcome.
        if let Err(fault) = self.close() {
            tracing::warn!(?fault, "the journal was not closed cleanly; the next start recovers it");
        }
    }

    fn write(&mut self, batch: &mut Batch) {
        // A panic is a bug, but must not stop the journal for all sessions. The transaction is rolled back during
        // unwinding, and the connection has no other state.
        let outcomes = catch_unwind(AssertUnwindSafe(|| self.commit_or_split(batch))).unwrap_or_else(|_| {
            self.rows.clear();
            vec![Err(Fault::Lost); batch.changes.len()]
        });
        self.begin_overwriting();
        batch.answer(outcomes);
    }

    /// Overwrites small sessions completely before their removal is acknowledged.
    fn begin_overwriting(&mut self) {
        let removed = self.rows.take_removed();
        if removed.is_empty() {
            return;
        }
        let Self { connection, unerased, .. } = self;
        let piece = catch_unwind(AssertUnwindSafe(|| unerased.first_piece(connection, removed)));
        if let Err(fault) = piece.unwrap_or(Err(Fault::Lost)) {
            tracing::debug!(?fault, "deleted data is overwritten later");
        }
    }

    /// Commits all changes at once. A change that is too large for the disk or reads a damaged page fails the whole
    /// transaction. In that case, each change is retried alone, so that no change fails because of another.
    fn commit_or_split(&mut self, batch: &mut Batch) -> Vec<Result<(), Fault>> {
        match self.commit(batch) {
            Ok(outcomes) => outcomes,
            // Overwriting removed data may free enough space for the retry.
            Err(fault) if fault.is_disk_full() && self.free_space() => self.commit_or_split(batch),
            Err(fault) if (fault.is_disk_full() || fault.is_corrupt()) && batch.changes.len() > 1 => {
                self.rows.clear();
                let changes = std::mem::take(&mut batch.changes);
                changes.into_iter().flat_map(|change| self.commit_or_split(&mut Batch::of(change))).collect()
            }
            Err(fault) if fault.is_disk_full() && batch.removes() && self.reserve.release() => {
                self.rows.clear();
                self.commit_or_split(batch)
            }
            Err(fault) => {
                self.rows.clear();
                tracing::error!(?fault, changes = batch.changes.len(), "a commit of the journal failed");
                vec![Err(fault); batch.changes.len()]
            }
        }
    }

    /// Overwrites all removed data. Returns true if there was data to overwrite.
    fn free_space(&mut self) -> bool {
        self.rows.clear();
        let mut freed = false;
        while self.upkeep.is_some() && self.unerased.piece(&mut self.connection).unwrap_or(false) {
            freed = true;
        }
        if freed {
            self.upkeep = Some(Upkeep::new(true));
        }
        freed
    }

    /// Applies all changes in one transaction. An error affects all changes; a rejected change has its own error.
    fn commit(&mut self, batch: &mut Batch) -> Result<Vec<Result<(), Fault>>, Fault> {
        // The first check avoids work that would be rejected at the end.
        self.anchor.check()?;
        let mut transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            outcomes.push(apply(&mut transaction, change, &mut self.rows)?);
        }
        transaction.commit()?;
        // The second check must precede the acknowledgement.
        self.anchor.check()?;
        self.mark.note(|| mark::newest(&self.connection));
        self.unsearched += lock(&self.counters).add(&batch.changes, &outcomes);
        if self.unsearched >= MAX_UNINDEXED {
            self.unsearched = 0;
            self.catch_up.get_or_insert_default();
        }
        Ok(outcomes)
    }

    /// Leaves a single file without a log. If the log cannot be moved now, the next start moves it.
    fn close(mut self) -> Result<(), Fault> {
        if upkeep::empty_log(&self.connection, &mut self.mark)? {
            self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
            self.mark.remove();
        }
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

/// Applies one change in its own savepoint.
fn apply(transaction: &mut Transaction<'_>, change: &Change, rows: &mut Rows) -> Result<Result<(), Fault>, Fault> {
    let savepoint = transaction.savepoint()?;
    let outcome = change.apply(&savepoint, rows);
    match &outcome {
        Ok(()) => savepoint.commit()?,
        // Some disk errors end the whole transaction, including the changes applied before.
        Err(fault) if savepoint.is_autocommit() => return Err(fault.clone()),
        Err(_) => savepoint.finish()?,
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use agentd_core::{error::ErrorKind, ids::SessionId};

    use super::*;

    fn writer_without_a_thread() -> (Writer, mpsc::Receiver<Command>) {
        let (queue, commands) = mpsc::channel(4);
        let (counters, closed, stuck) = (Arc::default(), Arc::default(), Arc::default());
        let writer = Writer { queue, counters, closed, stuck, thread: Mutex::new(None) };
        (writer, commands)
    }

    async fn kind_of_write(writer: &Writer) -> ErrorKind {
        let change = Change::Delete(SessionId::generate());
        writer.write(change, Path::new("journal.db")).await.unwrap_err().kind()
    }

    #[tokio::test]
    async fn dead_writer_thread_returns_an_error() {
        let (writer, commands) = writer_without_a_thread();
        drop(commands);
        assert_eq!(kind_of_write(&writer).await, ErrorKind::Internal);
        writer.close().await.unwrap();
        assert_eq!(kind_of_write(&writer).await, ErrorKind::ShuttingDown);
    }

    #[tokio::test]
    async fn writer_thread_death_during_a_write_is_an_error() {
        let (writer, mut commands) = writer_without_a_thread();
        let (kind, _) = tokio::join!(kind_of_write(&writer), async { drop(commands.recv().await) });
        assert_eq!(kind, ErrorKind::Internal);
    }
}
