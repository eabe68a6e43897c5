//! One connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use interprocess::local_socket::{tokio::Stream, traits::StreamCommon as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

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
    pub(super) fn identify(stream: Stream) -> io::Result<Option<Self>> {
        let credentials = stream.peer_creds()?;
        Ok(credentials.euid().map(|uid| Self { peer: PeerInfo { uid, pid: credentials.pid() }, stream }))
    }

    /// Identity of the other end.
    #[must_use]
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
