//! From a configuration to a connection that was greeted and says what it offers; and the two eras of the protocol: up to
//! 2025-11-25 a connection begins with `initialize`, and from 2026-07-28 on every request says which version it is of.

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
    reason::{Clean, Reason, span},
};

/// Time for a server behind an address to show that it is of the newer era, where nothing says so yet.
const FINDING_OUT: Duration = Duration::from_secs(5);
/// The codes for failures of a server's own, such as a key that is missing.
const OWN_FAILURES: [ErrorCode; 2] = [ErrorCode(-32000), ErrorCode::INTERNAL_ERROR];
/// The codes that only servers of the newer era know.
const NEWER_FAILURES: [ErrorCode; 3] = [
    ErrorCode::HEADER_MISMATCH,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
];

/// Takes the catalogue of a server, by its name.
type CatalogueSink = Box<dyn Fn(&str, Catalogue) + Send + Sync>;

/// Dependencies of all servers.
pub(crate) struct ServerDeps {
    /// The program that becomes the guard of a server.
    pub(crate) guard: PathBuf,
    /// Logins.
    pub(crate) logins: Arc<Logins>,
    /// Takes secrets out of what servers say.
    pub(crate) clean: Clean,
    /// Told what a server offers.
    pub(crate) learn: CatalogueSink,
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

/// Delay before a subscription that has ended is made again.
const AGAIN: Duration = Duration::from_secs(30);

impl Connection {
    /// Tells the handler of each change of what a server of the newer era offers, as long as it is polled. It reports them only to
    /// those who subscribe.
    pub(super) async fn follow(&self) -> Infallible {
        let changed = &self.handler.changed;
        let Some(wanted) = wanted(&self.info) else { return pending().await };
        loop {
            match self.peer.listen(wanted.clone()).await {
                Ok(mut subscription) => {
                    while let Ok(Some(_)) = subscription.next().await {
                        changed.notify_one();
                    }
                }
                // It names changes among its capabilities, and reports none.
                Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => return pending().await,
                Err(_) => {}
            }
            sleep(AGAIN).await;
            // Nobody heard of the changes of that time.
            changed.notify_one();
        }
    }
}

/// Subscription to all that changes of a server, by its capabilities; none where it reports changes to everybody.
fn wanted(info: &ServerPeerInfo) -> Option<SubscriptionFilter> {
    if info.protocol_version.has_initialize() {
        return None;
    }
    let capabilities = &info.capabilities;
    let mut wanted = SubscriptionFilter::new();
    wanted.tools_list_changed = capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    wanted.resources_list_changed = capabilities.resources.as_ref().and_then(|resources| resources.list_changed);
    wanted.prompts_list_changed = capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed);
    let changes = [wanted.tools_list_changed, wanted.resources_list_changed, wanted.prompts_list_changed];
    changes.contains(&Some(true)).then_some(wanted)
}

/// A connection with all that keeps it up.
pub(super) struct OpenConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) catalogue: Catalogue,
    /// Era in which it was greeted.
    pub(super) era: Era,
}

/// Ingredients of a connection.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) name: String,
    /// Of the configuration without the values of its variables.
    pub(crate) fingerprint: String,
    /// Era of its last connection.
    pub(crate) era: Era,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) environment: Arc<BTreeMap<String, String>>,
    pub(crate) supplies: Arc<ServerDeps>,
    pub(crate) log: Arc<Log>,
}

impl Opening {
    /// Reaches the server, and asks what it offers. An error says what is wrong, for people and models; nothing is left of the
    /// server then, and nothing when it is given up.
    pub(super) async fn open(self, given_up: CancellationToken) -> Result<OpenConnection, Reason> {
        if let Some(plugin) = &self.config.plugin {
            self.supplies.plugin_check.run(plugin).await.map_err(Reason::ours)?;
        }
        let handler = Handler {
            server: self.name.clone(),
            calls: Arc::default(),
            log: Arc::clone(&self.log),
            sampling: self.config.sampling,
            changed: Arc::default(),
        };
        let limit = Instant::now() + self.config.start_timeout;
        let (first, other) = match &self.config.reached {
            ServerAddress::Stdio { .. } => (self.era, Some(self.era.other())),
            ServerAddress::Http { wire: HttpWire::Streamable, .. } => (Era::Discover, Some(Era::Initialize)),
            ServerAddress::Http { wire: HttpWire::Sse, .. } => (Era::Initialize, None),
        };
        let tried = match (self.attempt(first, &handler, limit, &given_up).await, other) {
            (Err(trouble), Some(other)) if trouble.is_of_era => {
                let again = self.attempt(other, &handler, limit, &given_up).await;
                again.map_err(|later| match other {
                    Era::Initialize => Trouble::that_counts(trouble, later),
                    Era::Discover => Trouble::that_counts(later, trouble),
                })
            }
            (tried, _) => tried,
        };
        tried.map_err(|trouble| trouble.why.unwrap_or_else(|| Reason::ours("it closed the connection")))
    }

