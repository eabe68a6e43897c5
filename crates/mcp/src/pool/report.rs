//! What is told of servers, and logging in to those behind an address.

use std::{collections::BTreeSet, sync::Arc};

use super::{McpPool, missing, unknown};
use crate::{
    config::{ServerAddress, ServerConfig},
    login::{Refusal, ServerUrl},
    reason::Reason,
    server::Health,
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
