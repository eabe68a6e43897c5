//! Servers that a client brings for one session. They run for that session only, by the rules of the daemon's own servers: behind
//! a guard, in a clean environment, stopped when nobody calls them. Their definitions hold secrets, so they are kept in memory
//! and nowhere else: after a restart of the daemon the client brings them again.
//!
//! - `definition`: a server as a client describes it, and the limits.

mod definition;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{environment::ClientEnvironment, ids::SessionId, ports::ToolUser, route::Routes};
use futures_util::future::join_all;

pub use self::definition::{
    MAX_SERVER_NAME, MAX_SESSION_SERVER_BYTES, MAX_SESSION_SERVERS, ServerRefusal, SessionServer, is_of_session_server,
};
use crate::{
    catalogue::CatalogueFolder,
    login::Logins,
    pool::{McpPool, PoolOwner, PoolParts, ServerReport},
    reason::Clean,
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
        let (config, names) = definition::config(servers, client.folder().unwrap_or(Path::new(home)))?;
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

#[cfg(test)]
mod tests;
