//! Exchanges with models as they were on the wire: one request and its answer, kept in `trace.jsonl` of a session.
//!
//! - `log`: the port [`Exchanges`](agentd_core::ports::Exchanges), which copies into a bounded queue and never waits.
//! - `writer`: the one thread that writes, and the queue; `file`: the files of one session, rotated; `line`: what stands in them.
//! - `reader`: exchanges out of the files.

mod file;
mod line;
mod log;
mod reader;
mod writer;

use std::{path::PathBuf, sync::Arc};

use agentd_core::ports::Clock;

pub use log::ExchangeLog;
pub use reader::{ReadFailure, read};

/// Bytes of a request that are kept.
const MAX_REQUEST: usize = 16 << 20;

/// Bytes of an answer that are kept.
const MAX_ANSWER: usize = 4 << 20;

/// Takes known secrets out of a text.
pub type Clean = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Settings of the log.
#[derive(Clone)]
pub struct ExchangeLogConfig {
    /// Folder with a folder for each session.
    pub folder: PathBuf,
    /// Set if exchanges of all sessions are kept whose settings do not say otherwise.
    pub is_on: bool,
    /// Size at which a file is rotated, in bytes.
    pub max_file_bytes: u64,
    /// Files of a session, the current one among them; the oldest goes first.
    pub max_files: u32,
    /// Takes known secrets out of a text.
    pub clean: Clean,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for ExchangeLogConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExchangeLogConfig").field("folder", &self.folder).field("is_on", &self.is_on).finish()
    }
}
