//! Reports on servers, logins to HTTP servers, and background listing of servers that were never reached.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use agentd_core::{catalogue::UnlistedServer, mutex::lock, ports::ToolUser};
use futures_util::future::join_all;
use tokio::time::sleep_until;

use crate::{
    config::{ServerAddress, ServerConfig},
    login::{Refusal, ServerUrl},
    pool::{McpPool, State, missing, unknown},
    reason::{Reason, span},
    server::actor::{Health, Need, ServerHandle},
    variables::is_place,
};

/// Report on a server.
#[derive(Debug, Clone, Default)]
pub struct ServerReport {
    /// Name of the server.
    pub name: String,
    /// Configuration, or `None` if the entry is invalid.
    pub config: Option<ServerConfig>,
    /// Health of the server's best connection.
    pub health: Health,
    /// Number of running connections.
    pub connections: usize,
    /// Name and version reported by the server; empty if the server was never reached.
    pub says_it_is: String,
    /// Protocol version; empty if the server was never reached.
    pub protocol: String,
    /// Names of the server's tools for models, or `None` if the server was never reached.
    pub tools: Option<Vec<String>>,
    /// Notes about deviations from the configuration.
    pub notes: Vec<String>,
}

impl McpPool {
    /// Reports on all servers, sorted by name.
    pub fn report(&self) -> Vec<ServerReport> {
        let config = Arc::clone(&lock(&self.state).config);
        let names: BTreeSet<&String> = config.servers.keys().chain(config.broken.keys()).collect();
        names.into_iter().filter_map(|name| self.report_of(name)).collect()
    }

    pub(super) fn report_of(&self, server: &str) -> Option<ServerReport> {
        let state = lock(&self.state);
        if let Some(reason) = state.config.broken.get(server) {
            let health = Health::Down { why: Reason::new(reason), until: None };
            return Some(ServerReport { name: server.to_owned(), health, ..ServerReport::default() });
        }
        let config = state.config.servers.get(server)?.clone();
        let connections = state.connections.health(server);
        let known = state.known.get(server).filter(|known| known.fingerprint == config.fingerprint());
        let published = &state.published;
        let mut tools: Vec<String> =
            published.routes.iter().filter(|(_, route)| route.server == server).map(|(name, _)| name.clone()).collect();
        tools.sort();
        let notes = published.notes.iter().filter(|(of, _)| of == server).map(|(_, note)| note.clone());
        let unset = config.missing(&state.client_values.values(None, &config.variables()));
        let missing = unset.iter().filter(|name| !is_place(name)).map(|name| missing(name));
        let of_plugin = config.plugin.as_ref().map(|plugin| format!("it came with the plugin {plugin}"));
        Some(ServerReport {
            name: server.to_owned(),
            health: connections.iter().max_by_key(|health| health_rank(health)).cloned().unwrap_or_default(),
            connections: connections.iter().filter(|health| matches!(health, Health::Running(_))).count(),
            says_it_is: known.map(|known| known.says_it_is.clone()).unwrap_or_default(),
            protocol: known.map(|known| known.protocol.clone()).unwrap_or_default(),
            tools: known.map(|_| tools),
            notes: of_plugin.into_iter().chain(notes).chain(missing).collect(),
            config: Some(config),
        })
    }

    /// Starts a login to an HTTP server. Returns the URL that the user has to open. The answer sent to `redirect`
    /// completes it.
    ///
    /// # Errors
    /// Fails if the server is a local program, or the login cannot be started.
    pub async fn begin_login(&self, server: &str, redirect: &str) -> Result<String, String> {
        // Uses the most recent variable values.
        let config = {
            let state = lock(&self.state);
            let config = state.config.servers.get(server).ok_or_else(|| unknown(server))?;
            config.filled(&state.client_values.values(None, &config.variables())).map_err(|name| missing(&name))?
        };
        let (url, client) = match config.address {
            ServerAddress::Http { url, client, .. } => (url.value, client),
            ServerAddress::Stdio { .. } => return Err(format!("{server} is a local program, and needs no login")),
        };
        // Only the response to a request names the authorisation server and the required scopes. Starting the server
        // stores both as a side effect.
        let _ = self.start(server, None).await;
        let login_url =
            self.deps.logins.begin(ServerUrl { server, url: &url, client: client.as_ref() }, redirect).await;
        login_url.map_err(|reason| self.deps.clean.redact(&reason))
    }

