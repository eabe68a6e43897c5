//! What the data folder holds, and what was cleaned of it.

use serde::{Deserialize, Serialize};

names! {
    /// Part of the data folder.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum StoragePart {
        /// The journal.
        Journal = "journal",
        /// Changes that are still to be moved into it.
        JournalLog = "journal_log",
        /// The audit log.
        Audit = "audit",
        /// The index of documents.
        Index = "index",
        /// The files of sessions.
        Workspaces = "workspaces",
        /// Contents of files before turns changed them.
        Undo = "undo",
        /// Memories of all sessions.
        Memories = "memories",
        /// The weights of built-in models.
        Models = "models",
        /// The skills that came with the daemon.
        Skills = "skills",
        /// The packages that skills need.
        SkillEnvironments = "skill_environments",
        /// The daemon's own log.
        Logs = "logs",
        /// Requests to models and their answers.
        Traces = "traces",
        /// All else.
        Other = "other",
    }
}

/// Size of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSize {
    /// Which.
    pub part: StoragePart,
    /// The bytes that its files take on the disk.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
}

/// The data folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageView {
    /// Every part once, in order.
    pub parts: Vec<PartSize>,
    /// Bytes of the journal that hold nothing: what is written next uses them.
    pub journal_spare_bytes: u64,
    /// Sessions that were deleted and are not all overwritten yet.
    pub removed_sessions: u64,
    /// Sessions that were deleted and cannot be overwritten, as the journal is damaged where they are.
    #[serde(default)]
    pub stuck_sessions: u64,
    /// Bytes that are free on its disk.
    pub free_bytes: u64,
}

names! {
    /// Part that is cleaned.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum CleanedPart {
        /// `uploads/`, `temp/` and `skills/` of sessions.
        Workspaces = "workspaces",
        /// `outputs/` of sessions.
        Outputs = "outputs",
        /// `large_tool_results/` of sessions.
        Results = "results",
        /// Contents of files before turns changed them.
        Undo = "undo",
        /// Files of the audit log that were set aside.
        Audit = "audit",
        /// Files of the daemon's own log that were set aside.
        Logs = "logs",
        /// Whole sessions.
        Sessions = "sessions",
        /// Leftovers of an earlier removal.
        Leftovers = "leftovers",
    }
}

/// Cleaned data of one kind, or data that would be cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanedData {
    /// The part.
    pub part: CleanedPart,
    /// The sessions that it was of; 0 where it is of none.
    #[serde(default)]
    pub sessions: u64,
    /// The files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Report of a cleaning, or of a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanReport {
    /// Each kind once; those of which there was nothing are left out.
    pub parts: Vec<CleanedData>,
    /// Failures, one sentence each.
    pub problems: Vec<String>,
    /// Sessions that were left alone, as somebody uses them, they wait, or they are pinned.
    pub kept_sessions: u64,
}

impl CleanReport {
    /// Counts something in.
    pub fn add(&mut self, part: CleanedPart, sessions: u64, files: u64, bytes: u64) {
        if sessions == 0 && files == 0 && bytes == 0 {
            return;
        }
        match self.parts.iter_mut().find(|known| known.part == part) {
            Some(known) => {
                known.sessions += sessions;
                known.files += files;
                known.bytes += bytes;
            }
            None => self.parts.push(CleanedData { part, sessions, files, bytes }),
        }
        self.parts.sort_by_key(|known| known.part);
    }

    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}
