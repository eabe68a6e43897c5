//! Which servers there are, and what a person sets of them. No call changes any of it.

use std::{collections::BTreeMap, time::Duration};

use secrecy::SecretString;

/// One server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// How it is reached.
    pub reached: Reached,
    /// Tools of it that are set otherwise than the others, by the names that the server gives them.
    pub tools: BTreeMap<String, ToolSetting>,
    /// How long it may take to answer its first request.
    pub start_timeout: Duration,
    /// How long a call may go without a word of it.
    pub call_timeout: Duration,
    /// After how long without a call it is stopped.
    pub idle_stop: Option<Duration>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Reached {
    /// A program of this machine, spoken to by its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// What it is given.
        args: Vec<String>,
        /// What it sees of the environment besides the defaults.
        env: BTreeMap<String, SecretString>,
    },
    /// An address.
    Http {
        /// The address.
        url: String,
        /// What is sent with each request.
        headers: BTreeMap<String, SecretString>,
        /// Which of the two ways of speaking over HTTP it has.
        wire: HttpWire,
    },
}

/// The ways of speaking over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpWire {
    /// The one of today.
    Streamable,
    /// The one before it: an event stream, and an address that it names.
    Sse,
}

/// What is set of one tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSetting {
    /// Whether it is there at all.
    pub enabled: Option<bool>,
    /// Whether models are offered it without anybody's mentioning it.
    pub always_available: Option<bool>,
    /// What models call it.
    pub alias: Option<String>,
    /// What models are told of it, in place of what the server says.
    pub description: Option<String>,
}
