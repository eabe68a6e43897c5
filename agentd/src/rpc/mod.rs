//! The services that clients speak to: decode, hand to the engine, encode. Nothing is decided here.
//!
//! - `turns`: starting and driving turns, watching sessions; `feed`: the stream of events behind both, and what is asked of the
//!   client of a turn.
//! - `sessions`: sessions, their files and worktrees; `documents`: content of documents among them; `archives`: sessions that
//!   leave and that come, recordings, and requests to models as they were on the wire.
//! - `policy`: pending requests, stored rules, verdicts of the rules, the audit log, and verdicts of other rules on its calls.
//! - `extensions`: projects, plugins, skills and MCP servers.
//! - `daemon`: the daemon itself, its storage and its spending, and what happens in all sessions.
//!
//! [`router`] puts the services together, with health and reflection beside them; [`serve`] lets clients in until the
//! token is cancelled. The daemon drains its turns first and cancels then, so that every stream can show its turn's
//! end before it ends itself.

/// The methods of a service: requests come without their envelope and answers leave in one, and an error is anything that
/// becomes a [`Refusal`].
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

/// Receive window of uploads on a connection, in bytes.
const RECEIVE_WINDOW: u32 = 1024 * 1024;

/// Answer of a method.
type Reply<T> = Result<Response<T>, Status>;

/// Answers of a method that has several.
type ReplyStream<T> = BoxStream<'static, Result<T, Status>>;

/// Error of a method: a refusal, or the status of one.
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

/// The daemon's knowledge of itself when it begins to serve.
#[derive(Clone)]
pub struct DaemonInfo {
    /// When it started.
    pub started: Instant,
    /// The socket that it listens on; it may have to move.
    pub socket: watch::Receiver<PathBuf>,
    /// The folder that holds the journal and the workspaces.
    pub data_dir: PathBuf,
    /// Looks after what is kept.
    pub health: Arc<Health>,
    /// The variables of models and keys that it was started with, as clients are told of them.
    pub started_with: StartVariables,
}

/// State that all services share.
#[derive(Clone)]
pub(crate) struct Context {
    engine: Engine,
    control: Arc<DaemonControl>,
    info: Arc<DaemonInfo>,
    /// Cancelled when streams shall end.
    shutdown: CancellationToken,
}

impl Context {
    fn parts(&self) -> &Parts {
        &self.control.parts
    }
}

/// All services. Their streams end with `UNAVAILABLE` when `shutdown` is cancelled.
///
/// # Errors
/// When the descriptors that reflection serves cannot be read, which is a defect of the build.
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
        // Many ready-made clients ask for the older name of the same service.
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

/// The path of a folder, which must be absolute: the daemon is somewhere else than its client.
fn absolute(folder: String) -> Result<PathBuf, Refusal> {
    if Path::new(&folder).is_absolute() {
        return Ok(folder.into());
    }
    Err(Refusal::invalid("the path of the folder is not absolute").with_hint("give it from the root on"))
}

/// Serves until `shutdown` is cancelled. Then no new connection is taken, and the ones there are may take `grace` to
/// close: one with a reader that has stopped reading would never.
///
/// # Errors
/// When the transport breaks; single connections do not count.
pub async fn serve(
    router: Router,
    incoming: impl Stream<Item = io::Result<Io>> + Send + 'static,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), tonic::transport::Error> {
    let serving = router.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = serving => served,
        () = overdue => {
            tracing::warn!("connections were still open at the end and are abandoned");
            Ok(())
        }
    }
}
