//! The log of exchanges as seen by the engine. Recording never blocks: a full queue drops the exchange and counts it.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    exchange::{
        ExchangeRecorder, ExchangeSource, ReceivedAnswer, RequestTap, SentRequest, StoredExchanges, StoredRequest,
    },
    ids::SessionId,
    ports::Exchanges,
};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{
    ExchangeLogConfig, MAX_REQUEST, ReadFailure, reader,
    writer::{self, Command, Queue, Reply, SentExchange},
};

/// Size of a queued command without its body, in bytes.
const OVERHEAD: usize = 512;

/// Records exchanges with models. Cheap to clone.
#[derive(Clone)]
pub struct ExchangeLog(Arc<Inner>);

struct Inner {
    config: ExchangeLogConfig,
    is_on: AtomicBool,
    /// Next key of an attempt. Key 0 marks dropped attempts.
    keys: AtomicU64,
    /// Queue of the writer thread, set with the first exchange. Contains `None` if the thread could not be started.
    queue: OnceLock<Option<Queue>>,
}

impl ExchangeLog {
    /// Creates a log. No file is opened before the first exchange.
    pub fn new(config: ExchangeLogConfig) -> Self {
        let is_on = AtomicBool::new(config.is_on);
        Self(Arc::new(Inner { config, is_on, keys: AtomicU64::new(1), queue: OnceLock::new() }))
    }

    /// Turns logging on or off for sessions that do not override the setting.
    pub fn follow_settings(&self, is_on: bool) {
        self.0.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Waits until all commands queued before this call are written.
    pub async fn flush(&self) {
        let _ = self.0.ask(Command::Flush).await;
    }

    /// Reads exchanges of a session: the given numbers, or all of them without bodies if `numbers` is empty.
    ///
    /// # Errors
    /// Fails if nothing is stored for the session, a number does not exist, or the files cannot be read.
    pub async fn read(&self, session: SessionId, numbers: Vec<u64>) -> Result<StoredExchanges, ReadFailure> {
        self.flush().await;
        let folder = self.0.folder(session);
        let read = tokio::task::spawn_blocking(move || reader::read(&folder, &numbers)).await;
        read.unwrap_or_else(|error| Err(ReadFailure::Io(io::Error::other(error))))
    }
}

impl Exchanges for ExchangeLog {
    fn tap(&self, source: &dyn Fn() -> ExchangeSource, wanted: Option<bool>) -> RequestTap {
        if !wanted.unwrap_or_else(|| self.0.is_on.load(Ordering::Relaxed)) {
            return RequestTap::default();
        }
        RequestTap::new(Some(Arc::new(SourceRecorder { log: Arc::clone(&self.0), source: source() })))
    }

    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(async move {
            let removed = match self.0.queue.get() {
                Some(Some(_)) => self.0.ask(|reply| Command::Forget(session, reply)).await,
                _ => {
                    let folder = self.0.folder(session);
                    let removed = tokio::task::spawn_blocking(move || writer::remove(&folder)).await;
                    removed.unwrap_or_else(|error| Err(io::Error::other(error)))
                }
            };
            removed.map_err(|error| {
                WorkspaceError::new(ErrorKind::Storage, format!("could not remove the trace of a session: {error}"))
            })
        })
    }
}

impl Inner {
    fn folder(&self, session: SessionId) -> PathBuf {
        self.config.folder.join(session.to_string())
    }

    fn queue(&self) -> Option<&Queue> {
        self.queue.get_or_init(|| writer::start(&self.config)).as_ref()
    }

    /// Runs a command on the thread after all queued commands. Does nothing if the thread was not started.
    async fn ask(&self, command: impl FnOnce(Reply) -> Command) -> io::Result<()> {
        let Some(Some(queue)) = self.queue.get().cloned() else { return Ok(()) };
        let (reply, done) = oneshot::channel();
        let command = command(reply);
        let sent = tokio::task::spawn_blocking(move || queue.send(command)).await;
        if !matches!(sent, Ok(true)) {
            return Ok(());
        }
        done.await.unwrap_or(Ok(()))
    }
}

/// Records the exchanges of one request.
struct SourceRecorder {
    log: Arc<Inner>,
    source: ExchangeSource,
}

impl ExchangeRecorder for SourceRecorder {
    fn sent(&self, request: &SentRequest<'_>) -> u64 {
        let Some(queue) = self.log.queue() else { return 0 };
        let body = &request.body[..request.body.floor_char_boundary(MAX_REQUEST)];
        let (key, bytes) = (self.log.keys.fetch_add(1, Ordering::Relaxed), body.len() + OVERHEAD);
        let is_queued = queue.offer(self.source.owner, bytes, || {
            let stored = StoredRequest {
                wire: request.wire.to_owned(),
                model: request.model.to_owned(),
                url: request.url.to_owned(),
                headers: request.headers.to_vec(),
                attempt: request.attempt,
                bytes: request.body.len() as u64,
                is_cut: body.len() < request.body.len(),
                body: Some(body.to_owned()),
            };
            let (source, at) = (self.source.clone(), self.log.config.clock.now());
            Command::Sent(Box::new(SentExchange { key, source, at, request: stored, queue_bytes: bytes }))
        });
        if is_queued { key } else { 0 }
    }

    fn ended(&self, key: u64, answer: ReceivedAnswer) {
        // Key 0: the request was dropped, so its end is not recorded either.
        if key == 0 {
            return;
        }
        if let Some(queue) = self.log.queue() {
            let queue_bytes = answer.body.len() + OVERHEAD;
            queue.offer(self.source.owner, queue_bytes, || Command::Ended {
                key,
                answer: Box::new(answer),
                queue_bytes,
            });
        }
    }
}
