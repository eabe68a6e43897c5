//! Errors for users: failures of the process with their exit code, and refusals of client requests.

use std::{error::Error, fmt::Write, process::ExitCode};

use agentd_core::error::{AuditError, CodeError, ErrorKind, KnowledgeError, ModelError, StoreError, WorkspaceError};
use agentd_engine::EngineError;
use agentd_proto::{convert::WireError, status::to_status};
use tonic::Status;

use crate::config::ConfigError;

/// Failure to start or to stop as requested.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Creates a usage or configuration failure: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 2, source: None }
    }

    /// Creates any other failure: exit code 1.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { code: 1, ..Self::usage(message) }
    }

    /// Adds a hint on how to resolve the failure.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the cause of the failure.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Returns the hint on how to resolve the failure.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Returns the message with its causes on one line, and the hint on the next line.
    pub fn report(&self) -> String {
        let mut text = format!("agentd: error: {}", with_causes(self));
        if let Some(hint) = &self.hint {
            // Writing to a string does not fail.
            let _ = write!(text, "\nhint: {hint}");
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { hint: error.hint().map(str::to_owned), ..Self::usage(error.to_string()) }
    }
}

/// Refusal of a request. Clients evaluate the kind; the message and the hint are for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Message that names what was attempted and why it failed.
    pub message: String,
    /// Hint on how to resolve the error.
    pub hint: Option<String>,
}

impl Refusal {
    /// Creates a refusal without a hint.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Creates a refusal of an invalid request.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Creates the refusal returned while the daemon is stopping.
    pub(crate) fn stopping() -> Self {
        Self::new(ErrorKind::ShuttingDown, "the daemon is stopping")
            .with_hint("start it again with `agentctl start`; interrupted turns can be resumed")
    }

    /// Adds a hint on how to resolve the error.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns message and hint on one line, for outputs that accept a single string.
    pub(crate) fn sentence(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{}; {hint}", self.message))
    }
}

/// Conversions from errors that have a kind and a hint.
macro_rules! refusal_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
            }
        }
    )*};
}

refusal_from!(EngineError, WorkspaceError, KnowledgeError, CodeError, AuditError, ModelError, StoreError);

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Self::invalid(format!("could not read the request: {error}"))
    }
}

/// Refuses a request because the configuration is invalid or cannot be read.
impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { hint: failure.hint.clone(), ..Self::new(ErrorKind::Configuration, with_causes(&failure)) }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        to_status(refusal.kind, refusal.message, refusal.hint.as_deref())
    }
}

/// Runs `work` on a blocking thread. If it panics, the result is a refusal with `message`.
pub(crate) async fn blocking<T: Send + 'static>(
    message: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::new(ErrorKind::Internal, message))
}

/// Returns the message of an error and of all its causes. Repetitions are omitted, because many errors include the
/// cause in their own message.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
