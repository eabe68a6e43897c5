//! Settings of language servers.

use std::{collections::BTreeMap, path::Path, time::Duration};

/// All servers, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageConfig {
    /// The servers. Of several for one kind of file, the first that is there is used.
    pub servers: Vec<ServerConfig>,
    /// Limits of each.
    pub limits: LanguageLimits,
}

/// Limits of each server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageLimits {
    /// Time without a question after which a server is stopped; none for never.
    pub idle_stop: Option<Duration>,
    /// Time limit for a server to get ready.
    pub start_timeout: Duration,
    /// Time limit for each answer.
    pub request_timeout: Duration,
    /// Time that a step waits for a server which has answered before.
    pub wait: Duration,
    /// Time that a step waits for one which has not.
    pub cold_wait: Duration,
    /// Memory that each process of a server may write to, in bytes; none for as much as commands may.
    pub memory_bytes: Option<u64>,
}

/// One language server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// Its program: a name that is looked for in the search path, or an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Further variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// Language of each file extension, without the dot.
    pub languages: BTreeMap<String, String>,
    /// Files and folders whose presence makes a folder the root of its work.
    pub root_markers: Vec<String>,
}

impl ServerConfig {
    /// The name that servers have for the language of a file; none where it is none of this one's.
    pub(crate) fn language_of(&self, below: &Path) -> Option<&str> {
        let extension = below.extension()?.to_str()?.to_lowercase();
        self.languages.get(&extension).map(String::as_str)
    }
}
