//! Servers that a client provides for one session. They follow the rules of the daemon's own servers: a guard, a clean
//! environment, and a stop when idle. Their definitions contain secrets, so they exist only in memory, and the client
//! has to provide them again after a daemon restart. Definitions are validated before anything is stored, and their
//! texts are literal, without variables.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use agentd_core::{environment::ClientEnvironment, ids::SessionId, mutex::lock, ports::ToolUser, route::Routes};
use futures_util::future::join_all;
use secrecy::SecretString;

use crate::{
    catalogue::CatalogueFolder,
    config::{McpConfig, ServerAddress, ServerConfig},
    login::Logins,
    pool::{McpPool, PoolOwner, PoolParts, ServerReport},
    reason::SecretFilter,
    schema, variables,
};

/// Maximum number of sessions with servers. Above this limit, the servers that were provided longest ago are removed.
const SESSIONS: usize = 256;

/// Dependencies of session servers.
pub struct SessionServersParts {
    /// Program that is started as the guard of a server.
    pub guard: PathBuf,
    /// Environment for all servers. The client's environment is added.
    pub environment: BTreeMap<String, String>,
    /// Network routes to HTTP servers.
    pub routes: Routes,
    /// Removes secrets from text sent by servers.
    pub clean: SecretFilter,
    /// Called with all secrets of all servers, before any of them is started.
    pub learn_secrets: Box<dyn Fn(Vec<String>) + Send + Sync>,
}

/// Servers of all sessions.
pub struct SessionServers {
    parts: SessionServersParts,
    state: Mutex<State>,
}

struct State {
    sessions: HashMap<SessionId, ProvidedServers>,
    /// Version counter. It starts with the time, so that versions of previous runs do not recur.
    last_version: u64,
    closed: bool,
}

/// Servers provided by a client.
struct ProvidedServers {
    pool: Arc<McpPool>,
    environment: BTreeMap<String, String>,
    version: u64,
    secrets: Vec<String>,
}

/// Servers of a session, for its client.
#[derive(Debug)]
pub struct SessionServersReport {
    /// Version of the servers. A client can replace this version without replacing newer servers.
    pub version: u64,
    /// Servers in the order in which they were provided.
    pub servers: Vec<ServerReport>,
}

/// Old pools to be closed.
type EndedPools = Vec<Arc<McpPool>>;

impl SessionServers {
    /// Creates the store without servers.
    pub fn new(parts: SessionServersParts) -> Self {
        let state = State { sessions: HashMap::new(), last_version: first_version(), closed: false };
        Self { parts, state: Mutex::new(state) }
    }

    /// Replaces the servers of a session; an empty list removes them. Unchanged servers keep running. New ones are
    /// started and listed. Returns when they are listed, or after a few seconds. A broken server is reported and does
    /// not affect others.
    ///
    /// With `replaces`, nothing is done unless the session still has this version.
    ///
    /// # Errors
    /// Fails if there are too many servers, or they are too large. Nothing is changed then.
    pub async fn set(
        &self,
        session: SessionId,
        servers: &[SessionServer],
        client: &ClientEnvironment,
        replaces: Option<u64>,
    ) -> Result<SessionServersReport, ServerRefusal> {
        let home = self.parts.environment.get("HOME").map_or("/", String::as_str);
        let (config, names) = config(servers, client.folder().unwrap_or(Path::new(home)))?;
        let mut environment = self.parts.environment.clone();
        environment.extend(client.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        let secrets: Vec<String> = config.secrets().map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect();
        let (version, pool, ended) = {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(ServerRefusal::new("agentd is stopping", "try again when it runs"));
            }
            let current = state.sessions.get(&session).map(|provided| provided.version);
            if let Some(expected) = replaces
                && current != Some(expected)
            {
                return Ok(SessionServersReport { version: current.unwrap_or_default(), servers: Vec::new() });
            }
            state.last_version += 1;
            let version = state.last_version;
            let mut ended = EndedPools::new();
            let before = state.sessions.remove(&session);
            if names.is_empty() {
                ended.extend(before.map(|provided| provided.pool));
                (version, None, ended)
            } else {
                let pool = match before {
                    Some(provided) if provided.environment == environment => provided.pool,
                    other => {
                        ended.extend(other.map(|provided| provided.pool));
                        self.pool(environment.clone())
                    }
                };
                let provided = ProvidedServers { pool: Arc::clone(&pool), environment, version, secrets };
                state.sessions.insert(session, provided);
                ended.extend(state.evict_oldest());
                // Called before any of the servers is started.
                (self.parts.learn_secrets)(state.secrets());
                pool.reconfigure(config);
                (version, Some(pool), ended)
            }
        };
        self.end(ended).await;
        let Some(pool) = pool else { return Ok(SessionServersReport { version, servers: Vec::new() }) };
        let user = ToolUser { session_id: Some(session), ..ToolUser::default() };
        pool.list_servers(&user, &names).await;
        let reports: BTreeMap<String, ServerReport> =
            pool.report().into_iter().map(|report| (report.name.clone(), report)).collect();
        let servers = names.iter().filter_map(|name| reports.get(name).cloned()).collect();
        Ok(SessionServersReport { version, servers })
    }

