//! The single writer thread.
//!
//! The thread collects all pending entries, writes them together and syncs once. Entries that no caller waits for
//! (notes) are also written immediately but synced later: with the next awaited entry, or when the queue stays empty.
//! Read-only calls therefore need no disk sync.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agentd_core::{
    audit::{AuditEntry, AuditFact, AuditHead},
    error::{AuditError, ErrorKind},
    ports::Clock,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    chain,
    place::{LogEnd, damaged},
    shape::shape,
    trim::{TrimLimits, TrimReport, trim},
};

/// Maximum number of entries in one write.
const MAX_BATCH: usize = 256;
/// Maximum time until a note is synced.
const NOTE_DELAY: Duration = Duration::from_millis(200);

pub(crate) type SecretFilter = Arc<dyn Fn(&str) -> String + Send + Sync>;
type Reply = oneshot::Sender<Result<(), AuditError>>;

/// Commands of the writer thread.
pub(crate) enum Command {
    /// Writes an entry. Without a reply, the entry is a note.
    Write(Box<AuditEntry>, Option<Reply>),
    /// Writes all earlier entries and returns the end of the log.
    End(oneshot::Sender<End>),
    /// Removes old files within the given limits.
    Trim(TrimLimits, oneshot::Sender<std::io::Result<TrimReport>>),
    /// Stops the thread and returns the end of the log.
    Close(oneshot::Sender<End>),
}

/// End of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// Last line of the log.
    pub(crate) head: AuditHead,
    /// Size of the current file in bytes. `None` while the file cannot be opened.
    pub(crate) size: Option<u64>,
    /// True if all lines up to `head` are on disk.
    pub(crate) synced: bool,
}

/// State of the writer thread.
pub(crate) struct Thread {
    pub(crate) folder: PathBuf,
    pub(crate) rotate_at: u64,
    pub(crate) clean: SecretFilter,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commands: mpsc::Receiver<Command>,
    /// `None` after a disk failure that leaves the content of the file unknown, until the file is opened again.
    pub(crate) log: Option<LogEnd>,
    /// Last line, as known to this process.
    pub(crate) head: AuditHead,
    /// Facts about the log itself, which are written before other entries.
    pub(crate) own: Vec<AuditFact>,
    /// True while notes are written but not synced.
    pub(crate) unsynced: bool,
    /// True if the last write failed, in which case further failures are not logged.
    pub(crate) failing: bool,
}

