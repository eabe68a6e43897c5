//! Client of the daemon. Its interface uses domain types only, no wire messages.
//!
//! [`Client::connect`] performs the handshake and distinguishes its possible failures. A [`Client`] is cheap to clone,
//! and reconnects automatically after a daemon restart. Open streams end with [`ClientErrorKind::Lost`].
//!
//! This file contains the handshake, the errors and the macro for calls; `sessions`, `archives`, `turns`, `policy` and
//! `daemon` contain the calls.

pub use crate::client::daemon::{WatchEvent, WatchStream};
pub use crate::view::{
    AuditChange, AuditComparison, Comparison, ConfigOrigin, ConfigView, DaemonStatus, ExportedContent, Finding,
    ForkReply, Hello, LanguageServer, McpServerState, McpServerView, NewSession, NumberedItem, PolicyCall, PruneReport,
    ReloadOutcome, RuleText, SessionView, SideAnswer,
};
pub use agentd_core::{policy::SandboxState, turn::RecoveredTurn};
pub use archives::{ExportPart, ExportStream, PlayMode, PlayProblem, PlayReport, PlayRequest, PlayStep, PlayStream};
pub use sessions::too_large as upload_too_large;
pub use turns::{EventStream, SessionChoice, StartRequest, TurnFrame, TurnSender, TurnStream};

use std::{
    error::Error as _,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_core::error::ErrorKind;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
};
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::{
    MAX_MESSAGE_BYTES, PROTOCOL_VERSION,
    convert::{Wire, WireError},
    socket::{self, SocketError},
    start_variables::StartVariables,
    status,
    v1::{self, daemon_client::DaemonClient},
};

/// Defines calls with one request and one response, one row each. The request is the name of a message whose fields are
/// named like the arguments, optionally with a `+` and further fields, or an expression. The keyword after the request
/// selects the returned part of the response: the `whole` response, `nothing`, `all` values of a list, `only` one
/// field, or a `needed` field, which is converted and named in errors.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $value:ty
        = $stub:ident.$method:ident($($request:tt)*) $what:ident $($part:ident $($called:literal)?)?;)*) => {
        impl $crate::client::Client {
            $($(#[$doc])*
            pub async fn $name(&self, $($arg: $kind),*) -> Result<$value, $crate::client::ClientError> {
                let request = calls!(@request [$($arg)*] $($request)*);
                let answer = self.$stub().$method(request).await?.into_inner();
                calls!(@$what answer $($part $($called)?)?)
            })*
        }
    };
    (@request [$($arg:ident)*] $request:ident $(+ $($field:ident: $given:expr),+)?) => {
        $crate::v1::$request {
            $($arg: $crate::client::Argument::into_field($arg),)*
            $($($field: $given,)+)?
        }
    };
    (@request [$($arg:ident)*] $request:expr) => {
        $request
    };
    (@whole $answer:ident) => {
        Ok($answer.try_into()?)
    };
    (@nothing $answer:ident) => {{
        let _empty = $answer;
        Ok(())
    }};
    (@all $answer:ident $part:ident) => {
        Ok($crate::convert::all($answer.$part)?)
    };
    (@only $answer:ident $part:ident) => {
        Ok($answer.$part)
    };
    (@needed $answer:ident $part:ident $called:literal) => {
        Ok($crate::convert::part($answer.$part, $called)?)
    };
}

/// Argument of a call that is a field of its request.
trait Argument<W> {
    fn into_field(self) -> W;
}

impl<T: Wire<W>, W> Argument<W> for T {
    fn into_field(self) -> W {
        self.to_wire()
    }
}

impl Argument<String> for &str {
    fn into_field(self) -> String {
        self.to_owned()
    }
}

/// A text that is not given is sent as an empty text.
impl Argument<String> for Option<&str> {
    fn into_field(self) -> String {
        self.unwrap_or_default().to_owned()
    }
}

impl Argument<Option<String>> for Option<&str> {
    fn into_field(self) -> Option<String> {
        self.map(str::to_owned)
    }
}

/// Returns the next message of a stream, converted by `read`, or `None` after the last. Messages of unknown kinds are
/// skipped.
async fn next_known<W, T>(
    stream: &mut Streaming<W>,
    read: fn(W) -> Result<T, WireError>,
) -> Result<Option<T>, ClientError> {
    while let Some(message) = stream.message().await? {
        match read(message) {
            Err(error) if error.is_unknown_kind() => tracing::debug!(%error, "skipped a message"),
            known => return Ok(Some(known?)),
        }
    }
    Ok(None)
}

mod archives;
mod daemon;
mod policy;
mod sessions;
mod turns;

/// Time limit for the handshake. A daemon normally responds in less than a millisecond.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a daemon that closed the connection during the handshake to release its socket.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(300);

