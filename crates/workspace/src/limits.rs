//! Limits of one call on files.

use std::time::Duration;

/// Limits on what a call may read, write, visit and return.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files up to this many bytes are read whole.
    pub whole_file_bytes: u64,
    /// Characters of a larger file that come at once; also bounds what `grep` returns, in bytes.
    pub page_chars: usize,
    /// The largest file that is written or edited, in bytes.
    pub write_bytes: u64,
    /// Number of folder entries that one call visits.
    pub walk_entries: usize,
    /// Time limit of a search or a long read.
    pub search_time: Duration,
    /// Number of entries that a listing shows.
    pub list_entries: usize,
    /// Number of files that `find_files` shows.
    pub found_files: usize,
    /// Number of hits that `grep` shows.
    pub grep_hits: usize,
    /// Bytes of each stream of a command that are stored.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            whole_file_bytes: 100 * 1024,
            page_chars: 50_000,
            write_bytes: 10 * 1024 * 1024,
            walk_entries: 100_000,
            search_time: Duration::from_secs(20),
            list_entries: 300,
            found_files: 100,
            grep_hits: 200,
            output_bytes: 8 * 1024 * 1024,
        }
    }
}
