//! Connections: the calling end, the owner of the daemon and nobody else let in, and what both hold.
//!
//! The listening end: binding a socket of our own, or adopting one that was passed to us.

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

/// A connection over the local socket. The other side sees its end when this is dropped, not before.
#[derive(Debug)]
pub struct Io {
    stream: Stream,
    peer: PeerInfo,
}

/// Identity of the other end, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerInfo {
    /// The effective user id with which the connection was made.
    pub uid: u32,
    /// The process id, where the system tells.
    pub pid: Option<i32>,
}

impl Io {
    /// Wraps a connection whose other end the kernel can name; `None` where it cannot, which is never let in.
    fn identify(stream: Stream) -> io::Result<Option<Self>> {
        let credentials = stream.peer_creds()?;
        Ok(credentials.euid().map(|uid| Self { peer: PeerInfo { uid, pid: credentials.pid() }, stream }))
    }

    /// Identity of the other end.
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
/// [`SocketError::NobodyThere`] where no daemon listens; other kinds where something there cannot be used.
pub async fn connect(path: &Path) -> Result<Io, SocketError> {
    let path = check_length(path.to_owned())?;
    let stream = raw_connect(&path).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SocketError::NobodyThere(path.clone()),
        // The kernel says the same of a socket that nobody listens to and of a file that is no socket at all.
        io::ErrorKind::ConnectionRefused if is_no_socket(&path) => SocketError::NotASocket(path.clone()),
        io::ErrorKind::ConnectionRefused => SocketError::NobodyThere(path.clone()),
        _ => SocketError::io("connect to", &path)(error),
    })?;
    match Io::identify(stream).map_err(SocketError::io("find out who listens at", &path))? {
        Some(io) if io.peer().uid == geteuid().as_raw() => Ok(io),
        _ => Err(SocketError::Foreign(path)),
    }
}

pub(super) async fn raw_connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path.to_fs_name::<GenericFilePath>()?).await
}

fn is_no_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Delay after the system refused a connection, for want of file descriptors, say. Connections stay in the kernel's
/// queue meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
#[derive(Debug)]
pub struct Incoming {
    listener: Listener,
}

impl Incoming {
    pub(super) fn new(listener: Listener) -> Self {
        Self { listener }
    }

    /// The connections of the owner. Others are dropped before they can say a word. The stream never ends: what the
    /// system refuses is logged and tried again.
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
            Ok(Some(io)) => tracing::warn!(peer = ?io.peer(), "dropped a connection of another user"),
            Ok(None) => tracing::warn!("dropped a connection of an unknown user"),
            Err(error) => tracing::warn!(%error, "dropped a connection of unknown user"),
        }
    }
}

/// The name that we gave to our socket, to be taken away at the end.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Our socket's inode, held open: an inode number is given away again as soon as nobody holds it, and then a
    /// successor's socket would look like ours.
    inode: File,
}

impl SocketFile {
    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the name away, unless it belongs to another socket by now: that of a successor.
    ///
    /// # Errors
    /// When the file is ours and cannot be removed.
    pub fn remove(self) -> Result<(), SocketError> {
        if self.is_there() { remove_file(&self.path) } else { Ok(()) }
    }

    /// The name of a socket that somebody else made, held for [`SocketFile::is_there`].
    ///
    /// # Errors
    /// When there is nothing of that name.
    pub fn look(path: &Path) -> Result<Self, SocketError> {
        // A socket cannot be opened, but a handle on its place can.
        let handle = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let inode =
            open(path, handle, Mode::empty()).map_err(|errno| SocketError::io("look at", path)(errno.into()))?;
        Ok(Self { inode: inode.into(), path: path.to_owned() })
    }

    /// Returns whether the name still leads to the socket.
    pub fn is_there(&self) -> bool {
        match (self.inode.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(ours), Ok(found)) => (found.dev(), found.ino()) == (ours.dev(), ours.ino()),
            _ => false,
        }
    }
}

/// Binds the socket, with mode 0600, in a folder that is made with mode 0700 where it is missing. The caller holds the
/// daemon's lock, so that no two daemons are here at once.
///
/// # Errors
/// [`SocketError::Live`] where somebody listens already, [`SocketError::NotASocket`] where a file is in the way,
/// [`SocketError::UnsafeFolder`] where others could interfere, and what the system refuses.
pub async fn bind(path: &Path) -> Result<(Incoming, SocketFile), SocketError> {
    let path = check_length(path.to_owned())?;
    prepare_folder(path.parent().unwrap_or(Path::new("/")))?;
    remove_dead(&path).await?;
    let name = path.as_path().to_fs_name::<GenericFilePath>().map_err(SocketError::io("bind", &path))?;
    // The library would unlink the path when it drops the listener, whoever owns it by then. SocketFile looks first.
    let listener = ListenerOptions::new()
        .name(name)
        .mode(0o600)
        .reclaim_name(false)
        .create_tokio()
        .map_err(SocketError::io("bind", &path))?;
    Ok((Incoming::new(listener), SocketFile::look(&path)?))
}

/// Returns whether a process listens there.
pub async fn is_live(path: &Path) -> bool {
    raw_connect(path).await.is_ok()
}

/// Takes over a listening socket that a supervisor made, with its path where it has one. Its name, mode and end are the
/// supervisor's business.
///
/// # Errors
/// When the descriptor is no listening local socket.
pub fn adopt(fd: OwnedFd) -> Result<(Incoming, Option<PathBuf>), SocketError> {
    let path = getsockname::<UnixAddr>(fd.as_raw_fd()).ok().and_then(|address| address.path().map(Path::to_owned));
    let refused = SocketError::io("adopt", Path::new("the inherited socket"));
    UnixListener::try_from(fd).map(|listener| (Incoming::new(listener.into()), path)).map_err(refused)
}

/// Makes the folder where it is missing and makes sure that nobody else can put things there. Others may be able to
/// look into a folder that the person chose: the socket's own mode keeps them out.
fn prepare_folder(folder: &Path) -> Result<(), SocketError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(SocketError::io("make the folder", folder))?;
    let look = SocketError::io("look at the folder", folder);
    let (link, found) =
        fs::symlink_metadata(folder).and_then(|link| Ok((link, fs::metadata(folder)?))).map_err(look)?;
    let us = geteuid().as_raw();
    let problem = if found.uid() != us {
        "it belongs to another user"
    } else if ![us, 0].contains(&link.uid()) {
        "the link to it belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "other users can write to it"
    } else {
        return Ok(());
    };
    Err(SocketError::UnsafeFolder(folder.to_owned(), problem))
}

/// Takes away the socket of a daemon that is no more. Only a refused connection proves that.
async fn remove_dead(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::io("look at", path)(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match raw_connect(path).await {
        Ok(_) => Err(SocketError::Live(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A daemon whose queue is full is alive.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::Live(path.to_owned())),
        Err(error) => Err(SocketError::io("find out who listens at", path)(error)),
    }
}

fn remove_file(path: &Path) -> Result<(), SocketError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SocketError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
