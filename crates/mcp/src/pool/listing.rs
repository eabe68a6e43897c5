//! Servers that were never reached: they are asked what they offer, without anybody's calling them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;

use super::{McpPool, State};
use crate::{
    config::ServerConfig,
    reason::Reason,
    server::{Need, ServerHandle},
};

/// Number of servers that are listed at once, in the background.
pub(super) const ASKED_AT_ONCE: usize = 2;

/// Delay before a server that could not be listed is asked again.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

impl McpPool {
    /// Asks servers that were never reached what they offer, in the background; those that did not say so again after a
    /// while, and those that need a variable when a client lends it. Returns at once. They are stopped when they have said so,
    /// unless somebody calls them.
    pub fn look_around(self: &Arc<Self>) {
        if !self.opened.load(Ordering::Acquire) || !self.unseen.swap(false, Ordering::AcqRel) {
            return;
        }
        let new: Vec<String> = {
            let mut state = self.state();
            let config = Arc::clone(&state.config);
            let new: Vec<_> = config.enabled().filter(|(name, server)| state.is_new(name, server)).collect();
            if !new.is_empty() {
                self.unseen.store(true, Ordering::Release);
            }
            let due = |(name, server): (&str, &ServerConfig)| state.is_due(name, server).then(|| name.to_owned());
            new.into_iter().filter_map(due).collect()
        };
        self.start_in_background(new, Need::Listing);
    }

    /// Has servers that were never reached say what they offer, all at once. Returns when they have, or after `limit`: then
    /// those that are late go on in the background.
    pub async fn list_new(self: &Arc<Self>, limit: Duration) {
        self.opened.store(true, Ordering::Release);
        let new: Vec<String> = {
            let mut state = self.state();
            let config = Arc::clone(&state.config);
            let new: Vec<_> = config.enabled().filter(|(name, server)| state.is_new(name, server)).collect();
            new.into_iter().map(|(name, server)| state.count_as_asked(name, server)).collect()
        };
        let listed = new.into_iter().map(|server| {
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(why) = pool.start_here(&server, Need::Listing).await {
                    tracing::warn!(server, "the MCP server does not say what it offers: {why}");
                }
            })
        });
        let _ = tokio::time::timeout(limit, join_all(listed.collect::<Vec<_>>())).await;
    }

    pub(super) fn start_in_background(self: &Arc<Self>, servers: Vec<String>, need: Need) {
        for server in servers {
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                let Ok(_turn) = pool.asking.acquire().await else { return };
                if let Err(why) = pool.start_here(&server, need).await {
                    tracing::warn!(server, "the MCP server does not say what it offers: {why}");
                }
            });
        }
    }

    /// Starts a server without anybody's calling it.
    async fn start_here(&self, server: &str, need: Need) -> Result<(), Reason> {
        let started = self.handle(server, None)?.lease(need).await.map(drop);
        let superfluous = self.state().connections.take_superfluous(server);
        join_all(superfluous.iter().map(ServerHandle::stop)).await;
        started
    }
}

impl State {
    /// Returns whether a server was never reached as it is configured now.
    fn is_new(&self, name: &str, server: &ServerConfig) -> bool {
        self.known.get(name).is_none_or(|known| known.fingerprint != server.fingerprint())
    }

    /// Counts a server as asked now, and names it.
    fn count_as_asked(&mut self, name: &str, server: &ServerConfig) -> String {
        self.asked.insert((name.to_owned(), server.fingerprint()), Instant::now());
        name.to_owned()
    }

    /// Returns whether a server is to be listed now. Then it counts as asked.
    fn is_due(&mut self, name: &str, server: &ServerConfig) -> bool {
        let variables = server.variables();
        if self.lent.values(None, &variables).len() < variables.len() {
            return false;
        }
        let key = (name.to_owned(), server.fingerprint());
        let is_due = self.asked.get(&key).is_none_or(|asked| asked.elapsed() > ASKED_AGAIN);
        if is_due {
            self.count_as_asked(name, server);
        }
        is_due
    }
}
