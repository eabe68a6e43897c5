//! Settings of language servers.

use std::{collections::BTreeMap, path::Path, time::Duration};

/// Configured servers and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageConfig {
    /// Servers in order of preference. For each kind of file, the first installed one is used.
    pub servers: Vec<ServerConfig>,
    /// Limits that apply to each server.
    pub limits: LanguageLimits,
}

/// Limits of each server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageLimits {
    /// Idle time after which a server is stopped, or `None` to never stop it.
    pub idle_stop: Option<Duration>,
    /// Time limit for the start of a server.
    pub start_timeout: Duration,
    /// Time limit for each answer.
    pub request_timeout: Duration,
    /// Maximum time that a step waits for a server that has answered before.
    pub wait: Duration,
    /// Maximum time that a step waits for a server that has not answered yet.
    pub cold_wait: Duration,
    /// Limit on the writable memory of each server process, in bytes, or `None` for the limit of commands.
    pub memory_bytes: Option<u64>,
}

/// Settings of one language server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Name of the server.
    pub name: String,
    /// Program, as a name in the search path or an absolute path.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Additional environment variables of the program.
    pub environment: BTreeMap<String, String>,
    /// Language identifier for each file extension, without the dot.
    pub languages: BTreeMap<String, String>,
    /// Names of files and folders that mark a folder as a project root.
    pub root_markers: Vec<String>,
}

impl ServerConfig {
    /// Returns the protocol's language identifier for a file, or `None` if this server does not handle the file.
    pub(crate) fn language_of(&self, below: &Path) -> Option<&str> {
        let extension = below.extension()?.to_str()?.to_lowercase();
        self.languages.get(&extension).map(String::as_str)
    }
}
