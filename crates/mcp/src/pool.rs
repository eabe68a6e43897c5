//! Pool of all servers. Sessions share one connection to each server. A client whose environment would look different
//! to the server gets another connection.
//!
//! - `report`: state of the servers and logins, and listing of servers that were never reached.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{
    ids::SessionId,
    mutex::lock,
    ports::{ToolContext, ToolUser},
};
use futures_util::future::join_all;

mod report;

pub use self::report::ServerReport;
use self::report::{Listing, ListingKey, MAX_CONCURRENT_LISTINGS};
use crate::{
    catalogue::{Catalogue, CatalogueFolder},
    config::{McpConfig, PluginCheck, ServerAddress, ServerConfig},
    connections::{Connections, Key, MAX_CONNECTIONS},
    log::Log,
    login::Logins,
    published_tools::{PublishedTools, publish},
    reason::{Reason, SecretFilter},
    server::{
        actor::{ConnectionLease, Need, ServerHandle},
        connect::{ConnectionParams, Era, ServerDeps},
    },
    variables::{ClientValues, is_place, is_project},
};

/// Dependencies of the pool.
pub struct PoolParts {
    /// Configuration of all servers.
    pub config: McpConfig,
    /// Storage of the servers' catalogues.
    pub catalogues: CatalogueFolder,
    /// Program that is started as a server's guard.
    pub guard: PathBuf,
    /// Storage of tokens for HTTP servers.
    pub logins: Logins,
    /// Environment of servers if the client sends none.
    pub environment: BTreeMap<String, String>,
    /// Removes secrets from text sent by servers.
    pub clean: SecretFilter,
    /// Returns true if a tool name is reserved.
    pub reserved: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Check that runs before a plugin's server is started.
    pub plugin_check: PluginCheck,
    /// Owner of the servers.
    pub owner: PoolOwner,
}

/// Owner of the servers in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolOwner {
    /// All sessions. Servers get the environment of the calling client, and their catalogues are stored on disk.
    Daemon,
    /// One session. Servers get the environment of the client that provided them, and nothing is stored on disk.
    Session,
}

impl PoolOwner {
    /// Returns the last known catalogues of these servers. Blocks.
    fn stored<'a>(
        self,
        catalogues: &CatalogueFolder,
        servers: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<String, Arc<Catalogue>> {
        let stored = if self == Self::Daemon { catalogues.read(servers) } else { BTreeMap::new() };
        stored.into_iter().map(|(name, catalogue)| (name, Arc::new(catalogue))).collect()
    }
}

/// Pool of MCP servers.
pub struct McpPool {
    state: Mutex<State>,
    catalogues: CatalogueFolder,
    environment: BTreeMap<String, String>,
    reserved: Box<dyn Fn(&str) -> bool + Send + Sync>,
    deps: Arc<ServerDeps>,
    owner: PoolOwner,
    /// Limits the number of concurrent listings.
    listing_permits: tokio::sync::Semaphore,
    /// Notified when a listing has succeeded or failed.
    listed: tokio::sync::Notify,
    /// True once servers may be started without a call. Before that, such a start would delay daemon startup.
    is_open: AtomicBool,
    /// True if some servers may never have been listed.
    may_have_unlisted: AtomicBool,
    /// Serialises writes of catalogues.
    write_lock: Mutex<()>,
}

struct State {
    config: Arc<McpConfig>,
    connections: Connections,
    /// Last session that made a call, for servers that are started without a session.
    last_user: ToolUser,
    /// Variable values from clients.
    client_values: ClientValues,
    /// Recent logs of servers, including stopped ones.
    logs: BTreeMap<String, Arc<Log>>,
    known: BTreeMap<String, Arc<Catalogue>>,
    /// Incremented when the configuration or a catalogue changes.
    version: u64,
    published: Arc<PublishedTools>,
    /// Background listings, by the server's configuration at that time.
    listings: HashMap<ListingKey, Listing>,
    closed: bool,
}

