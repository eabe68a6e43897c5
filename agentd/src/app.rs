//! The running daemon: serves until it is stopped, then shuts down all parts in order.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_engine::Engine;
use agentd_lsp::{FoundServer, LanguagePool};
use agentd_sandbox::host::Sandbox;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    audit,
    boot::{self, Parts},
    config::Config,
    control::DaemonControl,
    failure::{Failure, with_causes},
    footprint,
    health::Health,
    listener::{Presence, SocketPaths},
    lock::FolderLock,
    logging::LogHandle,
    paths::ConfigSource,
    retention,
    rpc::{self, DaemonInfo},
    service::{Signals, Supervisor},
};

/// Time for connections to deliver the ends of their streams after the turns have ended.
const CLOSING_GRACE: Duration = Duration::from_secs(2);

/// Time limit for closing the document index, which can be rebuilt from the documents.
const CLOSING_INDEX: Duration = Duration::from_secs(3);

/// Time limit for stopping MCP and language servers. Guard processes stop them even if the daemon has exited.
const CLOSING_SERVERS: Duration = Duration::from_secs(5);

/// Time limit for closing the audit log. Entries that a caller waited for are already on disk.
const CLOSING_AUDIT: Duration = Duration::from_secs(5);

/// Time limit for flushing the log of model requests.
const CLOSING_TRACES: Duration = Duration::from_secs(2);

/// Time limit for closing the journal. All acknowledged writes are already durable.
const CLOSING_JOURNAL: Duration = Duration::from_secs(5);

/// Minimum time between two reloads. Signals that arrive within this time share one reload.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

type Server = JoinHandle<Result<(), tonic::transport::Error>>;

/// Serves until a signal or a client requests a stop. Listens on the first available socket path, unless the supervisor
/// passes a socket. `source` is read again at each reload. `lock` belongs to the data folder and is held until the
/// daemon stops.
///
/// # Errors
/// Fails if a required part cannot be started or ends unexpectedly, or if a second signal cuts the shutdown short.
pub async fn run(
    started: Instant,
    config: Config,
    source: ConfigSource,
    sockets: SocketPaths,
    mut supervisor: Supervisor,
    log: LogHandle,
    lock: &mut FolderLock,
) -> Result<(), Failure> {
    // Must come first: the default action of a signal is to kill the process without any output.
    let mut signals = Signals::listen()?;
    let had_audit_log = source.paths.data.join("audit.jsonl").metadata().is_ok_and(|meta| meta.len() > 0);
    let parts = Arc::new(boot::assemble(&config, &source, &sockets, log.redactor()).await?);
    let Parts { engine, store, sandbox, audit, languages, .. } = &*parts;
    parts.notes.iter().for_each(|note| tracing::warn!("{note}"));
    recover(engine).await?;
    let data = source.paths.data.clone();
    let exporters = audit::start(&config, &source.env, data.clone(), store.clone(), &engine.activity()).await;
    let (mut presence, incoming) = Presence::open(sockets, supervisor.listener.take(), lock, Arc::clone(store)).await?;
    let health = Arc::new(Health::new(data.clone(), Arc::clone(store), had_audit_log));
    let info = DaemonInfo {
        started,
        socket: presence.socket(),
        data_dir: data.clone(),
        health: Arc::clone(&health),
        started_with: source.env.start_variables(),
    };
    let (stop, mut stop_requests) = mpsc::channel(1);
    let (config, control_parts) = (config.into(), Arc::clone(&parts));
    let control = Arc::new(DaemonControl { source, config, parts: control_parts, log, stop });
    let closing = CancellationToken::new();
    let router = rpc::router(info, control.clone(), closing.clone())
        .await
        .map_err(|error| Failure::broken("could not load the descriptions of the services").with_source(error))?;
    let mut server: Server = tokio::spawn(rpc::serve(router, incoming, closing.clone(), CLOSING_GRACE));

    supervisor.ready();
    tokio::spawn(probe_sandbox(sandbox.clone()));
    tokio::spawn(log_lost_sessions(health));
    tokio::spawn(finish_removals(engine.clone()));
    log_language_servers(languages);
    parts.mcp.open();
    let ready_after_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let socket = presence.socket().borrow().clone();
    tracing::info!(pid = std::process::id(), socket = %socket.display(), ready_after_ms, "agentd is ready");

    let drain = tokio::select! {
        drain = until_stop(&mut signals, &mut stop_requests, &control) => {
            drain.unwrap_or_else(|| control.config().daemon.service.drain_deadline.0)
        }
        () = footprint::follow(engine.activity()) => return Err(Failure::broken("the engine ended")),
        () = retention::follow(Arc::clone(&parts.retention), engine.activity()) => {
            return Err(Failure::broken("the retention task ended"));
        }
        () = audit::store_head_periodically(audit, store) => return Err(Failure::broken("the audit task ended")),
        () = presence.maintain() => return Err(Failure::broken("the socket task ended")),
        () = feed_watchdog(&supervisor, engine) => return Err(Failure::broken("the watchdog ended")),
        ended = &mut server => {
            let failure = Failure::broken("the server ended unexpectedly");
            return Err(match ended {
                Ok(Ok(())) => failure,
                Ok(Err(error)) => failure.with_source(error),
                Err(error) => failure.with_source(error),
            });
        }
    };
    supervisor.stopping(
        drain + CLOSING_GRACE + CLOSING_SERVERS + CLOSING_INDEX + CLOSING_TRACES + CLOSING_AUDIT + CLOSING_JOURNAL,
    );
    tracing::info!(deadline = ?drain, "stopping; running turns may finish until the deadline");
    tokio::select! {
        () = finish(Arc::clone(&parts), server, closing, presence, exporters, drain) => Ok(()),
        () = signals.next_stop() => Err(Failure::broken("stopped immediately by a second signal")
            .with_hint("interrupted turns can be resumed after the next start")),
    }
}

