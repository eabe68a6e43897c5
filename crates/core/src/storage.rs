//! Contents of the data folder, and reports of cleanups.

use serde::{Deserialize, Serialize};

names! {
    /// Part of the data folder.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum StoragePart {
        /// The database file of the journal.
        Journal = "journal",
        /// The journal's write-ahead log.
        JournalLog = "journal_log",
        /// The files of the audit log.
        Audit = "audit",
        /// The index of documents.
        Index = "index",
        /// The files of sessions.
        Workspaces = "workspaces",
        /// Previous contents of files that turns changed.
        Undo = "undo",
        /// Memories shared by all sessions.
        Memories = "memories",
        /// The weights of built-in models.
        Models = "models",
        /// The skills bundled with the daemon.
        Skills = "skills",
        /// The packages that skills need.
        SkillEnvironments = "skill_environments",
        /// The daemon's own log.
        Logs = "logs",
        /// Recorded requests to models and their answers.
        Traces = "traces",
        /// All files that belong to no other part.
        Other = "other",
    }
}

/// Size of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSize {
    /// Part of the data folder.
    pub part: StoragePart,
    /// Disk space used by the part's files, in bytes.
    pub bytes: u64,
    /// Number of files in the part.
    pub files: u64,
}

/// Sizes in the data folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageView {
    /// Every part once, in order.
    pub parts: Vec<PartSize>,
    /// Unused bytes in the journal, which later writes reuse.
    pub journal_spare_bytes: u64,
    /// Number of deleted sessions whose data is not yet completely overwritten.
    pub removed_sessions: u64,
    /// Number of deleted sessions whose data cannot be overwritten because that part of the journal is damaged.
    #[serde(default)]
    pub stuck_sessions: u64,
    /// Free space on the data folder's disk, in bytes.
    pub free_bytes: u64,
}

names! {
    /// Part of the data that is cleaned up.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum CleanedPart {
        /// The `uploads/`, `temp/` and `skills/` folders of sessions.
        Workspaces = "workspaces",
        /// The `outputs/` folders of sessions.
        Outputs = "outputs",
        /// The `large_tool_results/` folders of sessions.
        Results = "results",
        /// Previous contents of files that turns changed.
        Undo = "undo",
        /// Old files of the audit log.
        Audit = "audit",
        /// Old files of the daemon's own log.
        Logs = "logs",
        /// Whole sessions with their events.
        Sessions = "sessions",
        /// Remains of interrupted removals.
        Leftovers = "leftovers",
    }
}

/// Data of one kind that was cleaned up, or that a cleanup would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanedData {
    /// Part that was cleaned up.
    pub part: CleanedPart,
    /// Number of affected sessions; 0 if the data belongs to no session.
    #[serde(default)]
    pub sessions: u64,
    /// Number of affected files.
    pub files: u64,
    /// Total size of the files, in bytes.
    pub bytes: u64,
}

/// Report on a cleanup or a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanReport {
    /// Each part once; empty parts are left out.
    pub parts: Vec<CleanedData>,
    /// Failures, one sentence each.
    pub problems: Vec<String>,
    /// Number of sessions that were skipped because they are in use, waiting or pinned.
    pub kept_sessions: u64,
}

impl CleanReport {
    /// Adds to the counts of a part.
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

    /// Returns the total size in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}
