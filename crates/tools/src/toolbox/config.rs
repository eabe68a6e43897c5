//! Settings of the core tools.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentd_core::ports::{CodeReader, Knowledge, Languages, Web};
use agentd_extensions::skills::SkillStore;
use agentd_sandbox::host::Sandbox;
use agentd_workspace::{hard_links::HardLinks, limits::Limits};
use jiff::tz::TimeZone;

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
