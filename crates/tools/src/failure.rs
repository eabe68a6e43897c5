//! Failures of calls, as returned to the model: a stable code and one sentence that says how to do it right.

use std::io;

use agentd_core::tool::{ToolErrorCode, ToolOutput};

/// A call that failed. It is data for the model, so it carries no source chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) code: ToolErrorCode,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: ToolErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn arguments(text: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::InvalidArgs, text)
    }

    pub(crate) fn path(text: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Path, text)
    }

    pub(crate) fn tool(text: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Tool, text)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ToolErrorCode::Cancelled, "the turn ended while the tool ran")
    }

    /// A failure of the file system while `doing` something such as `read uploads/a.txt`.
    pub(crate) fn io(doing: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::tool(format!("could not {doing}: the disk is full; remove files that are not needed"))
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::tool(format!("could not {doing}: the file system is read-only")),
            _ => Self::tool(format!("could not {doing}: {error}")),
        }
    }
}

impl From<Failure> for ToolOutput {
    fn from(failure: Failure) -> Self {
        ToolOutput::error(failure.code, failure.text)
    }
}
