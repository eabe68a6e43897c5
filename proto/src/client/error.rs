//! What can go wrong between a client and the daemon.

use std::error::Error as _;

use agentd_core::error::ErrorKind;
use tonic::{Code, Status};

use crate::{convert::WireError, socket::SocketError, status};

/// A call that did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// Kind of failure, for programs.
    pub kind: ClientErrorKind,
    /// Message: what was attempted and what came of it.
    pub message: String,
    /// Hint on what to do.
    pub hint: Option<String>,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// No daemon listens at the socket.
    NotRunning,
    /// Something is at the socket's path that cannot be used: not ours, not a socket, or no daemon.
    Refused,
    /// The daemon speaks another version of the protocol.
    OtherVersion,
    /// The connection ended before its time. Turns go on without it.
    Lost,
    /// The daemon answered with an error of this kind.
    Answered(ErrorKind),
}

impl ClientError {
    /// An error of that kind.
    pub fn new(kind: ClientErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns whether there was no daemon to talk to, or one of another version.
    pub fn is_unreachable(&self) -> bool {
        !matches!(self.kind, ClientErrorKind::Answered(_))
    }

    /// The kind that the daemon answered with, if it answered.
    pub fn answered(&self) -> Option<ErrorKind> {
        match self.kind {
            ClientErrorKind::Answered(kind) => Some(kind),
            _ => None,
        }
    }
}

impl From<SocketError> for ClientError {
    fn from(error: SocketError) -> Self {
        let kind = match error {
            SocketError::NobodyThere { .. } => ClientErrorKind::NotRunning,
            _ => ClientErrorKind::Refused,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        if let Some((kind, hint)) = status::read_details(&status) {
            return Self { kind: ClientErrorKind::Answered(kind), message: status.message().to_owned(), hint };
        }
        if is_of_the_transport(&status) {
            return Self::new(ClientErrorKind::Lost, "the connection to the daemon was lost")
                .with_hint("turns continue without it: see `agentctl status`, then `agentctl attach SESSION`");
        }
        Self::new(ClientErrorKind::Answered(status::kind(status.code())), status.message().to_owned())
    }
}

/// Returns whether the library itself made this status up from a broken connection.
fn is_of_the_transport(status: &Status) -> bool {
    status.source().is_some() || matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}

impl From<WireError> for ClientError {
    fn from(error: WireError) -> Self {
        Self::new(
            ClientErrorKind::Answered(ErrorKind::Protocol),
            format!("could not read the daemon's answer: {error}"),
        )
        .with_hint("the daemon may be of another version: stop it with `agentctl stop` and try again")
    }
}
