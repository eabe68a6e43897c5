//! Failures of calls, returned to the model as a stable code and a sentence with a hint, and errors about workspace
//! folders, with a hint for the user.

use std::io;

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    language::LanguageError,
    tool::{ToolErrorCode, ToolOutput},
};

/// Failed call. The failure is sent to the model as data, so it has no source chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Stable code for clients.
    pub code: ToolErrorCode,
    /// Message for the model.
    pub text: String,
}

impl Failure {
    /// Creates a failure with this code.
    pub fn new(code: ToolErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Creates a failure for invalid arguments.
    pub fn arguments(text: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::InvalidArgs, text)
    }

    /// Creates a failure for an unusable path.
    pub fn path(text: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Path, text)
    }

    /// Creates a failure of the tool itself.
    pub fn tool(text: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Tool, text)
    }

    /// Creates the failure for a call that was cancelled with its turn.
    pub fn cancelled() -> Self {
        Self::new(ToolErrorCode::Cancelled, "the turn ended while the tool ran")
    }

    /// Creates a file system failure. `doing` completes the sentence "could not …", such as `read uploads/a.txt`.
    pub fn io(doing: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::tool(format!("could not {doing}: the disk is full; remove unneeded files"))
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

impl From<LanguageError> for Failure {
    fn from(error: LanguageError) -> Self {
        Self::tool(error.message)
    }
}

/// Fails if the condition holds.
pub(crate) fn fail_if<E>(has_failed: bool, failure: impl FnOnce() -> E) -> Result<(), E> {
    if has_failed { Err(failure()) } else { Ok(()) }
}

/// Converts the error for a missing file or folder to `None`.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Creates a disk error. `doing` completes the sentence "could not …".
pub fn storage(doing: &str, error: io::Error) -> WorkspaceError {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full; free some space",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "the data folder must be writable for the daemon's user"
        }
        _ => "check the daemon's data folder",
    };
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}")).with_hint(hint).with_source(error)
}

/// Creates an error for an invalid request.
pub fn refused(message: String, hint: impl Into<String>) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint(hint)
}
