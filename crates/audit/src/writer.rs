//! The one thread that writes.
//!
//! It takes everything that waits, writes it at once and waits for the disk once. What nobody waits for (notes) is
//! written at once too, but may stay in the system's memory for a moment, until the next entry that somebody waits for
//! or until nothing more comes: calls that only look shall cost no disk.

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

/// Entries that one write may hold.
const MAX_BATCH: usize = 256;
/// Time that a note may wait for company on its way to the disk.
const NOTE_DELAY: Duration = Duration::from_millis(200);

pub(crate) type Clean = Arc<dyn Fn(&str) -> String + Send + Sync>;
type Reply = oneshot::Sender<Result<(), AuditError>>;

/// Commands of the thread.
pub(crate) enum Command {
    /// To keep an entry; without a reply it is a note.
    Keep(Box<AuditEntry>, Option<Reply>),
    /// Where the log ends, everything before this written.
    End(oneshot::Sender<End>),
    /// To remove what was set aside long ago.
    Trim(TrimLimits, oneshot::Sender<std::io::Result<TrimReport>>),
    /// To end in good order, and to say where the log ends.
    Close(oneshot::Sender<End>),
}

/// Where the log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// The last line.
    pub(crate) head: AuditHead,
    /// Bytes of the file that is written now; none while it cannot be opened.
    pub(crate) size: Option<u64>,
    /// Set once all of it is on the disk.
    pub(crate) synced: bool,
}

/// The thread's own side.
pub(crate) struct Thread {
    pub(crate) folder: PathBuf,
    pub(crate) rotate_at: u64,
    pub(crate) clean: Clean,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commands: mpsc::Receiver<Command>,
    /// None after the disk has failed in a way that leaves open what the file holds; it is then looked at again.
    pub(crate) place: Option<LogEnd>,
    /// The last line, as this process remembers it.
    pub(crate) head: AuditHead,
    /// Facts of the log about itself, written before anything else.
    pub(crate) own: Vec<AuditFact>,
    /// Set while notes are written that are not yet known to be on the disk.
    pub(crate) unsynced: bool,
    /// Set if the last write failed: then the next failure is no news.
    pub(crate) failing: bool,
}

impl Thread {
    /// Runs until it is closed or nobody is left who could ask.
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

    /// Does what waits. False when it was told to end.
    fn take(&mut self, first: Command) -> bool {
        let mut batch = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Keep(entry, reply) => batch.push((entry, reply)),
                Command::End(reply) => {
                    self.keep(std::mem::take(&mut batch));
                    // Whoever stopped waiting needs no answer; so below.
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

    /// Keeps a fact of the log's own, on the disk when this returns.
    pub(crate) fn keep_own(&mut self, fact: AuditFact) -> std::io::Result<()> {
        self.own.push(fact.clone());
        let kept = self.write(&[], true);
        if kept.is_err() {
            // It was to be told before something is done, which is not done now.
            self.own.retain(|own| *own != fact);
        }
        kept
    }

    /// Keeps all entries, and tells those who wait.
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
                Err(error) => tell(reply, Some(error.to_string())),
            }
        }
        let waited_for = replies.iter().any(Option::is_some) || !self.own.is_empty();
        match self.write(&entries, waited_for) {
            // What is too much for the disk together may find room alone.
            Err(_) if entries.len() > 1 => {
                for (entry, reply) in entries.iter().zip(replies) {
                    let outcome = self.write(std::slice::from_ref(entry), reply.is_some());
                    self.told(&outcome, reply);
                }
            }
            outcome => replies.into_iter().for_each(|reply| self.told(&outcome, reply)),
        }
    }

    fn told(&mut self, outcome: &std::io::Result<()>, reply: Option<Reply>) {
        if let Err(error) = outcome
            && !std::mem::replace(&mut self.failing, true)
        {
            tracing::error!(
                "the audit log cannot be written, and nothing that changes or runs anything may run: {error}"
            );
        }
        tell(reply, outcome.as_ref().err().map(ToString::to_string));
    }

    /// Writes the entries, all or none, behind what the log has to tell of itself.
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
            // The log's own facts hold nothing that could fail here.
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
            // After a failed sync nobody knows what is on the disk: it is taken back, and the file is looked at anew.
            place.take_back(size, before);
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
            tracing::error!("notes of the audit log may not be on the disk: {error}");
            // Nobody knows what the file holds: it is looked at before anything more is written.
            self.place = None;
        }
    }
}

fn tell(reply: Option<Reply>, problem: Option<String>) {
    let Some(reply) = reply else { return };
    let refusal = problem.map(|problem| {
        AuditError::new(ErrorKind::Storage, format!("could not write the audit log: {problem}"))
            .with_hint("free some disk space for the data folder; `agentctl audit verify` looks at the log")
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

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
    }

    /// A disk with so much room, or one that cannot say whether it has kept what it was given.
    struct Small {
        file: File,
        room: Arc<AtomicU64>,
        sound: bool,
    }

    impl Medium for Small {
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
            clock: Arc::new(Still),
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
        thread.place.insert(place).replace_medium(|file| Box::new(Small { file, room, sound }));
    }

    fn lines(folder: &std::path::Path) -> u64 {
        let report = verify(folder, &ExpectedLog::default()).unwrap();
        assert_eq!(report.findings, []);
        report.lines
    }

    #[test]
    fn a_full_disk_refuses_and_leaves_no_half_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut thread = thread(folder.path());
        assert_eq!(keep(&mut thread, 1), [true]);
        for room in [0, 1, 100, 150] {
            ill(&mut thread, room, true);
            assert_eq!(keep(&mut thread, 1), [false], "room for {room} bytes");
            assert_eq!(lines(folder.path()), 1);
        }
        // With room again, it goes on by itself.
        assert_eq!(keep(&mut thread, 2), [true, true]);
        assert_eq!(lines(folder.path()), 3);
    }

    #[test]
    fn what_is_not_known_to_be_on_the_disk_is_not_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let mut thread = thread(folder.path());
        ill(&mut thread, u64::MAX, false);
        assert_eq!(keep(&mut thread, 1), [false]);
        assert_eq!(lines(folder.path()), 0);
        assert_eq!(keep(&mut thread, 1), [true]);
        assert_eq!(lines(folder.path()), 1);
    }
}
