//! Sessions as files.
//!
//! An archive is a gzipped tar that common tools open: `manifest.json` first, then the events of each session in parts
//! (`journal/SESSION/000001.jsonl`), then files (`files/uploads/…`), and `SHA256SUMS` last, which names the hash of
//! everything before it. What is read may come from anybody: its sizes, names, order and hashes are checked as it is
//! read, in one pass and with bounded memory, and whoever reads acts on nothing before [`unpack`] has returned.
//!
//! - [`Manifest`]: the description in front. [`ArchiveWriter`] writes, [`unpack`] reads.
//! - [`ArchiveError`]: why an archive is refused.
//! - [`foreign`]: histories of other programs, as events.

pub mod foreign;
mod reader;
mod writer;

use std::io;

use agentd_core::{Timestamp, archive::ArchivedSession, error::ErrorKind};
use serde::{Deserialize, Serialize};

pub use reader::{Unpack, unpack};
pub use writer::ArchiveWriter;

/// Name of the description.
const MANIFEST: &str = "manifest.json";
/// Name of the list of hashes.
const SUMS: &str = "SHA256SUMS";
/// Folder of the events.
const JOURNAL: &str = "journal/";
/// Folder of the files.
const FILES: &str = "files/";

/// The version of archives that is written, and the last that is read.
pub const FORMAT: u32 = 1;
/// The word that tells an archive from other tars.
const ARCHIVE: &str = "agentd-session";
/// Sessions that one archive may hold: one, and those that work for it.
pub const MAX_SESSIONS: usize = 10_000;

/// Description of what an archive holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    archive: String,
    format: u32,
    /// The program that wrote it.
    pub made_by: String,
    /// When it was written.
    pub made_at: Timestamp,
    /// The name of the session.
    pub title: String,
    /// Set if secrets were masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The session, and behind it those that work for it.
    pub sessions: Vec<ArchivedSession>,
}

/// Part of a description that is read before its version is known.
#[derive(Deserialize)]
struct Probe {
    #[serde(default)]
    archive: String,
    #[serde(default)]
    format: u32,
}

impl Manifest {
    /// A description of these sessions.
    pub fn new(
        made_by: String,
        made_at: Timestamp,
        title: String,
        redacted: bool,
        sessions: Vec<ArchivedSession>,
    ) -> Self {
        Self { archive: ARCHIVE.to_owned(), format: FORMAT, made_by, made_at, title, redacted, sessions }
    }

    /// Reads a description.
    ///
    /// # Errors
    /// When it is another program's, of a newer version, or makes no sense.
    pub(crate) fn read(text: &[u8]) -> Result<Self, ArchiveError> {
        let probe: Probe =
            serde_json::from_slice(text).map_err(|_| ArchiveError::Foreign("its manifest is not agentd's"))?;
        if probe.archive != ARCHIVE {
            return Err(ArchiveError::Foreign("another program wrote it"));
        }
        if probe.format > FORMAT {
            return Err(ArchiveError::Newer(probe.format));
        }
        let manifest: Self = serde_json::from_slice(text)
            .map_err(|error| ArchiveError::Changed(format!("its manifest cannot be read: {error}")))?;
        let count = manifest.sessions.len();
        if count == 0 || count > MAX_SESSIONS {
            return Err(ArchiveError::Hostile(format!("it names {count} sessions")));
        }
        Ok(manifest)
    }
}

/// Refusal of an archive or of a foreign history.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is something else.
    #[error("this is no archive of a session: {0}")]
    Foreign(&'static str),
    /// A later program wrote it.
    #[error("this archive has the format {0}, and this version of agentd reads up to {known}", known = FORMAT)]
    Newer(u32),
    /// Its end is missing.
    #[error("the archive is cut: its end is missing")]
    Cut,
    /// It is not as it was written.
    #[error("the archive was changed or damaged: {0}")]
    Changed(String),
    /// It holds what no archive may hold.
    #[error("the archive is refused: {0}")]
    Hostile(String),
    /// It is larger than an archive may be.
    #[error("the archive is too large: {0}")]
    TooLarge(String),
    /// It cannot be read.
    #[error("the archive could not be read: {0}")]
    Io(#[from] io::Error),
}

impl ArchiveError {
    /// Kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) => ErrorKind::Storage,
            _ => ErrorKind::InvalidInput,
        }
    }

    /// Hint on what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Foreign(_) => {
                "`agentctl sessions export` makes archives; histories of other programs need --from claude-code, codex or \
                 opencode"
            }
            Self::Newer(_) => "update agentd on this machine, or export it again with this version",
            Self::Cut => "copy the file again, or export the session again",
            Self::Changed(_) => "copy the file again; where that does not help, export the session again",
            Self::Hostile(_) => "nothing of it was imported; do not trust where it came from",
            Self::TooLarge(_) => "nothing of it was imported; export it again without large files",
            Self::Io(_) => "look at the file, and try again",
        }
    }
}
