//! Connections: the calling end, the owner of the daemon and nobody else let in, and what both hold.

use std::{
    io,
    os::unix::fs::FileTypeExt as _,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream as Streaming, stream};
use interprocess::local_socket::{
    GenericFilePath, ToFsName as _,
    tokio::{Listener, Stream},
    traits::{
        StreamCommon as _,
        tokio::{Listener as _, Stream as _},
    },
};
use nix::unistd::geteuid;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use super::{SocketError, path::check_length};

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
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SocketError::NobodyThere { path: path.clone() },
        // The kernel says the same of a socket that nobody listens to and of a file that is no socket at all.
        io::ErrorKind::ConnectionRefused if is_no_socket(&path) => SocketError::NotASocket { path: path.clone() },
        io::ErrorKind::ConnectionRefused => SocketError::NobodyThere { path: path.clone() },
        _ => SocketError::io("connect to", &path)(error),
    })?;
    match Io::identify(stream).map_err(SocketError::io("find out who listens at", &path))? {
        Some(io) if io.peer().uid == geteuid().as_raw() => Ok(io),
        _ => Err(SocketError::Foreign { path }),
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
