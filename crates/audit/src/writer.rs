//! The single writer thread.
//!
//! It collects all pending entries, writes them together and syncs once. Entries without a waiting caller (notes) are
//! written at once too, but are synced later: with the next awaited entry, or when the queue stays empty. Read-only
//! calls thus cost no disk sync.

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
    /// Writes an entry; without a reply it is a note.
    Keep(Box<AuditEntry>, Option<Reply>),
    /// Returns the end of the log after writing all earlier entries.
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
    /// Size of the current file in bytes; `None` while it cannot be opened.
    pub(crate) size: Option<u64>,
    /// True if everything up to `head` is on the disk.
    pub(crate) synced: bool,
}

/// State of the writer thread.
pub(crate) struct Thread {
    pub(crate) folder: PathBuf,
    pub(crate) rotate_at: u64,
    pub(crate) clean: SecretFilter,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commands: mpsc::Receiver<Command>,
    /// `None` after a disk failure that leaves the content of the file unknown. The file is then opened again.
    pub(crate) place: Option<LogEnd>,
    /// Last line in the memory of this process.
    pub(crate) head: AuditHead,
    /// Facts of the log about itself, written before other entries.
    pub(crate) own: Vec<AuditFact>,
    /// True while notes are written but not synced.
    pub(crate) unsynced: bool,
    /// True if the last write failed; further failures are not logged.
    pub(crate) failing: bool,
}

impl Thread {
    /// Runs until closed or until all senders are dropped.
    pub(crate) async fn run(mut self) {
        if !self.own.is_empty() {
            self.keep(Vec::new());
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
            if !self.take(first) {
                break;
            }
        }
        self.sync_notes();
        if let Some(place) = &self.place
            && let Err(error) = place.sync_witness()
        {
            tracing::warn!("audit.head may lag behind the audit log: {error}");
        }
    }

