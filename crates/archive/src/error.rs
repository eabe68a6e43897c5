//! Refusals of archives.

use std::io;

use agentd_core::error::ErrorKind;

/// Refusal of an archive or of a foreign history.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is something else.
    #[error("this is no archive of a session: {0}")]
    Foreign(&'static str),
    /// A later program wrote it.
    #[error("this archive has the format {0}, and this version of agentd reads up to {known}", known = crate::FORMAT)]
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
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) => ErrorKind::Storage,
            _ => ErrorKind::InvalidInput,
        }
    }

    /// Hint on what to do.
    #[must_use]
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
