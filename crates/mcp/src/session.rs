//! Servers that a client brings for one session. They run for that session only, by the rules of the daemon's own servers: behind
//! a guard, in a clean environment, stopped when nobody calls them. Their definitions hold secrets, so they are kept in memory
//! and nowhere else: after a restart of the daemon the client brings them again. They are checked before anything of them is kept,
//! and their texts are taken literally: there are no variables in them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{environment::ClientEnvironment, ids::SessionId, ports::ToolUser, route::Routes};
use futures_util::future::join_all;
use secrecy::SecretString;

use crate::{
    catalogue::CatalogueFolder,
    config::{McpConfig, ServerAddress, ServerConfig},
    login::Logins,
    pool::{McpPool, PoolOwner, PoolParts, ServerReport},
    reason::Clean,
    schema, variables,
};

/// Sessions that have servers at the same time. Beyond it the servers of the session end whose client brought them longest ago.
const SESSIONS: usize = 256;

/// Dependencies of servers of sessions.
pub struct SessionServersParts {
    /// The program that becomes the guard of a server.
    pub guard: PathBuf,
    /// Environment that all servers see; what the client passes is added.
    pub environment: BTreeMap<String, String>,
    /// Routes to servers behind an address.
    pub routes: Routes,
    /// Takes secrets out of what servers say.
    pub clean: Clean,
    /// Told all secrets of all servers that there are, before any of them is started.
    pub learn_secrets: Box<dyn Fn(Vec<String>) + Send + Sync>,
}

/// The servers of all sessions.
pub struct SessionServers {
    parts: SessionServersParts,
    state: Mutex<State>,
}

struct State {
    sessions: HashMap<SessionId, BroughtServers>,
    /// Counts what was brought; it begins with the time, so that no number of an earlier life of the daemon comes again.
    last_version: u64,
    closed: bool,
}

/// Servers that a client brought.
struct BroughtServers {
    pool: Arc<McpPool>,
    environment: BTreeMap<String, String>,
    version: u64,
    secrets: Vec<String>,
}

/// The servers of a session, as a client is told of them.
#[derive(Debug)]
pub struct SessionServersReport {
    /// Names what was brought, to replace it and nothing newer.
    pub version: u64,
    /// The servers, in the order in which they were brought.
    pub servers: Vec<ServerReport>,
}

/// Old pools that have to end.
type EndedPools = Vec<Arc<McpPool>>;

impl SessionServers {
    /// No servers yet.
    pub fn new(parts: SessionServersParts) -> Self {
        let state = State { sessions: HashMap::new(), last_version: first_version(), closed: false };
        Self { parts, state: Mutex::new(state) }
    }

