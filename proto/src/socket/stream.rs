//! Connections: the connecting side, the check that only the daemon's owner connects, and the type for both sides.
//!
//! Also the listening side: binding a new socket, or adopting an inherited one.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream as Streaming, stream};
use interprocess::{
    local_socket::{
        GenericFilePath, ListenerOptions, ToFsName as _,
        tokio::{Listener, Stream},
        traits::{
            StreamCommon as _,
            tokio::{Listener as _, Stream as _},
        },
    },
    os::unix::{local_socket::ListenerOptionsExt as _, uds_local_socket::tokio::Listener as UnixListener},
};
use nix::{
    fcntl::{OFlag, open},
    sys::{
        socket::{UnixAddr, getsockname},
        stat::Mode,
    },
    unistd::geteuid,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::socket::{SocketError, check_length};

/// A connection over the local socket. The peer sees the end of the stream only when this value is dropped.
#[derive(Debug)]
pub struct Io {
    stream: Stream,
    peer: PeerInfo,
}

/// Identity of the peer, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerInfo {
    /// Effective user ID of the peer at the time of the connection.
    pub uid: u32,
    /// Process ID of the peer, if the system reports it.
    pub pid: Option<i32>,
}

impl Io {
    /// Wraps a connection. Returns `None` if the kernel cannot identify the peer; such a connection must be rejected.
    fn identify(stream: Stream) -> io::Result<Option<Self>> {
        let credentials = stream.peer_creds()?;
        Ok(credentials.euid().map(|uid| Self { peer: PeerInfo { uid, pid: credentials.pid() }, stream }))
    }

    /// Returns the identity of the peer.
    pub fn peer(&self) -> PeerInfo {
        self.peer
    }
}

impl Connected for Io {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Connects to the daemon at this path.
///
/// # Errors
/// [`SocketError::NotListening`] if no daemon listens; other kinds if the socket is unusable.
pub async fn connect(path: &Path) -> Result<Io, SocketError> {
    let path = check_length(path.to_owned())?;
    let stream = raw_connect(&path).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SocketError::NotListening(path.clone()),
        // The kernel returns the same error for a socket without a listener and for a file that is not a socket.
        io::ErrorKind::ConnectionRefused if is_not_a_socket(&path) => SocketError::NotASocket(path.clone()),
        io::ErrorKind::ConnectionRefused => SocketError::NotListening(path.clone()),
        _ => SocketError::io("connect to", &path)(error),
    })?;
    match Io::identify(stream).map_err(SocketError::io("identify the server at", &path))? {
        Some(io) if io.peer().uid == geteuid().as_raw() => Ok(io),
        _ => Err(SocketError::Foreign(path)),
    }
}

pub(super) async fn raw_connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path.to_fs_name::<GenericFilePath>()?).await
}

fn is_not_a_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Delay after the system failed to accept a connection, for example because it has no more file descriptors. Pending
/// connections stay in the kernel's queue.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that accepts connections.
#[derive(Debug)]
pub struct IncomingConnections {
    listener: Listener,
}

impl IncomingConnections {
    pub(super) fn new(listener: Listener) -> Self {
        Self { listener }
    }

    /// Streams the connections of the socket's owner. Other connections are dropped before any data is read. The stream
    /// never ends: system errors are logged and accepting is retried.
    pub fn into_stream(self) -> impl Streaming<Item = Result<Io, io::Error>> + Send + 'static {
        stream::unfold(self.listener, |listener| async move {
            let io = next_of_owner(&listener).await;
            Some((Ok(io), listener))
        })
    }
}

async fn next_of_owner(listener: &Listener) -> Io {
    let owner = geteuid().as_raw();
    loop {
        let accepted = match listener.accept().await {
            Ok(stream) => Io::identify(stream),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match accepted {
            Ok(Some(io)) if io.peer().uid == owner => return io,
            Ok(Some(io)) => tracing::warn!(peer = ?io.peer(), "rejected a connection from another user"),
            Ok(None) => tracing::warn!("rejected a connection from an unknown user"),
            Err(error) => tracing::warn!(%error, "rejected a connection from an unknown user"),
        }
    }
}

/// File of a socket that this process created, to be removed at exit.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Open handle on the socket's inode. Without the handle, the inode number could be reused, and a later socket
    /// could be mistaken for this one.
    inode: File,
}

