//! The running daemon: it serves until it is told to stop, and then ends everything in order.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_audit::AuditLog;
use agentd_core::ports::Clock;
use agentd_engine::Engine;
use agentd_index::Library;
use agentd_mcp::McpPool;
use agentd_store::SqliteStore;
use agentd_tools::Sandbox;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    audit,
    boot::{self, Parts},
    config::Config,
    control::{DaemonControl, Recipe},
    failure::{Failure, with_causes},
    listener::{Listener, SocketName},
    logging::LogHandle,
    rest,
    rpc::{self, DaemonInfo},
    service::Supervisor,
    signals::{Asked, Signals},
};

/// After the turns have ended, how long connections may take to read their ends.
const CLOSING_GRACE: Duration = Duration::from_secs(2);

/// How long the index of documents may take to close. It can be made anew from the documents.
const CLOSING_INDEX: Duration = Duration::from_secs(3);

/// How long MCP servers may take to end. Their guards end them also without us.
const CLOSING_SERVERS: Duration = Duration::from_secs(5);

/// How long the audit log may take to close. What somebody waited for is on the disk already.
const CLOSING_AUDIT: Duration = Duration::from_secs(5);

/// How long the journal may take to close. What it was given is durable already.
const CLOSING_JOURNAL: Duration = Duration::from_secs(5);

/// What a daemon begins with.
pub struct Beginning {
    /// When the process began.
    pub started: Instant,
    /// The configuration that was read.
    pub config: Config,
    /// How to read it again.
    pub recipe: Recipe,
    /// Where to listen, unless the supervisor passes a socket.
    pub socket: PathBuf,
    /// Whoever started us.
    pub supervisor: Supervisor,
    /// The log.
    pub log: LogHandle,
}

/// What has to be ended in order.
struct Running {
    engine: Engine,
    store: Arc<SqliteStore>,
    library: Arc<Library>,
    mcp: Arc<McpPool>,
    audit: Arc<AuditLog>,
    clock: Arc<dyn Clock>,
    server: Server,
    /// Ends the server and every stream.
    closing: CancellationToken,
    name: Option<SocketName>,
}

type Server = JoinHandle<Result<(), tonic::transport::Error>>;

/// Serves until a signal or a client says stop.
///
/// # Errors
/// Something that is needed cannot be had, or the stop was cut short.
pub async fn run(beginning: Beginning) -> Result<(), Failure> {
    let Beginning { started, config, recipe, socket, mut supervisor, log } = beginning;
    // First of all, so that no signal finds the default, which is to die without a word.
    let mut signals = Signals::listen()?;
    let Parts { engine, store, library, audit, clock, sandbox, models, makers, toolbox, mcp, skills, notes } =
        boot::assemble(&config, &recipe, &socket, log.redactor()).await?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    recover(&engine).await?;

    let Listener { incoming, name } = Listener::open(&socket, supervisor.listener()).await?;
    let info = DaemonInfo {
        started,
        socket: socket.clone(),
        data_dir: recipe.paths.data.clone(),
        sandbox: Some(sandbox.clone()),
    };
    let (stop, mut stop_asked) = mpsc::channel(1);
    let config = config.into();
    let control = Arc::new(DaemonControl {
        recipe,
        config,
        engine: engine.clone(),
        sandbox: sandbox.clone(),
        toolbox,
        skills: skills.clone(),
        models,
        makers,
        mcp: mcp.clone(),
        log,
        audit: audit.clone(),
        clock: clock.clone(),
        stop,
    });
    let closing = CancellationToken::new();
    let router = rpc::router(engine.clone(), audit.clone(), library.clone(), info, control.clone(), closing.clone())
        .await
        .map_err(|error| Failure::broken("could not describe the services").with_source(error))?;
    let mut server: Server = tokio::spawn(rpc::serve(router, incoming, closing.clone(), CLOSING_GRACE));

    supervisor.ready();
    tokio::spawn(look_at_sandbox(sandbox));
    mcp.open();
    let ready_after_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(pid = std::process::id(), socket = %socket.display(), ready_after_ms, "agentd is ready");

    let drain = tokio::select! {
        drain = until_stop(&mut signals, &mut stop_asked, &control) => drain.unwrap_or_else(|| control.drain_deadline()),
        () = rest::follow(engine.activity()) => return Err(Failure::broken("the engine ended")),
        () = feed_watchdog(&supervisor, &engine) => return Err(Failure::broken("the watchdog ended")),
        ended = &mut server => return Err(server_ended(ended)),
    };
    supervisor.stopping(drain + CLOSING_GRACE + CLOSING_SERVERS + CLOSING_INDEX + CLOSING_AUDIT + CLOSING_JOURNAL);
    tracing::info!(deadline = ?drain, "stopping; turns that run may end until the deadline");
    let running = Running { engine, store, library, mcp, audit, clock, server, closing, name };
    tokio::select! {
        () = running.finish(drain) => Ok(()),
        () = signals.next_stop() => Err(Failure::broken("stopped at once by a second signal")
            .with_hint("the turns that were running can be continued after the next start")),
    }
}

