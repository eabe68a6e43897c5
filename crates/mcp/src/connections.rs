//! The connections that there are: one to each server, shared by all sessions, and another only for clients whose
//! environment differs in what the server would see.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use crate::server::actor::{Health, ServerHandle};

/// Maximum number of connections to one server.
pub(crate) const MOST: usize = 8;

/// All of them.
#[derive(Default)]
pub(crate) struct Connections(HashMap<Key, ConnectionSlot>);

/// Whose connection it is: a server's, in an environment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) server: String,
    pub(crate) environment: BTreeMap<String, String>,
    /// The values of variables that its client lent.
    pub(crate) variables: BTreeMap<String, String>,
}

struct ConnectionSlot {
    handle: ServerHandle,
    /// Set once a turn has called it. One that was started to list what it offers gives way to the first that is
    /// called.
    is_called: bool,
    used: Instant,
}

impl Connections {
    /// The one that there is.
    pub(crate) fn get(&mut self, key: &Key, is_called: bool) -> Option<ServerHandle> {
        let open = self.0.get_mut(key)?;
        open.used = Instant::now();
        open.is_called |= is_called;
        Some(open.handle.clone())
    }

    /// Another one, for which there is room.
    pub(crate) fn add(&mut self, key: Key, handle: ServerHandle, is_called: bool) {
        self.0.insert(key, ConnectionSlot { handle, is_called, used: Instant::now() });
    }

    /// Makes room for another one to this server, and returns those that have to end for it. None where all are in use.
    pub(crate) fn make_room(&mut self, server: &str, is_called: bool) -> Option<Vec<ServerHandle>> {
        // Those that do not run are made again when they are needed.
        self.0.retain(|key, open| {
            key.server != server || open.handle.is_needed() || open.handle.health() != Health::Stopped
        });
        let mut ended = if is_called { self.take_uncalled(server) } else { Vec::new() };
        while self.of(server).count() >= MOST {
            let free = self.of(server).filter(|(_, open)| !open.handle.is_needed()).min_by_key(|(_, open)| open.used);
            let key = free.map(|(key, _)| key.clone())?;
            ended.extend(self.0.remove(&key).map(|open| open.handle));
        }
        Some(ended)
    }

    /// Takes out those that nobody has called, where a turn has called another one to the same server.
    pub(crate) fn take_superfluous(&mut self, server: &str) -> Vec<ServerHandle> {
        if self.of(server).any(|(_, open)| open.is_called) { self.take_uncalled(server) } else { Vec::new() }
    }

    fn take_uncalled(&mut self, server: &str) -> Vec<ServerHandle> {
        self.take(|key, open| key.server == server && !open.is_called && !open.handle.is_needed())
    }

    /// Takes out all of these servers.
    pub(crate) fn take_of(&mut self, is_meant: impl Fn(&str) -> bool) -> Vec<ServerHandle> {
        self.take(|key, _| is_meant(&key.server))
    }

    /// Health of the connections to a server.
    pub(crate) fn health(&self, server: &str) -> Vec<Health> {
        self.of(server).map(|(_, open)| open.handle.health()).collect()
    }

    fn of<'a>(&'a self, server: &'a str) -> impl Iterator<Item = (&'a Key, &'a ConnectionSlot)> {
        self.0.iter().filter(move |(key, _)| key.server == server)
    }

    fn take(&mut self, wanted: impl Fn(&Key, &ConnectionSlot) -> bool) -> Vec<ServerHandle> {
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
        reason::Clean,
        server::connect::{Opening, ServerDeps},
    };

    fn key(number: usize) -> Key {
        Key {
            server: "s".to_owned(),
            environment: [("N".to_owned(), number.to_string())].into(),
            variables: BTreeMap::new(),
        }
    }

    /// A server that is not there and is never started.
    fn handle() -> ServerHandle {
        let config = ServerConfig::new(http("http://127.0.0.1:9/"));
        let (guard, logins) = ("/nonexistent".into(), Arc::new(Logins::new("/nonexistent".into())));
        let (clean, plugin_check) = (Clean::default(), PluginCheck::default());
        let supplies = ServerDeps { guard, logins, clean, learn: Box::new(|_, _| {}), plugin_check };
        ServerHandle::spawn(Opening {
            name: "s".to_owned(),
            fingerprint: config.fingerprint(),
            era: Default::default(),
            config: Arc::new(config),
            environment: Arc::default(),
            supplies: Arc::new(supplies),
            log: Arc::default(),
        })
    }

    #[tokio::test]
    async fn what_somebody_holds_is_never_taken_away() {
        let mut connections = Connections::default();
        let mut held = Vec::new();
        for number in 0..MOST {
            assert!(connections.make_room("s", true).is_some_and(|ended| ended.is_empty()), "{number}");
            let handle = handle();
            connections.add(key(number), handle.clone(), number > 0);
            // None of them runs, as none does whose start somebody has asked for in this moment.
            assert_eq!(handle.health(), Health::Stopped);
            held.push(handle);
        }
        assert!(connections.make_room("s", true).is_none(), "all are held");
        assert!((0..MOST).all(|number| connections.get(&key(number), false).is_some()));
        held.truncate(MOST - 2);
        assert!(connections.make_room("s", true).is_some());
        let left = (0..MOST).filter(|number| connections.get(&key(*number), false).is_some());
        assert!(left.eq(0..MOST - 2));
    }
}
