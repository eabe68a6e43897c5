//! What is told of servers.

use std::{collections::BTreeSet, sync::Arc};

use super::{McpPool, missing};
use crate::{config::ServerConfig, reason::Reason, server::Health, variables::is_place};

/// Report on a server.
#[derive(Debug, Clone)]
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
    #[must_use]
    pub fn report(&self) -> Vec<ServerReport> {
        let config = Arc::clone(&self.state().config);
        let names: BTreeSet<&String> = config.servers.keys().chain(config.broken.keys()).collect();
        names.into_iter().filter_map(|name| self.report_of(name)).collect()
    }

    pub(super) fn report_of(&self, server: &str) -> Option<ServerReport> {
        let state = self.state();
        if let Some(why) = state.config.broken.get(server) {
            return Some(ServerReport::broken(server, why));
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
            health: connections.iter().max_by_key(|health| liveliness(health)).cloned().unwrap_or(Health::Stopped),
            connections: connections.iter().filter(|health| matches!(health, Health::Running(_))).count(),
            says_it_is: known.map(|known| known.says_it_is.clone()).unwrap_or_default(),
            protocol: known.map(|known| known.protocol.clone()).unwrap_or_default(),
            tools: known.map(|_| tools),
            notes: of_plugin.into_iter().chain(notes).chain(missing).collect(),
            config: Some(config),
        })
    }
}

impl ServerReport {
    fn broken(server: &str, why: &str) -> Self {
        Self {
            name: server.to_owned(),
            config: None,
            health: Health::Down { why: Reason::ours(why), until: None },
            connections: 0,
            says_it_is: String::new(),
            protocol: String::new(),
            tools: None,
            notes: Vec::new(),
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