    /// Reaches the server as one of this era. A program is started for that, and has its own time.
    async fn attempt(
        &self,
        era: Era,
        handler: &Handler,
        limit: Instant,
        given_up: &CancellationToken,
    ) -> Result<OpenConnection, Trouble> {
        match &self.config.reached {
            ServerAddress::Stdio { command, args, env, cwd } => {
                if era != self.era {
                    self.log.note("it seems to be of the other era of the protocol, and is started again");
                }
                let mut program = Command::new(&self.supplies.guard);
                program
                    .arg(GUARD_ARGUMENT)
                    .arg(command)
                    .args(args.iter().map(|arg| &arg.value))
                    .env_clear()
                    .envs(&*self.environment)
                    .envs(env.iter().map(|(name, value)| (name, value.expose_secret())))
                    .current_dir(cwd);
                let started = Process::start(program, &self.log).map_err(|error| {
                    Reason::ours(format!("could not start `{command}` in {}: {error}", cwd.display()))
                })?;
                self.program(started, era, handler, given_up).await
            }
            ServerAddress::Http { url, headers, wire, client } => {
                let ServerDeps { logins, clean, .. } = &*self.supplies;
                let finding_out = FINDING_OUT.min(self.config.start_timeout / 2);
                let address = Address {
                    site: ServerUrl { server: &self.name, url: &url.value, client: client.as_ref() },
                    headers,
                    wire: *wire,
                    finding_out: (self.era == Era::Initialize).then_some(finding_out),
                    logins,
                    clean,
                    log: &self.log,
                };
                let greeted = async {
                    let service = address.greet(handler, era).await?;
                    self.greeted(service, era, |error| Some(address.refused(&Refusal::of_request(error)?))).await
                };
                self.within(limit, given_up, greeted).await
            }
        }
    }

    /// Greets a program that was started, and asks what it offers.
    async fn program(
        &self,
        (process, stdout, stdin): (Process, ChildStdout, ChildStdin),
        era: Era,
        handler: &Handler,
        given_up: &CancellationToken,
    ) -> Result<OpenConnection, Trouble> {
        let pipes = BoundedTransport::new(Pipes::new(stdout, stdin, Arc::clone(&self.log)), Arc::clone(&self.log));
        let greeting = serve_client_with_lifecycle(handler.clone(), pipes, era.lifecycle());
        let greeted = self.within(Instant::now() + self.config.start_timeout, given_up, async {
            let service = greeting.await.map_err(|error| {
                let ended = matches!(
                    error,
                    ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
                );
                let trouble = Trouble::of(era, &error, Reason::of_greeting(&error, &self.supplies.clean));
                Trouble { why: trouble.why.filter(|_| !ended), ..trouble }
            })?;
            self.greeted(service, era, |_| None).await
        });
        match greeted.await {
            Ok(open) => Ok(OpenConnection { process: Some(process), ..open }),
            Err(trouble) => {
                // Its input was closed with all that was dropped.
                let status = process.gone().await;
                let why = trouble.why.unwrap_or_else(|| Reason::ours(process::told(status)));
                Err(Trouble { why: Some(why.with_last_words(self.log.last_words())), ..trouble })
            }
        }
    }

