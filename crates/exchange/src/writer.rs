//! The one thread that writes, and the way to it. It holds the files of a few sessions open, and lets them go when nothing comes. The
//! queue is bounded by number and by bytes; what finds no room is counted.

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
    exchange::{ExchangeSource, KeptAnswer, KeptRequest, ReceivedAnswer},
    ids::SessionId,
};
use tokio::sync::oneshot;

use crate::{
    ExchangeLogConfig, MAX_ANSWER,
    file::{FileLimits, TraceFile},
    line::{Line, cleaned},
};

/// Files that are open at once.
const OPEN_FILES: usize = 8;

/// Exchanges whose end is waited for. One whose end was lost never comes.
const OPEN_EXCHANGES: usize = 4096;

/// Time without work after which files and bodies are let go.
const IDLE: Duration = Duration::from_secs(60);

/// Reply to whoever waits for the thread.
pub(crate) type Reply = oneshot::Sender<io::Result<()>>;

/// A request on its way to the thread.
#[derive(Debug)]
pub(crate) struct SentExchange {
    pub(crate) key: u64,
    pub(crate) source: ExchangeSource,
    pub(crate) at: Timestamp,
    pub(crate) request: KeptRequest,
    /// Room that it takes in the queue.
    pub(crate) room: usize,
}

/// Commands of the thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// To write a request.
    Sent(Box<SentExchange>),
    /// To write the end of an exchange.
    Ended { key: u64, answer: Box<ReceivedAnswer>, room: usize },
    /// To remove all that is kept of a session.
    Forget(SessionId, Reply),
    /// To tell that all before this is written.
    Flush(Reply),
}

/// Starts the thread. None where none can be had.
pub(crate) fn start(config: &ExchangeLogConfig) -> Option<Queue> {
    let (sender, commands) = mpsc::sync_channel(PLACES);
    let state = Arc::new(QueueState::default());
    let queue = Queue { commands: sender, state: Arc::clone(&state) };
    let writer = Writer { config: config.clone(), state, files: Vec::new(), open: BTreeMap::new(), is_failing: false };
    let started = thread::Builder::new().name("agentd-trace".to_owned()).spawn(move || writer.run(&commands));
    started
        .inspect_err(|error| tracing::warn!("requests to models are not kept, as no thread can be had: {error}"))
        .ok()?;
    Some(queue)
}

/// Removes the folder of a session.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

struct Writer {
    config: ExchangeLogConfig,
    state: Arc<QueueState>,
    /// The latest at the end.
    files: Vec<TraceFile>,
    /// Exchanges without an end, by their keys: the session and the number.
    open: BTreeMap<u64, (SessionId, u64)>,
    /// Set if the last write failed: then the next failure is no news.
    is_failing: bool,
}

