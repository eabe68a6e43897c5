//! The services that clients speak to: decode, hand to the engine, encode. Nothing is decided here.
//!
//! - `turns`: starting and driving turns, watching sessions; `feed`: the stream of events behind both; `client_files`, `client_tools`: questions and calls
//!   that the client of a turn answers.
//! - `archives`: sessions that leave and that come. `sessions`, `upload`: sessions and their files; `documents`: content of documents among them. `interrupts`:
//!   pending requests. `grants`: stored rules. `skills`: the list of skills. `projects`: what projects bring along,
//!   and trust in it. `plugins`: what was added as a whole. `policy`: verdicts of the rules, and of proposed ones. `mcp`: MCP servers; `session_servers`: those that clients bring for sessions. `audit`: the audit log. `storage`: disk usage. `usage`: tokens and money. `worktrees`: git worktrees of sessions. `replays`: recordings. `traces`: requests to models as they were on the wire. `daemon`: the daemon itself; `watching`: what happens in
//!   all sessions.
//!
//! [`router`] puts the services together, with health and reflection beside them; [`serve`] lets clients in until the
//! token is cancelled. The daemon drains its turns first and cancels then, so that every stream can show its turn's
//! end before it ends itself.

mod archives;
mod audit;
mod client_files;
mod client_tools;
mod daemon;
mod documents;
mod feed;
mod grants;
mod interrupts;
mod mcp;
mod plugins;
mod policy;
mod projects;
mod replays;
mod session_servers;
mod sessions;
mod skills;
mod storage;
#[cfg(test)]
#[cfg(feature = "documents")]
mod tests;
mod traces;
mod turns;
mod upload;
mod usage;
mod watching;
mod worktrees;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_audit::redact::Patterns;
use agentd_core::{
    audit::AuditLine,
    error::ErrorKind,
    ids::SessionId,
    plugin::PluginReport,
    ports::{AuditReader, Knowledge},
};
use agentd_engine::Engine;
use agentd_exchange::ExchangeLog;
use agentd_extensions::skills::SkillStore;
use agentd_lsp::LanguagePool;
use agentd_mcp::{McpPool, SessionServers};
use agentd_policy::Policy;
use agentd_proto::{
    FILE_DESCRIPTOR_SET, MAX_MESSAGE_BYTES,
    client::{ConfigOrigin, ReloadOutcome},
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
use agentd_replay::Redaction;
use agentd_sandbox::host::Sandbox;
use futures_util::{Stream, future::BoxFuture};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::Router};

use crate::{health::Health, refusal::Refusal, replay::Player, retention::Retention};

/// Receive window of uploads on a connection, in bytes.
const RECEIVE_WINDOW: u32 = 1024 * 1024;

/// The daemon's knowledge of itself when it begins to serve.
#[derive(Clone)]
pub struct DaemonInfo {
    /// When it started.
    pub started: Instant,
    /// The socket that it listens on; it may have to move.
    pub socket: watch::Receiver<PathBuf>,
    /// The folder that holds the journal and the workspaces.
    pub data_dir: PathBuf,
    /// Sandbox of commands.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Looks after what is kept.
    pub health: Option<Arc<Health>>,
    /// Language servers.
    pub languages: Option<Arc<LanguagePool>>,
    /// The variables of models and keys that it was started with, as clients are told of them.
    pub started_with: StartVariables,
}

/// Actions of the daemon that a client can ask for.
pub trait Control: Send + Sync + 'static {
    /// Begins to stop, and returns at once. Running turns may take `drain`, or the configured time, to end.
    fn stop(&self, drain: Option<Duration>);

    /// Reads the configuration again. A configuration with a mistake changes nothing.
    fn reload(&self) -> BoxFuture<'_, Result<ReloadOutcome, Refusal>>;

    /// The rules that would hold if the person's file of rules had this text.
    ///
    /// # Errors
    /// The first thing in it that makes no sense, with its line and column.
    fn try_rules(&self, text: String, path: PathBuf) -> Result<Arc<Policy>, Refusal>;

    /// The MCP servers.
    fn mcp(&self) -> &Arc<McpPool>;

    /// The MCP servers that clients bring for sessions, where they can.
    fn session_servers(&self) -> Option<&SessionServers> {
        None
    }

    /// Takes the values of variables that the client of a turn lends, for its session where that is known.
    fn lend(&self, session: Option<SessionId>, values: HashMap<String, String>) {
        self.mcp().lend(session, values);
    }

    /// Looks whether the person's file of MCP servers could have this text.
    ///
    /// # Errors
    /// The first thing in it that makes no sense, with its line and column.
    fn try_mcp(&self, text: String, path: PathBuf) -> Result<(), Refusal>;

    /// Shows every line of the audit log, oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    fn each_audited(&self, see: &mut dyn FnMut(AuditLine)) -> Result<(), Refusal>;

    /// The configuration that holds, weakest first: `built-in` and the paths of files.
    fn config_sources(&self) -> Vec<String>;

    /// Its keys, with the origin and the value of each. No secret is among them.
    fn config_origins(&self) -> Vec<ConfigOrigin>;

    /// The skills, where there are any.
    fn skills(&self) -> Option<SkillStore> {
        None
    }

    /// The plugins, where there are any.
    fn plugins(&self) -> Option<&dyn PluginControl> {
        None
    }

    /// Player of recordings, where there is one.
    fn player(&self) -> Option<Arc<Player>> {
        None
    }

    /// Masks secrets in a text: those that the daemon knows, and what looks like one.
    fn redaction(&self) -> Redaction {
        let patterns = Patterns::default();
        Arc::new(move |text| patterns.clean(text))
    }

    /// Requests to models and their answers, where they can be kept.
    fn exchanges(&self) -> Option<&ExchangeLog> {
        None
    }

    /// Retention of the data folder, where there is one.
    fn retention(&self) -> Option<Arc<Retention>> {
        None
    }

    /// The variables that the configuration lets clients pass to tools, besides those that always may.
    fn passed_variables(&self) -> Vec<String>;
}

