//! The client of the daemon: domain types in and out, no message of the wire.
//!
//! [`Client::connect`] shakes hands first and tells apart what can be wrong there. A [`Client`] is cheap to clone and
//! connects again by itself when the daemon was restarted; open streams end with [`ClientErrorKind::Lost`].
//!
//! This file has the handshake, what can go wrong, and the rows of calls; `sessions`, `archives`, `turns`, `policy` and `daemon`
//! have the calls.

pub use crate::client::daemon::{WatchEvent, WatchStream};
pub use crate::view::{
    AuditChange, AuditComparison, Comparison, ConfigOrigin, ConfigView, DaemonStatus, ExportedContent, Finding,
    ForkReply, Hello, LanguageServer, McpServerState, McpServerView, NewSession, NumberedItem, PolicyCall, PruneReport,
    ReloadOutcome, RuleText, SessionView,
};
pub use agentd_core::{policy::SandboxState, turn::RecoveredTurn};
pub use archives::{ExportPart, ExportStream, PlayMode, PlayProblem, PlayReport, PlayRequest, PlayStep, PlayStream};
pub use sessions::too_large as upload_too_large;
pub use turns::{EventStream, SessionChoice, StartRequest, TurnFrame, TurnSender, TurnStream};

use std::{
    error::Error as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_core::error::ErrorKind;
use hyper_util::rt::TokioIo;
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::{
    MAX_MESSAGE_BYTES, PROTOCOL_VERSION,
    convert::WireError,
    socket::{self, Io, SocketError},
    start_variables::StartVariables,
    status,
    v1::{self, daemon_client::DaemonClient},
};

/// Calls of services that take a request and answer once, a row each. Of the answer comes the `whole`, `nothing`, `all` values of
/// a list in it, `only` one field, or a `needed` one, converted, with its name in errors.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $value:ty
        = $stub:ident.$method:ident($request:expr) $what:ident $($part:ident $($called:literal)?)?;)*) => {
        impl $crate::client::Client {
            $($(#[$doc])*
            pub async fn $name(&self, $($arg: $kind),*) -> Result<$value, $crate::client::ClientError> {
                let answer = self.$stub().$method($request).await?.into_inner();
                calls!(@$what answer $($part $($called)?)?)
            })*
        }
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

/// The next message of a stream, as it is read; none after the last. Those of kinds that are not known here are skipped.
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

/// Time limit for the other end to say who it is. A daemon answers in well under a millisecond.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a daemon that hung up on the handshake to let go of its socket.
const DYING: Duration = Duration::from_millis(300);

/// Flow-control window of a stream, in bytes: more than that is not sent before the reader catches up.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// A connection to the daemon. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    hello: Hello,
}

/// The stubs of the services.
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
    /// Connects to the daemon at this socket and makes sure that both speak the same version.
    ///
    /// # Errors
    /// [`ClientErrorKind::NotRunning`], [`ClientErrorKind::Refused`] or [`ClientErrorKind::OtherVersion`].
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        Self::connect_any_version(path).await?.of_our_version(path)
    }

    /// The same client, if its daemon speaks our version.
    ///
    /// # Errors
    /// [`ClientErrorKind::OtherVersion`], with the socket's path in it.
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
        .with_hint("stop the daemon with `agentctl stop`; the next command starts the one that fits"))
    }

    /// Connects as [`Client::connect`] does and takes a daemon of any version, so that it can be stopped.
    ///
    /// # Errors
    /// [`ClientErrorKind::NotRunning`] or [`ClientErrorKind::Refused`], and [`ClientErrorKind::OtherVersion`] for a
    /// daemon that does not know the handshake.
    pub async fn connect_any_version(path: &Path) -> Result<Self, ClientError> {
        let first = socket::connect(path).await?;
        let channel = match open_channel(path.to_owned(), first).await {
            Ok(channel) => channel,
            Err(problem) => return Err(hung_up(path, &problem).await),
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands(channel.clone())).await {
            Ok(Ok(hello)) => Ok(Self { channel, hello }),
            Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => Err(ClientError::new(
                ClientErrorKind::OtherVersion,
                format!("what listens at {} does not know the handshake", path.display()),
            )
            .with_hint("it is not agentd, or one of another version: end it, or set AGENTD_SOCKET to another path")),
            Ok(Err(status)) => Err(hung_up(path, status.message()).await),
            Err(_) => Err(not_a_daemon(path, "it does not answer")),
        }
    }

    /// The daemon's greeting.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }
}