/// Finds out what the kernel offers before the first command needs it, and tells the operator what is missing.
async fn look_at_sandbox(sandbox: Arc<Sandbox>) {
    let status = sandbox.status().await;
    for weakness in &status.weaknesses {
        tracing::warn!(mode = %status.mode, commands_run = status.runs, "the sandbox: {weakness}");
    }
}

/// Settles what an earlier end left behind.
async fn recover(engine: &Engine) -> Result<(), Failure> {
    let recovered = engine.recover().await.map_err(|error| {
        let hint = error.hint().unwrap_or("is the disk full, or the data folder read-only?").to_owned();
        Failure::broken("could not settle the turns of the last run").with_source(error).with_hint(hint)
    })?;
    for turn in recovered {
        tracing::warn!(
            session = %turn.session_id,
            turn = %turn.turn_id,
            finished = turn.finished.len(),
            never_ran = turn.never_ran.len(),
            unknown = turn.unknown.len(),
            "a turn was running when the daemon last ended"
        );
    }
    Ok(())
}

/// Returns when a stop is asked for, with the time for it where the client named one. Follows reloads meanwhile.
async fn until_stop(
    signals: &mut Signals,
    stop_asked: &mut mpsc::Receiver<Option<Duration>>,
    control: &DaemonControl,
) -> Option<Duration> {
    loop {
        let asked = tokio::select! {
            asked = signals.next() => asked,
            // The sender is in `control`, which outlives this.
            drain = stop_asked.recv() => return drain.flatten(),
        };
        match asked {
            Asked::Stop => return None,
            // What came of it is told where people look.
            Asked::Reload => drop(control.follow().await),
        }
    }
}

/// Says that the daemon is alive as long as the journal answers. Never returns.
async fn feed_watchdog(supervisor: &Supervisor, engine: &Engine) {
    let Some(period) = supervisor.watchdog().map(|limit| limit / 2) else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(period, engine.probe()).await {
            Ok(Ok(())) => supervisor.alive(),
            Ok(Err(error)) => tracing::error!("the journal does not answer: {}", with_causes(&error)),
            Err(_) => tracing::error!(?period, "the journal has not answered in time"),
        }
    }
}

impl Running {
    /// The order matters. Turns end first, so that every stream shows its turn's end; then the streams; then MCP servers, the index, the
    /// audit log and the journal, which nobody writes any more; the name goes last, so that who finds it gone finds nothing half alive.
    async fn finish(mut self, drain: Duration) {
        self.engine.drain(drain).await;
        self.closing.cancel();
        if timeout(CLOSING_GRACE * 2, &mut self.server).await.is_err() {
            self.server.abort();
        }
        if timeout(CLOSING_SERVERS, self.mcp.close()).await.is_err() {
            tracing::warn!("MCP servers took too long to end; their guards end them");
        }
        if timeout(CLOSING_INDEX, self.library.close()).await.is_err() {
            tracing::warn!("the index of documents took too long to close; what it lacks is indexed again when needed");
        }
        if timeout(CLOSING_AUDIT, audit::close(&self.audit, &*self.clock)).await.is_err() {
            tracing::error!("the audit log took too long to close; the next start will look after it");
        }
        match timeout(CLOSING_JOURNAL, self.store.close()).await {
            Ok(Ok(())) => tracing::info!("stopped"),
            Ok(Err(error)) => tracing::error!("the journal was not closed well: {}", with_causes(&error)),
            Err(_) => tracing::error!("the journal took too long to close; the next start will look after it"),
        }
        if let Some(name) = self.name {
            name.remove();
        }
    }
}

fn server_ended(ended: Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>) -> Failure {
    let failure = Failure::broken("the server ended by itself");
    match ended {
        Ok(Ok(())) => failure,
        Ok(Err(error)) => failure.with_source(error),
        Err(error) => failure.with_source(error),
    }
}
