//! From a configuration to a connection that was greeted and says what it offers.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::{
    model::ServerPeerInfo,
    service::{ClientInitializeError, Peer, RoleClient, RunningService, ServiceError, serve_client_with_ct},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    actor::ServerDeps,
    bounded::BoundedTransport,
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
    clean::Clean,
    config::{ServerAddress, ServerConfig},
    log::Log,
    login::{Refusal, ServerUrl},
    reason::Reason,
};

/// A server that was reached.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) calls: Arc<Calls>,
    /// Its own description.
    pub(crate) info: Arc<ServerPeerInfo>,
    /// Set when it is known that nothing will come of it any more.
    pub(crate) lost: CancellationToken,
}

/// A connection with all that keeps it up.
pub(super) struct OpenConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) catalogue: Catalogue,
    /// Told when what it offers has changed.
    pub(super) changed: Arc<Notify>,
}

/// Ingredients of a connection.
pub(super) struct Opening {
    pub(super) name: String,
    /// Of the configuration without the values of its variables.
    pub(super) fingerprint: String,
    pub(super) config: Arc<ServerConfig>,
    pub(super) environment: Arc<BTreeMap<String, String>>,
    pub(super) supplies: Arc<ServerDeps>,
    pub(super) log: Arc<Log>,
}

impl Opening {
    /// Reaches the server, greets it, and asks what it offers. An error says what is wrong, for people and models; nothing
    /// is left of the server then, and nothing when it is given up.
    pub(super) async fn open(self, given_up: CancellationToken) -> Result<OpenConnection, Reason> {
        let limit = self.config.start_timeout;
        if let Some(plugin) = &self.config.plugin {
            self.supplies.plugin_check.run(plugin).await.map_err(Reason::ours)?;
        }
        match &self.config.reached {
            ServerAddress::Stdio { command, args, env, cwd } => {
                let start =
                    Start { guard: &self.supplies.guard, command, args, environment: &self.environment, env, cwd };
                let (process, stdout, stdin) = Process::start(&start, &self.log).map_err(|error| {
                    Reason::ours(format!("could not start `{command}` in {}: {error}", cwd.display()))
                })?;
                let pipes =
                    BoundedTransport::new(Pipes::new(stdout, stdin, Arc::clone(&self.log)), Arc::clone(&self.log));
                let (handler, changed) = self.handler();
                let greeting = serve_client_with_ct(handler, pipes, CancellationToken::new());
                let opened = tokio::time::timeout(limit, async {
                    let service = greeting.await.map_err(|error| Trouble::of(&error, &self.supplies.clean))?;
                    self.greeted(service, |_| None).await
                });
                let trouble = match given_up.run_until_cancelled(opened).await.unwrap_or(Ok(Err(Trouble::given_up()))) {
                    Ok(Ok((service, info, catalogue))) => {
                        return Ok(self.opened(service, info, catalogue, Some(process), changed));
                    }
                    Ok(Err(trouble)) => trouble,
                    Err(_) => Trouble::Known(Reason::ours(format!("it did not answer within {}", span(limit)))),
                };
                // Its input was closed with all that was dropped.
                let status = process.gone().await;
                let why = match trouble {
                    Trouble::Ended => Reason::ours(process::told(status)),
                    Trouble::Known(why) => why,
                };
                Err(why.with_last_words(self.log.last_words()))
            }
            ServerAddress::Http { url, headers, wire, client } => {
                let ServerDeps { logins, clean, .. } = &*self.supplies;
                let address = Address {
                    site: ServerUrl { server: &self.name, url: &url.value, client: client.as_ref() },
                    headers,
                    wire: *wire,
                    logins,
                    clean,
                    log: &self.log,
                };
                let (handler, changed) = self.handler();
                let opened = tokio::time::timeout(limit, async {
                    let service = address.greet(|| handler.again()).await.map_err(Trouble::Known)?;
                    let refused = |error: &ServiceError| Some(address.refused(&Refusal::of_request(error)?));
                    self.greeted(service, refused).await
                });
                match given_up.run_until_cancelled(opened).await.unwrap_or(Ok(Err(Trouble::given_up()))) {
                    Ok(Ok((service, info, catalogue))) => Ok(self.opened(service, info, catalogue, None, changed)),
                    Ok(Err(Trouble::Known(why))) => Err(why),
                    Ok(Err(Trouble::Ended)) => Err(Reason::ours("it closed the connection")),
                    Err(_) => Err(Reason::ours(format!("it did not answer within {}", span(limit)))),
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
            sampling: self.config.sampling,
            changed: Arc::clone(&changed),
        };
        (handler, changed)
    }

    /// Asks what it offers. `refused` says what can be done where it does not answer.
    async fn greeted(
        &self,
        service: RunningService<RoleClient, Handler>,
        refused: impl Fn(&ServiceError) -> Option<Reason>,
    ) -> Result<GreetedServer, Trouble> {
        let peer = service.peer().clone();
        let Some(info) = peer.peer_info() else {
            return Err(Trouble::Known(Reason::ours("it did not say who it is")));
        };
        match listing::catalogue(&peer, &info, self.fingerprint.clone()).await {
            Ok(catalogue) => Ok((service, info, catalogue)),
            Err(error) => Err(match refused(&error) {
                Some(why) => Trouble::Known(why),
                None if peer.is_transport_closed() => Trouble::Ended,
                None => Trouble::Known(listing::none(&error, &self.supplies.clean)),
            }),
        }
    }

    fn opened(
        &self,
        service: RunningService<RoleClient, Handler>,
        info: Arc<ServerPeerInfo>,
        catalogue: Catalogue,
        process: Option<Process>,
        changed: Arc<Notify>,
    ) -> OpenConnection {
        let calls = Arc::clone(&service.service().calls);
        let connection =
            Arc::new(Connection { peer: service.peer().clone(), calls, info, lost: CancellationToken::new() });
        OpenConnection { connection, service, process, catalogue, changed }
    }
}

type GreetedServer = (RunningService<RoleClient, Handler>, Arc<ServerPeerInfo>, Catalogue);

/// Why a server could not be greeted.
enum Trouble {
    /// It ended.
    Ended,
    /// For this reason.
    Known(Reason),
}

impl Trouble {
    fn given_up() -> Self {
        Self::Known(Reason::ours("it was stopped while it was started"))
    }

    fn of(error: &ClientInitializeError, clean: &Clean) -> Self {
        match error {
            ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => Self::Ended,
            other => Self::Known(Reason::of_greeting(other, clean)),
        }
    }
}
