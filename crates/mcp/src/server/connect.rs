//! From a configuration to a connection that was greeted and says what it offers.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::{
    model::ServerPeerInfo,
    service::{ClientInitializeError, Peer, RoleClient, RunningService, serve_client_with_ct},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    actor::Supplies,
    call::span,
    calls::Calls,
    handler::Handler,
    http::Address,
    listing,
    pipes::Pipes,
    process::{self, Process, Start},
};
use crate::{
    catalogue::Catalogue,
    config::{Reached, ServerConfig},
    log::Log,
};

/// A server that was reached.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) calls: Arc<Calls>,
    /// What it said of itself.
    pub(crate) info: Arc<ServerPeerInfo>,
}

/// A connection with all that keeps it up.
pub(super) struct Open {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) catalogue: Catalogue,
    /// Told when what it offers has changed.
    pub(super) changed: Arc<Notify>,
}

/// What a connection is made from.
pub(super) struct Opening {
    pub(super) name: String,
    pub(super) config: Arc<ServerConfig>,
    pub(super) environment: Arc<BTreeMap<String, String>>,
    pub(super) supplies: Arc<Supplies>,
    pub(super) log: Arc<Log>,
}

impl Opening {
    /// Reaches the server, greets it, and asks what it offers. An error says what is wrong, for people and models; nothing
    /// is left of the server then.
    pub(super) async fn open(self) -> Result<Open, String> {
        let limit = self.config.start_timeout;
        match &self.config.reached {
            Reached::Stdio { command, args, env, cwd } => {
                let start =
                    Start { guard: &self.supplies.guard, command, args, environment: &self.environment, env, cwd };
                let (process, stdout, stdin) = Process::start(&start, &self.log)
                    .map_err(|error| format!("could not start `{command}` in {}: {error}", cwd.display()))?;
                let pipes = Pipes::new(stdout, stdin, Arc::clone(&self.log));
                let (handler, changed) = self.handler();
                let greeting = serve_client_with_ct(handler, pipes, CancellationToken::new());
                let opened = tokio::time::timeout(limit, async {
                    let service = greeting.await.map_err(|error| Trouble::of(&error))?;
                    self.greeted(service).await
                });
                let trouble = match opened.await {
                    Ok(Ok((service, info, catalogue))) => {
                        return Ok(self.opened(service, info, catalogue, Some(process), changed));
                    }
                    Ok(Err(trouble)) => trouble,
                    Err(_) => Trouble::Said(format!("it did not answer within {}", span(limit))),
                };
                // Its input was closed with all that was dropped.
                let status = process.gone().await;
                let what = match trouble {
                    Trouble::Ended => process::told(status),
                    Trouble::Said(what) => what,
                };
                let words = self.log.last_words().map(|words| format!("; its last words: {words}"));
                Err(format!("{what}{}", words.unwrap_or_default()))
            }
            Reached::Http { url, headers, wire } => {
                let logins = &self.supplies.logins;
                let address = Address { server: &self.name, url, headers, wire: *wire, logins };
                let (handler, changed) = self.handler();
                let opened = tokio::time::timeout(limit, async {
                    let service = address.greet(|| handler.again()).await.map_err(Trouble::Said)?;
                    self.greeted(service).await
                });
                match opened.await {
                    Ok(Ok((service, info, catalogue))) => Ok(self.opened(service, info, catalogue, None, changed)),
                    Ok(Err(Trouble::Said(what))) => Err(what),
                    Ok(Err(Trouble::Ended)) => Err("it closed the connection".to_owned()),
                    Err(_) => Err(format!("it did not answer within {}", span(limit))),
                }
            }
        }
    }

    fn handler(&self) -> (Handler, Arc<Notify>) {
        let changed = Arc::new(Notify::new());
        let handler = Handler {
            server: self.name.clone(),
            calls: Arc::default(),
            log: Arc::clone(&self.log),
            changed: Arc::clone(&changed),
        };
        (handler, changed)
    }

    async fn greeted(&self, service: RunningService<RoleClient, Handler>) -> Result<Greeted, Trouble> {
        let peer = service.peer().clone();
        let Some(info) = peer.peer_info() else { return Err(Trouble::Said("it did not say who it is".to_owned())) };
        match listing::catalogue(&peer, &info, self.config.fingerprint()).await {
            Ok(catalogue) => Ok((service, info, catalogue)),
            Err(_) if peer.is_transport_closed() => Err(Trouble::Ended),
            Err(error) => Err(Trouble::Said(error)),
        }
    }

    fn opened(
        &self,
        service: RunningService<RoleClient, Handler>,
        info: Arc<ServerPeerInfo>,
        catalogue: Catalogue,
        process: Option<Process>,
        changed: Arc<Notify>,
    ) -> Open {
        let calls = Arc::clone(&service.service().calls);
        let connection = Arc::new(Connection { peer: service.peer().clone(), calls, info });
        Open { connection, service, process, catalogue, changed }
    }
}

type Greeted = (RunningService<RoleClient, Handler>, Arc<ServerPeerInfo>, Catalogue);

/// Why a server could not be greeted.
enum Trouble {
    /// It ended.
    Ended,
    /// For this reason.
    Said(String),
}

impl Trouble {
    fn of(error: &ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::ConnectionClosed(_) => Self::Ended,
            ClientInitializeError::TransportError { .. } => Self::Ended,
            ClientInitializeError::JsonRpcError(refusal) => {
                let words: String = agentd_core::untrusted::told(&refusal.message).chars().take(300).collect();
                Self::Said(format!("it refused to begin: {words}"))
            }
            other => Self::Said(format!(
                "it does not speak MCP: {}",
                other.to_string().chars().take(300).collect::<String>()
            )),
        }
    }
}