    /// Processes all pending commands. Returns false on `Close`.
    fn take(&mut self, first: Command) -> bool {
        let mut batch = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Keep(entry, reply) => batch.push((entry, reply)),
                Command::End(reply) => {
                    self.keep(std::mem::take(&mut batch));
                    // The caller may have stopped waiting; the same applies below.
                    let _ = reply.send(self.end());
                }
                Command::Trim(limits, reply) => {
                    self.keep(std::mem::take(&mut batch));
                    let _ = reply.send(trim(self, &limits));
                }
                Command::Close(reply) => {
                    self.keep(batch);
                    let _ = reply.send(self.end());
                    return false;
                }
            }
            next = if batch.len() < MAX_BATCH { self.commands.try_recv().ok() } else { None };
        }
        self.keep(batch);
        true
    }

    fn end(&mut self) -> End {
        self.sync_notes();
        End { head: self.head.clone(), size: self.place.as_ref().map(|place| place.size), synced: self.place.is_some() }
    }

    /// Writes and syncs a fact of the log about itself.
    pub(crate) fn keep_own(&mut self, fact: AuditFact) -> std::io::Result<()> {
        self.own.push(fact.clone());
        let kept = self.write(&[], true);
        if kept.is_err() {
            // The action that this fact announces does not happen now.
            self.own.retain(|own| *own != fact);
        }
        kept
    }

    /// Writes all entries and answers their callers.
    fn keep(&mut self, batch: Vec<(Box<AuditEntry>, Option<Reply>)>) {
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
        let waited_for = replies.iter().any(Option::is_some) || !self.own.is_empty();
        match self.write(&entries, waited_for) {
            // A batch that does not fit on the disk may fit in parts.
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

    /// Writes all entries or none, after the pending facts of the log about itself.
    fn write(&mut self, entries: &[String], durable: bool) -> std::io::Result<()> {
        let now = self.clock.now();
        if self.place.as_ref().is_some_and(|place| !place.is_as_it_was_left()) {
            tracing::error!("the audit log was changed by another program");
            self.place = None;
            self.own.push(damaged("another program changed or moved the file while the daemon ran", None));
        }
        if self.place.is_none() {
            let (place, found) = LogEnd::open(&self.folder, Some(&self.head), None, now)?;
            self.place = Some(place);
            self.own.extend(found);
        }
        let Some(place) = self.place.as_mut() else { return Ok(()) };
        if place.size > 0 && place.size >= self.rotate_at {
            let previous = place.turn_page(now)?;
            tracing::info!(
                line = place.head.n,
                hash = place.head.hash,
                previous,
                "the audit log continues in a new file"
            );
            self.own.insert(0, AuditFact::LogContinued { previous });
        }
        let mut head = place.head.clone();
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
        let (before, size) = (place.head.clone(), place.size);
        let written = place.append(&lines, head).and_then(|()| if durable { place.sync() } else { Ok(()) });
        if let Err(error) = written {
            // The disk content is unknown after a failed sync, so the write is undone and the file opened again.
            place.roll_back(size, before);
            self.place = None;
            return Err(error);
        }
        self.failing = false;
        self.own.clear();
        self.head = place.head.clone();
        self.unsynced = !durable;
        Ok(())
    }

    fn sync_notes(&mut self) {
        if !std::mem::take(&mut self.unsynced) {
            return;
        }
        if let Some(place) = self.place.as_mut()
            && let Err(error) = place.sync()
        {
            tracing::error!("audit log entries may not be on the disk: {error}");
            // The content of the file is unknown, so it is opened again before the next write.
            self.place = None;
        }
    }
}

fn send_reply(reply: Option<Reply>, problem: Option<String>) {
    let Some(reply) = reply else { return };
    let refusal = problem.map(|problem| {
        AuditError::new(ErrorKind::Storage, format!("could not write the audit log: {problem}"))
            .with_hint("free some disk space for the data folder; `agentctl audit verify` checks the log")
    });
    let _ = reply.send(refusal.map_or(Ok(()), Err));
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

    /// A disk with limited room, or with a failing sync.
    struct SmallDisk {
        file: File,
        room: Arc<AtomicU64>,
        sound: bool,
    }

    impl Medium for SmallDisk {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let room = usize::try_from(self.room.load(Ordering::Relaxed)).unwrap();
            let fits = &bytes[..bytes.len().min(room)];
            self.file.append(fits)?;
            self.room.fetch_sub(fits.len() as u64, Ordering::Relaxed);
            if fits.len() < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn cut_to(&mut self, size: u64) -> io::Result<()> {
            self.file.cut_to(size)
        }

        fn sync(&mut self) -> io::Result<()> {
            if self.sound { self.file.sync() } else { Err(io::Error::other("the disk is ill")) }
        }
    }

    fn thread(folder: &std::path::Path) -> Thread {
        let (_, commands) = mpsc::channel(1);
        let (place, own) = LogEnd::open(folder, None, None, Timestamp::UNIX_EPOCH).unwrap();
        Thread {
            folder: folder.to_path_buf(),
            rotate_at: u64::MAX,
            clean: Arc::new(str::to_owned),
            clock: Arc::new(FixedClock),
            commands,
            head: place.head.clone(),
            place: Some(place),
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

    fn keep(thread: &mut Thread, entries: usize) -> Vec<bool> {
        let (mut batch, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..entries {
            let (entry, answer, reply) = entry();
            batch.push((entry, Some(reply)));
            answers.push(answer);
        }
        thread.keep(batch);
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap().is_ok()).collect()
    }

    fn ill(thread: &mut Thread, room: u64, sound: bool) {
        let room = Arc::new(AtomicU64::new(room));
        let (place, found) = LogEnd::open(&thread.folder, Some(&thread.head), None, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(found, []);
        thread.place.insert(place).replace_medium(|file| Box::new(SmallDisk { file, room, sound }));
    }

    fn lines(folder: &std::path::Path) -> u64 {
        let report = verify(folder, &ExpectedLog::default()).unwrap();
        assert_eq!(report.findings, []);
        report.lines
    }

    #[test]
    fn full_disk_rejects_without_a_partial_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut thread = thread(folder.path());
        assert_eq!(keep(&mut thread, 1), [true]);
        for room in [0, 1, 100, 150] {
            ill(&mut thread, room, true);
            assert_eq!(keep(&mut thread, 1), [false], "room for {room} bytes");
            assert_eq!(lines(folder.path()), 1);
        }
        // With room again, writing recovers without a restart.
        assert_eq!(keep(&mut thread, 2), [true, true]);
        assert_eq!(lines(folder.path()), 3);
    }

    #[test]
    fn unsynced_records_are_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let mut thread = thread(folder.path());
        ill(&mut thread, u64::MAX, false);
        assert_eq!(keep(&mut thread, 1), [false]);
        assert_eq!(lines(folder.path()), 0);
        assert_eq!(keep(&mut thread, 1), [true]);
        assert_eq!(lines(folder.path()), 1);
    }
}