/// Flow-control window of a stream, in bytes. When it is full, the sender waits for the reader.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// A connection to the daemon. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    hello: Hello,
    /// Address of the daemon's machine; `None` for a daemon of this machine.
    host: Option<Arc<str>>,
}

/// Defines the constructors of the service stubs.
macro_rules! stubs {
    ($($name:ident: $module:ident $stub:ident,)+) => {
        impl Client {
            $(pub(super) fn $name(&self) -> v1::$module::$stub<Channel> {
                v1::$module::$stub::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
            })+
        }
    };
}
stubs! {
    archives_client: archives_client ArchivesClient,
    audit: audit_client AuditClient,
    daemon: daemon_client DaemonClient,
    documents: documents_client DocumentsClient,
    grants_client: grants_client GrantsClient,
    interrupts_client: interrupts_client InterruptsClient,
    mcp: mcp_client McpClient,
    plugins_service: plugins_client PluginsClient,
    policy: policy_client PolicyClient,
    projects_service: projects_client ProjectsClient,
    replays: replays_client ReplaysClient,
    sessions_client: sessions_client SessionsClient,
    skills_service: skills_client SkillsClient,
    spending: spending_client SpendingClient,
    storage_service: storage_client StorageClient,
    traces: traces_client TracesClient,
    turns_client: turns_client TurnsClient,
    worktrees_service: worktrees_client WorktreesClient,
}

impl Client {
    /// Connects to the daemon at this socket, and checks that client and daemon use the same protocol version.
    ///
    /// # Errors
    /// [`ClientErrorKind::NotRunning`], [`ClientErrorKind::Refused`] or [`ClientErrorKind::OtherVersion`].
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        Self::connect_any_version(path).await?.of_our_version(path)
    }

    /// Returns the client if its daemon uses the same protocol version.
    ///
    /// # Errors
    /// [`ClientErrorKind::OtherVersion`], with the path of the socket in the message.
    pub fn of_our_version(self, path: &Path) -> Result<Self, ClientError> {
        let theirs = self.hello.protocol_version;
        if theirs == PROTOCOL_VERSION {
            return Ok(self);
        }
        Err(ClientError::new(
            ClientErrorKind::OtherVersion,
            format!(
                "the daemon at {} is version {} with protocol {theirs}; this client is version {} with protocol {}",
                path.display(),
                self.hello.version,
                env!("CARGO_PKG_VERSION"),
                PROTOCOL_VERSION,
            ),
        )
        .with_hint(match self.host {
            Some(_) => "install the same version of agentd on both machines",
            None => "stop the daemon with `agentctl stop`; the next command starts a matching one",
        }))
    }

    /// Connects like [`Client::connect`], but accepts a daemon of any version, so that it can be stopped.
    ///
    /// # Errors
    /// [`ClientErrorKind::NotRunning`] or [`ClientErrorKind::Refused`], and [`ClientErrorKind::OtherVersion`] for a
    /// daemon that does not support the handshake.
    pub async fn connect_any_version(path: &Path) -> Result<Self, ClientError> {
        let first = socket::connect(path).await?;
        let again = path.to_owned();
        let dial = move || {
            let path = again.clone();
            async move { socket::connect(&path).await.map_err(io::Error::from) }
        };
        let channel = match open_channel(first, dial).await {
            Ok(channel) => channel,
            Err(problem) => return Err(hung_up(path, &problem).await),
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands(channel.clone())).await {
            Ok(Ok(hello)) => Ok(Self { channel, hello, host: None }),
            Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => Err(ClientError::new(
                ClientErrorKind::OtherVersion,
                format!("the server at {} does not support the handshake", path.display()),
            )
            .with_hint("it is not agentd, or has another version: stop it, or set AGENTD_SOCKET to another path")),
            Ok(Err(status)) => Err(hung_up(path, status.message()).await),
            Err(_) => Err(not_a_daemon(path, "it does not answer")),
        }
    }

    /// Connects to the daemon of another machine, whose address is `host`, through `first`. Connections that replace a
    /// broken one are opened by `dial`. Accepts a daemon of any version.
    ///
    /// # Errors
    /// [`ClientErrorKind::Lost`] if no daemon answers the handshake in time.
    pub async fn connect_through(
        host: &str,
        first: UnixStream,
        dial: impl Fn() -> io::Result<UnixStream> + Clone + Send + Sync + 'static,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        let failed = |problem: &str| ClientError::new(ClientErrorKind::Lost, problem);
        let channel = open_channel(first, move || std::future::ready(dial())).await.map_err(|error| failed(&error))?;
        match tokio::time::timeout(limit, shake_hands(channel.clone())).await {
            Ok(Ok(hello)) => Ok(Self { channel, hello, host: Some(host.into()) }),
            Ok(Err(status)) => Err(failed(status.message())),
            Err(_) => Err(failed("it does not answer")),
        }
    }

    /// Returns the address of the daemon's machine, or `None` for a daemon of this machine. Paths of such a daemon are
    /// those of its machine.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns the daemon's response to the handshake.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }
}

