//! Letting people in: the owner of the daemon and nobody else.

use std::{io, time::Duration};

use futures_util::{Stream, stream};
use interprocess::local_socket::{tokio::Listener, traits::tokio::Listener as _};
use nix::unistd::geteuid;

use super::Io;

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
    pub fn into_stream(self) -> impl Stream<Item = Result<Io, io::Error>> + Send + 'static {
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
