//! The single writer thread and its queue. The thread keeps the files of a few sessions open and closes them when idle.
//! The queue is bounded by number and by bytes; commands that do not fit are dropped and counted.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use agentd_core::{
    Timestamp,
    exchange::{ExchangeSource, ReceivedAnswer, StoredAnswer, StoredRequest},
    ids::SessionId,
};
use tokio::sync::oneshot;

use crate::{
    ExchangeLogConfig, MAX_ANSWER,
    file::{FileLimits, TraceFile},
    line::{Line, cleaned},
};

/// Maximum number of open files.
const MAX_OPEN_FILES: usize = 8;

/// Maximum number of exchanges without an end. The oldest are forgotten, because a lost end never arrives.
const MAX_OPEN_EXCHANGES: usize = 4096;

/// Idle time after which files and cached bodies are dropped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reply to a caller that waits for the thread.
pub(crate) type Reply = oneshot::Sender<io::Result<()>>;

/// One request in the queue.
#[derive(Debug)]
pub(crate) struct SentExchange {
    pub(crate) key: u64,
    pub(crate) source: ExchangeSource,
    pub(crate) at: Timestamp,
    pub(crate) request: StoredRequest,
    /// Size of the request in the queue, in bytes.
    pub(crate) queue_bytes: usize,
}

/// Commands of the writer thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Writes a request to its trace.
    Sent(Box<SentExchange>),
    /// Writes the end of an exchange.
    Ended { key: u64, answer: Box<ReceivedAnswer>, queue_bytes: usize },
    /// Removes everything stored for a session.
    Forget(SessionId, Reply),
    /// Replies when all earlier commands are written.
    Flush(Reply),
}

/// Starts the thread. Returns `None` if it cannot be spawned.
pub(crate) fn start(config: &ExchangeLogConfig) -> Option<Queue> {
    let (sender, commands) = mpsc::sync_channel(MAX_QUEUED);
    let state = Arc::new(QueueState::default());
    let queue = Queue { commands: sender, state: Arc::clone(&state) };
    let writer = Writer { config: config.clone(), state, files: Vec::new(), open: BTreeMap::new(), is_failing: false };
    let started = thread::Builder::new().name("agentd-trace".to_owned()).spawn(move || writer.run(&commands));
    started
        .inspect_err(|error| tracing::warn!("model requests are not recorded: could not start a thread: {error}"))
        .ok()?;
    Some(queue)
}

/// Removes a session's folder. A missing folder is not an error.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

struct Writer {
    config: ExchangeLogConfig,
    state: Arc<QueueState>,
    /// Open files, the most recently used last.
    files: Vec<TraceFile>,
    /// Session and number of exchanges without an end, by key.
    open: BTreeMap<u64, (SessionId, u64)>,
    /// True if the last write failed; further failures are not logged.
    is_failing: bool,
}

