//! The signals that a daemon follows.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that a daemon follows, from the moment on at which this is made.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// Meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// SIGTERM or SIGINT: stop.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
}

impl Signals {
    /// Begins to listen, in place of dying.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> Result<Self, Failure> {
        let open =
            |kind| signal(kind).map_err(|error| Failure::broken("could not listen for signals").with_source(error));
        Ok(Self {
            terminate: open(SignalKind::terminate())?,
            interrupt: open(SignalKind::interrupt())?,
            hang_up: open(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::Stop,
            _ = self.interrupt.recv() => SignalRequest::Stop,
            _ = self.hang_up.recv() => SignalRequest::Reload,
        }
    }

    /// The next signal that asks for a stop. It is too late for others.
    pub async fn next_stop(&mut self) {
        while self.next().await != SignalRequest::Stop {}
    }
}
