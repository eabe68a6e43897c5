//! The one thread that writes.
//!
//! A commit waits for the disk, and that is what an append costs. So the thread takes everything that waits when it
//! comes to commit: while one batch is on its way to the disk, the next one gathers behind it. Each change stands in a
//! savepoint of its own, and a change that is refused falls out alone. While
//! nothing waits, the thread overwrites what was deleted and brings the index of the search up to date, a small piece at a
//! time.

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

use agentd_core::{error::StoreError, held::lock};
use rusqlite::{Connection, Transaction, TransactionBehavior, config::DbConfig};
use tokio::sync::{mpsc, oneshot};

use crate::{
    StoreConfig,
    append::Rows,
    change::{Batch, Change, Command},
    codec::Fault,
    mark::{self, Anchor, Mark, Reserve},
    search::CatchUp,
    upkeep::{self, Remains, Upkeep},
};

/// Number of events that may be stored before the index is brought up to date again: it need not be for each turn.
const MAX_UNSEARCHED: u64 = 1000;

/// Counters of the writer since the journal was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Commits that reached the disk.
    pub commits: u64,
    /// Appends that they held.
    pub appends: u64,
    /// Events that those held.
    pub events: u64,
}

impl StoreStats {
    /// Counts one commit, and says how many events it held.
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

/// The callers' side of the thread.
pub(crate) struct Writer {
    /// Bounded: when the disk is slow, callers wait to hand their changes over.
    queue: mpsc::Sender<Command>,
    counters: Arc<Mutex<StoreStats>>,
    /// Tells a journal that was closed from one whose thread has died.
    closed: Arc<AtomicBool>,
    /// Number of removed sessions that cannot be overwritten.
    stuck: Arc<AtomicU64>,
    /// Taken by the first close, which waits for the thread's end.
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
        let remains = Remains::default();
        let stuck = remains.stuck();
        let thread = Thread {
            connection,
            mark,
            rows: Rows::new(config.time_zone),
            commands,
            counters: Arc::clone(&counters),
            // What an earlier life left undone.
            catch_up: Some(CatchUp::default()),
            unsearched: 0,
            upkeep: Some(upkeep),
            remains,
            busy_timeout: config.busy_timeout,
            anchor,
            reserve: Reserve::beside(&config.path),
        };
        let thread = std::thread::Builder::new().name("journal-write".into()).spawn(move || thread.run())?;
        Ok(Self { queue, counters, closed: Arc::default(), stuck, thread: Mutex::new(Some(thread)) })
    }

    /// Makes the change durable. A caller that stops waiting does not undo it.
    pub(crate) async fn write(&self, change: Change, journal: &Path) -> Result<(), StoreError> {
        let action = change.action();
        let (reply, answer) = oneshot::channel();
        let answer = match self.queue.send(Command::Write { change, reply }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(silence(&self.closed))),
            Err(_) => Err(silence(&self.closed)),
        };
        answer.map_err(|fault| fault.while_doing(action, journal))
    }

    /// Has the index brought up to date, without waiting for it.
    pub(crate) fn catch_up(&self) {
        // Where so much waits already, the next search asks again.
        let _ = self.queue.try_send(Command::CatchUp);
    }

    /// Writes the whole file anew. Nobody else writes meanwhile.
    pub(crate) async fn rewrite(&self) -> Result<(), Fault> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Command::Rewrite(reply)).await.map_err(|_| silence(&self.closed))?;
        answer.await.unwrap_or_else(|_| Err(silence(&self.closed)))
    }

    /// Writes what waits, moves the log into the database and ends the thread. A second close has nothing to do.
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

/// Why there is no answer.
pub(crate) fn silence(closed: &AtomicBool) -> Fault {
    if closed.load(Ordering::Acquire) { Fault::Closed } else { Fault::Lost }
}

/// Waits for a thread's end without holding up the async threads.
pub(crate) async fn join(thread: JoinHandle<()>) {
    // Neither a panic of the thread nor a runtime that is going down changes that it is over.
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
}

/// The thread's own side.
struct Thread {
    connection: Connection,
    mark: Mark,
    rows: Rows,
    commands: mpsc::Receiver<Command>,
    counters: Arc<Mutex<StoreStats>>,
    /// Where the index is behind.
    catch_up: Option<CatchUp>,
    /// The events that were stored since it was last brought up to date.
    unsearched: u64,
    /// Upkeep of the file; at the start, what an earlier life left undone.
    upkeep: Option<Upkeep>,
    remains: Remains,
    busy_timeout: Duration,
    anchor: Arc<Anchor>,
    reserve: Reserve,
}