    /// Gives a session these servers, in place of those that it has; none ends them. Servers that stay the same keep running. New
    /// ones are started and say what they offer. Returns when they have, or after a few seconds; one that is broken is told of
    /// and harms nothing.
    ///
    /// With `replaces`, nothing is done unless the session still has what that version named.
    ///
    /// # Errors
    /// There are too many, or too much of them: then all is as it was.
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
            let mut state = self.state();
            if state.closed {
                return Err(ServerRefusal::new("agentd is stopping", "try again when it runs"));
            }
            let known = state.sessions.get(&session).map(|brought| brought.version);
            if let Some(expected) = replaces
                && known != Some(expected)
            {
                return Ok(SessionServersReport { version: known.unwrap_or_default(), servers: Vec::new() });
            }
            state.last_version += 1;
            let version = state.last_version;
            let mut ended = EndedPools::new();
            let before = state.sessions.remove(&session);
            if names.is_empty() {
                ended.extend(before.map(|brought| brought.pool));
                (version, None, ended)
            } else {
                let pool = match before {
                    Some(brought) if brought.environment == environment => brought.pool,
                    other => {
                        ended.extend(other.map(|brought| brought.pool));
                        self.pool(environment.clone())
                    }
                };
                let brought = BroughtServers { pool: Arc::clone(&pool), environment, version, secrets };
                state.sessions.insert(session, brought);
                ended.extend(state.make_room());
                // Before any of them runs.
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

    /// The servers of a session, if it has any.
    pub fn of(&self, session: SessionId) -> Option<Arc<McpPool>> {
        self.state().sessions.get(&session).map(|brought| Arc::clone(&brought.pool))
    }

    /// Ends the servers of a session. They are gone when this returns, with all that they started.
    pub async fn remove(&self, session: SessionId) {
        let ended = self.state().sessions.remove(&session).map(|brought| brought.pool);
        self.end(ended.into_iter().collect()).await;
    }

    /// Ends all servers, and takes none any more.
    pub async fn close(&self) {
        let ended = {
            let mut state = self.state();
            state.closed = true;
            state.sessions.drain().map(|(_, brought)| brought.pool).collect()
        };
        self.end(ended).await;
    }

    fn pool(&self, environment: BTreeMap<String, String>) -> Arc<McpPool> {
        McpPool::new(PoolParts {
            config: Default::default(),
            catalogues: CatalogueFolder::new(PathBuf::new()),
            guard: self.parts.guard.clone(),
            logins: Logins::none(self.parts.routes.clone()),
            environment,
            clean: self.parts.clean.clone(),
            reserved: Box::new(|_| false),
            plugin_check: Default::default(),
            owner: PoolOwner::Session,
        })
    }

    /// Ends pools, and forgets their secrets when nothing of them speaks any more.
    async fn end(&self, pools: EndedPools) {
        if pools.is_empty() {
            return;
        }
        join_all(pools.iter().map(|pool| pool.close())).await;
        let secrets = self.state().secrets();
        (self.parts.learn_secrets)(secrets);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn secrets(&self) -> Vec<String> {
        self.sessions.values().flat_map(|brought| brought.secrets.iter().cloned()).collect()
    }

    /// Takes out sessions until there is room for all that are left.
    fn make_room(&mut self) -> EndedPools {
        let mut ended = EndedPools::new();
        while self.sessions.len() > SESSIONS {
            let oldest = self.sessions.iter().min_by_key(|(_, brought)| brought.version).map(|(id, _)| *id);
            ended.extend(oldest.and_then(|id| self.sessions.remove(&id)).map(|brought| brought.pool));
        }
        ended
    }
}

/// A number above all that an earlier life of the daemon counted to.
fn first_version() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

/// Servers of one session.
pub const MAX_SESSION_SERVERS: usize = 16;
/// Bytes of all texts of a session's servers.
pub const MAX_SESSION_SERVER_BYTES: usize = 128 * 1024;
/// Characters of a server's name.
pub const MAX_SERVER_NAME: usize = 100;

/// Characters of a server's name that the names of its tools begin with.
const PART_OF_NAME: usize = 24;

/// A server that a client brings for one session.
#[derive(Debug, Clone)]
pub struct SessionServer {
    /// The client's name for it.
    pub name: String,
    /// The way to reach it. An empty working folder stands for that of the client.
    pub address: ServerAddress,
}

/// Refusal of servers: the problem, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRefusal {
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

impl ServerRefusal {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// The servers as a configuration, and the names that they have in it, in the order of the list. One whose definition makes no
/// sense is broken and does not touch the others. Programs run in `folder` where they name none.
fn config(servers: &[SessionServer], folder: &Path) -> Result<(McpConfig, Vec<String>), ServerRefusal> {
    if servers.len() > MAX_SESSION_SERVERS {
        return Err(ServerRefusal::new(
            format!("{} MCP servers are brought for the session; {MAX_SESSION_SERVERS} are allowed", servers.len()),
            "bring those that the session needs",
        ));
    }
    let bytes: usize = servers.iter().flat_map(texts).map(str::len).sum();
    if bytes > MAX_SESSION_SERVER_BYTES {
        return Err(ServerRefusal::new(
            format!("the MCP servers have {bytes} bytes of text; {MAX_SESSION_SERVER_BYTES} are allowed"),
            "put what is long into a file that the server reads",
        ));
    }
    let mut config = McpConfig::default();
    let mut names = Vec::new();
    for server in servers {
        let known = server_config(server, folder);
        let name = inner_name(&server.name, &known.fingerprint());
        match check(server) {
            Ok(()) => drop(config.servers.insert(name.clone(), known)),
            Err(why) => drop(config.broken.insert(name.clone(), why)),
        }
        names.push(name);
    }
    Ok((config, names))
}

/// The name of a server inside of agentd: the client's, with a mark of what it is. No server of the configuration has its tools,
/// and what a person allows it stays with this command or address.
fn inner_name(name: &str, fingerprint: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let begun: String = letters.take(PART_OF_NAME).collect();
    let begun = begun.trim_matches('-');
    let begun = if begun.is_empty() { "server" } else { begun };
    format!("{begun}-{}", schema::mark(&format!("{name}\n{fingerprint}")))
}

/// Returns whether a tool's name is one of a tool of a server that some client brought.
pub fn is_of_session_server(tool: &str) -> bool {
    let Some((server, _)) = tool.strip_prefix(schema::PREFIX).and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let mark = server.rsplit_once('-').map(|(_, mark)| mark);
    mark.is_some_and(|mark| mark.len() == schema::MARK && mark.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn check(server: &SessionServer) -> Result<(), String> {
    let SessionServer { name, address } = server;
    if name.trim().is_empty() || name.chars().count() > MAX_SERVER_NAME {
        return Err(format!("a name of an MCP server has 1 to {MAX_SERVER_NAME} characters"));
    }
    let wrong = |why: &str, hint: &str| Err(format!("it {why}; {hint}"));
    if texts(server).any(|text| text.contains('\0') || variables::has_mark(text)) {
        return wrong("has a text with characters that no program takes", "leave them out");
    }
    match address {
        ServerAddress::Stdio { command, env, cwd, .. } => {
            if command.trim().is_empty() {
                return wrong("has no command", "name a program, or the address of a server that has one");
            }
            if env.keys().any(|name| name.is_empty() || name.contains('=')) {
                return wrong("has a variable without a name", "name variables as a shell does");
            }
            if !cwd.as_os_str().is_empty() && !cwd.is_absolute() {
                return wrong("has a folder that is no absolute path", "begin it with `/`, or leave it out");
            }
        }
        ServerAddress::Http { url, headers, .. } => {
            let parsed = reqwest::Url::parse(&url.value).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            match parsed {
                None => return wrong("has no address of http or https", "write one such as https://example.org/mcp"),
                Some(url) if !url.username().is_empty() || url.password().is_some() => {
                    return wrong("has a name or a password in its address", "put a key into its headers");
                }
                Some(_) => {}
            }
            let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
            let named = |name: &String| !name.is_empty() && name.chars().all(is_token);
            if !headers.keys().all(named) || headers.values().any(|value| plain(value).contains(['\n', '\r'])) {
                return wrong("has a header that cannot be sent", "write headers as HTTP has them, each on one line");
            }
        }
    }
    Ok(())
}

fn server_config(server: &SessionServer, folder: &Path) -> ServerConfig {
    let mut reached = server.address.clone();
    if let ServerAddress::Stdio { cwd, .. } = &mut reached
        && cwd.as_os_str().is_empty()
    {
        folder.clone_into(cwd);
    }
    ServerConfig::new(reached)
}

/// Everything that the client wrote of a server.
fn texts(server: &SessionServer) -> impl Iterator<Item = &str> {
    let (word, args, pairs, cwd) = match &server.address {
        ServerAddress::Stdio { command, args, env, cwd } => (command, args.as_slice(), env, cwd.to_str()),
        ServerAddress::Http { url, headers, .. } => (&url.value, [].as_slice(), headers, None),
    };
    let words = std::iter::once(word.as_str()).chain(args.iter().map(|arg| arg.value.as_str()));
    let pairs = pairs.iter().flat_map(|(name, value)| [name.as_str(), plain(value)]);
    std::iter::once(server.name.as_str()).chain(words).chain(pairs).chain(cwd)
}

fn plain(secret: &SecretString) -> &str {
    secrecy::ExposeSecret::expose_secret(secret)
}

#[cfg(test)]
mod tests;
