//! Failures of the disk, with a hint.

use std::io;

use agentd_core::error::{ErrorKind, WorkspaceError};

/// A failure of the disk. `doing` completes the sentence "could not …".
pub(super) fn storage(doing: &str, error: io::Error) -> WorkspaceError {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full; make room",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "the data folder must be writable for the daemon's user"
        }
        _ => "look at the data folder of the daemon",
    };
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}")).with_hint(hint).with_source(error)
}
