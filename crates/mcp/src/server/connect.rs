//! Creates an initialised and listed connection from a configuration, in one of the two protocol eras: up to
//! 2025-11-25 a connection starts with `initialize`, and from 2026-07-28 on every request states its version.

use std::{
    collections::BTreeMap, convert::Infallible, error::Error, future::pending, path::PathBuf, sync::Arc, time::Duration,
};

use rmcp::{
    ClientLifecycleMode,
    model::{ErrorCode, ErrorData, ProtocolVersion, ServerPeerInfo, SubscriptionFilter},
    service::{ClientInitializeError, Peer, RoleClient, RunningService, ServiceError, serve_client_with_lifecycle},
};
use secrecy::ExposeSecret as _;
use tokio::{
    process::{ChildStdin, ChildStdout, Command},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    handler::{BoundedTransport, Handler},
    http::Address,
    listing,
    process::{self, Pipes, Process},
};
use crate::{
    catalogue::Catalogue,
    config::{HttpWire, PluginCheck, ServerAddress, ServerConfig},
    guard::GUARD_ARGUMENT,
    log::Log,
    login::{Logins, Refusal, ServerUrl},
    reason::{Reason, SecretFilter, span},
};

/// Time limit for an unknown HTTP server to prove that it supports the newer era.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Error codes for problems of the server itself, such as a missing key.
const SERVER_ERRORS: [ErrorCode; 2] = [ErrorCode(-32000), ErrorCode::INTERNAL_ERROR];
/// Error codes that only servers of the newer era use.
const NEWER_ERRORS: [ErrorCode; 3] = [
    ErrorCode::HEADER_MISMATCH,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
];

/// Callback with a server's name and catalogue.
type CatalogueSink = Box<dyn Fn(&str, Catalogue) + Send + Sync>;

/// Dependencies of all servers.
pub(crate) struct ServerDeps {
    /// Program that is started as a server's guard.
    pub(crate) guard: PathBuf,
    /// Logins to HTTP servers.
    pub(crate) logins: Arc<Logins>,
    /// Removes secrets from text sent by servers.
    pub(crate) clean: SecretFilter,
    /// Callback for new catalogues.
    pub(crate) learn: CatalogueSink,
    /// Check that runs before a plugin's server is started.
    pub(crate) plugin_check: PluginCheck,
}

/// Initialised connection to a server.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    /// Handler of the server's requests, with the calls in flight.
    pub(crate) handler: Handler,
    /// Description reported by the server.
    pub(crate) info: Arc<ServerPeerInfo>,
    /// Cancelled when the connection is known to be unusable.
    pub(crate) closed: CancellationToken,
}

/// Delay before an ended subscription is renewed.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(30);

impl Connection {
    /// Notifies the handler of changes to the server's tools while the future is polled. Servers of the newer era
    /// report changes only to subscribers.
    pub(super) async fn follow(&self) -> Infallible {
        let changed = &self.handler.changed;
        let Some(filter) = subscription_filter(&self.info) else { return pending().await };
        loop {
            match self.peer.listen(filter.clone()).await {
                Ok(mut subscription) => {
                    while let Ok(Some(_)) = subscription.next().await {
                        changed.notify_one();
                    }
                }
                // The server claims to report changes, but does not support it.
                Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => return pending().await,
                Err(_) => {}
            }
            sleep(RESUBSCRIBE_DELAY).await;
            // Changes in the meantime have been missed.
            changed.notify_one();
        }
    }
}

/// Returns a subscription to all changes that the server can report, or `None` if no subscription is needed.
fn subscription_filter(info: &ServerPeerInfo) -> Option<SubscriptionFilter> {
    if info.protocol_version.has_initialize() {
        return None;
    }
    let capabilities = &info.capabilities;
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    filter.resources_list_changed = capabilities.resources.as_ref().and_then(|resources| resources.list_changed);
    filter.prompts_list_changed = capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed);
    let changes = [filter.tools_list_changed, filter.resources_list_changed, filter.prompts_list_changed];
    changes.contains(&Some(true)).then_some(filter)
}