impl Writer {
    fn run(mut self, commands: &Receiver<Command>) {
        loop {
            // Without open files there is nothing to close on a timeout.
            let next = match self.files.is_empty() {
                true => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => commands.recv_timeout(IDLE_TIMEOUT),
            };
            match next {
                Ok(command) => self.handle(command),
                Err(RecvTimeoutError::Timeout) => self.files.clear(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Sent(sent) => {
                let (session, queue_bytes) = (sent.source.owner, sent.queue_bytes);
                self.request(*sent);
                self.state.free(queue_bytes);
                // While writes fail, this write would also fail.
                if !self.is_failing && self.files.iter().any(|file| file.session == session) {
                    self.write_lost();
                }
            }
            Command::Ended { key, answer, queue_bytes } => {
                self.answer(key, *answer);
                self.state.free(queue_bytes);
            }
            // The caller may have stopped waiting; the same applies below.
            Command::Forget(session, reply) => drop(reply.send(self.forget(session))),
            Command::Flush(reply) => {
                self.write_lost();
                drop(reply.send(Ok(())));
            }
        }
    }

    fn request(&mut self, mut sent: SentExchange) {
        let (key, session) = (sent.key, sent.source.owner);
        sent.request.body = sent.request.body.map(|body| cleaned(body, &self.config.clean));
        let written = self.file(session).and_then(|file| file.request(sent));
        match self.log_failure(session, written) {
            Some(number) => drop(self.open.insert(key, (session, number))),
            None => self.state.count_lost(session, 1),
        }
        while self.open.len() > MAX_OPEN_EXCHANGES {
            self.open.pop_first();
        }
    }

    fn answer(&mut self, key: u64, answer: ReceivedAnswer) {
        let Some((session, number)) = self.open.remove(&key) else { return };
        let line = Line::Answer { number, answer: self.stored_answer(answer) };
        let written = self.file(session).and_then(|file| file.write(&line));
        if self.log_failure(session, written).is_none() {
            self.state.count_lost(session, 1);
        }
    }

    fn stored_answer(&self, answer: ReceivedAnswer) -> StoredAnswer {
        let clean = &self.config.clean;
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let ReceivedAnswer {
            status,
            headers,
            mut body,
            bytes,
            first_byte,
            first_token,
            duration,
            usage,
            outcome,
            error,
        } = answer;
        body.truncate(MAX_ANSWER);
        StoredAnswer {
            status,
            headers: headers.into_iter().map(|(name, value)| (name, clean(&value))).collect(),
            bytes,
            is_cut: (body.len() as u64) < bytes,
            first_byte_us: first_byte.map(micros),
            first_token_us: first_token.map(micros),
            duration_us: micros(duration),
            usage,
            outcome,
            error: error.map(|error| clean(&error)),
            body: Some(cleaned(String::from_utf8_lossy(&body).into_owned(), clean)),
        }
    }

    /// Returns the open file of a session, opening it if needed.
    fn file(&mut self, session: SessionId) -> io::Result<&mut TraceFile> {
        let file = match self.files.iter().position(|file| file.session == session) {
            Some(at) => self.files.remove(at),
            None => {
                let limits = FileLimits { bytes: self.config.max_file_bytes, files: self.config.max_files };
                TraceFile::open(self.config.folder.join(session.to_string()), session, limits)?
            }
        };
        if self.files.len() >= MAX_OPEN_FILES {
            self.files.remove(0);
        }
        self.files.push(file);
        self.files.last_mut().ok_or_else(|| io::Error::other("no file is open"))
    }

    /// Logs a failed write. Further failures are not logged until a write succeeds.
    fn log_failure<T>(&mut self, session: SessionId, written: io::Result<T>) -> Option<T> {
        match written {
            Ok(written) => {
                self.is_failing = false;
                Some(written)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%session, "could not record model requests; turns continue: {error}");
                }
                // Dropped, so that the next write opens the file again.
                self.files.retain(|file| file.session != session);
                None
            }
        }
    }

    /// Writes the number of missing lines to each affected trace.
    fn write_lost(&mut self) {
        let lost = std::mem::take(&mut *self.state.lost());
        for (session, count) in lost {
            let written = self.file(session).and_then(|file| file.write(&Line::Lost { count }));
            if self.log_failure(session, written).is_none() {
                self.state.count_lost(session, count);
            }
        }
    }

    fn forget(&mut self, session: SessionId) -> io::Result<()> {
        self.files.retain(|file| file.session != session);
        self.open.retain(|_, (of, _)| *of != session);
        self.state.lost().remove(&session);
        remove(&self.config.folder.join(session.to_string()))
    }
}

/// Maximum number of queued commands.
const MAX_QUEUED: usize = 1024;

/// Maximum number of queued bytes.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// State shared between the queue and the thread.
#[derive(Debug, Default)]
struct QueueState {
    waiting: AtomicUsize,
    /// Number of missing lines in the trace of each session.
    lost: Mutex<BTreeMap<SessionId, u64>>,
}

impl QueueState {
    fn lost(&self) -> MutexGuard<'_, BTreeMap<SessionId, u64>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts missing lines in the trace of a session.
    fn count_lost(&self, session: SessionId, count: u64) {
        *self.lost().entry(session).or_default() += count;
    }

    /// Frees the queue bytes of a command.
    fn free(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Sending side of the writer's queue.
#[derive(Clone)]
pub(crate) struct Queue {
    commands: SyncSender<Command>,
    state: Arc<QueueState>,
}

impl Queue {
    /// Queues a command of `bytes` if it fits; `command` is called only then. Returns true if it was queued.
    pub(crate) fn offer(&self, session: SessionId, bytes: usize, command: impl FnOnce() -> Command) -> bool {
        let before = self.state.waiting.fetch_add(bytes, Ordering::AcqRel);
        // A command larger than the whole limit still fits into an empty queue.
        let fits = before == 0 || before.saturating_add(bytes) <= MAX_QUEUED_BYTES;
        if fits && self.commands.try_send(command()).is_ok() {
            return true;
        }
        self.state.free(bytes);
        self.state.count_lost(session, 1);
        false
    }

    /// Queues a command whose caller waits for it. May block. Returns false if the thread is gone.
    pub(crate) fn send(&self, command: Command) -> bool {
        match self.commands.try_send(command) {
            Ok(()) => true,
            Err(TrySendError::Full(command)) => self.commands.send(command).is_ok(),
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