impl Thread {
    /// The next command. What waits goes before the upkeep of the file, and that before the index.
    fn next(&mut self) -> Option<Command> {
        while self.upkeep.is_some() || self.catch_up.is_some() {
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => self.work_at_rest(),
            }
        }
        self.commands.blocking_recv()
    }

    /// One small piece of what nobody waits for.
    fn work_at_rest(&mut self) {
        let Self { connection, mark, upkeep, remains, catch_up, busy_timeout, reserve, .. } = self;
        if let Some(work) = upkeep {
            let piece = catch_unwind(AssertUnwindSafe(|| work.piece(connection, mark, remains, *busy_timeout)));
            let goes_on = piece.unwrap_or(Err(Fault::Lost)).unwrap_or_else(|fault| {
                tracing::warn!(?fault, "deleted data may not be overwritten yet; the next deletion or start continues");
                work.pass_over()
            });
            if !goes_on {
                *upkeep = None;
                // What was given up for a removal is kept back again.
                reserve.keep();
            }
        } else if let Some(work) = catch_up {
            let piece = catch_unwind(AssertUnwindSafe(|| work.piece(connection)));
            let goes_on = piece.unwrap_or(Err(Fault::Lost)).unwrap_or_else(|fault| {
                tracing::warn!(?fault, "the search index is not up to date; the next search continues");
                false
            });
            if !goes_on {
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
        // Nobody holds the journal any more, and nobody hears what comes of it.
        if let Err(fault) = self.close() {
            tracing::warn!(?fault, "the journal was not closed well; the next start looks after it");
        }
    }

    fn write(&mut self, batch: &mut Batch) {
        // A panic is a defect, but one that must not take every session's journal with it: the transaction is rolled
        // back as it unwinds, and the connection holds nothing else.
        let outcomes = catch_unwind(AssertUnwindSafe(|| self.commit_or_part(batch))).unwrap_or_else(|_| {
            self.rows.clear();
            vec![Err(Fault::Lost); batch.changes.len()]
        });
        self.begin_overwriting();
        batch.answer(outcomes);
    }

    /// A small session is gone for good before anybody hears that it is removed.
    fn begin_overwriting(&mut self) {
        let removed = self.rows.take_removed();
        if removed.is_empty() {
            return;
        }
        let Self { connection, remains, .. } = self;
        let piece = catch_unwind(AssertUnwindSafe(|| remains.first_piece(connection, removed)));
        if let Err(fault) = piece.unwrap_or(Err(Fault::Lost)) {
            tracing::debug!(?fault, "what was deleted is overwritten later");
        }
    }

    /// Commits all changes at once. A change that is too large for the disk, or meets a damaged page, takes the whole
    /// transaction with it; then each is tried alone, so that nobody fails for a neighbour.
    fn commit_or_part(&mut self, batch: &mut Batch) -> Vec<Result<(), Fault>> {
        match self.commit(batch) {
            Ok(outcomes) => outcomes,
            // What was removed has room for it.
            Err(fault) if fault.is_disk_full() && self.make_room() => self.commit_or_part(batch),
            Err(fault) if (fault.is_disk_full() || fault.is_corrupt()) && batch.changes.len() > 1 => {
                self.rows.clear();
                let changes = std::mem::take(&mut batch.changes);
                changes.into_iter().flat_map(|change| self.commit_or_part(&mut Batch::of(change))).collect()
            }
            Err(fault) if fault.is_disk_full() && batch.removes() && self.reserve.give_up() => {
                self.rows.clear();
                self.commit_or_part(batch)
            }
            Err(fault) => {
                self.rows.clear();
                tracing::error!(?fault, changes = batch.changes.len(), "a commit of the journal failed");
                vec![Err(fault); batch.changes.len()]
            }
        }
    }

    /// Overwrites all that was removed. Says whether there was any.
    fn make_room(&mut self) -> bool {
        self.rows.clear();
        let mut made = false;
        while self.upkeep.is_some() && self.remains.piece(&mut self.connection).unwrap_or(false) {
            made = true;
        }
        if made {
            self.upkeep = Some(Upkeep::new(true));
        }
        made
    }

    /// Applies all changes in one transaction. An error is the fate of all of them; a change that is refused has its own.
    fn commit(&mut self, batch: &mut Batch) -> Result<Vec<Result<(), Fault>>, Fault> {
        // What would be refused in the end is not done at all, where that is known beforehand.
        self.anchor.check()?;
        let mut transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            outcomes.push(apply(&mut transaction, change, &mut self.rows)?);
        }
        transaction.commit()?;
        // Before anybody hears that it is stored.
        self.anchor.check()?;
        self.mark.note(|| mark::newest(&self.connection));
        self.unsearched += lock(&self.counters).add(&batch.changes, &outcomes);
        if self.unsearched >= MAX_UNSEARCHED {
            self.unsearched = 0;
            self.catch_up.get_or_insert_default();
        }
        Ok(outcomes)
    }

    /// Leaves a file that stands alone. What cannot be moved now is moved at the next start.
    fn close(mut self) -> Result<(), Fault> {
        if upkeep::empty_log(&self.connection, &mut self.mark)? {
            self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
            self.mark.remove();
        }
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

/// Applies one change in a savepoint of its own.
fn apply(transaction: &mut Transaction<'_>, change: &Change, rows: &mut Rows) -> Result<Result<(), Fault>, Fault> {
    let savepoint = transaction.savepoint()?;
    let outcome = change.apply(&savepoint, rows);
    match &outcome {
        Ok(()) => savepoint.commit()?,
        // Some failures of the disk end the whole transaction, and with it what was applied before.
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
