//! What is told of servers, and logging in to those behind an address. Those that were never reached are asked what they offer,
//! without anybody's calling them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use agentd_core::{catalogue::UnlistedServer, ports::ToolUser};
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
    /// Its name.
    pub name: String,
    /// Its configuration; none where its entry makes no sense.
    pub config: Option<ServerConfig>,
    /// Its health; of several connections, the liveliest.
    pub health: Health,
    /// Number of connections.
    pub connections: usize,
    /// Its own name and version; empty where it was never reached.
    pub says_it_is: String,
    /// Version of the protocol that it speaks; empty where it was never reached.
    pub protocol: String,
    /// Its tools, as models are offered them: our name, and the server's. None where it was never reached.
    pub tools: Option<Vec<String>>,
    /// Deviations from the configuration.
    pub notes: Vec<String>,
}

impl McpPool {
    /// All servers, by name.
    pub fn report(&self) -> Vec<ServerReport> {
        let config = Arc::clone(&self.state().config);
        let names: BTreeSet<&String> = config.servers.keys().chain(config.broken.keys()).collect();
        names.into_iter().filter_map(|name| self.report_of(name)).collect()
    }

    pub(super) fn report_of(&self, server: &str) -> Option<ServerReport> {
        let state = self.state();
        if let Some(why) = state.config.broken.get(server) {
            let health = Health::Down { why: Reason::ours(why), until: None };
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
        let unset = config.missing(&state.lent.values(None, &config.variables()));
        let missing = unset.iter().filter(|name| !is_place(name)).map(|name| missing(name));
        let of_plugin = config.plugin.as_ref().map(|plugin| format!("it came with the plugin {plugin}"));
        Some(ServerReport {
            name: server.to_owned(),
            health: connections.iter().max_by_key(|health| liveliness(health)).cloned().unwrap_or_default(),
            connections: connections.iter().filter(|health| matches!(health, Health::Running(_))).count(),
            says_it_is: known.map(|known| known.says_it_is.clone()).unwrap_or_default(),
            protocol: known.map(|known| known.protocol.clone()).unwrap_or_default(),
            tools: known.map(|_| tools),
            notes: of_plugin.into_iter().chain(notes).chain(missing).collect(),
            config: Some(config),
        })
    }

    /// Begins to log in to a server behind an address. Returns the address that the person has to open; what comes back to
    /// `redirect` finishes it.
    ///
    /// # Errors
    /// The server is a program of this machine, or why it cannot be done.
    pub async fn begin_login(&self, server: &str, redirect: &str) -> Result<String, String> {
        // With the values that were lent last.
        let config = {
            let state = self.state();
            let config = state.config.servers.get(server).ok_or_else(|| unknown(server))?;
            config.filled(&state.lent.values(None, &config.variables())).map_err(|name| missing(&name))?
        };
        let (url, client) = match config.reached {
            ServerAddress::Http { url, client, .. } => (url.value, client),
            ServerAddress::Stdio { .. } => return Err(format!("{server} is a local program, which has no login")),
        };
        // Only what it answers to a message says where people log in, and for what. Whatever it answers is remembered there.
        let _ = self.start(server, None).await;
        let begun =
            self.supplies.logins.begin(ServerUrl { server, url: &url, client: client.as_ref() }, redirect).await;
        begun.map_err(|why| self.supplies.clean.words(&why))
    }

    /// Finishes that, with the address that the browser was sent back to. The next call uses the token.
    ///
    /// # Errors
    /// Nothing was begun, or the token was refused.
    pub async fn finish_login(&self, server: &str, came_back_to: &str) -> Result<(), String> {
        let finished = self.supplies.logins.finish(server, came_back_to).await;
        finished.map_err(|why| self.supplies.clean.words(&why))?;
        self.stop(server).await
    }

    /// A server has refused to answer. What it wants is remembered for the next login; returns what can be done.
    pub(crate) fn refused(&self, server: &str, config: &ServerConfig, refusal: &Refusal) -> Reason {
        match &config.reached {
            ServerAddress::Http { url, client, .. } => {
                let site = ServerUrl { server, url: &url.value, client: client.as_ref() };
                self.supplies.logins.refused(site, refusal, &self.supplies.clean)
            }
            ServerAddress::Stdio { .. } => Reason::ours("it does not answer"),
        }
    }
}

fn liveliness(health: &Health) -> u8 {
    match health {
        Health::Stopped => 0,
        Health::Down { .. } => 1,
        Health::Starting => 2,
        Health::Running(_) => 3,
    }
}

/// Number of servers that are listed at once, in the background.
pub(super) const ASKED_AT_ONCE: usize = 16;

/// Delay before a server that could not be listed is asked again.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// A server as it is configured, with the values of its variables: one that failed in one project may work in another.
pub(super) type ListingKey = (String, String, BTreeMap<String, String>);

/// A server that was asked what it offers.
pub(super) struct Listing {
    asked: Instant,
    /// The reason if it could not say so, also while it is asked again.
    pub(super) failed: Option<Reason>,
}

impl McpPool {
    /// Asks servers that were never reached what they offer, in the background; those that did not say so again after a
    /// while, and those that need a variable when a client lends it. Returns at once. They are stopped when they have said so,
    /// unless somebody calls them.
    pub fn look_around(self: &Arc<Self>) {
        if self.opened.load(Ordering::Acquire) && self.unseen.swap(false, Ordering::AcqRel) {
            self.ask(&ToolUser::default(), |_| true);
        }
    }