/// Connection with its service and process.
pub(super) struct OpenConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) catalogue: Catalogue,
    /// Era in which the connection was initialised.
    pub(super) era: Era,
}

/// Parameters of a connection.
#[derive(Clone)]
pub(crate) struct ConnectionParams {
    pub(crate) name: String,
    /// Fingerprint of the configuration without the values of its variables.
    pub(crate) fingerprint: String,
    /// Era of the server's last connection.
    pub(crate) era: Era,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) environment: Arc<BTreeMap<String, String>>,
    pub(crate) deps: Arc<ServerDeps>,
    pub(crate) log: Arc<Log>,
}

impl ConnectionParams {
    /// Connects to the server and lists its tools. The error is shown to users and models. No server process or
    /// connection remains after failure or cancellation.
    pub(super) async fn open(self, cancelled: CancellationToken) -> Result<OpenConnection, Reason> {
        if let Some(plugin) = &self.config.plugin {
            self.deps.plugin_check.run(plugin).await.map_err(Reason::new)?;
        }
        let handler = Handler {
            server: self.name.clone(),
            calls: Arc::default(),
            log: Arc::clone(&self.log),
            sampling: self.config.sampling,
            changed: Arc::default(),
        };
        let limit = Instant::now() + self.config.start_timeout;
        let (first, other) = match &self.config.address {
            ServerAddress::Stdio { .. } => (self.era, Some(self.era.other())),
            ServerAddress::Http { wire: HttpWire::Streamable, .. } => (Era::Discover, Some(Era::Initialize)),
            ServerAddress::Http { wire: HttpWire::Sse, .. } => (Era::Initialize, None),
        };
        let attempted = match (self.attempt(first, &handler, limit, &cancelled).await, other) {
            (Err(init_error), Some(other)) if init_error.is_era_mismatch => {
                let retried = self.attempt(other, &handler, limit, &cancelled).await;
                retried.map_err(|second| match other {
                    Era::Initialize => InitError::most_relevant(init_error, second),
                    Era::Discover => InitError::most_relevant(second, init_error),
                })
            }
            (attempted, _) => attempted,
        };
        attempted.map_err(|init_error| init_error.reason.unwrap_or_else(|| Reason::new("it closed the connection")))
    }

    /// Connects to the server in this era. Each attempt starts the program again, with the full time limit.
    async fn attempt(
        &self,
        era: Era,
        handler: &Handler,
        limit: Instant,
        cancelled: &CancellationToken,
    ) -> Result<OpenConnection, InitError> {
        match &self.config.address {
            ServerAddress::Stdio { command, args, env, cwd } => {
                if era != self.era {
                    self.log.note("it seems to use the other protocol era; restarting");
                }
                let mut program = Command::new(&self.deps.guard);
                program
                    .arg(GUARD_ARGUMENT)
                    .arg(command)
                    .args(args.iter().map(|arg| &arg.value))
                    .env_clear()
                    .envs(&*self.environment)
                    .envs(env.iter().map(|(name, value)| (name, value.expose_secret())))
                    .current_dir(cwd);
                let started = Process::start(program, &self.log).map_err(|error| {
                    Reason::new(format!("could not start `{command}` in {}: {error}", cwd.display()))
                })?;
                self.program(started, era, handler, cancelled).await
            }
            ServerAddress::Http { url, headers, wire, client } => {
                let ServerDeps { logins, clean, .. } = &*self.deps;
                let probe_limit = PROBE_LIMIT.min(self.config.start_timeout / 2);
                let address = Address {
                    server_url: ServerUrl { server: &self.name, url: &url.value, client: client.as_ref() },
                    headers,
                    wire: *wire,
                    probe_limit: (self.era == Era::Initialize).then_some(probe_limit),
                    logins,
                    clean,
                    log: &self.log,
                };
                let finish = async {
                    let service = address.initialize(handler, era).await?;
                    self.finish(service, era, |error| Some(address.refused(&Refusal::of_request(error)?))).await
                };
                self.within(limit, cancelled, finish).await
            }
        }
    }