    /// Returns the servers of a session, if it has any.
    pub fn of(&self, session: SessionId) -> Option<Arc<McpPool>> {
        lock(&self.state).sessions.get(&session).map(|provided| Arc::clone(&provided.pool))
    }

    /// Stops the servers of a session. Returns after they have exited, with everything that they started.
    pub async fn remove(&self, session: SessionId) {
        let ended = lock(&self.state).sessions.remove(&session).map(|provided| provided.pool);
        self.end(ended.into_iter().collect()).await;
    }

    /// Stops all servers, and rejects new ones.
    pub async fn close(&self) {
        let ended = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.sessions.drain().map(|(_, provided)| provided.pool).collect()
        };
        self.end(ended).await;
    }

    fn pool(&self, environment: BTreeMap<String, String>) -> Arc<McpPool> {
        McpPool::new(PoolParts {
            config: Default::default(),
            catalogues: CatalogueFolder::new(PathBuf::new()),
            guard: self.parts.guard.clone(),
            logins: Logins::disabled(self.parts.routes.clone()),
            environment,
            clean: self.parts.clean.clone(),
            reserved: Box::new(|_| false),
            plugin_check: Default::default(),
            owner: PoolOwner::Session,
        })
    }

    /// Closes pools, then forgets their secrets.
    async fn end(&self, pools: EndedPools) {
        if pools.is_empty() {
            return;
        }
        join_all(pools.iter().map(|pool| pool.close())).await;
        let secrets = lock(&self.state).secrets();
        (self.parts.learn_secrets)(secrets);
    }
}

impl State {
    fn secrets(&self) -> Vec<String> {
        self.sessions.values().flat_map(|provided| provided.secrets.iter().cloned()).collect()
    }

    /// Removes the oldest sessions above the maximum.
    fn evict_oldest(&mut self) -> EndedPools {
        let mut ended = EndedPools::new();
        while self.sessions.len() > SESSIONS {
            let oldest = self.sessions.iter().min_by_key(|(_, provided)| provided.version).map(|(id, _)| *id);
            ended.extend(oldest.and_then(|id| self.sessions.remove(&id)).map(|provided| provided.pool));
        }
        ended
    }
}

/// Returns a number above all versions of previous runs.
fn first_version() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

/// Maximum number of servers of a session.
pub const MAX_SESSION_SERVERS: usize = 16;
/// Maximum size of all texts of a session's servers, in bytes.
pub const MAX_SESSION_SERVER_BYTES: usize = 128 * 1024;
/// Maximum length of a server's name, in characters.
pub const MAX_SERVER_NAME: usize = 100;

/// Maximum number of characters of a server's name in its tool names.
const MAX_NAME_PART: usize = 24;

/// Server that a client provides for one session.
#[derive(Debug, Clone)]
pub struct SessionServer {
    /// Client's name for the server.
    pub name: String,
    /// Program or URL. An empty working directory means the client's folder.
    pub address: ServerAddress,
}

/// Rejection of servers, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRefusal {
    /// Description of the problem.
    pub message: String,
    /// Suggested fix for the problem.
    pub hint: String,
}