impl McpPool {
    /// Creates a pool without running servers. Reads the stored catalogues, so it blocks.
    pub fn new(parts: PoolParts) -> Arc<Self> {
        let PoolParts { config, catalogues, guard, logins, environment, clean, reserved, plugin_check, owner } = parts;
        let logins = Arc::new(logins);
        let known = owner.stored(&catalogues, config.enabled().map(|(name, _)| name));
        let published = Arc::new(publish(&config, &known, &*reserved));
        Arc::new_cyclic(|pool: &Weak<Self>| {
            let pool = pool.clone();
            let learn = move |server: &str, catalogue| {
                if let Some(pool) = pool.upgrade() {
                    pool.learn(server, catalogue);
                }
            };
            Self {
                state: Mutex::new(State {
                    config: Arc::new(config),
                    connections: Connections::default(),
                    last_user: ToolUser::default(),
                    client_values: ClientValues::default(),
                    logs: BTreeMap::new(),
                    known,
                    version: 0,
                    published,
                    listings: HashMap::new(),
                    closed: false,
                }),
                catalogues,
                environment,
                reserved,
                deps: Arc::new(ServerDeps { guard, logins, clean, learn: Box::new(learn), plugin_check }),
                owner,
                listing_permits: tokio::sync::Semaphore::new(MAX_CONCURRENT_LISTINGS),
                listed: tokio::sync::Notify::new(),
                is_open: AtomicBool::new(owner == PoolOwner::Session),
                may_have_unlisted: AtomicBool::new(true),
                write_lock: Mutex::default(),
            }
        })
    }

    /// Returns the tools currently offered to models.
    pub fn published(&self) -> Arc<PublishedTools> {
        Arc::clone(&lock(&self.state).published)
    }

    /// Allows servers to be started without a call, and starts the eager ones in the background. Until then, no server
    /// is started without a call, so that daemon startup is not delayed.
    pub fn open(self: &Arc<Self>) {
        self.is_open.store(true, Ordering::Release);
        let config = Arc::clone(&lock(&self.state).config);
        let can_start = |server: &ServerConfig| server.eager && !server.needs_project();
        let eager = config.enabled().filter(|(_, server)| can_start(server)).map(|(name, _)| name.to_owned());
        self.start_in_background(eager.collect(), Need::Call, &ToolUser::default());
    }

    /// Returns a connection to the server with this fingerprint, for a client with this environment. Starts the server
    /// if it is not running.
    pub(crate) async fn lease(
        &self,
        server: &str,
        fingerprint: &str,
        context: &ToolContext,
    ) -> Result<ConnectionLease, Reason> {
        let user = ToolUser {
            session_id: Some(context.session_id),
            environment: Some(Arc::clone(&context.environment)),
            project: context.workspace.project.as_ref().map(|mount| mount.path.clone()),
        };
        self.handle(server, &user, Some(fingerprint))?.lease(Need::Call).await
    }

    /// Returns the variables in the configuration that the daemon's environment lacks, so that clients must provide
    /// them.
    pub fn variables(&self) -> Vec<String> {
        let state = lock(&self.state);
        let all: BTreeSet<String> = state.config.enabled().flat_map(|(_, server)| server.variables()).collect();
        all.into_iter().filter(|name| !is_place(name)).collect()
    }

    /// Stores variable values from a client, for its session if that is known. Only variables in the configuration are
    /// stored, and only in memory. Returns all stored values, so that logs can hide them.
    pub fn set_client_values(
        &self,
        session: Option<SessionId>,
        values: impl IntoIterator<Item = (String, String)>,
    ) -> Vec<String> {
        let named = self.variables();
        let values = values.into_iter().filter(|(name, _)| named.contains(name));
        let mut state = lock(&self.state);
        state.client_values.set_client_values(session, values);
        state.client_values.secrets().map(str::to_owned).collect()
    }

    /// Returns the configuration of an enabled server.
    pub(crate) fn config_of(&self, server: &str) -> Option<ServerConfig> {
        lock(&self.state).config.servers.get(server).filter(|server| server.enabled).cloned()
    }

    /// Returns the recent log of a server.
    pub fn log(&self, server: &str) -> Option<Arc<Log>> {
        let mut state = lock(&self.state);
        state.config.servers.contains_key(server).then(|| state.log(server, &self.deps.clean))
    }

    /// Starts a server for this project immediately, even if it has failed and would have to wait. Returns its report.
    ///
    /// # Errors
    /// Fails if there is no such server, or it cannot be started.
    pub async fn start(&self, server: &str, project: Option<PathBuf>) -> Result<ServerReport, Reason> {
        let user = ToolUser { project, ..ToolUser::default() };
        let lease = self.handle(server, &user, None)?.lease(Need::Person).await?;
        drop(lease);
        self.report_of(server).ok_or_else(|| Reason::new(unknown(server)))
    }

