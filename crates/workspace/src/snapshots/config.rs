//! Bounds of what is kept for undo.

use std::path::PathBuf;

/// The bounds of what is kept.
#[derive(Debug, Clone)]
pub struct SnapshotConfig {
    /// Larger files are not recorded, in bytes.
    pub max_file_bytes: u64,
    /// The bytes that are kept of all sessions together. Where that is full, what belongs to old turns goes first.
    pub max_total_bytes: u64,
    /// A tree with more files is not recorded.
    pub max_files: usize,
    /// Maximum number of recorded changes of one call. They are one entry of the journal.
    pub max_changes: usize,
    /// Home folder of the person, for `~/` in configurations of git.
    pub home: Option<PathBuf>,
    /// Folder of the person's settings.
    pub settings: Option<PathBuf>,
    /// Configurations of git of the person and the machine, which hold in every repository.
    pub git_configs: Vec<PathBuf>,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        let (home, settings, git_configs) = Default::default();
        let (max_files, max_changes) = (200_000, 30_000);
        Self { max_file_bytes: 10 << 20, max_total_bytes: 4 << 30, max_files, max_changes, home, settings, git_configs }
    }
}