/// Actions about plugins that a client can ask for.
pub trait PluginControl: Send + Sync {
    /// All plugins, as they were when they were looked at last.
    fn known(&self) -> Vec<PluginReport>;

    /// All plugins, after a look at their files.
    fn list(&self) -> BoxFuture<'_, Result<Vec<PluginReport>, Refusal>>;

    /// Describes a folder as a plugin. Nothing is added.
    fn look(&self, folder: PathBuf) -> BoxFuture<'_, Result<PluginReport, Refusal>>;

    /// Adds the plugin in a folder, in a client's name, if it has this hash. Its parts can be used at once.
    fn add(
        &self,
        folder: PathBuf,
        hash: String,
        source: String,
        client: String,
    ) -> BoxFuture<'_, Result<PluginReport, Refusal>>;

    /// Removes a plugin, in a client's name. None where there is none of that name.
    fn remove(&self, name: String, client: String) -> BoxFuture<'_, Result<Option<PluginReport>, Refusal>>;
}

/// State that all services share.
#[derive(Clone)]
pub(crate) struct Context {
    engine: Engine,
    audit: Arc<dyn AuditReader>,
    knowledge: Arc<dyn Knowledge>,
    info: Arc<DaemonInfo>,
    control: Arc<dyn Control>,
    /// Cancelled when streams shall end.
    shutdown: CancellationToken,
    /// Time limit for one search to start on further documents.
    search_patience: Duration,
}

/// All services. Their streams end with `UNAVAILABLE` when `shutdown` is cancelled.
///
/// # Errors
/// When the descriptors that reflection serves cannot be read, which is a defect of the build.
pub async fn router(
    engine: Engine,
    audit: Arc<dyn AuditReader>,
    knowledge: Arc<dyn Knowledge>,
    info: DaemonInfo,
    control: Arc<dyn Control>,
    shutdown: CancellationToken,
) -> Result<Router, tonic_reflection::server::Error> {
    let (info, search_patience) = (Arc::new(info), documents::SEARCH_PATIENCE);
    router_of(Context { engine, audit, knowledge, info, control, shutdown, search_patience }).await
}

async fn router_of(context: Context) -> Result<Router, tonic_reflection::server::Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<TurnsServer<Context>>().await;
    health.set_serving::<SessionsServer<Context>>().await;
    health.set_serving::<ArchivesServer<Context>>().await;
    health.set_serving::<DocumentsServer<Context>>().await;
    health.set_serving::<SkillsServer<Context>>().await;
    health.set_serving::<InterruptsServer<Context>>().await;
    health.set_serving::<GrantsServer<Context>>().await;
    health.set_serving::<AuditServer<Context>>().await;
    health.set_serving::<PolicyServer<Context>>().await;
    health.set_serving::<ProjectsServer<Context>>().await;
    health.set_serving::<PluginsServer<Context>>().await;
    health.set_serving::<McpServer<Context>>().await;
    health.set_serving::<StorageServer<Context>>().await;
    health.set_serving::<SpendingServer<Context>>().await;
    health.set_serving::<WorktreesServer<Context>>().await;
    health.set_serving::<ReplaysServer<Context>>().await;
    health.set_serving::<TracesServer<Context>>().await;
    health.set_serving::<DaemonServer<Context>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Server::builder()
        .initial_stream_window_size(RECEIVE_WINDOW)
        .initial_connection_window_size(4 * RECEIVE_WINDOW)
        .add_service(TurnsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(SessionsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(ArchivesServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(DocumentsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(SkillsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(InterruptsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(GrantsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(AuditServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(PolicyServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(ProjectsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(PluginsServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(McpServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(StorageServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(SpendingServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(WorktreesServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(ReplaysServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(TracesServer::new(context.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(DaemonServer::new(context).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        // Many ready-made clients ask for the older name of the same service.
        .add_service(reflection().build_v1alpha()?))
}

/// The path of a folder, which must be absolute: the daemon is somewhere else than its client.
fn absolute(folder: String) -> Result<PathBuf, Refusal> {
    if Path::new(&folder).is_absolute() {
        return Ok(folder.into());
    }
    Err(Refusal {
        kind: ErrorKind::InvalidInput,
        message: "the path of the folder is not absolute".to_owned(),
        hint: Some("give it from the root on".to_owned()),
    })
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
