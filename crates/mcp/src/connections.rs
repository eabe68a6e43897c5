//! Open connections to servers. All sessions share one connection per server, but a client gets another connection if
//! its environment would look different to the server.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use crate::server::actor::{Health, ServerHandle};

/// Maximum number of connections to one server.
pub(crate) const MAX_CONNECTIONS: usize = 8;

/// All open connections of the pool.
#[derive(Default)]
pub(crate) struct Connections(HashMap<Key, ConnectionSlot>);

/// Identity of a connection: a server in an environment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) server: String,
    pub(crate) environment: BTreeMap<String, String>,
    /// Values of variables from its client.
    pub(crate) variables: BTreeMap<String, String>,
}

struct ConnectionSlot {
    handle: ServerHandle,
    /// True once a turn has called the server on this connection. A connection that was only used to list tools is
    /// closed when another one is used for a call.
    is_called: bool,
    used: Instant,
}

impl Connections {
    /// Returns the existing connection with this key.
    pub(crate) fn get(&mut self, key: &Key, is_called: bool) -> Option<ServerHandle> {
        let open = self.0.get_mut(key)?;
        open.used = Instant::now();
        open.is_called |= is_called;
        Some(open.handle.clone())
    }

    /// Adds a connection. The number of connections must be below the maximum.
    pub(crate) fn add(&mut self, key: Key, handle: ServerHandle, is_called: bool) {
        self.0.insert(key, ConnectionSlot { handle, is_called, used: Instant::now() });
    }

    /// Evicts connections so that another one to this server can be added. Returns the connections to close, or `None`
    /// if all are in use.
    pub(crate) fn evict(&mut self, server: &str, is_called: bool) -> Option<Vec<ServerHandle>> {
        // Stopped servers are started again on demand.
        self.0.retain(|key, open| {
            key.server != server || open.handle.is_needed() || open.handle.health() != Health::Stopped
        });
        let mut ended = if is_called { self.remove_uncalled(server) } else { Vec::new() };
        while self.of(server).count() >= MAX_CONNECTIONS {
            let free = self.of(server).filter(|(_, open)| !open.handle.is_needed()).min_by_key(|(_, open)| open.used);
            let key = free.map(|(key, _)| key.clone())?;
            ended.extend(self.0.remove(&key).map(|open| open.handle));
        }
        Some(ended)
    }

    /// Removes connections that were never used for a call, if another connection to the same server was used for one.
    pub(crate) fn remove_superfluous(&mut self, server: &str) -> Vec<ServerHandle> {
        if self.of(server).any(|(_, open)| open.is_called) { self.remove_uncalled(server) } else { Vec::new() }
    }

    fn remove_uncalled(&mut self, server: &str) -> Vec<ServerHandle> {
        self.remove_if(|key, open| key.server == server && !open.is_called && !open.handle.is_needed())
    }

    /// Removes all connections of these servers.
    pub(crate) fn remove_servers(&mut self, is_removed: impl Fn(&str) -> bool) -> Vec<ServerHandle> {
        self.remove_if(|key, _| is_removed(&key.server))
    }

    /// Returns the health of the connections to a server.
    pub(crate) fn health(&self, server: &str) -> Vec<Health> {
        self.of(server).map(|(_, open)| open.handle.health()).collect()
    }

    fn of<'a>(&'a self, server: &'a str) -> impl Iterator<Item = (&'a Key, &'a ConnectionSlot)> {
        self.0.iter().filter(move |(key, _)| key.server == server)
    }

    fn remove_if(&mut self, wanted: impl Fn(&Key, &ConnectionSlot) -> bool) -> Vec<ServerHandle> {
        self.0.extract_if(|key, open| wanted(key, open)).map(|(_, open)| open.handle).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        calls::tests::http,
        config::{PluginCheck, ServerConfig},
        login::Logins,
        reason::SecretFilter,
        server::connect::{ConnectionParams, ServerDeps},
    };

    fn key(number: usize) -> Key {
        Key {
            server: "s".to_owned(),
            environment: [("N".to_owned(), number.to_string())].into(),
            variables: BTreeMap::new(),
        }
    }

    /// Returns an unreachable server that is never started.
    fn handle() -> ServerHandle {
        let config = ServerConfig::new(http("http://127.0.0.1:9/"));
        let (guard, logins) = ("/nonexistent".into(), Arc::new(Logins::new("/nonexistent".into())));
        let (clean, plugin_check) = (SecretFilter::default(), PluginCheck::default());
        let deps = ServerDeps { guard, logins, clean, learn: Box::new(|_, _| {}), plugin_check };
        ServerHandle::spawn(ConnectionParams {
            name: "s".to_owned(),
            fingerprint: config.fingerprint(),
            era: Default::default(),
            config: Arc::new(config),
            environment: Arc::default(),
            deps: Arc::new(deps),
            log: Arc::default(),
        })
    }

    #[tokio::test]
    async fn connections_in_use_are_never_evicted() {
        let mut connections = Connections::default();
        let mut handles = Vec::new();
        for number in 0..MAX_CONNECTIONS {
            assert!(connections.evict("s", true).is_some_and(|ended| ended.is_empty()), "{number}");
            let handle = handle();
            connections.add(key(number), handle.clone(), number > 0);
            // No connection is running, as during a start.
            assert_eq!(handle.health(), Health::Stopped);
            handles.push(handle);
        }
        assert!(connections.evict("s", true).is_none(), "all are in use");
        assert!((0..MAX_CONNECTIONS).all(|number| connections.get(&key(number), false).is_some()));
        handles.truncate(MAX_CONNECTIONS - 2);
        assert!(connections.evict("s", true).is_some());
        let remaining = (0..MAX_CONNECTIONS).filter(|number| connections.get(&key(*number), false).is_some());
        assert!(remaining.eq(0..MAX_CONNECTIONS - 2));
    }
}
