//! Conversion of IDs, times, numbers and JSON for columns, and helpers for running statements.
//!
//! IDs are stored as text of 32 digits without hyphens, so that a prefix typed by a user is a range of the index and
//! the journal is readable for manual repair. Events refer to their session by its integer key.
//!
//! Also contains the journal's errors, with their messages and hints.

use std::{path::Path, str::FromStr, sync::Arc};

use agentd_core::error::{ErrorKind, StoreError};
use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, Params, Row,
    types::{FromSql, Type},
};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

pub(crate) fn id_text(id: Uuid) -> String {
    id.simple().to_string()
}

pub(crate) fn id_from<T: FromStr>(text: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::Damaged(format!("invalid stored id of {} characters", text.len())))
}

/// Converts a number for a column, because SQLite's integers are signed.
pub(crate) fn number(value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::invalid(format!("{value} is too large for the journal")))
}

pub(crate) fn number_from(value: i64) -> Result<u64, Fault> {
    u64::try_from(value).map_err(|_| Fault::Damaged(format!("a stored count is negative ({value})")))
}

/// Converts a limit or bound for a query. A value beyond the largest integer means no limit.
pub(crate) fn bound(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

/// Converts a time to nanoseconds, so that a stored event equals the published one. The range is from 1677 to 2262.
pub(crate) fn time(at: Timestamp) -> Result<i64, Fault> {
    i64::try_from(at.as_nanosecond())
        .map_err(|_| Fault::invalid(format!("the time {at} is outside the range of the journal")))
}

pub(crate) fn time_from(nanoseconds: i64) -> Result<Timestamp, Fault> {
    Timestamp::from_nanosecond(i128::from(nanoseconds))
        .map_err(|_| Fault::Damaged(format!("a stored time is out of range ({nanoseconds})")))
}

pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> Result<String, Fault> {
    serde_json::to_string(value)
        .map_err(|error| Fault::invalid(format!("could not serialise a value as JSON: {error}")))
}

/// Parses the output of [`json`]. The error contains the position but not the text, which may be private.
pub(crate) fn json_from<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| Fault::Damaged(format!("invalid stored value at character {}", error.column())))
}

/// Borrows the text of a column.
pub(crate) fn text<'a>(row: &'a Row<'_>, column: &str) -> Result<&'a str, Fault> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|_| {
        let error = rusqlite::Error::InvalidColumnType(0, column.into(), Type::Text);
        Fault::from(error)
    })
}

pub(crate) fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<(), Fault> {
    changed(connection, sql, params).map(drop)
}

/// Runs a statement, and returns the number of changed rows.
pub(crate) fn changed(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, Fault> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// Returns the single value of a query.
pub(crate) fn value<T: FromSql>(connection: &Connection, sql: &str, params: impl Params) -> Result<T, Fault> {
    Ok(connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}

/// Returns the rows of a query.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// Returns the first row of a query, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// Error of a read or a change. Implements `Clone` because the error of one commit is returned to several callers.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// SQLite returned an error.
    Sqlite(Arc<rusqlite::Error>),
    /// The file system returned an error.
    Io(Arc<std::io::Error>),
    /// Stored data differs from the data that was written.
    Damaged(String),
    /// The file as a whole is corrupt.
    Corrupt(String),
    /// The file is no longer at the path where it was opened.
    Gone(String),
    /// The file was written by a newer version, with this schema version.
    Newer(i64),
    /// The file is a database of another program.
    Foreign,
    /// The caller's request is invalid.
    Refused(ErrorKind, String),
    /// The journal is closed.
    Closed,
    /// A bug ended the work before it returned a result.
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

    /// Returns true if a part of the file cannot be read.
    pub(crate) fn is_corrupt(&self) -> bool {
        let code = match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        matches!(code, Some(ErrorCode::DatabaseCorrupt))
    }

    /// Returns true if the rows did not cause the error, so that a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        let error = match self {
            Self::Sqlite(error) => error,
            Self::Damaged(_) => return false,
            _ => return true,
        };
        // A disk error while reading a sector is permanent.
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

    /// Converts the error for the port. `action` completes the sentence "could not …".
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
            Self::Damaged(description) => storage(
                description,
                "other sessions are not affected; `agentctl doctor` lists the damage, and \
                 `agentctl sessions delete` removes a session of which too little is left"
                    .into(),
            ),
            Self::Corrupt(description) => storage(description, damaged_hint(journal)),
            Self::Gone(description) => storage(
                description,
                "nothing is stored until the daemon is restarted; before you stop it, save the data that it \
                 still has: see docs/operations.md"
                    .into(),
            ),
            Self::Newer(version) => storage(
                &format!("it was written by a newer agentd (schema version {version})"),
                "update agentd, or set another data folder with AGENTD_DATA_DIR".into(),
            ),
            Self::Foreign => storage(
                "it belongs to another program",
                "move the file away, or set another data folder with AGENTD_DATA_DIR".into(),
            ),
            Self::Refused(kind, message) => StoreError::new(*kind, message.clone()),
            Self::Closed => {
                StoreError::new(ErrorKind::ShuttingDown, format!("could not {action}: the journal is closed"))
                    .with_hint("the daemon is stopping; try again when it has restarted")
            }
            Self::Lost => {
                StoreError::new(ErrorKind::Internal, format!("could not {action}: the journal's thread failed"))
                    .with_hint("this is a bug in agentd; see its log")
            }
        }
    }
}

