//! From a configuration to a connection that was greeted and says what it offers.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use rmcp::{
    model::ServerPeerInfo,
    service::{
        ClientInitializeError, Peer, RoleClient, RunningService, ServiceError, serve_client_with_lifecycle_and_ct,
    },
};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    bounded::BoundedTransport,
    era::{Era, FINDING_OUT},
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
    login::{Logins, Refusal, ServerUrl},
    plugin_check::PluginCheck,
    reason::{Reason, span},
};

type LearnTask = dyn Fn(&str, Catalogue) + Send + Sync;

/// Dependencies of all servers.
pub(crate) struct ServerDeps {
    /// The program that becomes the guard of a server.
    pub(crate) guard: PathBuf,
    /// Logins.
    pub(crate) logins: Arc<Logins>,
    /// Takes secrets out of what servers say.
    pub(crate) clean: Clean,
    /// Told what a server offers.
    pub(crate) learn: Box<LearnTask>,
    /// Asked before a server of a plugin starts.
    pub(crate) plugin_check: PluginCheck,
}

/// A server that was reached.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    /// Our end, with the calls that are under way.
    pub(crate) handler: Handler,
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
    /// Era in which it was greeted.
    pub(super) era: Era,
    /// Told when what it offers has changed.
    pub(super) changed: Arc<Notify>,
}

/// Ingredients of a connection.
pub(super) struct Opening {
    pub(super) name: String,
    /// Of the configuration without the values of its variables.
    pub(super) fingerprint: String,
    /// Era of its last connection.
    pub(super) era: Era,
    pub(super) config: Arc<ServerConfig>,
    pub(super) environment: Arc<BTreeMap<String, String>>,
    pub(super) supplies: Arc<ServerDeps>,
    pub(super) log: Arc<Log>,
}

impl Opening {
    /// Reaches the server, and asks what it offers. An error says what is wrong, for people and models; nothing is left of the
    /// server then, and nothing when it is given up.
    pub(super) async fn open(self, given_up: CancellationToken) -> Result<OpenConnection, Reason> {
        if let Some(plugin) = &self.config.plugin {
            self.supplies.plugin_check.run(plugin).await.map_err(Reason::ours)?;
        }
        let changed = Arc::new(Notify::new());
        let handler = Handler {
            server: self.name.clone(),
            calls: Arc::default(),
            log: Arc::clone(&self.log),
            sampling: self.config.sampling,
            changed: Arc::clone(&changed),
        };
        let ((service, info, catalogue), process, era) = match &self.config.reached {
            ServerAddress::Stdio { command, args, env, cwd } => {
                let start =
                    Start { guard: &self.supplies.guard, command, args, environment: &self.environment, env, cwd };
                let mut era = self.era;
                let (greeted, process) = match self.program(&start, era, &handler, &given_up).await {
                    Err((why, true)) => {
                        self.log.note("it seems to be of the other era of the protocol, and is started again");
                        era = era.other();
                        let again = self.program(&start, era, &handler, &given_up).await;
                        // Of two refusals that of `initialize` counts, which most servers know.
                        let first_counts = |refuses| refuses && self.era == Era::Initialize;
                        again.map_err(|(other, refuses)| if first_counts(refuses) { why } else { other })?
                    }
                    greeted => greeted.map_err(|(why, _)| why)?,
                };
                (greeted, Some(process), era)
            }
            ServerAddress::Http { url, headers, wire, client } => {
                let ServerDeps { logins, clean, .. } = &*self.supplies;
                let address = Address {
                    site: ServerUrl { server: &self.name, url: &url.value, client: client.as_ref() },
                    headers,
                    wire: *wire,
                    era: self.era,
                    finding_out: FINDING_OUT.min(self.config.start_timeout / 2),
                    logins,
                    clean,
                    log: &self.log,
                };
                let greeted = self.within(&given_up, async {
                    let (service, era) = address.greet(&handler).await?;
                    let refused = |error: &ServiceError| Some(address.refused(&Refusal::of_request(error)?));
                    Ok((self.greeted(service, refused).await?, era))
                });
                let closed = || Reason::ours("it closed the connection");
                let (greeted, era) = greeted.await.map_err(|trouble| trouble.why.unwrap_or_else(closed))?;
                (greeted, None, era)
            }
        };
        let connection =
            Arc::new(Connection { peer: service.peer().clone(), handler, info, lost: CancellationToken::new() });
        Ok(OpenConnection { connection, service, process, catalogue, era, changed })
    }

