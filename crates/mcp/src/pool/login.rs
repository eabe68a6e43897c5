//! Logging in to servers behind an address.

use super::{McpPool, missing, unknown};
use crate::{
    config::{ServerAddress, ServerConfig},
    login::{Refusal, ServerUrl},
    reason::Reason,
};

impl McpPool {
    /// Begins to log in to a server behind an address. Returns the address that the person has to open; what comes back to
    /// `redirect` finishes it.
    ///
    /// # Errors
    /// The server is a program of this machine, or why it cannot be done.
    pub async fn begin_login(&self, server: &str, redirect: &str) -> Result<String, String> {
        let (url, client) = match self.filled(server)?.reached {
            ServerAddress::Http { url, client, .. } => (url.value, client),
            ServerAddress::Stdio { .. } => return Err(format!("{server} is a local program, which has no login")),
        };
        // Only what it answers to a message says where people log in, and for what. Whatever it answers is remembered there.
        let _ = self.start(server, None).await;
        let begun =
            self.supplies.logins.begin(ServerUrl { server, url: &url, client: client.as_ref() }, redirect).await;
        begun.map_err(|why| self.supplies.clean.words(&why))
    }

    /// The configuration of a server, with the values that were lent last.
    fn filled(&self, server: &str) -> Result<ServerConfig, String> {
        let state = self.state();
        let config = state.config.servers.get(server).ok_or_else(|| unknown(server))?;
        config.filled(&state.lent.values(None, &config.variables())).map_err(|name| missing(&name))
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
