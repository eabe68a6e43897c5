//! Configured servers, and the user's settings for them. Calls never change the configuration.

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

/// Default number of tools offered in every turn, for servers without a setting.
pub const OFFERED_TOOLS: usize = 30;
/// Default time that a turn waits for servers whose tools are not known yet.
pub const LISTING_WAIT: Duration = Duration::from_secs(5);

/// Configuration of all servers.
#[derive(Debug, Clone)]
pub struct McpConfig {
    /// Valid servers, by their names.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Servers with invalid entries, with the reasons. They are unavailable, but do not affect the other servers.
    pub broken: BTreeMap<String, String>,
    /// Maximum number of tools offered in every turn, for servers without a setting.
    pub offered_tools: usize,
    /// Time that a turn waits for servers whose tools are not known yet, starting with the request.
    pub listing_wait: Duration,
}

impl Default for McpConfig {
    fn default() -> Self {
        let (servers, broken) = (BTreeMap::new(), BTreeMap::new());
        Self { servers, broken, offered_tools: OFFERED_TOOLS, listing_wait: LISTING_WAIT }
    }
}

/// Configuration of one server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// True if the server is enabled.
    pub enabled: bool,
    /// Program or URL of the server.
    pub address: ServerAddress,
    /// Settings for single tools, by the server's tool names.
    pub tools: BTreeMap<String, ToolSetting>,
    /// Settings for all other tools.
    pub defaults: ToolDefaults,
    /// Tools that run without approval.
    pub grants: ToolGrants,
    /// Permission to ask a model during a call.
    pub sampling: Sampling,
    /// True to start the server with the daemon instead of on its first call.
    pub eager: bool,
    /// Time limit for starting the server and listing its tools.
    pub start_timeout: Duration,
    /// Time limit between two messages during a call.
    pub call_timeout: Duration,
    /// Time limit for a whole call, regardless of messages.
    pub call_limit: Duration,
    /// Idle time after which the server is stopped; `None` for never.
    pub idle_stop: Option<Duration>,
    /// Plugin that provides the server.
    pub plugin: Option<String>,
}

/// Program or URL of a server.
#[derive(Debug, Clone)]
pub enum ServerAddress {
    /// Local program, connected by standard input and output.
    Stdio {
        /// Path or name of the program.
        command: String,
        /// Arguments of the program.
        args: Vec<ConfigText>,
        /// Environment variables besides the defaults.
        env: BTreeMap<String, SecretString>,
        /// Working directory of the process.
        cwd: PathBuf,
    },
    /// Server reached over HTTP.
    Http {
        /// URL of the server.
        url: ConfigText,
        /// Headers of each request.
        headers: BTreeMap<String, SecretString>,
        /// HTTP transport of the server.
        wire: HttpWire,
        /// Registered OAuth client for logins, if the user registered one.
        client: Option<OAuthClient>,
    },
}

/// OAuth client that the user has registered for agentd.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    /// ID of the client.
    pub id: String,
    /// Client secret, if there is one.
    pub secret: Option<SecretString>,
    /// Issuer that registered the client. No other issuer is used or gets the secret. With `None` any issuer is
    /// accepted.
    pub issuer: Option<String>,
}

/// Text from the configuration that may contain secrets, with its value and its displayed form.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigText {
    /// Value with the secrets inserted.
    pub value: String,
    /// Displayed form, with `${NAME}` as in the configuration.
    pub shown: String,
    /// Secrets in the value.
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

/// HTTP transports of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpWire {
    /// Streamable HTTP, which current servers use.
    Streamable,
    /// HTTP with SSE, the predecessor of streamable HTTP: an event stream that names a URL for requests. Servers with
    /// streamable HTTP are also accepted.
    Sse,
}

/// Permission to ask a model during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Requests are always rejected.
    #[default]
    Never,
    /// The user is asked each time.
    Ask,
}

/// Defaults for the tools of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolDefaults {
    /// True to always offer the tools to models, false to offer them only after they are mentioned or found by a
    /// search. With `None`, the tools are offered if they fit the limits.
    pub always_available: Option<bool>,
    /// Effect of a call, set by the user.
    pub effect: Option<Effect>,
}

/// Tools of a server that run without approval, set by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolGrants {
    /// No tool, which is the default.
    #[default]
    None,
    /// Tools with these names at the server.
    Some(BTreeSet<String>),
    /// All tools of the server.
    All,
}

impl ToolGrants {
    /// Returns true if the tool may run without approval.
    pub fn contains(&self, tool: &str) -> bool {
        match self {
            Self::None => false,
            Self::Some(tools) => tools.contains(tool),
            Self::All => true,
        }
    }
}

/// Settings for one tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSetting {
    /// True if the tool is enabled.
    pub enabled: Option<bool>,
    /// True to always offer the tool to models, even if it is not mentioned.
    pub always_available: Option<bool>,
    /// Name of the tool for models.
    pub alias: Option<String>,
    /// Description for models, replacing the server's own.
    pub description: Option<String>,
    /// Effect of a call, set by the user. The server's claim is not trusted.
    pub effect: Option<Effect>,
}