    /// Stops a server with all its connections. The next call starts it again.
    ///
    /// # Errors
    /// Fails if there is no such server.
    pub async fn stop(&self, server: &str) -> Result<(), String> {
        let handles = {
            let mut state = lock(&self.state);
            if state.config.broken.contains_key(server) {
                return Ok(());
            }
            if !state.config.servers.contains_key(server) {
                return Err(unknown(server));
            }
            state.connections.remove_servers(|name| name == server)
        };
        join_all(handles.iter().map(ServerHandle::stop)).await;
        Ok(())
    }

    /// Applies a new configuration. Changed and removed servers are stopped in the background.
    pub fn reconfigure(self: &Arc<Self>, config: McpConfig) {
        let new = Arc::new(config);
        let unknown: Vec<&str> = {
            let state = lock(&self.state);
            new.enabled().map(|(name, _)| name).filter(|name| !state.known.contains_key(*name)).collect()
        };
        let read = self.owner.stored(&self.catalogues, unknown.into_iter());
        let ended = {
            let mut state = lock(&self.state);
            let old = std::mem::replace(&mut state.config, Arc::clone(&new));
            let is_unchanged = |name: &str| match (old.servers.get(name), new.servers.get(name)) {
                (Some(old), Some(new)) => {
                    let settings = |server: &ServerConfig| (server.start_timeout, server.idle_stop, server.eager);
                    new.enabled && old.is_same_server(new) && settings(old) == settings(new)
                }
                _ => false,
            };
            for (name, catalogue) in read {
                state.known.entry(name).or_insert(catalogue);
            }
            state.version += 1;
            state.logs.retain(|name, _| new.servers.contains_key(name));
            // A reload retries failed listings, because the user may have fixed the servers.
            state.listings.retain(|_, listing| listing.failed.is_none());
            state.connections.remove_servers(|name| !is_unchanged(name))
        };
        self.republish();
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            join_all(ended.iter().map(ServerHandle::stop)).await;
            pool.may_have_unlisted.store(true, Ordering::Release);
            if pool.is_open.load(Ordering::Acquire) {
                pool.open();
                // The next turn should have the tools of newly configured servers.
                pool.list_missing();
            }
        });
    }

    /// Stops all servers permanently.
    pub async fn close(&self) {
        let handles = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.connections.remove_servers(|_| true)
        };
        join_all(handles.iter().map(ServerHandle::stop)).await;
    }

    /// Returns a connection to a server, for a session or without one. `offered_as` is the server's fingerprint when
    /// its tool was offered, or `None` if no tool is called.
    fn handle(&self, server: &str, user: &ToolUser, offered_as: Option<&str>) -> Result<ServerHandle, Reason> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(Reason::new("agentd is stopping"));
        }
        if let Some(reason) = state.config.broken.get(server) {
            return Err(Reason::new(reason));
        }
        let Some(config) = state.config.servers.get(server).cloned() else {
            return Err(Reason::new(unknown(server)));
        };
        if !config.enabled {
            return Err(Reason::new(format!(
                "the MCP server {server} is not enabled; set `enabled: true` in mcp_servers.yaml"
            )));
        }
        let fingerprint = config.fingerprint();
        if offered_as.is_some_and(|offered| offered != fingerprint) {
            return Err(Reason::new("it changed in mcp_servers.yaml since its tool was offered"));
        }
        if user.environment.is_some() {
            state.last_user = user.clone();
        }
        let values = self.values(&state, &config, user);
        let config = config.filled(&values).map_err(|name| Reason::new(missing(&name)))?;
        let is_called = offered_as.is_some();
        // HTTP servers do not get the environment.
        let is_program = matches!(config.address, ServerAddress::Stdio { .. });
        let environment = if is_program { self.environment_of(&state, user) } else { BTreeMap::new() };
        let key = Key { server: server.to_owned(), environment, variables: values };
        if let Some(handle) = state.connections.get(&key, is_called) {
            return Ok(handle);
        }
        let Some(ended) = state.connections.evict(server, is_called) else {
            return Err(Reason::new(format!(
                "{MAX_CONNECTIONS} processes of the MCP server {server} are already busy, each for clients with another \
                 environment; `agentctl mcp stop {server}` stops them"
            )));
        };
        let known = state.known.get(server).filter(|known| known.fingerprint == fingerprint);
        let era = known.map_or_else(Era::default, |known| Era::of(&known.protocol));
        let handle = ServerHandle::spawn(ConnectionParams {
            name: server.to_owned(),
            fingerprint,
            era,
            config: Arc::new(config),
            environment: Arc::new(key.environment.clone()),
            deps: Arc::clone(&self.deps),
            log: state.log(server, &self.deps.clean),
        });
        state.connections.add(key, handle.clone(), is_called);
        if !ended.is_empty() {
            tokio::spawn(async move { join_all(ended.iter().map(ServerHandle::stop)).await });
        }
        Ok(handle)
    }

    /// Returns the values of a server's variables: those of the session's client, otherwise of any client, and the
    /// folders. A server started without a session gets the values of the last session. In a session without a project,
    /// the project variable has no value.
    fn values(&self, state: &State, server: &ServerConfig, user: &ToolUser) -> BTreeMap<String, String> {
        let names = server.variables();
        let mut values = state.client_values.values(user.session_id, &names);
        let is_unattended = user.session_id.is_none() && user.project.is_none();
        let user = if is_unattended { &state.last_user } else { user };
        let client = user.environment.as_ref().and_then(|client| client.folder()).map(PathBuf::from);
        let home = || PathBuf::from(self.environment.get("HOME").map_or("/", String::as_str));
        for name in names.into_iter().filter(|name| is_place(name)) {
            let project = user.project.clone();
            let folder = if is_project(&name) { project } else { client.clone().or(project).or_else(|| Some(home())) };
            values.extend(folder.map(|folder| (name, folder.to_string_lossy().into_owned())));
        }
        values
    }

    /// Returns the environment for a program: that of the calling client, or of the last client, on top of the
    /// daemon's.
    fn environment_of(&self, state: &State, user: &ToolUser) -> BTreeMap<String, String> {
        let mut environment = self.environment.clone();
        let client = user.environment.as_ref().or(state.last_user.environment.as_ref());
        if let Some(client) = client.filter(|_| self.owner == PoolOwner::Daemon) {
            environment.extend(client.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        environment
    }

    /// Stores a new catalogue of a server.
    fn learn(self: &Arc<Self>, server: &str, catalogue: Catalogue) {
        {
            let mut state = lock(&self.state);
            if state.known.get(server).is_some_and(|known| **known == catalogue) {
                return;
            }
            state.known.insert(server.to_owned(), Arc::new(catalogue));
            state.version += 1;
        }
        self.republish();
        self.listed.notify_waiters();
        if self.owner == PoolOwner::Session {
            return;
        }
        let (pool, server) = (Arc::clone(self), server.to_owned());
        tokio::task::spawn_blocking(move || pool.store(&server));
    }

    /// Recomputes the tools for models. Readers use the previous ones until the new ones are ready.
    fn republish(&self) {
        loop {
            let (config, known, version) = {
                let state = lock(&self.state);
                (Arc::clone(&state.config), state.known.clone(), state.version)
            };
            let published = Arc::new(publish(&config, &known, &*self.reserved));
            let mut state = lock(&self.state);
            if state.version == version {
                state.published = published;
                return;
            }
        }
    }

    /// Stores the current catalogue of a server on the disk. Blocks.
    fn store(&self, server: &str) {
        let _one_at_a_time = lock(&self.write_lock);
        let Some(catalogue) = lock(&self.state).known.get(server).cloned() else { return };
        if let Err(error) = self.catalogues.store(server, &catalogue) {
            tracing::warn!(server, "could not store the MCP server's catalogue: {error}");
        }
    }
}

impl State {
    fn log(&mut self, server: &str, clean: &SecretFilter) -> Arc<Log> {
        Arc::clone(self.logs.entry(server.to_owned()).or_insert_with(|| Arc::new(Log::new(clean.clone()))))
    }
}

fn missing(variable: &str) -> String {
    if is_place(variable) {
        return format!(
            "its entry in mcp_servers.yaml names the project (`${{{variable}}}`), but the session has none; use `-C FOLDER`"
        );
    }
    format!(
        "the variable {variable}, which mcp_servers.yaml names, is not set for agentd or the client of the turn; \
         export it where agentctl is run"
    )
}

fn unknown(server: &str) -> String {
    format!("no such MCP server: {server}; `agentctl mcp list` shows them")
}
