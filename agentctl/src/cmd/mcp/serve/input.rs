//! Standard input, whose end is told at once. The protocol's own loop waits for the calls that are under way before it tells
//! it, and a turn takes longer than anybody wants to wait who has gone.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A reader that says when there is nothing more to read.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    over: CancellationToken,
}

impl<R> Input<R> {
    /// Around a reader. At its end, or where it fails, the token is cancelled.
    pub(super) fn new(inner: R, over: CancellationToken) -> Self {
        Self { inner, over }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        if read.is_err() || (room > 0 && buf.filled().len() == before) {
            self.over.cancel();
        }
        Poll::Ready(read)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn the_end_is_told_and_nothing_else() {
        let over = CancellationToken::new();
        let mut input = Input::new(&b"ab"[..], over.clone());
        assert_eq!(input.read(&mut [0; 1]).await.unwrap(), 1);
        assert_eq!(input.read(&mut []).await.unwrap(), 0);
        assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 1);
        assert!(!over.is_cancelled());
        assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(over.is_cancelled());
    }
}
