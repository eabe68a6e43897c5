//! Conversion of errors for clients.

use agentd_core::error::{AuditError, ErrorKind, KnowledgeError, WorkspaceError};
use agentd_engine::EngineError;
use agentd_proto::status::to_status;
use tonic::Status;

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
    /// A request that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidInput, message: message.into(), hint: None }
    }

    /// The daemon is about to end.
    pub(crate) fn stopping() -> Self {
        Self { kind: ErrorKind::ShuttingDown, message: "the daemon is stopping".to_owned(), hint: None }
            .with_hint("start it again with `agentctl start`; interrupted turns can be resumed")
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Message and hint in one line, for where there is room for one text only.
    pub(crate) fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<WorkspaceError> for Refusal {
    fn from(error: WorkspaceError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<KnowledgeError> for Refusal {
    fn from(error: KnowledgeError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<AuditError> for Refusal {
    fn from(error: AuditError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<agentd_proto::convert::WireError> for Refusal {
    fn from(error: agentd_proto::convert::WireError) -> Self {
        Self::invalid(format!("could not read the request: {error}"))
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        to_status(refusal.kind, refusal.message, refusal.hint.as_deref())
    }
}
