//! The one thread that writes.
//!
//! A commit waits for the disk, and that is what an append costs. So the thread takes everything that waits when it
//! comes to commit: while one batch is on its way to the disk, the next one gathers behind it. Each change stands in a
//! savepoint of its own, and a change that is refused falls out alone. While nothing waits, the thread brings the index of
//! the search up to date, a small piece at a time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use agentd_core::{error::StoreError, grant::Grant, ids::SessionId, session::SessionSettings};
use jiff::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::{
    append::Append,
    error::Fault,
    fork::Fork,
    grants,
    rows::Rows,
    search::{CatchUp, Missing},
    sessions,
};

/// How many changes one commit may hold.
const MAX_BATCH: usize = 256;
/// How many bytes of payload a batch may hold before it takes no more changes.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How many events may be stored before the index is brought up to date again: it need not be for each turn.
const MAX_UNSEARCHED: u64 = 1000;

/// What callers ask the writer for.
pub(crate) enum Change {
    Create { id: SessionId, at: Timestamp, settings: SessionSettings, first: Option<Append> },
    Fork(Box<Fork>),
    Append(Append),
    Delete(SessionId),
    Keep(Grant),
    Revoke(String),
    Index(Missing),
}

impl Change {
    /// Completes the sentence "could not …".
    fn action(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create the session",
            Self::Fork(_) => "fork the session",
            Self::Append(_) => "store events",
            Self::Delete(_) => "delete the session",
            Self::Keep(_) => "keep the rule",
            Self::Revoke(_) => "take the rule back",
            Self::Index(_) => "bring the index up to date",
        }
    }

    fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        match self {
            Self::Create { id, at, settings, first } => {
                sessions::insert(connection, *id, *at, settings)?;
                first.as_ref().map_or(Ok(()), |append| append.apply(connection, rows))
            }
            Self::Fork(fork) => fork.apply(connection, rows),
            Self::Append(append) => append.apply(connection, rows),
            Self::Delete(id) => {
                // Those that worked for it go, too.
                rows.clear();
                sessions::delete(connection, *id)
            }
            Self::Keep(grant) => grants::keep(connection, grant),
            Self::Revoke(rule) => grants::revoke(connection, rule),
            Self::Index(missing) => missing.add(connection),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Append(append) | Self::Create { first: Some(append), .. } => append.size(),
            Self::Fork(fork) => fork.size(),
            Self::Index(missing) => missing.size(),
            Self::Create { first: None, .. } | Self::Delete(_) | Self::Keep(_) | Self::Revoke(_) => 0,
        }
    }
}

type Reply = oneshot::Sender<Result<(), Fault>>;

enum Command {
    Write(Change, Reply),
    /// The index is behind, and somebody searches.
    CatchUp,
    Close(Reply),
}

/// What the writer has done since the journal was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStats {
    /// Commits that reached the disk.
    pub commits: u64,
    /// Appends that they held.
    pub appends: u64,
    /// Events that those held.
    pub events: u64,
}

#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    appends: AtomicU64,
    events: AtomicU64,
}

impl Counters {
    /// Counts one commit, and says how many events it held.
    fn add(&self, changes: &[Change], outcomes: &[Result<(), Fault>]) -> u64 {
        let stored = changes.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(change, _)| change);
        let (mut changed, mut appends, mut events) = (false, 0, 0);
        for change in stored {
            changed = true;
            let count = match change {
                Change::Append(append) | Change::Create { first: Some(append), .. } => append.count(),
                Change::Fork(fork) => fork.count(),
                _ => continue,
            };
            appends += 1;
            events += count as u64;
        }
        self.commits.fetch_add(u64::from(changed), Ordering::Relaxed);
        self.appends.fetch_add(appends, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
        events
    }
}

