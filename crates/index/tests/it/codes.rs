//! Names of failures, by which tests tell them apart.

use agentd_index::{Failure, IndexError};

pub(crate) trait Code {
    fn code(&self) -> &'static str;
}

impl Code for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::Encrypted(_) => "encrypted",
            Self::Protected { .. } => "protected",
            Self::Scanned { .. } => "scanned",
            Self::Broken { .. } => "broken",
            Self::Truncated { .. } => "truncated",
            Self::Entries { .. } => "entries",
            Self::NoEntry { .. } => "no_entry",
            Self::Mismatch { .. } => "mismatch",
            Self::Foreign { .. } => "foreign",
            Self::TooLarge { .. } => "too_large",
            Self::TookTooLong { .. } => "took_too_long",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::NeedsRecognition => "needs_recognition",
            Self::Cancelled => "cancelled",
            Self::Worker(_) => "worker",
        }
    }
}

impl Code for IndexError {
    fn code(&self) -> &'static str {
        match self {
            Self::Full(_) => "disk_full",
            Self::Lost(_) => "index_lost",
            Self::Busy => "index_busy",
            Self::Files(_) => "index_files",
            Self::Cancelled => "cancelled",
            Self::Closed => "index_closed",
            Self::Internal(_) => "internal",
        }
    }
}
