//! The gRPC services. Each method only decodes the request, calls the engine and encodes the result.
//!
//! - `turns`: starting and controlling turns, and subscribing to sessions; `feed`: the event streams for turns and
//!   subscriptions, and requests to the client of a turn.
//! - `sessions`: sessions, their files and worktrees; `documents`: the content of session documents; `archives`: export
//!   and import, recordings, and logged model requests.
//! - `policy`: pending questions, grants, rule verdicts, the audit log, and dry runs of proposed rules on logged calls.
//! - `extensions`: projects, plugins, skills and MCP servers.
//! - `daemon`: the daemon itself, its storage and cost, and the events of all sessions.
//!
//! [`router`] combines the services with health checks and reflection. [`serve`] serves clients until the token is
//! cancelled. The daemon drains its turns before it cancels the token, so that every stream reports the end of its turn
//! before closing.

/// Implements the methods of a service. Unwraps requests, wraps answers, and converts any error that converts to a
/// [`Refusal`].
macro_rules! service {
    ($service:ident: $(type $stream:ident = $of:ty;)* $(
        async fn $method:ident(&$me:ident, $request:tt: $asked:ty) -> $answer:ty { $($body:tt)* }
    )*) => {
        #[tonic::async_trait]
        impl $service for crate::rpc::Context {
            $(type $stream = $of;)*
            $(async fn $method(&$me, request: tonic::Request<$asked>) -> crate::rpc::Reply<$answer> {
                let $request = request.into_inner();
                crate::rpc::reply(async move { $($body)* }).await
            })*
        }
    };
}

mod archives;
mod daemon;
mod documents;
mod extensions;
mod feed;
mod policy;
mod sessions;
mod turns;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_engine::Engine;
use agentd_proto::{
    FILE_DESCRIPTOR_SET, MAX_MESSAGE_BYTES,
    socket::Io,
    start_variables::StartVariables,
    v1::{
        archives_server::ArchivesServer, audit_server::AuditServer, daemon_server::DaemonServer,
        documents_server::DocumentsServer, grants_server::GrantsServer, interrupts_server::InterruptsServer,
        mcp_server::McpServer, plugins_server::PluginsServer, policy_server::PolicyServer,
        projects_server::ProjectsServer, replays_server::ReplaysServer, sessions_server::SessionsServer,
        skills_server::SkillsServer, spending_server::SpendingServer, storage_server::StorageServer,
        traces_server::TracesServer, turns_server::TurnsServer, worktrees_server::WorktreesServer,
    },
};
use futures_util::{Stream, stream::BoxStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{
    Response, Status,
    transport::{Server, server::Router},
};

use crate::{boot::Parts, control::DaemonControl, failure::Refusal, health::Health};

/// Receive window for uploads on a connection, in bytes.
const RECEIVE_WINDOW: u32 = 1024 * 1024;

type Reply<T> = Result<Response<T>, Status>;

type ReplyStream<T> = BoxStream<'static, Result<T, Status>>;

/// Error of a method: a status, or a refusal converted to a status.
struct MethodError(Status);

impl<E> From<E> for MethodError
where
    Refusal: From<E>,
{
    fn from(error: E) -> Self {
        Self(Refusal::from(error).into())
    }
}

impl From<Status> for MethodError {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

async fn reply<T>(work: impl Future<Output = Result<T, MethodError>>) -> Reply<T> {
    work.await.map(Response::new).map_err(|MethodError(status)| status)
}

/// Information about the daemon at the time it starts to serve.
#[derive(Clone)]
pub struct DaemonInfo {
    /// Time at which the daemon started.
    pub started: Instant,
    /// Socket on which the daemon listens. Its path may change.
    pub socket: watch::Receiver<PathBuf>,
    /// Folder that contains the journal and the workspaces.
    pub data_dir: PathBuf,
    /// Health checks of the stored data.
    pub health: Arc<Health>,
    /// Digests of the environment variables for models and keys at startup, which clients compare with their own.
    pub started_with: StartVariables,
}

/// State shared by all services.
#[derive(Clone)]
pub(crate) struct Context {
    engine: Engine,
    control: Arc<DaemonControl>,
    info: Arc<DaemonInfo>,
    /// Cancelled when the streams must end.
    shutdown: CancellationToken,
}

impl Context {
    fn parts(&self) -> &Parts {
        &self.control.parts
    }
}

/// Creates all services. The streams end with `UNAVAILABLE` when `shutdown` is cancelled.
///
/// # Errors
/// Fails if the reflection descriptors cannot be read, which is a build defect.
pub async fn router(
    info: DaemonInfo,
    control: Arc<DaemonControl>,
    shutdown: CancellationToken,
) -> Result<Router, tonic_reflection::server::Error> {
    let context = Context { engine: control.parts.engine.clone(), control, info: Arc::new(info), shutdown };
    let (health, health_service) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let mut router = Server::builder()
        .initial_stream_window_size(RECEIVE_WINDOW)
        .initial_connection_window_size(4 * RECEIVE_WINDOW)
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        // Many existing clients still use the v1alpha name of the service.
        .add_service(reflection().build_v1alpha()?);
    macro_rules! serve {
        ($($server:ident),*) => {$(
            health.set_serving::<$server<Context>>().await;
            router = router.add_service($server::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES));
        )*};
    }
    serve!(TurnsServer, SessionsServer, ArchivesServer, DocumentsServer, SkillsServer, InterruptsServer, GrantsServer);
    serve!(AuditServer, PolicyServer, ProjectsServer, PluginsServer, McpServer, StorageServer, SpendingServer);
    serve!(WorktreesServer, ReplaysServer, TracesServer, DaemonServer);
    Ok(router)
}

/// Returns the path of a folder if it is absolute. The daemon and the client have different working directories.
fn absolute(folder: String) -> Result<PathBuf, Refusal> {
    if Path::new(&folder).is_absolute() {
        return Ok(folder.into());
    }
    Err(Refusal::invalid("the path of the folder is not absolute").with_hint("use an absolute path"))
}

/// Serves until `shutdown` is cancelled, then accepts no new connections and waits up to `grace` for open connections
/// to close. A connection whose client has stopped reading would never close.
///
/// # Errors
/// Fails if the transport fails. Errors of single connections are not reported.
pub async fn serve(
    router: Router,
    incoming: impl Stream<Item = io::Result<Io>> + Send + 'static,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), tonic::transport::Error> {
    let serving = router.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    let grace_expired = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = serving => served,
        () = grace_expired => {
            tracing::warn!("connections were still open at shutdown and are dropped");
            Ok(())
        }
    }
}