/// The callers' side of the thread.
pub(crate) struct Writer {
    /// Bounded: when the disk is slow, callers wait to hand their changes over.
    queue: mpsc::Sender<Command>,
    counters: Arc<Counters>,
    /// Tells a journal that was closed from one whose thread has died.
    closed: AtomicBool,
    /// Taken by the first close, which waits for the thread's end.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(connection: Connection, max_waiting: usize) -> Result<Self, Fault> {
        let (queue, commands) = mpsc::channel(max_waiting.max(1));
        let counters = Arc::new(Counters::default());
        let thread = Thread {
            connection,
            rows: Rows::default(),
            commands,
            counters: Arc::clone(&counters),
            // What an earlier life left undone.
            catch_up: Some(CatchUp::default()),
            unsearched: 0,
        };
        let thread = std::thread::Builder::new().name("journal-write".into()).spawn(move || thread.run())?;
        Ok(Self { queue, counters, closed: AtomicBool::new(false), thread: Mutex::new(Some(thread)) })
    }

    /// Makes the change durable. A caller that stops waiting does not undo it.
    pub(crate) async fn write(&self, change: Change, journal: &Path) -> Result<(), StoreError> {
        let action = change.action();
        let (reply, answer) = oneshot::channel();
        let answer = match self.queue.send(Command::Write(change, reply)).await {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(self.silence())),
            Err(_) => Err(self.silence()),
        };
        answer.map_err(|fault| fault.while_doing(action, journal))
    }

    /// Has the index brought up to date, without waiting for it.
    pub(crate) fn catch_up(&self) {
        // Where so much waits already, the next search asks again.
        let _ = self.queue.try_send(Command::CatchUp);
    }

    /// Writes what waits, moves the log into the database and ends the thread. A second close has nothing to do.
    pub(crate) async fn close(&self) -> Result<(), Fault> {
        self.closed.store(true, Ordering::Release);
        let (reply, answer) = oneshot::channel();
        let outcome = match self.queue.send(Command::Close(reply)).await {
            Ok(()) => answer.await.unwrap_or(Ok(())),
            Err(_) => Ok(()),
        };
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            join(thread).await;
        }
        outcome
    }

    pub(crate) fn stats(&self) -> StoreStats {
        StoreStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            appends: self.counters.appends.load(Ordering::Relaxed),
            events: self.counters.events.load(Ordering::Relaxed),
        }
    }

    /// Why there is no answer.
    fn silence(&self) -> Fault {
        if self.closed.load(Ordering::Acquire) { Fault::Closed } else { Fault::Lost }
    }
}

/// Waits for a thread's end without holding up the async threads.
pub(crate) async fn join(thread: JoinHandle<()>) {
    // Neither a panic of the thread nor a runtime that is going down changes that it is over.
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
}

/// The thread's own side.
struct Thread {
    connection: Connection,
    rows: Rows,
    commands: mpsc::Receiver<Command>,
    counters: Arc<Counters>,
    /// Where the index is behind.
    catch_up: Option<CatchUp>,
    /// The events that were stored since it was last brought up to date.
    unsearched: u64,
}

impl Thread {
    /// The next command. What waits goes before the index.
    fn next(&mut self) -> Option<Command> {
        while let Some(catch_up) = &mut self.catch_up {
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            let piece = catch_unwind(AssertUnwindSafe(|| catch_up.piece(&mut self.connection)));
            let goes_on = piece.unwrap_or(Err(Fault::Lost)).unwrap_or_else(|fault| {
                tracing::warn!(?fault, "the index of the search is not up to date; the next search goes on with it");
                false
            });
            if !goes_on {
                self.catch_up = None;
            }
        }
        self.commands.blocking_recv()
    }

    fn run(mut self) {
        while let Some(first) = self.next() {
            let (batch, close) = self.gather(first);
            if !batch.is_empty() {
                self.write(batch);
            }
            if let Some(reply) = close {
                let _ = reply.send(self.close());
                return;
            }
        }
    }

