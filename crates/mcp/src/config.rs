//! Which servers there are, and what a person sets of them. No call changes any of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use agentd_core::tool::Effect;
use futures_util::{FutureExt as _, future::BoxFuture};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::variables;

/// Default for the number of tools offered in every turn, of servers that say nothing about it.
pub const OFFERED_TOOLS: usize = 30;
/// Default for how long a turn waits for servers whose tools are not known yet.
pub const LISTING_WAIT: Duration = Duration::from_secs(5);

/// All servers.
#[derive(Debug, Clone)]
pub struct McpConfig {
    /// By their names.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Servers whose entry makes no sense, with the reason. They are down; the others are not touched by it.
    pub broken: BTreeMap<String, String>,
    /// Maximum number of tools offered in every turn, of servers that say nothing about it.
    pub offered_tools: usize,
    /// Time limit of a turn for servers whose tools are not known yet, from when they are asked.
    pub listing_wait: Duration,
}

impl Default for McpConfig {
    fn default() -> Self {
        let (servers, broken) = (BTreeMap::new(), BTreeMap::new());
        Self { servers, broken, offered_tools: OFFERED_TOOLS, listing_wait: LISTING_WAIT }
    }
}

/// One server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Set if it is enabled.
    pub enabled: bool,
    /// Way to reach it.
    pub reached: ServerAddress,
    /// Tools of it that are set otherwise than the others, by the names that the server gives them.
    pub tools: BTreeMap<String, ToolSetting>,
    /// Settings of tools that have none of their own.
    pub defaults: ToolDefaults,
    /// Which of them run without asking.
    pub grants: ToolGrants,
    /// Permission to ask a model during a call.
    pub sampling: Sampling,
    /// Set if it is started with the daemon, and not at its first call.
    pub eager: bool,
    /// Time limit for starting and listing what it offers.
    pub start_timeout: Duration,
    /// Time limit between two messages of a call.
    pub call_timeout: Duration,
    /// Time limit for a whole call, whatever messages come.
    pub call_limit: Duration,
    /// After how long without a call it is stopped; never, where there is none.
    pub idle_stop: Option<Duration>,
    /// The plugin that it came with.
    pub plugin: Option<String>,
}

/// Way to reach a server.
#[derive(Debug, Clone)]
pub enum ServerAddress {
    /// A program of this machine, spoken to by its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<ConfigText>,
        /// Environment variables besides the defaults.
        env: BTreeMap<String, SecretString>,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// An address.
    Http {
        /// The address.
        url: ConfigText,
        /// Headers of each request.
        headers: BTreeMap<String, SecretString>,
        /// Which of the two ways of speaking over HTTP it has.
        wire: HttpWire,
        /// The registered client with which people log in to it, if a person registered one.
        client: Option<OAuthClient>,
    },
}

/// A client that a person has registered agentd as.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    /// Its name there.
    pub id: String,
    /// Secret of the client, if it was given one.
    pub secret: Option<SecretString>,
    /// Issuer that registered it. No other is logged in with, nor shown the secret; any may be, where none is given.
    pub issuer: Option<String>,
}

/// A text of the configuration that may hold a secret: as it is, and as it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigText {
    /// As it is.
    pub value: String,
    /// As it is shown: `${NAME}` stands where it was written.
    pub shown: String,
    /// The secrets in it.
    pub secrets: Vec<String>,
}

impl From<&str> for ConfigText {
    fn from(value: &str) -> Self {
        Self { value: value.to_owned(), shown: value.to_owned(), secrets: Vec::new() }
    }
}

impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Permission to ask a model during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// It may not.
    #[default]
    Never,
    /// A person is asked each time.
    Ask,
}

/// Settings of the tools of a server that have none of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolDefaults {
    /// Set if models are offered them without a mention; where absent, if there is room.
    pub always_available: Option<bool>,
    /// Effect of a call, as the person says.
    pub effect: Option<Effect>,
}

/// The tools of a server that run without asking, as the person says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolGrants {
    /// None.
    #[default]
    None,
    /// These, by the names that the server gives them.
    Some(BTreeSet<String>),
    /// All.
    All,
}

impl ToolGrants {
    /// Returns whether the tool of that name is among them.
    pub fn hold(&self, tool: &str) -> bool {
        match self {
            Self::None => false,
            Self::Some(tools) => tools.contains(tool),
            Self::All => true,
        }
    }
}

/// Settings of one tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSetting {
    /// Set if it is enabled.
    pub enabled: Option<bool>,
    /// Set if models are offered it without a mention.
    pub always_available: Option<bool>,
    /// Name for models.
    pub alias: Option<String>,
    /// Description for models, in place of the server's own.
    pub description: Option<String>,
    /// Effect of a call, as the person says. The server is not believed.
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
                ServerAddress::Stdio { env, args, .. } => (env, args.as_slice(), None),
                ServerAddress::Http { headers, url, client, .. } => {
                    (headers, std::slice::from_ref(url), client.as_ref())
                }
            };
            let in_text = written.iter().flat_map(|text| &text.secrets).map(String::as_str);
            let of_client = client.and_then(|client| client.secret.as_ref());
            hidden.values().chain(of_client).map(|secret| secret.expose_secret()).chain(in_text)
        })
    }
}

impl ServerConfig {
    /// A server that is reached in this way, with the time limits of the shipped configuration.
    pub fn new(reached: ServerAddress) -> Self {
        Self {
            enabled: true,
            reached,
            tools: BTreeMap::new(),
            defaults: ToolDefaults::default(),
            grants: ToolGrants::default(),
            sampling: Sampling::default(),
            eager: false,
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            call_limit: Duration::from_secs(30 * 60),
            idle_stop: Some(Duration::from_secs(15 * 60)),
            plugin: None,
        }
    }

