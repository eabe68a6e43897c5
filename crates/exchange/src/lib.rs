//! Wire-level log of exchanges with models: each request and its answer, stored in the `trace.jsonl` of a session.
//!
//! - `log`: the port [`Exchanges`](agentd_core::ports::Exchanges), which copies into a bounded queue and never waits.
//! - `writer`: the queue and the single writer thread; `file`: the rotated files of one session; `line`: their lines.
//! - `reader`: reads exchanges from the files.

mod file;
mod line;
mod log;
mod reader;
mod writer;

use std::{path::PathBuf, sync::Arc};

use agentd_core::ports::Clock;

pub use log::ExchangeLog;
pub use reader::{ReadFailure, read};

/// Maximum stored bytes of a request.
const MAX_REQUEST: usize = 16 << 20;

/// Maximum stored bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;

/// Removes known secrets from text.
pub type SecretFilter = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Settings for the exchange log.
#[derive(Clone)]
pub struct ExchangeLogConfig {
    /// Folder with one subfolder per session.
    pub folder: PathBuf,
    /// True if exchanges are logged for sessions that do not override this setting.
    pub is_on: bool,
    /// Size at which a file is rotated, in bytes.
    pub max_file_bytes: u64,
    /// Maximum number of files per session, including the current one. The oldest is removed first.
    pub max_files: u32,
    /// Removes known secrets from stored text.
    pub clean: SecretFilter,
    /// Clock for the time of requests.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for ExchangeLogConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExchangeLogConfig").field("folder", &self.folder).field("is_on", &self.is_on).finish()
    }
}