impl ServerRefusal {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// Converts the servers to a configuration, and returns their names in it, in the same order. A server with an invalid
/// definition is marked as broken and does not affect others. Programs run in `folder` by default.
fn config(servers: &[SessionServer], folder: &Path) -> Result<(McpConfig, Vec<String>), ServerRefusal> {
    if servers.len() > MAX_SESSION_SERVERS {
        return Err(ServerRefusal::new(
            format!("the session provides {} MCP servers; at most {MAX_SESSION_SERVERS} are allowed", servers.len()),
            "provide only the servers that it needs",
        ));
    }
    let bytes: usize = servers.iter().flat_map(texts).map(str::len).sum();
    if bytes > MAX_SESSION_SERVER_BYTES {
        return Err(ServerRefusal::new(
            format!("the MCP servers have {bytes} bytes of text; at most {MAX_SESSION_SERVER_BYTES} are allowed"),
            "put long values into a file that the server reads",
        ));
    }
    let mut config = McpConfig::default();
    let mut names = Vec::new();
    for server in servers {
        let server_config = server_config(server, folder);
        let name = inner_name(&server.name, &server_config.fingerprint());
        match check(server) {
            Ok(()) => drop(config.servers.insert(name.clone(), server_config)),
            Err(reason) => drop(config.broken.insert(name.clone(), reason)),
        }
        names.push(name);
    }
    Ok((config, names))
}

/// Returns the name of a server inside agentd: the client's name and a hash of the definition. No configured server has
/// the same name, so permissions stay with this command or URL.
fn inner_name(name: &str, fingerprint: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let prefix: String = letters.take(MAX_NAME_PART).collect();
    let prefix = prefix.trim_matches('-');
    let prefix = if prefix.is_empty() { "server" } else { prefix };
    format!("{prefix}-{}", schema::mark(&format!("{name}\n{fingerprint}")))
}

/// Returns true if a tool belongs to a server provided by a client.
pub fn is_of_session_server(tool: &str) -> bool {
    let Some((server, _)) = tool.strip_prefix(schema::PREFIX).and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let mark = server.rsplit_once('-').map(|(_, mark)| mark);
    mark.is_some_and(|mark| mark.len() == schema::HASH_LENGTH && mark.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn check(server: &SessionServer) -> Result<(), String> {
    let SessionServer { name, address } = server;
    if name.trim().is_empty() || name.chars().count() > MAX_SERVER_NAME {
        return Err(format!("the name of an MCP server must have 1 to {MAX_SERVER_NAME} characters"));
    }
    let invalid = |reason: &str, hint: &str| Err(format!("it {reason}; {hint}"));
    if texts(server).any(|text| text.contains('\0') || variables::has_mark(text)) {
        return invalid("has a value with invalid characters", "omit them");
    }
    match address {
        ServerAddress::Stdio { command, env, cwd, .. } => {
            if command.trim().is_empty() {
                return invalid("has no command", "name a program, or the address of a remote server");
            }
            if env.keys().any(|name| name.is_empty() || name.contains('=')) {
                return invalid("has a variable without a name", "name variables as a shell does");
            }
            if !cwd.as_os_str().is_empty() && !cwd.is_absolute() {
                return invalid("has a relative folder path", "begin it with `/`, or omit it");
            }
        }
        ServerAddress::Http { url, headers, .. } => {
            let parsed = reqwest::Url::parse(&url.value).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            match parsed {
                None => return invalid("has no http or https address", "use one such as https://example.org/mcp"),
                Some(url) if !url.username().is_empty() || url.password().is_some() => {
                    return invalid("has a name or password in its address", "put a key into its headers");
                }
                Some(_) => {}
            }
            let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
            let is_name = |name: &String| !name.is_empty() && name.chars().all(is_token);
            if !headers.keys().all(is_name) || headers.values().any(|value| expose(value).contains(['\n', '\r'])) {
                return invalid("has an invalid header", "write valid HTTP headers, each on one line");
            }
        }
    }
    Ok(())
}

fn server_config(server: &SessionServer, folder: &Path) -> ServerConfig {
    let mut address = server.address.clone();
    if let ServerAddress::Stdio { cwd, .. } = &mut address
        && cwd.as_os_str().is_empty()
    {
        folder.clone_into(cwd);
    }
    ServerConfig::new(address)
}

/// Returns all texts of a server's definition.
fn texts(server: &SessionServer) -> impl Iterator<Item = &str> {
    let (target, args, pairs, cwd) = match &server.address {
        ServerAddress::Stdio { command, args, env, cwd } => (command, args.as_slice(), env, cwd.to_str()),
        ServerAddress::Http { url, headers, .. } => (&url.value, [].as_slice(), headers, None),
    };
    let args = std::iter::once(target.as_str()).chain(args.iter().map(|arg| arg.value.as_str()));
    let pairs = pairs.iter().flat_map(|(name, value)| [name.as_str(), expose(value)]);
    std::iter::once(server.name.as_str()).chain(args).chain(pairs).chain(cwd)
}

fn expose(secret: &SecretString) -> &str {
    secrecy::ExposeSecret::expose_secret(secret)
}

#[cfg(test)]
mod tests;