    /// Initialises a started program, and lists its tools.
    async fn program(
        &self,
        (process, stdout, stdin): (Process, ChildStdout, ChildStdin),
        era: Era,
        handler: &Handler,
        cancelled: &CancellationToken,
    ) -> Result<OpenConnection, InitError> {
        let pipes = BoundedTransport::new(Pipes::new(stdout, stdin, Arc::clone(&self.log)), Arc::clone(&self.log));
        let greeting = serve_client_with_lifecycle(handler.clone(), pipes, era.lifecycle());
        let finish = self.within(Instant::now() + self.config.start_timeout, cancelled, async {
            let service = greeting.await.map_err(|error| {
                let ended = matches!(
                    error,
                    ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
                );
                let init_error = InitError::of(era, &error, Reason::of_greeting(&error, &self.deps.clean));
                InitError { reason: init_error.reason.filter(|_| !ended), ..init_error }
            })?;
            self.finish(service, era, |_| None).await
        });
        match finish.await {
            Ok(open) => Ok(OpenConnection { process: Some(process), ..open }),
            Err(init_error) => {
                // Dropping the connection has closed the program's input.
                let status = process.wait_for_exit().await;
                let reason = init_error.reason.unwrap_or_else(|| Reason::new(process::exit_reason(status)));
                Err(InitError { reason: Some(reason.with_last_line(self.log.last_line())), ..init_error })
            }
        }
    }

    async fn within<T>(
        &self,
        limit: Instant,
        cancelled: &CancellationToken,
        opened: impl Future<Output = Result<T, InitError>>,
    ) -> Result<T, InitError> {
        match cancelled.run_until_cancelled(timeout_at(limit, opened)).await {
            Some(Ok(opened)) => opened,
            Some(Err(_)) => Err(Reason::new(format!("no answer within {}", span(self.config.start_timeout))).into()),
            None => Err(Reason::new("it was stopped while starting").into()),
        }
    }

    /// Lists the tools of the server. `refused` returns the reason for an authorisation error.
    async fn finish(
        &self,
        service: RunningService<RoleClient, Handler>,
        era: Era,
        refused: impl Fn(&ServiceError) -> Option<Reason>,
    ) -> Result<OpenConnection, InitError> {
        let (peer, handler) = (service.peer().clone(), service.service().clone());
        let Some(info) = peer.peer_info() else {
            return Err(Reason::new("it did not identify itself").into());
        };
        let listed = listing::catalogue(&peer, &info, self.fingerprint.clone()).await;
        let catalogue = listed.map_err(|error| match refused(&error) {
            Some(reason) => reason.into(),
            None if peer.is_transport_closed() => InitError { reason: None, is_era_mismatch: false, is_final: true },
            None => listing::failure_reason(&error, &self.deps.clean).into(),
        })?;
        let connection = Arc::new(Connection { peer, handler, info, closed: CancellationToken::new() });
        Ok(OpenConnection { connection, service, process: None, catalogue, era })
    }
}

/// Reason why a server could not be initialised.
pub(super) struct InitError {
    /// The reason, or `None` if the process exited, because its exit status is more informative.
    pub(super) reason: Option<Reason>,
    /// True if the server may be of the other era.
    pub(super) is_era_mismatch: bool,
    /// True if the server has rejected the connection for its own reason, and did not merely fail to understand it.
    pub(super) is_final: bool,
}

impl From<Reason> for InitError {
    fn from(reason: Reason) -> Self {
        Self { reason: Some(reason), is_era_mismatch: false, is_final: true }
    }
}

