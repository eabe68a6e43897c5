//! Export and import of sessions as files.
//!
//! An archive is a gzipped tar that common tools can open. The members are `manifest.json`, then the events of each
//! session in parts (`journal/SESSION/000001.jsonl`), then files (`files/uploads/…`), and finally `SHA256SUMS` with the
//! hash of every other member. Archives are untrusted: sizes, names, order and hashes are checked in one pass with
//! bounded memory, and the receiver must not use the content before [`unpack`] returns.
//!
//! - [`Manifest`]: description of the content. [`ArchiveWriter`] writes archives, [`unpack`] reads them.
//! - [`ArchiveError`]: reasons to reject an archive.
//! - [`foreign`]: conversion of histories from other applications to events.

pub mod foreign;
mod reader;
mod writer;

use std::io;

use agentd_core::{Timestamp, archive::ArchivedSession, error::ErrorKind};
use serde::{Deserialize, Serialize};

pub use reader::{Unpack, unpack};
pub use writer::ArchiveWriter;

const MANIFEST: &str = "manifest.json";
const SUMS: &str = "SHA256SUMS";
const JOURNAL: &str = "journal/";
const FILES: &str = "files/";

/// Format version of written archives, and the latest version that can be read.
pub const FORMAT: u32 = 1;
/// Marker that distinguishes archives from other tars.
const ARCHIVE: &str = "agentd-session";
/// Maximum number of sessions in an archive: one session and its subagents.
pub const MAX_SESSIONS: usize = 10_000;

/// Description of an archive's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    archive: String,
    format: u32,
    /// Program that wrote the archive.
    pub made_by: String,
    /// Time of the export.
    pub made_at: Timestamp,
    /// Title of the session.
    pub title: String,
    /// True if secrets were masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The session, followed by its subagents.
    pub sessions: Vec<ArchivedSession>,
}

/// Fields that are read before the format version is checked.
#[derive(Deserialize)]
struct Probe {
    #[serde(default)]
    archive: String,
    #[serde(default)]
    format: u32,
}

impl Manifest {
    /// Creates the manifest for these sessions.
    pub fn new(
        made_by: String,
        made_at: Timestamp,
        title: String,
        redacted: bool,
        sessions: Vec<ArchivedSession>,
    ) -> Self {
        Self { archive: ARCHIVE.to_owned(), format: FORMAT, made_by, made_at, title, redacted, sessions }
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// Fails if the manifest was written by another application, has a newer format, or is invalid.
    pub(crate) fn read(text: &[u8]) -> Result<Self, ArchiveError> {
        let probe: Probe =
            serde_json::from_slice(text).map_err(|_| ArchiveError::Foreign("its manifest is not from agentd"))?;
        if probe.archive != ARCHIVE {
            return Err(ArchiveError::Foreign("it was written by another program"));
        }
        if probe.format > FORMAT {
            return Err(ArchiveError::Newer(probe.format));
        }
        let manifest: Self = serde_json::from_slice(text)
            .map_err(|error| ArchiveError::Changed(format!("its manifest cannot be read: {error}")))?;
        let count = manifest.sessions.len();
        if count == 0 || count > MAX_SESSIONS {
            return Err(ArchiveError::Hostile(format!("it has {count} sessions")));
        }
        Ok(manifest)
    }
}

/// Reason to reject an archive or a foreign history.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file is not an archive.
    #[error("not a session archive: {0}")]
    Foreign(&'static str),
    /// The archive has a newer format.
    #[error("the archive has format version {0}; this agentd reads versions up to {known}", known = FORMAT)]
    Newer(u32),
    /// The archive is truncated.
    #[error("the archive is truncated")]
    Cut,
    /// The archive was changed or damaged.
    #[error("the archive was changed or damaged: {0}")]
    Changed(String),
    /// The archive contains something that is not allowed.
    #[error("the archive is refused: {0}")]
    Hostile(String),
    /// The archive exceeds a limit.
    #[error("the archive is too large: {0}")]
    TooLarge(String),
    /// The archive cannot be read.
    #[error("could not read the archive: {0}")]
    Io(#[from] io::Error),
}

impl ArchiveError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) => ErrorKind::Storage,
            _ => ErrorKind::InvalidInput,
        }
    }

    /// Returns advice for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Foreign(_) => {
                "`agentctl sessions export` creates archives; histories of other programs need --from claude-code, \
                 codex or opencode"
            }
            Self::Newer(_) => "update agentd on this machine, or export the session again with this version",
            Self::Cut => "copy the file again, or export the session again",
            Self::Changed(_) => "copy the file again; if that fails, export the session again",
            Self::Hostile(_) => "nothing was imported; do not trust the source of the archive",
            Self::TooLarge(_) => "nothing was imported; export the session again without large files",
            Self::Io(_) => "check the file and retry",
        }
    }
}