impl McpConfig {
    /// Iterates over the enabled servers.
    pub fn enabled(&self) -> impl Iterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().filter(|(_, server)| server.enabled).map(|(name, server)| (name.as_str(), server))
    }

    /// Returns the secrets that must never be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.servers.values().flat_map(|server| {
            let (hidden, texts, client) = match &server.address {
                ServerAddress::Stdio { env, args, .. } => (env, args.as_slice(), None),
                ServerAddress::Http { headers, url, client, .. } => {
                    (headers, std::slice::from_ref(url), client.as_ref())
                }
            };
            let in_text = texts.iter().flat_map(|text| &text.secrets).map(String::as_str);
            let of_client = client.and_then(|client| client.secret.as_ref());
            hidden.values().chain(of_client).map(|secret| secret.expose_secret()).chain(in_text)
        })
    }
}

impl ServerConfig {
    /// Creates a configuration for this program or URL, with the time limits of the shipped configuration.
    pub fn new(address: ServerAddress) -> Self {
        Self {
            enabled: true,
            address,
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

    /// Returns the settings for one tool, completed by the server's defaults.
    pub fn tool(&self, name: &str) -> ToolSetting {
        let own = self.tools.get(name).cloned().unwrap_or_default();
        ToolSetting {
            always_available: own.always_available.or(self.defaults.always_available),
            effect: own.effect.or(self.defaults.effect),
            ..own
        }
    }

    /// Returns true if both are the same server with the same transport, including secrets.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        let identity = |server: &Self| (server.fingerprint(), server.transport());
        identity(self) == identity(other) && self.texts() == other.texts()
    }

    /// Returns the hash that identifies the configured server, used for its catalogue. Secrets are not part of the
    /// hash.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        };
        match &self.address {
            ServerAddress::Stdio { command, args, env, cwd } => {
                add("stdio");
                add(command);
                args.iter().for_each(|arg| add(&arg.value));
                add(&cwd.to_string_lossy());
                env.keys().for_each(|name| add(name));
            }
            ServerAddress::Http { url, headers, .. } => {
                add("http");
                add(&url.value);
                headers.keys().for_each(|name| add(name));
            }
        }
        // Servers may offer other tools to clients that support sampling.
        if self.sampling == Sampling::Ask {
            add("sampling");
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the variables that the daemon's environment lacks, and that the client of a turn must provide.
    pub fn variables(&self) -> BTreeSet<String> {
        self.texts().iter().flat_map(|text| variables::names(text)).map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the variables without a default that have no value in `values`.
    pub(crate) fn missing(&self, values: &BTreeMap<String, String>) -> BTreeSet<String> {
        let named = self.texts().into_iter().flat_map(variables::names);
        let missing = named.filter(|(name, default)| default.is_none() && !values.contains_key(*name));
        missing.map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns true if the server cannot be started without a project.
    pub(crate) fn needs_project(&self) -> bool {
        self.missing(&BTreeMap::new()).iter().any(|name| variables::is_project(name))
    }

    /// Returns all texts in the entry except names. Missing parts of an OAuth client are empty.
    fn texts(&self) -> Vec<&str> {
        match &self.address {
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

    /// Replaces variables with their values. The error is the name of a variable without a value.
    pub(crate) fn filled(&self, values: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |text: &mut String| variables::filled(text, values).map(|filled| *text = filled);
        let secret = |secret: &mut SecretString| {
            variables::filled(secret.expose_secret(), values).map(|filled| *secret = filled.into())
        };
        let config_text = |text_with_secrets: &mut ConfigText| {
            let from_client = variables::names(&text_with_secrets.value).filter(|(name, _)| !variables::is_place(name));
            text_with_secrets.secrets.extend(from_client.filter_map(|(name, _)| values.get(name)).cloned());
            text(&mut text_with_secrets.value)
        };
        let mut server = self.clone();
        match &mut server.address {
            ServerAddress::Stdio { command, args, env, cwd } => {
                text(command)?;
                args.iter_mut().try_for_each(config_text)?;
                env.values_mut().try_for_each(secret)?;
                if let Some(filled) = cwd.to_str().map(|cwd| variables::filled(cwd, values)).transpose()? {
                    *cwd = filled.into();
                }
            }
            ServerAddress::Http { url, headers, client, .. } => {
                config_text(url)?;
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

    /// Returns a short display form: a command line or a URL, without secrets.
    pub fn place(&self) -> String {
        match &self.address {
            ServerAddress::Stdio { command, args, .. } => {
                let args = args.iter().map(|arg| &arg.shown);
                let parts = std::iter::once(command).chain(args).cloned().collect::<Vec<_>>();
                variables::written(&parts.join(" "))
            }
            // The query may contain a key.
            ServerAddress::Http { url, .. } => {
                variables::written(url.shown.split(['?', '#']).next().unwrap_or_default())
            }
        }
    }

    /// Returns the name of the transport.
    pub fn transport(&self) -> &'static str {
        match &self.address {
            ServerAddress::Stdio { .. } => "stdio",
            ServerAddress::Http { wire: HttpWire::Streamable, .. } => "http",
            ServerAddress::Http { wire: HttpWire::Sse, .. } => "sse",
        }
    }
}

type CheckTask = dyn Fn(&str) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Check of a plugin by name, before one of its servers is started: the plugin's files may have changed since the user
/// approved them. The default check rejects all plugins.
#[derive(Clone)]
pub struct PluginCheck(Arc<CheckTask>);

impl PluginCheck {
    /// Creates a check from a function. The function's error is the reason why the plugin may not run.
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