impl InitError {
    /// Returns an error for a failed initialisation in this era.
    pub(super) fn of(era: Era, error: &ClientInitializeError, reason: Reason) -> Self {
        Self { reason: Some(reason), is_era_mismatch: era.may_be_wrong(error), is_final: era.is_rejected_by(error) }
    }

    /// Returns the most relevant error after attempts in both eras: the error from the older era, which most servers
    /// support, unless only the newer era revealed the server's own reason.
    fn most_relevant(discover: Self, initialize: Self) -> Self {
        if discover.is_final && !initialize.is_final { discover } else { initialize }
    }
}

/// Protocol era of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Era {
    /// Connections start with `initialize`. Assumed for unknown servers.
    #[default]
    Initialize,
    /// Connections start with `server/discover`.
    Discover,
}

impl Era {
    /// Returns the era of a protocol version.
    pub(crate) fn of(version: &str) -> Self {
        // Versions are dates; other names are drafts.
        let is_date = version.starts_with(|letter: char| letter.is_ascii_digit());
        if is_date && version >= ProtocolVersion::NO_INITIALIZE.as_str() { Self::Discover } else { Self::Initialize }
    }

    fn other(self) -> Self {
        if self == Self::Initialize { Self::Discover } else { Self::Initialize }
    }

    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        }
    }

    /// Returns true if a connection in this era may have failed because the server supports only the other era.
    fn may_be_wrong(self, error: &ClientInitializeError) -> bool {
        match (self, error) {
            (Self::Initialize, ClientInitializeError::JsonRpcError(_)) => !self.is_rejected_by(error),
            (Self::Initialize, _) | (Self::Discover, ClientInitializeError::Cancelled) => false,
            (Self::Discover, ClientInitializeError::TransportError { error, .. }) => {
                !is_unreachable(error.error.as_ref())
            }
            (Self::Discover, _) => true,
        }
    }

    /// Returns true if a server that supports this era has rejected the initialisation for its own reason.
    fn is_rejected_by(self, error: &ClientInitializeError) -> bool {
        match error {
            ClientInitializeError::JsonRpcError(ErrorData { code, .. }) => {
                SERVER_ERRORS.contains(code) || self == Self::Discover && NEWER_ERRORS.contains(code)
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => self == Self::Discover,
            _ => false,
        }
    }
}

/// Returns true if no connection to the server could be established.
fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|cause| cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: i32) -> ClientInitializeError {
        ClientInitializeError::JsonRpcError(ErrorData::new(ErrorCode(code), "no", None))
    }

    #[test]
    fn initialize_error_may_mean_a_newer_protocol() {
        let check = |code: i32, expected: bool| {
            assert_eq!(Era::Initialize.may_be_wrong(&refusal(code)), expected, "{code}");
            assert!(Era::Discover.may_be_wrong(&refusal(code)), "{code}");
        };
        check(-32601, true);
        check(-32602, true);
        check(-32022, true);
        check(-32000, false);
        check(-32603, false);
        assert!(!Era::Initialize.may_be_wrong(&ClientInitializeError::ConnectionClosed(String::new())));
    }

    #[test]
    fn protocol_mismatch_error_does_not_hide_the_real_one() {
        let init_error = |era: Era, code: i32| InitError::of(era, &refusal(code), Reason::new(format!("{era:?}")));
        let check = |discover: i32, initialize: i32, expected: Era| {
            let (discover, initialize) = (init_error(Era::Discover, discover), init_error(Era::Initialize, initialize));
            let reason = InitError::most_relevant(discover, initialize).reason;
            assert_eq!(reason, Some(Reason::new(format!("{expected:?}"))));
        };
        check(-32000, -32601, Era::Discover);
        check(-32603, -32602, Era::Discover);
        check(-32022, -32601, Era::Discover);
        check(-32601, -32602, Era::Initialize);
        check(-32601, -32000, Era::Initialize);
        check(-32000, -32000, Era::Initialize);
    }
}