fn explain_sqlite(error: &rusqlite::Error, journal: &Path) -> (String, String) {
    let at = journal.display();
    let (cause, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ("the disk is full", explain_io(std::io::ErrorKind::StorageFull, journal)),
        Some(ErrorCode::SystemIoFailure) => {
            ("", format!("check the disk that holds {at} and its free space; acknowledged data is safe"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            ("", explain_io(std::io::ErrorKind::PermissionDenied, journal))
        }
        Some(ErrorCode::DatabaseCorrupt) => ("the file is damaged", damaged_hint(journal)),
        Some(ErrorCode::NotADatabase) => (
            "the file is not a journal",
            format!(
                "restore a backup, or move away {at} and the files next to it whose names start with its name; agentd then \
                 creates a new journal"
            ),
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ("it is locked", "another process uses the journal; stop it and try again".into())
        }
        _ => ("", "this is unexpected; see the log".into()),
    };
    (if cause.is_empty() { error.to_string() } else { cause.to_owned() }, hint)
}

fn explain_io(kind: std::io::ErrorKind, journal: &Path) -> String {
    use std::io::ErrorKind as Io;
    let folder = journal.parent().unwrap_or(journal).display();
    match kind {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => {
            format!("free some space on the disk that holds {folder}; acknowledged data is safe")
        }
        Io::PermissionDenied | Io::ReadOnlyFilesystem => {
            format!("make {folder} writable for this user, or set another data folder with AGENTD_DATA_DIR")
        }
        _ => format!("check that {folder} is a folder, or set another data folder with AGENTD_DATA_DIR"),
    }
}

fn damaged_hint(journal: &Path) -> String {
    format!(
        "keep a copy of {} and of the files next to it whose names start with its name; see docs/operations.md for how \
         to save what can still be read",
        journal.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_numbers_and_times_are_rejected() {
        assert_eq!(number(i64::MAX as u64).unwrap(), i64::MAX);
        assert!(matches!(number(u64::MAX), Err(Fault::Refused(..))));
        assert!(matches!(number_from(-1), Err(Fault::Damaged(_))));
        assert_eq!(bound(u64::MAX), i64::MAX);
        assert!(matches!(time(Timestamp::MAX), Err(Fault::Refused(..))));
        let at: Timestamp = "2026-02-03T04:05:06.789012345Z".parse().unwrap();
        assert_eq!(time_from(time(at).unwrap()).unwrap(), at);
    }

    #[test]
    fn errors_do_not_quote_unreadable_values() {
        let Err(Fault::Damaged(message)) = json_from::<u64>("\"secret\"") else { panic!("a string is not a number") };
        assert!(!message.contains("secret"), "{message}");
    }

    fn check(code: i32, cause: &str, hint: &str) {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let error = Fault::from(error).while_doing("append", Path::new("/data/journal.db"));
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains(cause), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{error:?}");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn disk_errors_have_a_hint() {
        use rusqlite::ffi;
        check(ffi::SQLITE_FULL, "the disk is full", "free some space on the disk that holds /data");
        check(ffi::SQLITE_IOERR_WRITE, "disk I/O error", "check the disk");
        check(ffi::SQLITE_READONLY_DIRECTORY, "readonly", "make /data writable");
        check(ffi::SQLITE_CANTOPEN, "unable to open", "make /data writable");
        check(ffi::SQLITE_NOTADB, "not a journal", "move away /data/journal.db");
        check(ffi::SQLITE_CORRUPT, "damaged", "keep a copy of /data/journal.db");
        check(ffi::SQLITE_BUSY, "locked", "another process");
    }
}
