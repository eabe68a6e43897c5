//! Where the journal is and how it is kept.

use std::{path::PathBuf, time::Duration};

use jiff::tz::TimeZone;

/// Where the journal is and how it is kept.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The database file. Its folder is made, for the owner alone, where it is missing.
    pub path: PathBuf,
    /// Number of reading threads, at least one.
    pub readers: usize,
    /// Maximum number of changes that wait for the writer before callers wait to hand theirs over.
    pub max_waiting: usize,
    /// Time limit for a lock that another process holds.
    pub busy_timeout: Duration,
    /// Up to this size in bytes, the whole file is checked after an unclean stop; of larger files only the tables
    /// that everything else hangs on. A check reads every page, about a second for a gigabyte, and nobody can use
    /// the daemon meanwhile.
    pub full_check_up_to: u64,
    /// The time zone whose days usage is counted by.
    pub time_zone: fn() -> TimeZone,
    /// Set if what was acknowledged survives a loss of power. Without it nothing waits for the disk: for journals that are
    /// thrown away.
    pub durable: bool,
    /// The file may not grow beyond this many pages: a disk that is full, for tests.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
}

impl StoreConfig {
    /// A journal at `path`, kept as is right for one person's daemon. Its days are those of UTC.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            readers: 2,
            max_waiting: 256,
            busy_timeout: Duration::from_secs(5),
            full_check_up_to: 64 * 1024 * 1024,
            time_zone: || TimeZone::UTC,
            durable: true,
            max_pages: None,
        }
    }
}
