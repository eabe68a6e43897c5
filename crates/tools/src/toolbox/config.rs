//! Settings of the core tools.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentd_core::ports::{CodeReader, Knowledge, Languages, Web};
use jiff::tz::TimeZone;

use crate::{sandbox::Sandbox, skills::SkillStore, workspace::HardLinks};

/// Settings of the tools.
#[derive(Debug, Clone)]
pub struct ToolboxConfig {
    /// Returns the time zone of the person, asked anew at each call because people travel. The composition root passes
    /// `TimeZone::system`; nothing below it reads the environment.
    pub time_zone: fn() -> TimeZone,
    /// After how long a command is ended that names no limit.
    pub command_timeout: Duration,
    /// The longest limit that a command may name.
    pub command_timeout_max: Duration,
    /// Environment of commands besides the defaults, which it overrides (`PATH`, `LANG`, …), where their client sends
    /// nothing.
    pub environment: BTreeMap<String, String>,
    /// Further variables, unless their client sends something else by that name.
    pub standing: BTreeMap<String, String>,
    /// Sandbox of commands; without it they may do whatever the daemon may.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Treatment of files of a writable project that have other names outside of it, before a command that may write.
    pub hard_links: HardLinks,
    /// The skills, whose programs commands find that are about them.
    pub skills: Option<SkillStore>,
    /// Reader of documents; without it only text is read.
    pub knowledge: Option<Arc<dyn Knowledge>>,
    /// Reader of code; without it there is no index of code.
    pub code: Option<Arc<dyn CodeReader>>,
    /// Access to the web; without it there is none.
    pub web: Option<Arc<dyn Web>>,
    /// The language servers; without them no tool asks any.
    pub languages: Option<Arc<dyn Languages>>,
    /// Number of calls that work on files at once, in all sessions together.
    pub parallel_file_calls: usize,
    /// Limits on what a call may read, write, visit and return.
    pub limits: Limits,
}

impl ToolboxConfig {
    /// The defaults: commands end after two minutes and may ask for up to ten.
    #[must_use]
    pub fn new(time_zone: fn() -> TimeZone) -> Self {
        Self {
            time_zone,
            command_timeout: Duration::from_secs(120),
            command_timeout_max: Duration::from_secs(600),
            environment: BTreeMap::new(),
            standing: BTreeMap::new(),
            sandbox: None,
            hard_links: HardLinks::default(),
            skills: None,
            knowledge: None,
            code: None,
            web: None,
            languages: None,
            parallel_file_calls: 8,
            limits: Limits::default(),
        }
    }
}

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
