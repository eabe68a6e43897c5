//! The daemon's socket, which a supervisor passes or which is bound here. It is bound again if its path disappears.
//!
//! Clients find the daemon by the socket's path and by the lock file. Both can disappear while the daemon runs: a
//! runtime folder is removed at the last logout, and `/tmp` is cleaned. [`Presence`] checks and restores both.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::error::ErrorKind;
use agentd_proto::socket::{self, IncomingConnections, Io, SocketError, SocketFile};
use agentd_store::SqliteStore;
use futures_util::{Stream, StreamExt};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use crate::{
    failure::{Failure, with_causes},
    lock::{self, FolderLock, LockState},
};

/// Capacity for accepted connections that wait for the server, which accepts them immediately.
const BACKLOG: usize = 16;

/// Interval between checks. Clients wait slightly longer for a daemon that is running but cannot be found.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Socket paths that the daemon may listen on.
#[derive(Debug, Clone)]
pub struct SocketPaths {
    /// The path that clients try first.
    pub first: PathBuf,
    /// Alternatives if the first path is not available.
    pub others: Vec<PathBuf>,
    /// True if the user specified the first path.
    pub is_named: bool,
}

impl SocketPaths {
    /// Returns all paths, best first.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Socket and lock file, by which clients find the daemon. The socket keeps listening even if its path disappears.
pub(crate) struct Presence<'a> {
    paths: SocketPaths,
    /// Path of the socket; `None` if the socket has no path, or its path has disappeared.
    name: Option<BoundSocket>,
    /// True if the supervisor passed a socket without a path.
    is_pathless: bool,
    connections: mpsc::Sender<Io>,
    accepting: JoinHandle<()>,
    lock: &'a mut FolderLock,
    store: Arc<SqliteStore>,
    socket: watch::Sender<PathBuf>,
    /// Problems that have already been logged, so that each is logged only once.
    logged: LoggedProblems,
}

/// Path of a bound socket.
struct BoundSocket {
    file: SocketFile,
    /// True if the daemon must remove the path. A supervisor's socket is not removed.
    is_ours: bool,
    /// Lock file beside the socket, held until the socket's path is removed.
    _lock: Option<File>,
}

/// Logged problems that still persist.
#[derive(Default)]
struct LoggedProblems {
    socket: bool,
    lock: bool,
    folder: bool,
    journal: bool,
}

impl<'a> Presence<'a> {
    /// Uses the passed socket, or binds the first path. If another daemon uses that path and the user did not specify
    /// it, the next path is bound. Clients find that path in the lock file.
    ///
    /// # Errors
    /// Fails if the path cannot be a socket, or is in use.
    pub(crate) async fn open(
        paths: SocketPaths,
        inherited: Option<OwnedFd>,
        lock: &'a mut FolderLock,
        store: Arc<SqliteStore>,
    ) -> Result<(Self, impl Stream<Item = io::Result<Io>> + Send + use<>), Failure> {
        let (incoming, name) = match inherited {
            Some(fd) => {
                let (incoming, path) = socket::adopt(fd).map_err(failure)?;
                let file = path.and_then(|path| SocketFile::open_existing(&path).ok());
                (incoming, file.map(|file| BoundSocket { file, is_ours: false, _lock: None }))
            }
            None => {
                let (incoming, name) = open_first(&paths).await?;
                (incoming, Some(name))
            }
        };
        let is_pathless = name.is_none();
        let (connections, accepted) = mpsc::channel(BACKLOG);
        let accepting = tokio::spawn(accept(incoming, connections.clone()));
        let accepted = futures_util::stream::unfold(accepted, |mut accepted| async move {
            Some((Ok::<_, io::Error>(accepted.recv().await?), accepted))
        });
        let (socket, logged) = (watch::Sender::default(), LoggedProblems::default());
        let mut presence = Self { paths, name, is_pathless, connections, accepting, lock, store, socket, logged };
        presence.publish_socket();
        Ok((presence, accepted))
    }

    /// Returns the path at which the daemon can be reached, or the preferred path if the daemon has none.
    fn path(&self) -> &Path {
        self.name.as_ref().map_or(&self.paths.first, |name| name.file.path())
    }

    /// Returns true if the path still leads to this socket, or if the socket was passed without a path.
    fn is_found(&self) -> bool {
        self.name.as_ref().map_or(self.is_pathless, |name| name.file.exists())
    }

    /// Binds the socket again, at the first available path. Existing connections are not affected. If no path is
    /// available, returns the error of the last path; the daemon then has no path until the next check.
    async fn rebind(&mut self) -> Result<(), Failure> {
        let before = self.path().to_owned();
        // The lock file is named after the socket, so the lock must be released before the same path is locked again.
        self.name.take_if(|name| name.is_ours);
        let others: Vec<PathBuf> = self.paths.all().filter(|path| **path != before).cloned().collect();
        let (incoming, name) = bind_any(std::iter::once(&before).chain(&others)).await?;
        self.accepting.abort();
        self.accepting = tokio::spawn(accept(incoming, self.connections.clone()));
        self.name = Some(name);
        Ok(())
    }

    /// Stops accepting new connections.
    pub(crate) fn close(&self) {
        self.accepting.abort();
    }