    /// All that waits, up to what one commit may hold, in the order in which it came.
    fn gather(&mut self, first: Command) -> (Vec<(Change, Reply)>, Option<Reply>) {
        let mut batch = Vec::new();
        let mut size = 0;
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Close(reply) => return (batch, Some(reply)),
                Command::CatchUp => drop(self.catch_up.get_or_insert_default()),
                Command::Write(change, reply) => {
                    size += change.size();
                    batch.push((change, reply));
                }
            }
            let full = batch.len() >= MAX_BATCH || size >= MAX_BATCH_BYTES;
            next = if full { None } else { self.commands.try_recv().ok() };
        }
        (batch, None)
    }

    fn write(&mut self, batch: Vec<(Change, Reply)>) {
        let (changes, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        // A panic is a defect, but one that must not take every session's journal with it: the transaction is rolled
        // back as it unwinds, and the connection holds nothing else.
        let outcomes = catch_unwind(AssertUnwindSafe(|| self.commit_or_part(&changes))).unwrap_or_else(|_| {
            self.rows.clear();
            vec![Err(Fault::Lost); changes.len()]
        });
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // Whoever stopped waiting needs no answer.
            let _ = reply.send(outcome);
        }
    }

    /// Commits all changes at once. A change that is too large for the disk takes the whole transaction with it; then
    /// each is tried alone, so that nobody fails for a neighbour's size.
    fn commit_or_part(&mut self, changes: &[Change]) -> Vec<Result<(), Fault>> {
        let committed = self.commit(changes);
        if committed.is_err() {
            self.rows.clear();
        }
        match committed {
            Ok(outcomes) => outcomes,
            Err(fault) if fault.is_disk_full() && changes.len() > 1 => {
                changes.iter().flat_map(|change| self.commit_or_part(std::slice::from_ref(change))).collect()
            }
            Err(fault) => {
                tracing::error!(?fault, changes = changes.len(), "a commit of the journal failed");
                vec![Err(fault); changes.len()]
            }
        }
    }

    /// Applies all changes in one transaction. An error is the fate of all of them; a change that is refused has its
    /// own.
    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Result<(), Fault>>, Fault> {
        let mut transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let savepoint = transaction.savepoint()?;
            let outcome = change.apply(&savepoint, &mut self.rows);
            match &outcome {
                Ok(()) => savepoint.commit()?,
                // Some failures of the disk end the whole transaction, and with it what was applied before.
                Err(fault) if savepoint.is_autocommit() => return Err(fault.clone()),
                Err(_) => savepoint.finish()?,
            }
            outcomes.push(outcome);
        }
        transaction.commit()?;
        self.unsearched += self.counters.add(changes, &outcomes);
        if self.unsearched >= MAX_UNSEARCHED {
            self.unsearched = 0;
            self.catch_up.get_or_insert_default();
        }
        Ok(outcomes)
    }

    /// Leaves a file that stands alone. What cannot be moved now is moved at the next start.
    fn close(self) -> Result<(), Fault> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::error::ErrorKind;

    use super::*;

    fn writer_without_a_thread() -> (Writer, mpsc::Receiver<Command>) {
        let (queue, commands) = mpsc::channel(4);
        let writer =
            Writer { queue, counters: Arc::default(), closed: AtomicBool::new(false), thread: Mutex::new(None) };
        (writer, commands)
    }

    async fn kind_of_write(writer: &Writer) -> ErrorKind {
        let change = Change::Delete(SessionId::generate());
        writer.write(change, Path::new("journal.db")).await.unwrap_err().kind()
    }

    #[tokio::test]
    async fn a_dead_thread_is_an_error_and_no_hang() {
        let (writer, commands) = writer_without_a_thread();
        drop(commands);
        assert_eq!(kind_of_write(&writer).await, ErrorKind::Internal);
        writer.close().await.unwrap();
        assert_eq!(kind_of_write(&writer).await, ErrorKind::ShuttingDown);
    }

    #[tokio::test]
    async fn a_thread_that_dies_over_a_change_is_an_error_and_no_hang() {
        let (writer, mut commands) = writer_without_a_thread();
        let (kind, _) = tokio::join!(kind_of_write(&writer), async { drop(commands.recv().await) });
        assert_eq!(kind, ErrorKind::Internal);
    }
}