/// Logs which language servers are installed, and how to install the missing ones.
fn log_language_servers(languages: &LanguagePool) {
    let (found, missing): (Vec<_>, Vec<_>) = languages.found().into_iter().partition(|server| server.program.is_some());
    let found: Vec<String> = found.into_iter().map(|server| server.name).collect();
    tracing::info!(?found, "language servers on this machine");
    for FoundServer { name, hint, .. } in missing {
        tracing::info!("the language server {name} is not installed: {}", hint.unwrap_or_default());
    }
}

/// Detects the kernel's sandbox features before the first command needs them, and logs the missing features.
async fn probe_sandbox(sandbox: Arc<Sandbox>) {
    let status = sandbox.status().await;
    for weakness in &status.weaknesses {
        tracing::warn!(mode = %status.mode, commands_run = status.runs, "the sandbox: {weakness}");
    }
}

/// Logs sessions that are missing from the journal.
async fn log_lost_sessions(health: Arc<Health>) {
    for finding in health.loss_report().into_iter().chain(health.missing_data().await) {
        tracing::warn!(hint = finding.hint, "{}", finding.message);
    }
}

/// Finishes removals that an earlier run left incomplete. Runs in the background, because there may be many files.
async fn finish_removals(engine: Engine) {
    if let Err(error) = engine.settle_worktrees().await {
        tracing::warn!(hint = error.hint(), "could not clean up the worktrees of the last run: {error}");
    }
    if let Err(error) = engine.finish_removals().await {
        tracing::warn!(hint = error.hint(), "could not remove the files of deleted sessions: {error}");
    }
}

/// Settles imports and turns that an earlier run left unfinished.
async fn recover(engine: &Engine) -> Result<(), Failure> {
    if let Err(error) = engine.settle_imports().await {
        tracing::warn!(hint = error.hint(), "could not clean up an interrupted import: {error}");
    }
    let recovered = engine.recover().await.map_err(|error| {
        let hint = error.hint().unwrap_or("is the disk full, or the data folder read-only?").to_owned();
        Failure::broken("could not recover the turns of the last run").with_source(error).with_hint(hint)
    })?;
    for turn in recovered {
        tracing::warn!(
            session = %turn.session_id,
            turn = %turn.turn_id,
            finished = turn.finished.len(),
            never_ran = turn.never_ran.len(),
            unknown = turn.unknown.len(),
            "a turn was running when the daemon last stopped"
        );
    }
    Ok(())
}