    /// Removes the socket's path, unless it now belongs to a successor.
    pub(crate) fn remove(self) {
        if let Some(BoundSocket { file, is_ours: true, .. }) = self.name
            && let Err(error) = file.remove()
        {
            tracing::warn!(%error, "could not remove the socket");
        }
    }

    pub(crate) fn socket(&self) -> watch::Receiver<PathBuf> {
        self.socket.subscribe()
    }

    /// Periodically checks socket, lock file and journal. Never returns.
    pub(crate) async fn maintain(&mut self) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.check_lock();
            self.check_socket().await;
            self.check_journal();
        }
    }

    async fn check_socket(&mut self) {
        if self.is_found() {
            self.logged.socket = false;
            return;
        }
        let before = self.path().to_owned();
        match self.rebind().await {
            Ok(()) if self.path() == before => {
                tracing::warn!(socket = %before.display(), "the socket was missing and is bound again");
            }
            Ok(()) => {
                let socket = self.path().display();
                tracing::warn!(gone = %before.display(), %socket, "the socket was missing and is bound at another path");
            }
            Err(error) => {
                if !std::mem::replace(&mut self.logged.socket, true) {
                    tracing::error!("the socket is missing and could not be bound again: {}", with_causes(&error));
                }
                return;
            }
        }
        self.publish_socket();
    }

    fn check_lock(&mut self) {
        match self.lock.check() {
            Ok(LockState::InPlace) => (self.logged.lock, self.logged.folder) = (false, false),
            Ok(LockState::Recreated) => tracing::warn!("the lock file was missing and was created again"),
            Ok(LockState::FolderGone) => {
                if !std::mem::replace(&mut self.logged.folder, true) {
                    tracing::error!("the data folder was moved; move it back or stop the daemon");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.logged.lock, true) {
                    tracing::error!("the lock file is missing and could not be created again: {error}");
                }
            }
        }
    }

    fn check_journal(&mut self) {
        match self.store.check_files() {
            Ok(()) => self.logged.journal = false,
            Err(error) => {
                if !std::mem::replace(&mut self.logged.journal, true) {
                    tracing::error!(hint = error.hint(), "{error}");
                }
            }
        }
    }

    /// Publishes the daemon's socket path to clients.
    fn publish_socket(&mut self) {
        self.socket.send_replace(self.path().to_owned());
        if let Err(error) = self.lock.publish_socket(&self.socket.borrow()) {
            tracing::warn!("could not write the daemon's socket into the lock file: {error}");
        }
    }
}

async fn accept(incoming: IncomingConnections, connections: mpsc::Sender<Io>) {
    let mut accepted = std::pin::pin!(incoming.into_stream());
    while let Some(Ok(io)) = accepted.next().await {
        if connections.send(io).await.is_err() {
            return;
        }
    }
}

async fn open_first(paths: &SocketPaths) -> Result<(IncomingConnections, BoundSocket), Failure> {
    let error = match bind(&paths.first).await {
        Ok(bound) => return Ok(bound),
        Err(error) => error,
    };
    if paths.is_named || !socket::is_live(&paths.first).await {
        return Err(error);
    }
    let Ok(bound) = bind_any(paths.others.iter()).await else { return Err(error) };
    let socket = bound.1.file.path().display();
    tracing::info!(taken = %paths.first.display(), %socket, "another daemon uses the default socket");
    Ok(bound)
}

/// Binds the first available path. If no path is available, returns the error of the last one.
async fn bind_any(paths: impl Iterator<Item = &PathBuf>) -> Result<(IncomingConnections, BoundSocket), Failure> {
    let mut last = None;
    for path in paths {
        match bind(path).await {
            Ok(bound) => return Ok(bound),
            Err(error) => {
                tracing::debug!("could not listen at {}: {}", path.display(), with_causes(&error));
                last = Some(error);
            }
        }
    }
    Err(last.unwrap_or_else(|| Failure::broken("there is no path for a socket")))
}

async fn bind(path: &Path) -> Result<(IncomingConnections, BoundSocket), Failure> {
    let lock = lock_beside(path)?;
    let (incoming, file) = socket::bind(path).await.map_err(failure)?;
    Ok((incoming, BoundSocket { file, is_ours: true, _lock: lock }))
}

/// Locks a file beside the socket. Two daemons with different data folders may be configured with the same socket.
/// Without this lock, the second daemon could consider the socket stale and remove the socket of the first.
///
/// No file is created in a folder that does not exist yet, or that other users may write to. Binding creates a missing
/// folder, so only two simultaneous first starts can race; binding rejects a folder that others may write to.
fn lock_beside(path: &Path) -> Result<Option<File>, Failure> {
    let owner = nix::unistd::geteuid().as_raw();
    let is_private = |folder: &Path| {
        folder.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == owner && meta.mode() & 0o022 == 0)
    };
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if is_private(folder) => {
            let mut name = name.to_owned();
            name.push(".lock");
            lock::take(&folder.join(name)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Converts a socket error. A path that cannot be a socket is a configuration error. All other errors are system
/// failures.
pub(crate) fn failure(error: SocketError) -> Failure {
    let failure_kind = if error.kind() == ErrorKind::Configuration { Failure::usage } else { Failure::broken };
    failure_kind(error.to_string()).with_hint(error.hint())
}