    /// Completes a login with the URL that the browser was redirected to. The next call uses the token.
    ///
    /// # Errors
    /// Fails if no login was started, or it was rejected.
    pub async fn finish_login(&self, server: &str, callback_url: &str) -> Result<(), String> {
        let finished = self.deps.logins.finish(server, callback_url).await;
        finished.map_err(|reason| self.deps.clean.redact(&reason))?;
        self.stop(server).await
    }

    /// Handles an authorisation error from a server. The required scopes are stored for the next login. Returns a
    /// reason with a suggestion.
    pub(crate) fn refused(&self, server: &str, config: &ServerConfig, refusal: &Refusal) -> Reason {
        match &config.address {
            ServerAddress::Http { url, client, .. } => {
                let server_url = ServerUrl { server, url: &url.value, client: client.as_ref() };
                self.deps.logins.refused(server_url, refusal, &self.deps.clean)
            }
            ServerAddress::Stdio { .. } => Reason::new("no answer"),
        }
    }
}

fn health_rank(health: &Health) -> u8 {
    match health {
        Health::Stopped => 0,
        Health::Down { .. } => 1,
        Health::Starting => 2,
        Health::Running(_) => 3,
    }
}

/// Maximum number of concurrent background listings.
pub(super) const MAX_CONCURRENT_LISTINGS: usize = 16;

/// Delay before a failed listing is retried.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Server name, fingerprint and values of its variables. A server that fails in one project may work in another.
pub(super) type ListingKey = (String, String, BTreeMap<String, String>);

/// Background listing of a server.
pub(super) struct Listing {
    started_at: Instant,
    /// Reason for the last failure, also set while the listing is retried.
    pub(super) failed: Option<Reason>,
}

impl McpPool {
    /// Lists servers that were never reached, in the background, and returns immediately. Failed listings are retried
    /// after a delay; servers that need a variable are retried when a client provides it. Servers are stopped after
    /// listing, unless they are called.
    pub fn list_missing(self: &Arc<Self>) {
        if self.is_open.load(Ordering::Acquire) && self.may_have_unlisted.swap(false, Ordering::AcqRel) {
            self.start_listings(&ToolUser::default(), |_| true);
        }
    }