/// Waits for a stop request, and returns the drain time if the client specified one. Handles reloads while waiting: the
/// first signal triggers a reload immediately, and all signals within the following second share one reload.
async fn until_stop(
    signals: &mut Signals,
    stop_requests: &mut mpsc::Receiver<Option<Duration>>,
    control: &DaemonControl,
) -> Option<Duration> {
    let mut reloads = Reloads::default();
    loop {
        let is_stop = tokio::select! {
            is_stop = signals.next() => is_stop,
            // The sender is in `control`, which outlives this future.
            drain = stop_requests.recv() => return drain.flatten(),
            () = reloads.wait_until_due() => {
                reloads.mark_done();
                // The outcome is already in the log and the audit log.
                drop(control.reload_and_log(false).await);
                continue;
            }
        };
        if is_stop {
            return None;
        }
        reloads.is_requested = true;
    }
}

/// Rate limit for reloads requested by signals.
#[derive(Default)]
struct Reloads {
    is_requested: bool,
    last: Option<tokio::time::Instant>,
}

impl Reloads {
    fn mark_done(&mut self) {
        *self = Self { is_requested: false, last: Some(tokio::time::Instant::now()) };
    }

    /// Waits until a requested reload is due. Never returns if no reload was requested.
    async fn wait_until_due(&self) {
        if !self.is_requested {
            return std::future::pending().await;
        }
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + RELOAD_PAUSE).await;
        }
    }
}

/// Reports to the supervisor's watchdog as long as the journal responds. Never returns.
async fn feed_watchdog(supervisor: &Supervisor, engine: &Engine) {
    let Some(period) = supervisor.watchdog.map(|limit| limit / 2) else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(period, engine.probe()).await {
            Ok(Ok(())) => supervisor.alive(),
            Ok(Err(error)) => tracing::error!("the journal does not respond: {}", with_causes(&error)),
            Err(_) => tracing::error!(?period, "the journal did not respond in time"),
        }
    }
}

/// Shuts down in order. Turns end first, so that every stream reports the end of its turn. Then the streams are closed,
/// then the MCP servers, the index and the audit log, and then the journal, which has no writers left. The socket is
/// removed last, so its absence means that the shutdown is complete.
///
/// Events that the exporters have not sent are sent after the next start.
async fn finish(
    parts: Arc<Parts>,
    mut server: Server,
    closing: CancellationToken,
    presence: Presence<'_>,
    exporters: JoinSet<()>,
    drain: Duration,
) {
    parts.engine.drain(drain).await;
    drop(exporters);
    closing.cancel();
    presence.close();
    if timeout(CLOSING_GRACE * 2, &mut server).await.is_err() {
        server.abort();
    }
    if timeout(CLOSING_SERVERS, async {
        tokio::join!(parts.mcp.close(), parts.session_servers.close(), parts.languages.close())
    })
    .await
    .is_err()
    {
        tracing::warn!("MCP or language servers did not exit in time and were killed");
    }
    if timeout(CLOSING_INDEX, parts.library.close()).await.is_err() {
        tracing::warn!("the index of documents took too long to close; missing parts are indexed again when needed");
    }
    if timeout(CLOSING_TRACES, parts.exchanges.flush()).await.is_err() {
        tracing::warn!("some model requests took too long to write and are missing from traces");
    }
    if timeout(CLOSING_AUDIT, audit::close(&parts.audit, &parts.store, &*parts.clock)).await.is_err() {
        tracing::error!("the audit log took too long to close; the next start repairs it");
    }
    match timeout(CLOSING_JOURNAL, parts.store.close()).await {
        Ok(Ok(())) => tracing::info!("stopped"),
        Ok(Err(error)) => tracing::error!("the journal was not closed cleanly: {}", with_causes(&error)),
        Err(_) => tracing::error!("the journal took too long to close; the next start repairs it"),
    }
    presence.remove();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_signals_cause_one_reload() {
        let mut reloads = Reloads::default();
        let start = tokio::time::Instant::now();
        let mut seconds = Vec::new();
        for _ in 0..3 {
            for _ in 0..100 {
                reloads.is_requested = true;
            }
            reloads.wait_until_due().await;
            reloads.mark_done();
            seconds.push(start.elapsed().as_secs());
        }
        assert_eq!(seconds, [0, 1, 2]);
        assert!(timeout(Duration::from_secs(60), reloads.wait_until_due()).await.is_err(), "no reload was requested");
    }
}
