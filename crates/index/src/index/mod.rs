//! Search index: a cache on disk that can be deleted at any time and is rebuilt from the documents.
//!
//! One thread writes ([`writer`]), readers share a [`View`](view::View) of the last commit, and
//! [`IndexHandle`](crate::IndexHandle) is the interface to both. A document exists once its *entry* is committed, in
//! the same commit as its last chunk. Chunks of interrupted documents are therefore never visible, and are removed at
//! the next start.
//!
//! - [`DocumentId`]: identity of a document, by its content and the method by which it was read.
//! - [`IndexConfig`] and [`IndexError`]: limits and errors.
//! - [`schema`]: fields and tokenizers.
//! - [`folder`]: one directory per version, recovery from damage, reading of files, and merge policies.
//! - [`view`]: snapshot for searches, state shared with the writer, times of last use, and eviction.
//! - [`writer`]: writer thread with its queue and idle states.
//! - [`indexing`]: documents that are being indexed.

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
pub use view::{DocumentProperties, Entry};

/// Settings and limits of the index.
#[derive(Clone)]
pub struct IndexConfig {
    /// Folder for the index files. A missing folder is created, and other index versions in the folder are removed.
    pub folder: PathBuf,
    /// True if the index is only in memory and is lost when it is closed.
    pub in_memory: bool,
    /// Idle time after which the memory for writing is released.
    pub rest_after: Duration,
    /// Minimum time that an unused document is kept, regardless of the size limit.
    pub stale_after: Duration,
    /// Time after which an unused document is removed.
    pub gone_after: Duration,
    /// Size of the files in bytes above which stale documents are removed early.
    pub most_bytes: u64,
    /// Size of chunks. Documents that are already indexed retain their chunks.
    pub chunks: ChunkConfig,
    /// Default limits for the part of a document that one read returns.
    pub reading: ReadingLimits,
    /// Clock in seconds since 1970, injected so that tests can let days pass.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl IndexConfig {
    /// Creates the default settings for this folder and clock.
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

/// Indexing or search error. The documents themselves are never modified.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IndexError {
    /// The disk is full.
    #[error("could not write the search index: the disk is full ({0})")]
    Full(String),
    /// The index was deleted or damaged, and replaced by an empty one.
    #[error("could not use the search index: its files were deleted or damaged ({0}), so the index was rebuilt")]
    Lost(String),
    /// Another process has locked the index.
    #[error("could not open the search index: another process has locked it")]
    Busy,
    /// Index files cannot be read or written.
    #[error("could not use the search index: {0}")]
    Files(Arc<io::Error>),
    /// The caller no longer waits for the result.
    #[error("stopped searching: it was cancelled")]
    Cancelled,
    /// The daemon is shutting down.
    #[error("could not use the search index: it is closed")]
    Closed,
    /// Unexpected error of the library.
    #[error("could not use the search index: {0}")]
    Internal(String),
}

impl IndexError {
    /// Returns advice for the user.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Full(_) => "free some disk space and try again",
            Self::Lost(_) => "retry: the documents are indexed again when needed",
            Self::Busy => "stop the other process, or use another folder",
            Self::Files(_) => "check the permissions of the index folder, or delete the folder to rebuild the index",
            Self::Cancelled => "try again",
            Self::Closed => "start the daemon",
            Self::Internal(_) => "retry; if the error persists, delete the index folder to rebuild the index",
        }
    }

    /// Returns true if the files can no longer be trusted.
    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    fn from_io(error: &Arc<io::Error>) -> Self {
        match error.kind() {
            // Quotas and file size limits have the same effect as a full disk.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::WriteZero => Self::Full(error.to_string()),
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                Self::Lost(error.to_string())
            }
            // A wrapped error is only visible in the message.
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
            // Some of the library's threads only report system errors in their message.
            _ => match system_error(&error.to_string()) {
                Some(io) => Self::from_io(&Arc::new(io)),
                None => Self::Internal(error.to_string()),
            },
        }
    }
}

/// Extracts the system error from the end of a message, as the standard library formats it.
fn system_error(text: &str) -> Option<io::Error> {
    let (_, code) = text.rsplit_once("(os error ")?;
    let digits = code.find(|letter: char| !letter.is_ascii_digit())?;
    code.get(..digits)?.parse().ok().map(io::Error::from_raw_os_error)
}

/// SHA-256 hash of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Hashes bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes everything that `from` yields. Blocks until the end of the stream.
    ///
    /// # Errors
    /// Fails if the stream cannot be read.
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

    /// Derives the hash of a document at `path` in the archive with this hash.
    pub fn within(self, path: &str) -> Self {
        Self::of(&[&self.0, b"!/".as_slice(), path.as_bytes()].concat())
    }

    /// Returns the first eight bytes as a number.
    pub fn number(&self) -> u64 {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth, ..] = self.0;
        u64::from_le_bytes([first, second, third, fourth, fifth, sixth, seventh, eighth])
    }

    /// Parses the hexadecimal form.
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

/// Formats the hash in hexadecimal.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Key of a document in the index. The same bytes read with the same method have the same chunks, regardless of their
/// source. A search looks up each of its documents several times, so the key is compact and `Copy`. The key is
/// serialised as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DocumentId {
    pub(crate) content: ContentHash,
    kind: Kind,
    reading: u32,
}

impl DocumentId {
    /// Creates the key for content that is read as `kind` by version `reading` of readers and chunking.
    pub const fn new(content: ContentHash, kind: Kind, reading: u32) -> Self {
        Self { content, kind, reading }
    }
}

/// Uses bytes of the content hash directly, as they are already uniformly distributed.
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
            let kind = Kind::from_key_name(kind)?;
            let id = Self::new(ContentHash::parse(content)?, kind, reading.parse().ok()?);
            parts.next().is_none().then_some(id)
        };
        read().ok_or_else(|| format!("{text:?} is not a document key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_recognised_in_any_error() {
        for (error, variant) in [
            (TantivyError::from(io::Error::from_raw_os_error(28)), "Full("),
            (TantivyError::from(io::Error::other("thread: File too large (os error 27)")), "Full("),
            (TantivyError::from(io::Error::from(io::ErrorKind::WriteZero)), "Full("),
            (TantivyError::InternalError("File too large (os error 27)".to_owned()), "Full("),
            (TantivyError::ErrorInThread("Permission denied (os error 13)".to_owned()), "Files("),
            (TantivyError::ErrorInThread("unknown".to_owned()), "Internal("),
        ] {
            let message = format!("{:?}", IndexError::from(error));
            assert!(message.starts_with(variant), "{message}");
        }
    }

    #[test]
    fn document_key_covers_content_kind_and_reader_version() {
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