    /// Asks those of these servers for their tools that were never reached, for a session, and waits for them within the limit
    /// of the configuration, which begins when a server is asked. Those that are late go on in the background, and one that has
    /// failed is not waited for. Returns those whose tools are still not known, and those that cannot be started for that session.
    pub async fn list_servers(self: &Arc<Self>, user: &ToolUser, names: &[String]) -> Vec<UnlistedServer> {
        self.ask(user, |name| names.iter().any(|wanted| wanted == name));
        loop {
            let listed = self.listed.notified();
            tokio::pin!(listed);
            listed.as_mut().enable();
            let (unlisted, until) = self.unlisted(user, names);
            let Some(until) = until else { return unlisted };
            tokio::select! {
                () = listed => {}
                () = sleep_until(until.into()) => {}
            }
        }
    }

    /// Those of these servers whose tools are not known, or that cannot be started, and until when one of them is waited for.
    fn unlisted(&self, user: &ToolUser, names: &[String]) -> (Vec<UnlistedServer>, Option<Instant>) {
        let state = self.state();
        let limit = state.config.listing_wait;
        let (mut unlisted, mut until) = (Vec::new(), None::<Instant>);
        for card in state.published.servers.iter().filter(|card| names.contains(&card.name)) {
            let Some(server) = state.config.servers.get(&card.name) else { continue };
            let values = self.values(&state, server, user);
            let unset = server.missing(&values);
            let listing = state.asked.get(&(card.name.clone(), server.fingerprint(), values));
            if !card.is_unlisted && unset.is_empty() {
                continue;
            }
            let late = listing.filter(|listing| listing.failed.is_none() && unset.is_empty());
            let why = match (unset.first(), listing.and_then(|listing| listing.failed.as_ref())) {
                (Some(variable), _) => missing(variable),
                (None, Some(why)) => why.to_string(),
                (None, None) if limit.is_zero() => "it has not said yet which tools it has".to_owned(),
                (None, None) => format!("it has not said within {} which tools it has", span(limit)),
            };
            until = until.max(late.map(|listing| listing.asked + limit).filter(|until| *until > Instant::now()));
            unlisted.push(UnlistedServer { name: card.name.clone(), why, is_late: late.is_some() });
        }
        (unlisted, until)
    }

    /// Has those of the servers that were never reached, and are due, say what they offer.
    fn ask(self: &Arc<Self>, user: &ToolUser, is_wanted: impl Fn(&str) -> bool) {
        let mut state = self.state();
        let config = Arc::clone(&state.config);
        let mut due = Vec::new();
        for (name, server) in config.enabled().filter(|(name, _)| is_wanted(name)) {
            if !state.is_new(name, server) {
                continue;
            }
            self.unseen.store(true, Ordering::Release);
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
                let Ok(_turn) = pool.asking.acquire().await else { return };
                pool.start_here(&server, need, &user).await;
            });
        }
    }

    /// Starts a server without anybody's calling it.
    async fn start_here(&self, server: &str, need: Need, user: &ToolUser) {
        let asked = {
            let state = self.state();
            let config = state.config.servers.get(server);
            config.map(|config| (server.to_owned(), config.fingerprint(), self.values(&state, config, user)))
        };
        let started = match self.handle(server, user, None) {
            Ok(handle) => handle.lease(need).await.map(drop),
            Err(why) => Err(why),
        };
        let superfluous = {
            let mut state = self.state();
            if let Err(why) = started {
                tracing::warn!(server, "the MCP server does not say what it offers: {why}");
                if let Some(listing) = asked.and_then(|asked| state.asked.get_mut(&asked)) {
                    listing.failed = Some(why);
                }
            }
            state.connections.take_superfluous(server)
        };
        self.listed.notify_waiters();
        join_all(superfluous.iter().map(ServerHandle::stop)).await;
    }
}

impl State {
    /// Returns whether a server was never reached as it is configured now.
    fn is_new(&self, name: &str, server: &ServerConfig) -> bool {
        self.known.get(name).is_none_or(|known| known.fingerprint != server.fingerprint())
    }

    /// Returns true if a server is to be listed now. Then it counts as asked.
    fn is_due(&mut self, key: ListingKey) -> bool {
        let now = Instant::now();
        let is_recent = |listing: &Listing| now.duration_since(listing.asked) <= ASKED_AGAIN;
        if self.asked.get(&key).is_some_and(is_recent) {
            return false;
        }
        // Of others only those that still count: a client may bring ever new values.
        self.asked.retain(|known, listing| *known == key || is_recent(listing));
        self.asked.entry(key).or_insert(Listing { asked: now, failed: None }).asked = now;
        true
    }
}
