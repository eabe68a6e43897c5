//! What failures are called, and what is said to do about them.

use std::{path::Path, sync::Arc};

use agentd_core::error::{ErrorKind, StoreError};
use rusqlite::ErrorCode;

/// Why a read or a change did not happen. It can be cloned, because one failed commit answers many callers.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// SQLite failed.
    Sqlite(Arc<rusqlite::Error>),
    /// The file system failed.
    Io(Arc<std::io::Error>),
    /// The stored bytes are not those that were written.
    Damaged(String),
    /// The file as a whole is not what was written.
    Corrupt(String),
    /// The file is no longer where it was opened.
    Gone(String),
    /// The file was written by a newer program, with this version of the schema.
    Newer(i64),
    /// The file is a database of something else.
    Foreign,
    /// The caller asked for what cannot be.
    Refused(ErrorKind, String),
    /// The journal was closed before.
    Closed,
    /// A defect of ours ended the work before there was an answer.
    Lost,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl Fault {
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::Refused(ErrorKind::Conflict, message.into())
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::Refused(ErrorKind::NotFound, message.into())
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Refused(ErrorKind::InvalidInput, message.into())
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }

    /// Returns whether a part of the file cannot be read.
    pub(crate) fn is_corrupt(&self) -> bool {
        let code = match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        matches!(code, Some(ErrorCode::DatabaseCorrupt))
    }

    /// Returns whether it is no fault of the rows that were read or changed: the same may work another time.
    pub(crate) fn is_passing(&self) -> bool {
        let error = match self {
            Self::Sqlite(error) => error,
            Self::Damaged(_) => return false,
            _ => return true,
        };
        // A disk that cannot read a place says so again.
        if error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_READ) {
            return false;
        }
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OutOfMemory
                    | ErrorCode::OperationInterrupted
            )
        )
    }

    /// The failure as the port tells it. `action` completes the sentence "could not …".
    pub(crate) fn while_doing(&self, action: &str, journal: &Path) -> StoreError {
        let at = journal.display();
        let storage = |cause: &str, hint: String| {
            StoreError::new(ErrorKind::Storage, format!("could not {action} in {at}: {cause}")).with_hint(hint)
        };
        match self {
            Self::Sqlite(error) => {
                let (cause, hint) = explain_sqlite(error, journal);
                storage(&cause, hint).with_source(Arc::clone(error))
            }
            Self::Io(error) => {
                storage(&error.to_string(), explain_io(error.kind(), journal)).with_source(Arc::clone(error))
            }
            Self::Damaged(what) => storage(
                what,
                "the other sessions are not affected; `agentctl doctor` names what is damaged, and \
                 `agentctl sessions delete` removes a session of which too little is left"
                    .into(),
            ),
            Self::Corrupt(what) => storage(what, damaged_hint(journal)),
            Self::Gone(what) => storage(
                what,
                "nothing is stored until the daemon is started again; what it still holds can be saved before it stops, as \
                 docs/operations.md shows"
                    .into(),
            ),
            Self::Newer(version) => storage(
                &format!("it was written by a newer agentd (schema version {version})"),
                "update agentd, or name another data folder with AGENTD_DATA_DIR".into(),
            ),
            Self::Foreign => storage(
                "it is a database of another program",
                "move the file away, or name another data folder with AGENTD_DATA_DIR".into(),
            ),
            Self::Refused(kind, message) => StoreError::new(*kind, message.clone()),
            Self::Closed => {
                StoreError::new(ErrorKind::ShuttingDown, format!("could not {action}: the journal is closed"))
                    .with_hint("the daemon is stopping; ask again when it has started")
            }
            Self::Lost => {
                StoreError::new(ErrorKind::Internal, format!("could not {action}: the journal's thread gave up"))
                    .with_hint("this is a defect of agentd; its log says more")
            }
        }
    }
}

fn explain_sqlite(error: &rusqlite::Error, journal: &Path) -> (String, String) {
    let at = journal.display();
    let (cause, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ("the disk is full", explain_io(std::io::ErrorKind::StorageFull, journal)),
        Some(ErrorCode::SystemIoFailure) => {
            ("", format!("check the disk that holds {at} and its free space; what was acknowledged before is safe"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            ("", explain_io(std::io::ErrorKind::PermissionDenied, journal))
        }
        Some(ErrorCode::DatabaseCorrupt) => ("the file is damaged", damaged_hint(journal)),
        Some(ErrorCode::NotADatabase) => (
            "the file is not a journal",
            format!(
                "bring a copy of it back, or move {at} and the files beside it that start with its name away; agentd then \
                 begins a new journal"
            ),
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ("it is locked", "another process uses the journal; stop it, and try again".into())
        }
        _ => ("", "this is unexpected; the log says more".into()),
    };
    (if cause.is_empty() { error.to_string() } else { cause.to_owned() }, hint)
}

fn explain_io(kind: std::io::ErrorKind, journal: &Path) -> String {
    use std::io::ErrorKind as Io;
    let folder = journal.parent().unwrap_or(journal).display();
    match kind {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => {
            format!("free some space on the disk that holds {folder}; what was acknowledged before is safe")
        }
        Io::PermissionDenied | Io::ReadOnlyFilesystem => {
            format!("make {folder} writable for this user, or name another data folder with AGENTD_DATA_DIR")
        }
        _ => format!("check that {folder} is a folder, or name another data folder with AGENTD_DATA_DIR"),
    }
}

fn damaged_hint(journal: &Path) -> String {
    format!(
        "keep a copy of {} and of the files beside it that start with its name; docs/operations.md says how to save what \
         can still be read",
        journal.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, cause: &str, hint: &str) {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let error = Fault::from(error).while_doing("append", Path::new("/data/journal.db"));
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains(cause), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{error:?}");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn every_failure_of_the_disk_says_what_to_do() {
        use rusqlite::ffi;
        check(ffi::SQLITE_FULL, "the disk is full", "free some space on the disk that holds /data");
        check(ffi::SQLITE_IOERR_WRITE, "disk I/O error", "check the disk");
        check(ffi::SQLITE_IOERR_FSYNC, "disk I/O error", "check the disk");
        check(ffi::SQLITE_READONLY_DIRECTORY, "readonly", "make /data writable");
        check(ffi::SQLITE_CANTOPEN, "unable to open", "make /data writable");
        check(ffi::SQLITE_NOTADB, "not a journal", "move /data/journal.db");
        check(ffi::SQLITE_CORRUPT, "damaged", "keep a copy of /data/journal.db");
        check(ffi::SQLITE_BUSY, "locked", "another process");
    }
}