    /// The setting of one of its tools, with what holds for all of them where nothing else is said of it.
    pub fn tool(&self, name: &str) -> ToolSetting {
        let own = self.tools.get(name).cloned().unwrap_or_default();
        ToolSetting {
            always_available: own.always_available.or(self.defaults.always_available),
            effect: own.effect.or(self.defaults.effect),
            ..own
        }
    }

    /// Returns whether both are the same server, reached in the same way, secrets included.
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        let place = |server: &Self| (server.fingerprint(), server.transport());
        place(self) == place(other) && self.texts() == other.texts()
    }

    /// Distinguishes this server from another of the same name: its catalogue is stored under it. Secrets are not in
    /// it.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut take = |text: &str| {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        };
        match &self.reached {
            ServerAddress::Stdio { command, args, env, cwd } => {
                take("stdio");
                take(command);
                args.iter().for_each(|arg| take(&arg.value));
                take(&cwd.to_string_lossy());
                env.keys().for_each(|name| take(name));
            }
            ServerAddress::Http { url, headers, .. } => {
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

    /// The variables that the daemon's environment lacks, and that the client of a turn has to lend.
    pub fn variables(&self) -> BTreeSet<String> {
        self.texts().iter().flat_map(|text| variables::names(text)).map(|(name, _)| name.to_owned()).collect()
    }

    /// Those of them that have no default and no value among these.
    pub(crate) fn missing(&self, values: &BTreeMap<String, String>) -> BTreeSet<String> {
        let named = self.texts().into_iter().flat_map(variables::names);
        let missing = named.filter(|(name, default)| default.is_none() && !values.contains_key(*name));
        missing.map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns true if it cannot be started without a project.
    pub(crate) fn needs_project(&self) -> bool {
        self.missing(&BTreeMap::new()).iter().any(|name| variables::is_project(name))
    }

    /// Everything that a person wrote of it, but names; what is left out of a client is empty.
    fn texts(&self) -> Vec<&str> {
        match &self.reached {
            ServerAddress::Stdio { command, args, env, cwd } => {
                let args = args.iter().map(|arg| arg.value.as_str());
                let env = env.values().map(|value| value.expose_secret());
                [command.as_str()].into_iter().chain(args).chain(env).chain(cwd.to_str()).collect()
            }
            ServerAddress::Http { url, headers, client, .. } => {
                let headers = headers.values().map(|value| value.expose_secret());
                let client = client.iter().flat_map(|OAuthClient { id, secret, issuer }| {
                    let secret = secret.as_ref().map_or("", |secret| secret.expose_secret());
                    [id.as_str(), issuer.as_deref().unwrap_or_default(), secret]
                });
                [url.value.as_str()].into_iter().chain(headers).chain(client).collect()
            }
        }
    }

    /// The server with the values of its variables, or the name of one that has none.
    pub(crate) fn filled(&self, values: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |text: &mut String| variables::filled(text, values).map(|filled| *text = filled);
        let secret = |secret: &mut SecretString| {
            variables::filled(secret.expose_secret(), values).map(|filled| *secret = filled.into())
        };
        let written = |written: &mut ConfigText| {
            let lent = variables::names(&written.value).filter(|(name, _)| !variables::is_place(name));
            written.secrets.extend(lent.filter_map(|(name, _)| values.get(name)).cloned());
            text(&mut written.value)
        };
        let mut server = self.clone();
        match &mut server.reached {
            ServerAddress::Stdio { command, args, env, cwd } => {
                text(command)?;
                args.iter_mut().try_for_each(written)?;
                env.values_mut().try_for_each(secret)?;
                if let Some(filled) = cwd.to_str().map(|cwd| variables::filled(cwd, values)).transpose()? {
                    *cwd = filled.into();
                }
            }
            ServerAddress::Http { url, headers, client, .. } => {
                written(url)?;
                headers.values_mut().try_for_each(secret)?;
                if let Some(client) = client {
                    text(&mut client.id)?;
                    client.issuer.iter_mut().try_for_each(text)?;
                    client.secret.iter_mut().try_for_each(secret)?;
                }
            }
        }
        Ok(server)
    }

    /// Where it is, in a few words: a command line or an address, without secrets.
    pub fn place(&self) -> String {
        match &self.reached {
            ServerAddress::Stdio { command, args, .. } => {
                let args = args.iter().map(|arg| &arg.shown);
                let words = std::iter::once(command).chain(args).cloned().collect::<Vec<_>>();
                variables::written(&words.join(" "))
            }
            // A key may stand behind the question mark.
            ServerAddress::Http { url, .. } => {
                variables::written(url.shown.split(['?', '#']).next().unwrap_or_default())
            }
        }
    }

    /// Transport, in a word.
    pub fn transport(&self) -> &'static str {
        match &self.reached {
            ServerAddress::Stdio { .. } => "stdio",
            ServerAddress::Http { wire: HttpWire::Streamable, .. } => "http",
            ServerAddress::Http { wire: HttpWire::Sse, .. } => "sse",
        }
    }
}

type CheckTask = dyn Fn(&str) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// The check of a plugin, by its name, before one of its servers is reached: its files may have changed since the person agreed
/// to them. Without one, no server of a plugin is reached.
#[derive(Clone)]
pub struct PluginCheck(Arc<CheckTask>);

impl PluginCheck {
    /// A check whose error is the reason why nothing of the plugin may run.
    pub fn new(check: impl Fn(&str) -> BoxFuture<'static, Result<(), String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    pub(crate) async fn run(&self, plugin: &str) -> Result<(), String> {
        (self.0)(plugin).await
    }
}

impl Default for PluginCheck {
    fn default() -> Self {
        Self::new(|_| std::future::ready(Err("plugins are not used here".to_owned())).boxed())
    }
}