async fn open_channel(path: PathBuf, first: Io) -> Result<Channel, String> {
    // The connection that showed that somebody is there is used, and only later ones are made anew.
    let first = Arc::new(Mutex::new(Some(first)));
    let connector = service_fn(move |_| {
        let taken = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let path = path.clone();
        async move {
            let io = match taken {
                Some(io) => io,
                None => socket::connect(&path).await.map_err(std::io::Error::from)?,
            };
            Ok::<_, std::io::Error>(TokioIo::new(io))
        }
    });
    // The address is never looked up: the connector knows the way.
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

/// A daemon that is ending takes connections to the last and answers none. It is told from what is no daemon by
/// nobody listening a moment later.
async fn hung_up(path: &Path, problem: &str) -> ClientError {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < DYING {
        match socket::connect(path).await {
            Err(error @ SocketError::NobodyThere { .. }) => return error.into(),
            _ => tokio::time::sleep(DYING / 20).await,
        }
    }
    not_a_daemon(path, problem)
}

fn not_a_daemon(path: &Path, problem: &str) -> ClientError {
    ClientError::new(
        ClientErrorKind::Refused,
        format!("something listens at {} that does not speak as agentd does: {problem}", path.display()),
    )
    .with_hint("end it, or set AGENTD_SOCKET to another path")
}

/// A call that did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// Kind of failure, for programs.
    pub kind: ClientErrorKind,
    /// Message: what was attempted and what came of it.
    pub message: String,
    /// Hint on what to do.
    pub hint: Option<String>,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// No daemon listens at the socket.
    NotRunning,
    /// Something is at the socket's path that cannot be used: not ours, not a socket, or no daemon.
    Refused,
    /// The daemon speaks another version of the protocol.
    OtherVersion,
    /// The connection ended before its time. Turns go on without it.
    Lost,
    /// The daemon answered with an error of this kind.
    Answered(ErrorKind),
}

impl ClientError {
    /// An error of that kind.
    pub fn new(kind: ClientErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The refusal of something that the daemon would refuse, too.
    fn invalid(message: impl Into<String>) -> Self {
        Self::new(ClientErrorKind::Answered(ErrorKind::InvalidInput), message)
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns whether there was no daemon to talk to, or one of another version.
    pub fn is_unreachable(&self) -> bool {
        !matches!(self.kind, ClientErrorKind::Answered(_))
    }

    /// The kind that the daemon answered with, if it answered.
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
            SocketError::NobodyThere { .. } => ClientErrorKind::NotRunning,
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
        if is_of_the_transport(&status) {
            return Self::new(ClientErrorKind::Lost, "the connection to the daemon was lost")
                .with_hint("turns continue without it: see `agentctl status`, then `agentctl attach SESSION`");
        }
        Self::new(ClientErrorKind::Answered(status::kind(status.code())), status.message().to_owned())
    }
}

/// Returns whether the library itself made this status up from a broken connection.
fn is_of_the_transport(status: &Status) -> bool {
    status.source().is_some() || matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}

impl From<WireError> for ClientError {
    fn from(error: WireError) -> Self {
        Self::new(
            ClientErrorKind::Answered(ErrorKind::Protocol),
            format!("could not read the daemon's answer: {error}"),
        )
        .with_hint("the daemon may be of another version: stop it with `agentctl stop` and try again")
    }
}
