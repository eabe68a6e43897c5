//! Which servers there are, and what a person sets of them. No call changes any of it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use agentd_core::tool::Effect;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

/// All servers.
#[derive(Debug, Clone, Default)]
pub struct McpConfig {
    /// By their names.
    pub servers: BTreeMap<String, ServerConfig>,
}

/// One server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Whether it is there at all.
    pub enabled: bool,
    /// How it is reached.
    pub reached: Reached,
    /// Tools of it that are set otherwise than the others, by the names that the server gives them.
    pub tools: BTreeMap<String, ToolSetting>,
    /// Whether it may ask a model during a call.
    pub sampling: Sampling,
    /// Whether it is started with the daemon, and not at its first call.
    pub eager: bool,
    /// How long it may take to start and to say what it offers.
    pub start_timeout: Duration,
    /// How long a call may go without a word of it.
    pub call_timeout: Duration,
    /// How long a call may take in all, whatever words of it come.
    pub call_limit: Duration,
    /// After how long without a call it is stopped; never, where there is none.
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
        args: Vec<Written>,
        /// What it sees of the environment besides the defaults.
        env: BTreeMap<String, SecretString>,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// An address.
    Http {
        /// The address.
        url: Written,
        /// What is sent with each request.
        headers: BTreeMap<String, SecretString>,
        /// Which of the two ways of speaking over HTTP it has.
        wire: HttpWire,
        /// What agentd is registered as where people log in to it, if a person did that.
        client: Option<OAuthClient>,
    },
}

/// What a person has registered agentd as.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    /// Its name there.
    pub id: String,
    /// What proves that it is the one of that name, where it was given something.
    pub secret: Option<SecretString>,
    /// Who registered it. Nobody else is logged in with, nor shown the secret; anybody, where there is none.
    pub issuer: Option<String>,
}

impl OAuthClient {
    fn is_same(&self, other: &Self) -> bool {
        let secret = |of: &Self| of.secret.as_ref().map(|secret| secret.expose_secret().to_owned());
        self.id == other.id && self.issuer == other.issuer && secret(self) == secret(other)
    }
}

/// A text of the configuration that may hold a secret: as it is, and as it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Written {
    /// As it is.
    pub value: String,
    /// As it is shown: `${NAME}` stands where it was written.
    pub shown: String,
    /// The secrets in it.
    pub secrets: Vec<String>,
}

impl From<&str> for Written {
    fn from(value: &str) -> Self {
        Self { value: value.to_owned(), shown: value.to_owned(), secrets: Vec::new() }
    }
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.shown)
    }
}

/// The ways of speaking over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpWire {
    /// The one of today.
    Streamable,
    /// The one before it: an event stream, and an address that it names. Servers of today are understood, too.
    Sse,
}

/// Whether a server may ask a model during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sampling {
    /// It may not.
    #[default]
    Never,
    /// A person is asked each time.
    Ask,
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
    /// What a call of it can do, as the person says. Nobody believes the server.
    pub effect: Option<Effect>,
}

impl McpConfig {
    /// The servers that are there.
    pub fn enabled(&self) -> impl Iterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().filter(|(_, server)| server.enabled).map(|(name, server)| (name.as_str(), server))
    }

    /// All that must never be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.servers.values().flat_map(|server| {
            let (hidden, written, client) = match &server.reached {
                Reached::Stdio { env, args, .. } => (env, args.as_slice(), None),
                Reached::Http { headers, url, client, .. } => (headers, std::slice::from_ref(url), client.as_ref()),
            };
            let in_text = written.iter().flat_map(|text| &text.secrets).map(String::as_str);
            let of_client = client.and_then(|client| client.secret.as_ref());
            hidden.values().chain(of_client).map(|secret| secret.expose_secret()).chain(in_text)
        })
    }
}

impl ServerConfig {
    /// The setting of one of its tools.
    #[must_use]
    pub fn tool(&self, name: &str) -> ToolSetting {
        self.tools.get(name).cloned().unwrap_or_default()
    }

    /// Whether both are the same server, reached in the same way, secrets included.
    #[must_use]
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        let same = |one: &BTreeMap<String, SecretString>, other: &BTreeMap<String, SecretString>| {
            let plain = |(name, value): (&String, &SecretString)| (name.clone(), value.expose_secret().to_owned());
            one.iter().map(plain).eq(other.iter().map(plain))
        };
        self.fingerprint() == other.fingerprint()
            && match (&self.reached, &other.reached) {
                (Reached::Stdio { env: one, .. }, Reached::Stdio { env: other, .. }) => same(one, other),
                (
                    Reached::Http { headers: one, wire: wire_of_one, client: client_of_one, .. },
                    Reached::Http { headers: other, wire: wire_of_other, client: client_of_other, .. },
                ) => {
                    let same_client = match (client_of_one, client_of_other) {
                        (Some(one), Some(other)) => one.is_same(other),
                        (one, other) => one.is_none() && other.is_none(),
                    };
                    same(one, other) && wire_of_one == wire_of_other && same_client
                }
                _ => false,
            }
    }

    /// What tells this server from another of the same name: what it offers is remembered by it. Secrets are not in it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut take = |text: &str| {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        };
        match &self.reached {
            Reached::Stdio { command, args, env, cwd } => {
                take("stdio");
                take(command);
                args.iter().for_each(|arg| take(&arg.value));
                take(&cwd.to_string_lossy());
                env.keys().for_each(|name| take(name));
            }
            Reached::Http { url, headers, .. } => {
                take("http");
                take(&url.value);
                headers.keys().for_each(|name| take(name));
            }
        }
        // Servers offer other tools to whom they may ask.
        if self.sampling == Sampling::Ask {
            take("sampling");
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Where it is, in a few words: a command line or an address, without secrets.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.reached {
            Reached::Stdio { command, args, .. } => {
                let args = args.iter().map(|arg| &arg.shown);
                std::iter::once(command).chain(args).cloned().collect::<Vec<_>>().join(" ")
            }
            // A key may stand behind the question mark.
            Reached::Http { url, .. } => url.shown.split(['?', '#']).next().unwrap_or_default().to_owned(),
        }
    }

    /// How it is spoken to, in a word.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match &self.reached {
            Reached::Stdio { .. } => "stdio",
            Reached::Http { wire: HttpWire::Streamable, .. } => "http",
            Reached::Http { wire: HttpWire::Sse, .. } => "sse",
        }
    }
}
