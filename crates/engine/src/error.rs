//! What can go wrong between a client and a session.

use agentd_core::{
    error::{AuditError, ErrorKind, ModelError, StoreError, WorkspaceError},
    turn::TurnError,
};

/// A request could not be carried out. Failures inside a turn are no such errors: they end the turn with a
/// reason and an explanation of their own.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl EngineError {
    /// An error of that kind; the message says what was attempted and what came of it.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An error about a request that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message).with_hint(hint)
    }

    pub(crate) fn busy(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::Busy, message).with_hint(hint)
    }

    pub(crate) fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message).with_hint(hint)
    }

    /// Kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Hint on what to do, where something can be done.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Message and hint in one line.
    pub(crate) fn sentence(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{}; {hint}", self.message))
    }

    /// The same, as the end of a turn tells it.
    pub(crate) fn to_turn_error(&self) -> TurnError {
        TurnError { kind: self.kind, message: self.message.clone(), hint: self.hint.clone() }
    }

    pub(crate) fn stopping() -> Self {
        Self::new(ErrorKind::ShuttingDown, "the daemon is stopping").with_hint("start it again and resume")
    }
}

/// A port's error reaches the client as it is; the cause behind it goes to the log where it happened.
macro_rules! from_port_error {
    ($($port:ty),*) => {$(
        impl From<$port> for EngineError {
            fn from(error: $port) -> Self {
                Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
            }
        }
    )*};
}

from_port_error!(AuditError, ModelError, StoreError, WorkspaceError);
