//! Errors for people: failures of a start, with the exit code, and refusals of requests, for clients.

use std::{error::Error, fmt::Write, process::ExitCode};

use agentd_core::error::{AuditError, ErrorKind, KnowledgeError, ModelError, StoreError, WorkspaceError};
use agentd_engine::EngineError;
use agentd_proto::{convert::WireError, status::to_status};
use tonic::Status;

use crate::config::ConfigError;

/// A start, or a stop, that failed.
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
    /// Wrong usage or configuration: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 2, source: None }
    }

    /// Everything else: exit code 1.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { code: 1, ..Self::usage(message) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Hint on what to do.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// The message with its causes on one line, and the hint on the next.
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

/// A request that is not carried out: the kind for programs, the message and the hint for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub kind: ErrorKind,
    /// Message: what was attempted and what came of it.
    pub message: String,
    /// Hint on what to do.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal without a hint.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// A request that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// The daemon is about to end.
    pub(crate) fn stopping() -> Self {
        Self::new(ErrorKind::ShuttingDown, "the daemon is stopping")
            .with_hint("start it again with `agentctl start`; interrupted turns can be resumed")
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Message and hint in one line, for where there is room for one text only.
    pub(crate) fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Conversions of errors that have a kind and a hint.
macro_rules! refused {
    ($($error:ty),*) => {$(
        impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
            }
        }
    )*};
}

refused!(EngineError, WorkspaceError, KnowledgeError, AuditError, ModelError, StoreError);

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Self::invalid(format!("could not read the request: {error}"))
    }
}

/// A configuration that cannot be read, or not be used.
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

/// Does work on a thread that may block. A panic of it is a refusal with this message.
pub(crate) async fn blocking<T: Send + 'static>(
    failed: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::new(ErrorKind::Internal, failed))
}

/// The message of an error and of all that caused it, each once: many errors repeat their cause in their own message.
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