    async fn within<T>(
        &self,
        limit: Instant,
        given_up: &CancellationToken,
        opened: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        match given_up.run_until_cancelled(timeout_at(limit, opened)).await {
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
        era: Era,
        refused: impl Fn(&ServiceError) -> Option<Reason>,
    ) -> Result<OpenConnection, Trouble> {
        let (peer, handler) = (service.peer().clone(), service.service().clone());
        let Some(info) = peer.peer_info() else {
            return Err(Reason::ours("it did not say who it is").into());
        };
        let listed = listing::catalogue(&peer, &info, self.fingerprint.clone()).await;
        let catalogue = listed.map_err(|error| match refused(&error) {
            Some(why) => why.into(),
            None if peer.is_transport_closed() => Trouble { why: None, is_of_era: false, is_own: true },
            None => listing::none(&error, &self.supplies.clean).into(),
        })?;
        let connection = Arc::new(Connection { peer, handler, info, lost: CancellationToken::new() });
        Ok(OpenConnection { connection, service, process: None, catalogue, era })
    }
}

/// Why a server could not be greeted.
pub(super) struct Trouble {
    /// The reason, unless it ended, which tells more.
    pub(super) why: Option<Reason>,
    /// Set if it may be of the other era.
    pub(super) is_of_era: bool,
    /// Set if the server has a reason of its own, and does not just fail to understand.
    pub(super) is_own: bool,
}

impl From<Reason> for Trouble {
    fn from(why: Reason) -> Self {
        Self { why: Some(why), is_of_era: false, is_own: true }
    }
}

impl Trouble {
    /// Trouble with a greeting in this era.
    pub(super) fn of(era: Era, error: &ClientInitializeError, why: Reason) -> Self {
        Self { why: Some(why), is_of_era: era.may_be_wrong(error), is_own: era.is_refused_by(error) }
    }

    /// The one that counts where a server was greeted in both eras: that of the older, which most servers know, unless only
    /// the newer brought out a reason of the server's own.
    fn that_counts(discover: Self, initialize: Self) -> Self {
        if discover.is_own && !initialize.is_own { discover } else { initialize }
    }
}

/// Era of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Era {
    /// Connections begin with `initialize`. Also that of servers of which nothing is known.
    #[default]
    Initialize,
    /// Connections begin with `server/discover`.
    Discover,
}

impl Era {
    /// Era of a version of the protocol.
    pub(crate) fn of(version: &str) -> Self {
        // The names are dates; others are of drafts.
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

    /// Returns true if a connection of this era may have failed because the server is of the other one.
    fn may_be_wrong(self, error: &ClientInitializeError) -> bool {
        match (self, error) {
            (Self::Initialize, ClientInitializeError::JsonRpcError(_)) => !self.is_refused_by(error),
            (Self::Initialize, _) | (Self::Discover, ClientInitializeError::Cancelled) => false,
            (Self::Discover, ClientInitializeError::TransportError { error, .. }) => {
                !is_unreachable(error.error.as_ref())
            }
            (Self::Discover, _) => true,
        }
    }

    /// Returns true if a server that knows this era has refused a greeting, for a reason of its own.
    fn is_refused_by(self, error: &ClientInitializeError) -> bool {
        match error {
            ClientInitializeError::JsonRpcError(ErrorData { code, .. }) => {
                OWN_FAILURES.contains(code) || self == Self::Discover && NEWER_FAILURES.contains(code)
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => self == Self::Discover,
            _ => false,
        }
    }
}

/// Returns true if there was no server to hear the request.
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
    fn a_refusal_to_initialize_may_come_of_the_newer_era() {
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
    fn a_reason_of_the_servers_own_counts() {
        let trouble = |era: Era, code: i32| Trouble::of(era, &refusal(code), Reason::ours(format!("{era:?}")));
        let check = |discover: i32, initialize: i32, expected: Era| {
            let (discover, initialize) = (trouble(Era::Discover, discover), trouble(Era::Initialize, initialize));
            let why = Trouble::that_counts(discover, initialize).why;
            assert_eq!(why, Some(Reason::ours(format!("{expected:?}"))));
        };
        check(-32000, -32601, Era::Discover);
        check(-32603, -32602, Era::Discover);
        check(-32022, -32601, Era::Discover);
        check(-32601, -32602, Era::Initialize);
        check(-32601, -32000, Era::Initialize);
        check(-32000, -32000, Era::Initialize);
    }
}
