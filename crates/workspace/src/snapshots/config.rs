//! Limits for file snapshots, and folders with git settings.

use std::path::PathBuf;

/// Limits for snapshots, and folders with the user's settings.
#[derive(Debug, Clone)]
pub struct SnapshotConfig {
    /// Maximum size of a recorded file, in bytes.
    pub max_file_bytes: u64,
    /// Maximum total size of the blobs for all sessions, in bytes. Above it, blobs from old turns are removed
    /// first.
    pub max_total_bytes: u64,
    /// Maximum number of files in a recorded tree.
    pub max_files: usize,
    /// Maximum number of recorded changes per call. The changes are one journal entry.
    pub max_changes: usize,
    /// The user's home folder, for `~/` in git configurations.
    pub home: Option<PathBuf>,
    /// Folder with the user's settings files.
    pub settings: Option<PathBuf>,
    /// Git configurations of the user and the host, which apply to every repository.
    pub git_configs: Vec<PathBuf>,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        let (home, settings, git_configs) = Default::default();
        let (max_files, max_changes) = (200_000, 30_000);
        Self { max_file_bytes: 10 << 20, max_total_bytes: 4 << 30, max_files, max_changes, home, settings, git_configs }
    }
}
