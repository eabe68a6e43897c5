//! Errors reported to the client of a session.

use agentd_core::{
    error::{AuditError, ErrorKind, ModelError, StoreError, WorkspaceError},
    turn::TurnError,
};

/// Result of an engine operation, by default with an [`EngineError`].
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// A request that could not be carried out.
///
/// Failures inside a turn are not `EngineError`s: they end the turn with a reason and a message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl EngineError {
    /// Creates an error. The message states what was attempted and how it failed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds a hint on how to fix the problem.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates an error for an invalid request.
    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message).with_hint(hint)
    }

    pub(crate) fn busy(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::Busy, message).with_hint(hint)
    }

    pub(crate) fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message).with_hint(hint)
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the hint on how to fix the problem, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns message and hint in one line.
    pub(crate) fn sentence(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{}; {hint}", self.message))
    }

    /// Converts the error for the end of a turn.
    pub(crate) fn to_turn_error(&self) -> TurnError {
        TurnError { kind: self.kind, message: self.message.clone(), hint: self.hint.clone() }
    }

    pub(crate) fn stopping() -> Self {
        Self::new(ErrorKind::ShuttingDown, "the daemon is stopping")
            .with_hint("start the daemon again and resume the session")
    }
}

/// Refuses a request as invalid if the condition holds.
pub(crate) fn refuse_if<M: Into<String>>(is_invalid: bool, message: impl FnOnce() -> M, hint: &str) -> Result<()> {
    if is_invalid { Err(EngineError::invalid(message(), hint)) } else { Ok(()) }
}

/// Port errors are forwarded to the client unchanged. The source of an error is logged where the error occurred.
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