async fn open_channel<S, F>(first: S, dial: impl Fn() -> F + Clone + Send + Sync + 'static) -> Result<Channel, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    // Uses the connection that is already open; new connections are opened only to reconnect.
    let first = Arc::new(Mutex::new(Some(first)));
    let connector = service_fn(move |_| {
        let opened = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let dial = dial.clone();
        async move {
            let io = match opened {
                Some(io) => io,
                None => dial().await?,
            };
            Ok::<_, io::Error>(TokioIo::new(io))
        }
    });
    // The address is never resolved, because the connector opens the socket.
    Endpoint::from_static("http://agentd.local")
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(4 * STREAM_WINDOW)
        .connect_with_connector(connector)
        .await
        .map_err(|error| error.to_string())
}

async fn shake_hands(channel: Channel) -> Result<Hello, tonic::Status> {
    let request = v1::HelloRequest {
        client: "agentctl".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol_version: PROTOCOL_VERSION,
    };
    let answer = DaemonClient::new(channel).hello(request).await?.into_inner();
    Ok(Hello {
        protocol_version: answer.protocol_version,
        version: answer.version,
        pid: answer.pid,
        environment: answer.environment,
        variables: answer.variables,
        data_dir: answer.data_dir.into(),
        started_with: StartVariables::received(answer.salt, answer.started_with),
    })
}

/// Determines the error after the connection was closed during the handshake. A daemon that is shutting down accepts
/// connections but does not respond. Unlike other programs, it stops listening shortly afterwards.
async fn hung_up(path: &Path, problem: &str) -> ClientError {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < SHUTDOWN_GRACE {
        match socket::connect(path).await {
            Err(error @ SocketError::NotListening { .. }) => return error.into(),
            _ => tokio::time::sleep(SHUTDOWN_GRACE / 20).await,
        }
    }
    not_a_daemon(path, problem)
}

fn not_a_daemon(path: &Path, problem: &str) -> ClientError {
    ClientError::new(ClientErrorKind::Refused, format!("the server at {} is not agentd: {problem}", path.display()))
        .with_hint("stop it, or set AGENTD_SOCKET to another path")
}

/// Error of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// Kind of the failure, for programs.
    pub kind: ClientErrorKind,
    /// Message that states what was attempted and how it failed.
    pub message: String,
    /// Hint on how to fix the failure.
    pub hint: Option<String>,
}

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// No daemon listens at the socket.
    NotRunning,
    /// The socket's path is unusable: owned by another user, not a socket, or not a daemon.
    Refused,
    /// The daemon uses another version of the protocol.
    OtherVersion,
    /// The connection was lost. Turns continue without the connection.
    Lost,
    /// The daemon responded with an error of this kind.
    Answered(ErrorKind),
}

impl ClientError {
    /// Creates an error of this kind.
    pub fn new(kind: ClientErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Creates the error that the daemon would return for invalid input.
    fn invalid(message: impl Into<String>) -> Self {
        Self::new(ClientErrorKind::Answered(ErrorKind::InvalidInput), message)
    }

    /// Adds a hint on how to fix the failure.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns true if no daemon could be reached, or only a daemon of another version.
    pub fn is_unreachable(&self) -> bool {
        !matches!(self.kind, ClientErrorKind::Answered(_))
    }

    /// Returns the kind of the daemon's error, if the daemon responded.
    pub fn answered(&self) -> Option<ErrorKind> {
        match self.kind {
            ClientErrorKind::Answered(kind) => Some(kind),
            _ => None,
        }
    }
}

impl From<SocketError> for ClientError {
    fn from(error: SocketError) -> Self {
        let kind = match error {
            SocketError::NotListening { .. } => ClientErrorKind::NotRunning,
            _ => ClientErrorKind::Refused,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        if let Some((kind, hint)) = status::read_details(&status) {
            return Self { kind: ClientErrorKind::Answered(kind), message: status.message().to_owned(), hint };
        }
        if is_transport_error(&status) {
            return Self::new(ClientErrorKind::Lost, "the connection to the daemon was lost")
                .with_hint("turns continue without it: see `agentctl status`, then `agentctl attach SESSION`");
        }
        Self::new(ClientErrorKind::Answered(status::kind(status.code())), status.message().to_owned())
    }
}

/// Returns true if the library created this status because of a broken connection.
fn is_transport_error(status: &Status) -> bool {
    status.source().is_some() || matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}

impl From<WireError> for ClientError {
    fn from(error: WireError) -> Self {
        Self::new(
            ClientErrorKind::Answered(ErrorKind::Protocol),
            format!("could not read the daemon's answer: {error}"),
        )
        .with_hint("the daemon may have another version: stop it with `agentctl stop` and retry")
    }
}