impl SocketFile {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless the path already belongs to the socket of a later daemon.
    ///
    /// # Errors
    /// Fails if the file belongs to this socket and cannot be removed.
    pub fn remove(self) -> Result<(), SocketError> {
        if self.exists() { remove_file(&self.path) } else { Ok(()) }
    }

    /// Creates a handle on a socket that another process created, for [`SocketFile::exists`].
    ///
    /// # Errors
    /// Fails if there is no file at that path.
    pub fn open_existing(path: &Path) -> Result<Self, SocketError> {
        // A socket cannot be opened, but `O_PATH` gives a handle on its inode.
        let handle = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let inode =
            open(path, handle, Mode::empty()).map_err(|errno| SocketError::io("inspect", path)(errno.into()))?;
        Ok(Self { inode: inode.into(), path: path.to_owned() })
    }

    /// Returns true if the path still belongs to this socket.
    pub fn exists(&self) -> bool {
        match (self.inode.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(ours), Ok(found)) => (found.dev(), found.ino()) == (ours.dev(), ours.ino()),
            _ => false,
        }
    }
}

/// Binds the socket with mode 0600. A missing folder is created with mode 0700. The caller holds the daemon's lock, so
/// that two daemons cannot bind at the same time.
///
/// # Errors
/// Fails with [`SocketError::Live`] if a process is already listening, with [`SocketError::NotASocket`] if another file
/// exists at this path, with [`SocketError::UnsafeFolder`] if other users could interfere, or with a system error.
pub async fn bind(path: &Path) -> Result<(IncomingConnections, SocketFile), SocketError> {
    let path = check_length(path.to_owned())?;
    prepare_folder(path.parent().unwrap_or(Path::new("/")))?;
    remove_dead(&path).await?;
    let name = path.as_path().to_fs_name::<GenericFilePath>().map_err(SocketError::io("bind", &path))?;
    // The library would unlink the path when the listener is dropped, even if another process owns it by then.
    // `SocketFile` checks first.
    let listener = ListenerOptions::new()
        .name(name)
        .mode(0o600)
        .reclaim_name(false)
        .create_tokio()
        .map_err(SocketError::io("bind", &path))?;
    Ok((IncomingConnections::new(listener), SocketFile::open_existing(&path)?))
}

/// Returns true if a process is listening at the path.
pub async fn is_live(path: &Path) -> bool {
    raw_connect(path).await.is_ok()
}

/// Adopts a listening socket created by a supervisor, and returns its path if it has one. The supervisor remains
/// responsible for the socket's name, mode and removal.
///
/// # Errors
/// Fails if the descriptor is not a listening local socket.
pub fn adopt(fd: OwnedFd) -> Result<(IncomingConnections, Option<PathBuf>), SocketError> {
    let path = getsockname::<UnixAddr>(fd.as_raw_fd()).ok().and_then(|address| address.path().map(Path::to_owned));
    let refused = SocketError::io("adopt", Path::new("the inherited socket"));
    UnixListener::try_from(fd).map(|listener| (IncomingConnections::new(listener.into()), path)).map_err(refused)
}

/// Creates the folder if it is missing, and checks that no other user can write to it. Other users may be able to read
/// a folder that the user chose, but the socket's own mode denies them access.
fn prepare_folder(folder: &Path) -> Result<(), SocketError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(SocketError::io("create the folder", folder))?;
    let inspect_error = SocketError::io("inspect the folder", folder);
    let (link, found) =
        fs::symlink_metadata(folder).and_then(|link| Ok((link, fs::metadata(folder)?))).map_err(inspect_error)?;
    let own_uid = geteuid().as_raw();
    let problem = if found.uid() != own_uid {
        "it belongs to another user"
    } else if ![own_uid, 0].contains(&link.uid()) {
        "the link to it belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "other users can write to it"
    } else {
        return Ok(());
    };
    Err(SocketError::UnsafeFolder(folder.to_owned(), problem))
}

/// Removes the socket of a daemon that has exited. Only a refused connection proves that.
async fn remove_dead(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::io("inspect", path)(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match raw_connect(path).await {
        Ok(_) => Err(SocketError::Live(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A daemon with a full queue is alive.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::Live(path.to_owned())),
        Err(error) => Err(SocketError::io("probe", path)(error)),
    }
}

fn remove_file(path: &Path) -> Result<(), SocketError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SocketError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
