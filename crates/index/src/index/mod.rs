//! The index: a folder of files from which everything can be found, and which can be thrown away at any time.
//!
//! One thread writes ([`writer`]), a [`View`](view::View) of what was written last is what everybody reads, and
//! [`IndexHandle`](crate::IndexHandle) is how all others speak to both. A document is there when its *entry* was written, which happens in the
//! same commit as its last chunk: whatever is cut off before that is never seen, and cleaned away at the next start.
//!
//! - [`DocumentId`]: which document: what is in it, and how it was read.
//! - [`IndexConfig`] and [`IndexError`]: what it may cost, and how it can fail.
//! - [`schema`]: the fields, and the terms that go into them.
//! - [`folder`]: the files: one version of the fields a folder, made anew when it is damaged, how they are read, and when segments are
//!   merged.
//! - [`view`]: what is there to be found, all of one moment, and what the writer shares with whoever searches; when a document was last used,
//!   and what may therefore go.
//! - [`writer`]: the thread that writes, its queue, its rests.
//! - [`indexing`]: documents on their way into it, and those that the writer is at.

pub mod folder;
pub mod indexing;
pub mod schema;
pub mod view;
pub mod writer;

use std::{
    fmt,
    hash::{Hash, Hasher},
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tantivy::TantivyError;

use crate::{chunk::ChunkConfig, failure::ReadingLimits, kind::Kind};

pub use indexing::{Claim, Indexing};
pub use view::{About, Entry};

/// Limits on the cost of the index.
#[derive(Clone)]
pub struct IndexConfig {
    /// The folder of its files. It is made when it is not there; other versions in it are removed.
    pub folder: PathBuf,
    /// Set if nothing of it is written to the folder: it is gone when it is closed.
    pub in_memory: bool,
    /// After how long without work the memory for writing is given back.
    pub rest_after: Duration,
    /// For how long a document without use is kept in any case, as long as it is no older.
    pub stale_after: Duration,
    /// After how long without use a document is removed.
    pub gone_after: Duration,
    /// Size of the files, in bytes, above which stale documents go early.
    pub most_bytes: u64,
    /// Size of the pieces of documents that it holds. What is in it already keeps its own.
    pub chunks: ChunkConfig,
    /// Amounts of a document that are read at once.
    pub reading: ReadingLimits,
    /// Seconds since 1970. Given from outside, so that days can pass in a test.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl IndexConfig {
    /// The defaults, in this folder, by this clock.
    pub fn new(folder: PathBuf, now: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self {
            folder,
            in_memory: false,
            rest_after: Duration::from_secs(60),
            stale_after: Duration::from_hours(24),
            gone_after: Duration::from_hours(30 * 24),
            most_bytes: 4 * 1024 * 1024 * 1024,
            chunks: ChunkConfig::default(),
            reading: ReadingLimits::default(),
            now,
        }
    }
}

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

/// SHA-256 of the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of what can be read. Blocks until all is read.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(mut from: impl Read) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(Self(hash.finalize().into())),
                Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The hash of a document in an archive that has this one.
    pub fn within(self, path: &str) -> Self {
        Self::of(&[&self.0, b"!/".as_slice(), path.as_bytes()].concat())
    }

    /// Its beginning as a number.
    pub fn number(&self) -> u64 {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth, ..] = self.0;
        u64::from_le_bytes([first, second, third, fourth, fifth, sixth, seventh, eighth])
    }

    /// The hash that is written so.
    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

/// In hexadecimal.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The key of a document in the index: the same bytes read in the same way have the same chunks, whoever gave them. A search
/// looks up each of its documents several times, so it is copied and compared as it is, and written down as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DocumentId {
    pub(crate) content: ContentHash,
    kind: Kind,
    reading: u32,
}

impl DocumentId {
    /// The key of these bytes, read as this kind by this version of whatever makes text and chunks of them.
    pub const fn new(content: ContentHash, kind: Kind, reading: u32) -> Self {
        Self { content, kind, reading }
    }
}

/// Bytes of a good hash are one as they are.
impl Hash for DocumentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.content.number());
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.content, self.kind.word(), self.reading)
    }
}

impl From<DocumentId> for String {
    fn from(id: DocumentId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DocumentId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read = || {
            let mut parts = text.split('.');
            let (content, kind, reading) = (parts.next()?, parts.next()?, parts.next()?);
            let kind = Kind::of_word(kind)?;
            let id = Self::new(ContentHash::parse(content)?, kind, reading.parse().ok()?);
            parts.next().is_none().then_some(id)
        };
        read().ok_or_else(|| format!("{text:?} is no key of a document"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_whoever_tells_it() {
        for (error, variant) in [
            (TantivyError::from(io::Error::from_raw_os_error(28)), "Full("),
            (TantivyError::from(io::Error::other("thread: File too large (os error 27)")), "Full("),
            (TantivyError::from(io::Error::from(io::ErrorKind::WriteZero)), "Full("),
            (TantivyError::InternalError("File too large (os error 27)".to_owned()), "Full("),
            (TantivyError::ErrorInThread("Permission denied (os error 13)".to_owned()), "Files("),
            (TantivyError::ErrorInThread("nobody knows".to_owned()), "Internal("),
        ] {
            let told = format!("{:?}", IndexError::from(error));
            assert!(told.starts_with(variant), "{told}");
        }
    }

    #[test]
    fn the_key_says_what_was_read_and_how() {
        let hash = ContentHash::of(b"abc");
        assert!(hash.to_string().starts_with("ba7816bf8f01cfea"), "{hash}");
        assert_eq!(ContentHash::read(&b"abc"[..]).unwrap(), hash);
        let keys = [(Kind::Csv, 1), (Kind::Plain, 1), (Kind::Csv, 2)].map(|(kind, by)| DocumentId::new(hash, kind, by));
        assert_ne!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
        assert!(keys[0].to_string().ends_with(".csv.1"), "{}", keys[0]);
        for key in keys {
            assert_eq!(DocumentId::try_from(key.to_string()), Ok(key));
        }
        let whole = keys[0].to_string();
        for damaged in ["", "abc.csv.1", &whole[1..], &whole.replace("csv", "tar"), &format!("{whole}.1"), &whole[..69]]
        {
            DocumentId::try_from(damaged.to_owned()).unwrap_err();
        }
    }
}