impl Writer {
    fn run(mut self, commands: &Receiver<Command>) {
        loop {
            // Where nothing is held, nothing has to be let go.
            let next = match self.files.is_empty() {
                true => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => commands.recv_timeout(IDLE),
            };
            match next {
                Ok(command) => self.take(command),
                Err(RecvTimeoutError::Timeout) => self.files.clear(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Sent(sent) => {
                let (session, room) = (sent.source.owner, sent.room);
                self.request(*sent);
                self.state.free(room);
                // As long as nothing can be written, this cannot either.
                if !self.is_failing && self.files.iter().any(|file| file.session == session) {
                    self.tell_lost();
                }
            }
            Command::Ended { key, answer, room } => {
                self.answer(key, *answer);
                self.state.free(room);
            }
            // Whoever does not wait any more needs no answer; so below.
            Command::Forget(session, reply) => drop(reply.send(self.forget(session))),
            Command::Flush(reply) => {
                self.tell_lost();
                drop(reply.send(Ok(())));
            }
        }
    }

    fn request(&mut self, mut sent: SentExchange) {
        let (key, session) = (sent.key, sent.source.owner);
        sent.request.body = sent.request.body.map(|body| cleaned(body, &self.config.clean));
        let written = self.file(session).and_then(|file| file.request(sent));
        match self.told(session, written) {
            Some(number) => drop(self.open.insert(key, (session, number))),
            None => self.state.lose(session, 1),
        }
        while self.open.len() > OPEN_EXCHANGES {
            self.open.pop_first();
        }
    }

    fn answer(&mut self, key: u64, answer: ReceivedAnswer) {
        let Some((session, number)) = self.open.remove(&key) else { return };
        let line = Line::Answer { number, answer: self.kept(answer) };
        let written = self.file(session).and_then(|file| file.write(&line));
        if self.told(session, written).is_none() {
            self.state.lose(session, 1);
        }
    }

    fn kept(&self, answer: ReceivedAnswer) -> KeptAnswer {
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
        KeptAnswer {
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

    /// The open file of a session.
    fn file(&mut self, session: SessionId) -> io::Result<&mut TraceFile> {
        let file = match self.files.iter().position(|file| file.session == session) {
            Some(at) => self.files.remove(at),
            None => {
                let limits = FileLimits { bytes: self.config.max_file_bytes, files: self.config.max_files };
                TraceFile::open(self.config.folder.join(session.to_string()), session, limits)?
            }
        };
        if self.files.len() >= OPEN_FILES {
            self.files.remove(0);
        }
        self.files.push(file);
        self.files.last_mut().ok_or_else(|| io::Error::other("no file is open"))
    }

    /// Tells the operator of a failure, once until something can be written again.
    fn told<T>(&mut self, session: SessionId, written: io::Result<T>) -> Option<T> {
        match written {
            Ok(written) => {
                self.is_failing = false;
                Some(written)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%session, "requests to models cannot be kept, and turns go on without: {error}");
                }
                // It is looked at anew next time.
                self.files.retain(|file| file.session != session);
                None
            }
        }
    }

    /// Writes how many lines are missing.
    fn tell_lost(&mut self) {
        let lost = std::mem::take(&mut *self.state.lost());
        for (session, count) in lost {
            let written = self.file(session).and_then(|file| file.write(&Line::Lost { count }));
            if self.told(session, written).is_none() {
                self.state.lose(session, count);
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

/// Commands that may wait.
const PLACES: usize = 1024;

/// Bytes that may wait.
const ROOM: usize = 64 << 20;

/// State that sender and thread share.
#[derive(Debug, Default)]
struct QueueState {
    waiting: AtomicUsize,
    /// Lines that are missing in the traces of sessions.
    lost: Mutex<BTreeMap<SessionId, u64>>,
}

impl QueueState {
    fn lost(&self) -> MutexGuard<'_, BTreeMap<SessionId, u64>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts lines that are missing in the trace of a session.
    fn lose(&self, session: SessionId, count: u64) {
        *self.lost().entry(session).or_default() += count;
    }

    /// Gives the room of a command back.
    fn free(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The sender's side.
#[derive(Clone)]
pub(crate) struct Queue {
    commands: SyncSender<Command>,
    state: Arc<QueueState>,
}

impl Queue {
    /// Puts a command of so many bytes into the queue, if there is room. It is made only then. Says whether it was.
    pub(crate) fn offer(&self, session: SessionId, bytes: usize, command: impl FnOnce() -> Command) -> bool {
        let before = self.state.waiting.fetch_add(bytes, Ordering::AcqRel);
        // One that is larger than all of the room still fits where nothing waits.
        let has_room = before == 0 || before.saturating_add(bytes) <= ROOM;
        if has_room && self.commands.try_send(command()).is_ok() {
            return true;
        }
        self.state.free(bytes);
        self.state.lose(session, 1);
        false
    }

    /// Puts a command into the queue that somebody waits for. It may block; false where the thread is gone.
    pub(crate) fn send(&self, command: Command) -> bool {
        match self.commands.try_send(command) {
            Ok(()) => true,
            Err(TrySendError::Full(command)) => self.commands.send(command).is_ok(),
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