impl Thread {
    /// Runs until `Close` is received or all senders are dropped.
    pub(crate) async fn run(mut self) {
        if !self.own.is_empty() {
            self.write_batch(Vec::new());
        }
        loop {
            let next = if self.unsynced {
                match tokio::time::timeout(NOTE_DELAY, self.commands.recv()).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.sync_notes();
                        continue;
                    }
                }
            } else {
                self.commands.recv().await
            };
            let Some(first) = next else { break };
            if !self.process(first) {
                break;
            }
        }
        self.sync_notes();
        if let Some(log) = &self.log
            && let Err(error) = log.sync_witness()
        {
            tracing::warn!("audit.head may lag behind the audit log: {error}");
        }
    }

    /// Processes all pending commands. Returns false on `Close`.
    fn process(&mut self, first: Command) -> bool {
        let mut batch = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Write(entry, reply) => batch.push((entry, reply)),
                Command::End(reply) => {
                    self.write_batch(std::mem::take(&mut batch));
                    // The caller may have stopped waiting. The same applies to the replies below.
                    let _ = reply.send(self.end());
                }
                Command::Trim(limits, reply) => {
                    self.write_batch(std::mem::take(&mut batch));
                    let _ = reply.send(trim(self, &limits));
                }
                Command::Close(reply) => {
                    self.write_batch(batch);
                    let _ = reply.send(self.end());
                    return false;
                }
            }
            next = if batch.len() < MAX_BATCH { self.commands.try_recv().ok() } else { None };
        }
        self.write_batch(batch);
        true
    }

    fn end(&mut self) -> End {
        self.sync_notes();
        End { head: self.head.clone(), size: self.log.as_ref().map(|log| log.size), synced: self.log.is_some() }
    }

    /// Writes and syncs a fact about the log itself.
    pub(crate) fn write_own(&mut self, fact: AuditFact) -> std::io::Result<()> {
        self.own.push(fact.clone());
        let outcome = self.write(&[], true);
        if outcome.is_err() {
            // The action announced by this fact is not executed.
            self.own.retain(|own| *own != fact);
        }
        outcome
    }

    /// Writes all entries and answers their callers.
    fn write_batch(&mut self, batch: Vec<(Box<AuditEntry>, Option<Reply>)>) {
        if batch.is_empty() && self.own.is_empty() {
            return;
        }
        let mut entries = Vec::with_capacity(batch.len());
        let mut replies = Vec::with_capacity(batch.len());
        for (entry, reply) in batch {
            match shape(*entry, &*self.clean) {
                Ok(entry) => {
                    entries.push(entry);
                    replies.push(reply);
                }
                Err(error) => send_reply(reply, Some(error.to_string())),
            }
        }
        let is_awaited = replies.iter().any(Option::is_some) || !self.own.is_empty();
        match self.write(&entries, is_awaited) {
            // Parts of a batch that does not fit on the disk may fit.
            Err(_) if entries.len() > 1 => {
                for (entry, reply) in entries.iter().zip(replies) {
                    let outcome = self.write(std::slice::from_ref(entry), reply.is_some());
                    self.complete(&outcome, reply);
                }
            }
            outcome => replies.into_iter().for_each(|reply| self.complete(&outcome, reply)),
        }
    }

    fn complete(&mut self, outcome: &std::io::Result<()>, reply: Option<Reply>) {
        if let Err(error) = outcome
            && !std::mem::replace(&mut self.failing, true)
        {
            tracing::error!("could not write the audit log; calls that change or run anything are refused: {error}");
        }
        send_reply(reply, outcome.as_ref().err().map(ToString::to_string));
    }

    /// Writes all entries or none, preceded by the pending facts about the log itself.
    fn write(&mut self, entries: &[String], durable: bool) -> std::io::Result<()> {
        let now = self.clock.now();
        if self.log.as_ref().is_some_and(|log| !log.is_unchanged()) {
            tracing::error!("the audit log was changed by another program");
            self.log = None;
            self.own.push(damaged("another program changed or moved the file while the daemon ran", None));
        }
        if self.log.is_none() {
            let (log, found) = LogEnd::open(&self.folder, Some(&self.head), None, now)?;
            self.log = Some(log);
            self.own.extend(found);
        }
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        if log.size > 0 && log.size >= self.rotate_at {
            let previous = log.rotate(now)?;
            tracing::info!(line = log.head.n, hash = log.head.hash, previous, "the audit log continues in a new file");
            self.own.insert(0, AuditFact::LogContinued { previous });
        }
        let mut head = log.head.clone();
        let mut lines = String::new();
        let own = self.own.iter().filter_map(|fact| {
            // Serializing the log's own facts cannot fail.
            shape(AuditEntry::general(now, fact.clone()), &*self.clean).ok()
        });
        for entry in own.collect::<Vec<_>>().iter().chain(entries) {
            let line;
            (line, head) = chain::seal(&head, entry);
            lines.push_str(&line);
        }
        let (before, size) = (log.head.clone(), log.size);
        let written = log.append(&lines, head).and_then(|()| if durable { log.sync() } else { Ok(()) });
        if let Err(error) = written {
            // After a failed sync the disk content is unknown, so the write is undone and the file is opened again.
            log.roll_back(size, before);
            self.log = None;
            return Err(error);
        }
        self.failing = false;
        self.own.clear();
        self.head = log.head.clone();
        self.unsynced = !durable;
        Ok(())
    }

    fn sync_notes(&mut self) {
        if !std::mem::take(&mut self.unsynced) {
            return;
        }
        if let Some(log) = self.log.as_mut()
            && let Err(error) = log.sync()
        {
            tracing::error!("audit log entries may not be on the disk: {error}");
            // The content of the file is unknown, so the file is opened again before the next write.
            self.log = None;
        }
    }
}