    /// Starts a program, and asks what it offers. An error says besides whether it may be of the other era.
    async fn program(
        &self,
        start: &Start<'_>,
        era: Era,
        handler: &Handler,
        given_up: &CancellationToken,
    ) -> Result<(GreetedServer, Process), (Reason, bool)> {
        let (process, stdout, stdin) = Process::start(start, &self.log).map_err(|error| {
            let why = format!("could not start `{}` in {}: {error}", start.command, start.cwd.display());
            (Reason::ours(why), false)
        })?;
        let pipes = BoundedTransport::new(Pipes::new(stdout, stdin, Arc::clone(&self.log)), Arc::clone(&self.log));
        let greeting =
            serve_client_with_lifecycle_and_ct(handler.clone(), pipes, era.lifecycle(), CancellationToken::new());
        let greeted = self.within(given_up, async {
            let service = greeting.await.map_err(|error| Trouble::of(era, &error, &self.supplies.clean))?;
            self.greeted(service, |_| None).await
        });
        match greeted.await {
            Ok(greeted) => Ok((greeted, process)),
            Err(trouble) => {
                // Its input was closed with all that was dropped.
                let status = process.gone().await;
                let why = trouble.why.unwrap_or_else(|| Reason::ours(process::told(status)));
                Err((why.with_last_words(self.log.last_words()), trouble.is_of_era))
            }
        }
    }

    async fn within<T>(
        &self,
        given_up: &CancellationToken,
        opened: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        match given_up.run_until_cancelled(timeout(self.config.start_timeout, opened)).await {
            Some(Ok(opened)) => opened,
            Some(Err(_)) => {
                Err(Reason::ours(format!("it did not answer within {}", span(self.config.start_timeout))).into())
            }
            None => Err(Reason::ours("it was stopped while it was started").into()),
        }
    }

    /// Asks what it offers. `refused` says what can be done where it does not answer.
    async fn greeted(
        &self,
        service: RunningService<RoleClient, Handler>,
        refused: impl Fn(&ServiceError) -> Option<Reason>,
    ) -> Result<GreetedServer, Trouble> {
        let peer = service.peer().clone();
        let Some(info) = peer.peer_info() else {
            return Err(Reason::ours("it did not say who it is").into());
        };
        match listing::catalogue(&peer, &info, self.fingerprint.clone()).await {
            Ok(catalogue) => Ok((service, info, catalogue)),
            Err(error) => Err(match refused(&error) {
                Some(why) => why.into(),
                None if peer.is_transport_closed() => Trouble { why: None, is_of_era: false },
                None => listing::none(&error, &self.supplies.clean).into(),
            }),
        }
    }
}

type GreetedServer = (RunningService<RoleClient, Handler>, Arc<ServerPeerInfo>, Catalogue);

/// Why a server could not be greeted.
pub(super) struct Trouble {
    /// The reason, unless it ended, which tells more.
    why: Option<Reason>,
    /// Set if it may be of the other era.
    is_of_era: bool,
}

impl From<Reason> for Trouble {
    fn from(why: Reason) -> Self {
        Self { why: Some(why), is_of_era: false }
    }
}

impl Trouble {
    fn of(era: Era, error: &ClientInitializeError, clean: &Clean) -> Self {
        let ended =
            matches!(error, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. });
        Self { why: (!ended).then(|| Reason::of_greeting(error, clean)), is_of_era: era.may_be_wrong(error) }
    }
}
