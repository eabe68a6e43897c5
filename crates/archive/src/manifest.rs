//! The description in front of an archive.

use agentd_core::{Timestamp, archive::ArchivedSession};
use serde::{Deserialize, Serialize};

use crate::ArchiveError;

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
    #[must_use]
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