fn send_reply(reply: Option<Reply>, problem: Option<String>) {
    let Some(reply) = reply else { return };
    let error = problem.map(|problem| {
        AuditError::new(ErrorKind::Storage, format!("could not write the audit log: {problem}"))
            .with_hint("free some disk space for the data folder; `agentctl audit verify` checks the log")
    });
    let _ = reply.send(error.map_or(Ok(()), Err));
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io,
        sync::atomic::{AtomicU64, Ordering},
    };

    use agentd_core::Timestamp;

    use super::*;
    use crate::{
        place::Medium,
        verify::{ExpectedLog, verify},
    };

    struct FixedClock;

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
    }

    /// Disk with limited space, or with a failing sync.
    struct SmallDisk {
        file: File,
        capacity: Arc<AtomicU64>,
        sync_works: bool,
    }

    impl Medium for SmallDisk {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let capacity = usize::try_from(self.capacity.load(Ordering::Relaxed)).unwrap();
            let fits = &bytes[..bytes.len().min(capacity)];
            self.file.append(fits)?;
            self.capacity.fetch_sub(fits.len() as u64, Ordering::Relaxed);
            if fits.len() < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn cut_to(&mut self, size: u64) -> io::Result<()> {
            self.file.cut_to(size)
        }

        fn sync(&mut self) -> io::Result<()> {
            if self.sync_works { self.file.sync() } else { Err(io::Error::other("the disk failed")) }
        }
    }

    fn thread(folder: &std::path::Path) -> Thread {
        let (_, commands) = mpsc::channel(1);
        let (log, own) = LogEnd::open(folder, None, None, Timestamp::UNIX_EPOCH).unwrap();
        Thread {
            folder: folder.to_path_buf(),
            rotate_at: u64::MAX,
            clean: Arc::new(str::to_owned),
            clock: Arc::new(FixedClock),
            commands,
            head: log.head.clone(),
            log: Some(log),
            own,
            unsynced: false,
            failing: false,
        }
    }

    fn entry() -> (Box<AuditEntry>, oneshot::Receiver<Result<(), AuditError>>, Reply) {
        let fact = AuditFact::DaemonStarted { version: "1".to_owned(), pid: 1 };
        let (reply, answer) = oneshot::channel();
        (Box::new(AuditEntry::general(Timestamp::UNIX_EPOCH, fact)), answer, reply)
    }

    fn write_batch(thread: &mut Thread, entries: usize) -> Vec<bool> {
        let (mut batch, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..entries {
            let (entry, answer, reply) = entry();
            batch.push((entry, Some(reply)));
            answers.push(answer);
        }
        thread.write_batch(batch);
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap().is_ok()).collect()
    }

    fn replace_disk(thread: &mut Thread, capacity: u64, sync_works: bool) {
        let capacity = Arc::new(AtomicU64::new(capacity));
        let (log, found) = LogEnd::open(&thread.folder, Some(&thread.head), None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(found, []);
        thread.log.insert(log).replace_medium(|file| Box::new(SmallDisk { file, capacity, sync_works }));
    }

    fn lines(folder: &std::path::Path) -> u64 {
        let report = verify(folder, &ExpectedLog::default()).unwrap();
        assert_eq!(report.findings, []);
        report.lines
    }

    #[test]
    fn full_disk_leaves_no_partial_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut thread = thread(folder.path());
        assert_eq!(write_batch(&mut thread, 1), [true]);
        for capacity in [0, 1, 100, 150] {
            replace_disk(&mut thread, capacity, true);
            assert_eq!(write_batch(&mut thread, 1), [false], "room for {capacity} bytes");
            assert_eq!(lines(folder.path()), 1);
        }
        // Once there is free space, writing recovers without a restart.
        assert_eq!(write_batch(&mut thread, 2), [true, true]);
        assert_eq!(lines(folder.path()), 3);
    }

    #[test]
    fn unsynced_records_are_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let mut thread = thread(folder.path());
        replace_disk(&mut thread, u64::MAX, false);
        assert_eq!(write_batch(&mut thread, 1), [false]);
        assert_eq!(lines(folder.path()), 0);
        assert_eq!(write_batch(&mut thread, 1), [true]);
        assert_eq!(lines(folder.path()), 1);
    }
}
