//! Per-call limits for the file tools.

use std::time::Duration;

/// Limits on what a call may read, write, visit and return.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum size of a file that is read as a whole, in bytes.
    pub whole_file_bytes: u64,
    /// Page size of a larger file, in characters. Also limits the output of `grep`, in bytes.
    pub page_chars: usize,
    /// Maximum size of a file that is written or edited, in bytes.
    pub write_bytes: u64,
    /// Maximum number of folder entries visited by a call.
    pub walk_entries: usize,
    /// Time limit for a search or a long read.
    pub search_time: Duration,
    /// Maximum number of entries in a listing.
    pub list_entries: usize,
    /// Maximum number of files returned by `find_files`.
    pub found_files: usize,
    /// Maximum number of hits returned by `grep`.
    pub grep_hits: usize,
    /// Maximum number of stored bytes per output stream of a command.
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