    /// Lists the named servers that were never reached, for a session. Waits up to the configured limit, which starts
    /// with the request to each server. Late servers continue in the background, and failed ones are not waited for.
    /// Returns servers whose tools are still unknown, or that cannot be started for this session.
    pub async fn list_servers(self: &Arc<Self>, user: &ToolUser, names: &[String]) -> Vec<UnlistedServer> {
        self.start_listings(user, |name| names.iter().any(|wanted| wanted == name));
        loop {
            let listed = self.listed.notified();
            tokio::pin!(listed);
            listed.as_mut().enable();
            let (unlisted_servers, deadline) = self.unlisted_servers(user, names);
            let Some(deadline) = deadline else { return unlisted_servers };
            tokio::select! {
                () = listed => {}
                () = sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Returns the servers whose tools are unknown or that cannot be started, and the deadline for waiting for any of
    /// them.
    fn unlisted_servers(&self, user: &ToolUser, names: &[String]) -> (Vec<UnlistedServer>, Option<Instant>) {
        let state = lock(&self.state);
        let limit = state.config.listing_wait;
        let (mut unlisted_servers, mut deadline) = (Vec::new(), None::<Instant>);
        for card in state.published.servers.iter().filter(|card| names.contains(&card.name)) {
            let Some(server) = state.config.servers.get(&card.name) else { continue };
            let values = self.values(&state, server, user);
            let unset = server.missing(&values);
            let listing = state.listings.get(&(card.name.clone(), server.fingerprint(), values));
            if !card.is_unlisted && unset.is_empty() {
                continue;
            }
            let late = listing.filter(|listing| listing.failed.is_none() && unset.is_empty());
            let reason = match (unset.first(), listing.and_then(|listing| listing.failed.as_ref())) {
                (Some(variable), _) => missing(variable),
                (None, Some(reason)) => reason.to_string(),
                (None, None) if limit.is_zero() => "it has not listed its tools yet".to_owned(),
                (None, None) => format!("it did not list its tools within {}", span(limit)),
            };
            deadline = deadline
                .max(late.map(|listing| listing.started_at + limit).filter(|deadline| *deadline > Instant::now()));
            unlisted_servers.push(UnlistedServer { name: card.name.clone(), why: reason, is_late: late.is_some() });
        }
        (unlisted_servers, deadline)
    }

    /// Starts listings of servers that were never reached and are due.
    fn start_listings(self: &Arc<Self>, user: &ToolUser, is_wanted: impl Fn(&str) -> bool) {
        let mut state = lock(&self.state);
        let config = Arc::clone(&state.config);
        let mut due = Vec::new();
        for (name, server) in config.enabled().filter(|(name, _)| is_wanted(name)) {
            if !state.is_new(name, server) {
                continue;
            }
            self.may_have_unlisted.store(true, Ordering::Release);
            let values = self.values(&state, server, user);
            if server.missing(&values).is_empty() && state.is_due((name.to_owned(), server.fingerprint(), values)) {
                due.push(name.to_owned());
            }
        }
        drop(state);
        self.start_in_background(due, Need::Listing, user);
    }

    pub(super) fn start_in_background(self: &Arc<Self>, servers: Vec<String>, need: Need, user: &ToolUser) {
        for server in servers {
            let (pool, user) = (Arc::clone(self), user.clone());
            tokio::spawn(async move {
                let Ok(_permit) = pool.listing_permits.acquire().await else { return };
                pool.start_server(&server, need, &user).await;
            });
        }
    }

    /// Starts a server without a call.
    async fn start_server(&self, server: &str, need: Need, user: &ToolUser) {
        let key = {
            let state = lock(&self.state);
            let config = state.config.servers.get(server);
            config.map(|config| (server.to_owned(), config.fingerprint(), self.values(&state, config, user)))
        };
        let started = match self.handle(server, user, None) {
            Ok(handle) => handle.lease(need).await.map(drop),
            Err(reason) => Err(reason),
        };
        let unneeded_connections = {
            let mut state = lock(&self.state);
            if let Err(reason) = started {
                tracing::warn!(server, "could not list the MCP server's tools: {reason}");
                if let Some(listing) = key.and_then(|key| state.listings.get_mut(&key)) {
                    listing.failed = Some(reason);
                }
            }
            state.connections.remove_superfluous(server)
        };
        self.listed.notify_waiters();
        join_all(unneeded_connections.iter().map(ServerHandle::stop)).await;
    }
}

impl State {
    /// Returns true if a server was never reached with its current configuration.
    fn is_new(&self, name: &str, server: &ServerConfig) -> bool {
        self.known.get(name).is_none_or(|known| known.fingerprint != server.fingerprint())
    }

    /// Returns true if a server is due for listing, and records the attempt.
    fn is_due(&mut self, key: ListingKey) -> bool {
        let now = Instant::now();
        let is_recent = |listing: &Listing| now.duration_since(listing.started_at) <= RETRY_DELAY;
        if self.listings.get(&key).is_some_and(is_recent) {
            return false;
        }
        // Expired entries are dropped, since a client may keep providing new values.
        self.listings.retain(|known, listing| *known == key || is_recent(listing));
        self.listings.entry(key).or_insert(Listing { started_at: now, failed: None }).started_at = now;
        true
    }
}
