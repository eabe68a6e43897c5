//! How the index can fail, in words for people.

use std::{io, sync::Arc};

use tantivy::TantivyError;

/// Why something could not be indexed or found. The documents themselves are never touched.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IndexError {
    /// There is no room for its files.
    #[error("could not write the search index: the disk is full ({0})")]
    Full(String),
    /// It was deleted or damaged. A new one, with nothing in it, takes its place.
    #[error("could not use the search index: its files were deleted or damaged ({0}), and it was rebuilt")]
    Lost(String),
    /// Another process has it.
    #[error("could not open the search index: another process writes to it")]
    Busy,
    /// Its files cannot be read or written.
    #[error("could not use the search index: {0}")]
    Files(Arc<io::Error>),
    /// Whoever asked no longer waits.
    #[error("stopped searching: it was cancelled")]
    Cancelled,
    /// The daemon is about to end.
    #[error("could not use the search index: it is closed")]
    Closed,
    /// It failed in a way that nobody thought of.
    #[error("could not use the search index: {0}")]
    Internal(String),
}

impl IndexError {
    /// Hint on what to do.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Full(_) => "free some disk space and try again",
            Self::Lost(_) => "try again: the documents are indexed again when they are needed",
            Self::Busy => "end the other process, or give this one its own folder",
            Self::Files(_) => "check the permissions of the index folder; it can be deleted, and is then rebuilt",
            Self::Cancelled => "try again",
            Self::Closed => "start the daemon",
            Self::Internal(_) => "try again; if that does not help, delete the index folder, which is then rebuilt",
        }
    }

    /// Returns whether the files cannot be trusted any longer.
    pub(crate) const fn is_loss(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    fn from_io(error: &Arc<io::Error>) -> Self {
        match error.kind() {
            // A quota and a limit on files are full disks to whoever meets them.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::WriteZero => Self::Full(error.to_string()),
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                Self::Lost(error.to_string())
            }
            // One error within another is told in words only.
            io::ErrorKind::Other => match system_error(&error.to_string()) {
                Some(inner) => Self::from_io(&Arc::new(inner)),
                None => Self::Files(Arc::clone(error)),
            },
            _ => Self::Files(Arc::clone(error)),
        }
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::from_io(&Arc::new(error))
    }
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError, OpenWriteError};
        match &error {
            TantivyError::IoError(io)
            | TantivyError::OpenReadError(OpenReadError::IoError { io_error: io, .. })
            | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: io, .. })
            | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error: io, .. })
            | TantivyError::LockFailure(LockError::IoError(io), _) => Self::from_io(io),
            TantivyError::LockFailure(LockError::LockBusy, _) => Self::Busy,
            TantivyError::DataCorruption(_)
            | TantivyError::OpenReadError(_)
            | TantivyError::OpenDirectoryError(_)
            | TantivyError::IncompatibleIndex(_)
            | TantivyError::DeserializeError(_)
            | TantivyError::FieldNotFound(_)
            | TantivyError::SchemaError(_) => Self::Lost(error.to_string()),
            // Some of its threads tell an error of the system in words only.
            _ => match system_error(&error.to_string()) {
                Some(io) => Self::from_io(&Arc::new(io)),
                None => Self::Internal(error.to_string()),
            },
        }
    }
}

/// The error of the system that a text ends with, as the standard library writes it.
fn system_error(text: &str) -> Option<io::Error> {
    let (_, code) = text.rsplit_once("(os error ")?;
    let digits = code.find(|letter: char| !letter.is_ascii_digit())?;
    code.get(..digits)?.parse().ok().map(io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_whoever_tells_it() {
        let cases = [
            (TantivyError::from(io::Error::from_raw_os_error(28)), "disk_full"),
            (TantivyError::from(io::Error::other("thread: File too large (os error 27)")), "disk_full"),
            (TantivyError::from(io::Error::from(io::ErrorKind::WriteZero)), "disk_full"),
            (TantivyError::InternalError("File too large (os error 27)".to_owned()), "disk_full"),
            (TantivyError::ErrorInThread("Permission denied (os error 13)".to_owned()), "index_files"),
            (TantivyError::ErrorInThread("nobody knows".to_owned()), "internal"),
        ];
        for (error, code) in cases {
            let told = match IndexError::from(error.clone()) {
                IndexError::Full(_) => "disk_full",
                IndexError::Files(_) => "index_files",
                IndexError::Internal(_) => "internal",
                other => panic!("{other}"),
            };
            assert_eq!(told, code, "{error}");
        }
    }
}
