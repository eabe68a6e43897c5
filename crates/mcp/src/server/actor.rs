//! Actor of one server: starts it on demand, monitors it, and stops it when it is idle.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, OptionFuture},
};
use rmcp::service::RunningService;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time,
};
use tokio_util::sync::CancellationToken;

use super::{
    connect::{Connection, ConnectionParams, Era, OpenConnection},
    handler::Handler,
    listing,
    process::{self, Process},
};
use crate::reason::{Reason, span};

/// Delay between a change to a server's tools and the next listing. Limits the listings of a server that changes
/// constantly.
const CHANGE_DELAY: Duration = Duration::from_secs(2);
/// Idle time after which a server that was started only for listing is stopped.
const LISTED_IDLE_TIME: Duration = Duration::from_secs(5);
/// Time limit for pending messages when a connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Health of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Health {
    /// Not running. The next call starts it.
    #[default]
    Stopped,
    /// Being started, not usable yet.
    Starting,
    /// Running, with the process id of its guard if it is a local program.
    Running(Option<u32>),
    /// Failed. The next call starts it again, but not before `until`.
    Down {
        /// Reason for the failure.
        why: Reason,
        /// Earliest time of the next start, if not immediately.
        until: Option<Instant>,
    },
}

/// Handle of a server's actor.
#[derive(Clone)]
pub(crate) struct ServerHandle {
    commands: mpsc::Sender<Command>,
    health: watch::Receiver<Health>,
}

/// Purpose of starting a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Call, or an eager start.
    Call,
    /// Request by the user, who is aware of earlier failures.
    Person,
    /// Listing of the server's tools only.
    Listing,
}

enum Command {
    Lease { need: Need, answer: Answer },
    Stop(oneshot::Sender<()>),
}

type Answer = oneshot::Sender<Result<ConnectionLease, Reason>>;

/// Connection in use. The server is not stopped while this exists.
pub(crate) struct ConnectionLease {
    pub(crate) connection: Arc<Connection>,
    in_use: Option<Arc<()>>,
    released: Arc<Notify>,
    /// Keeps the actor alive. An actor ends with its last handle.
    handle: Option<ServerHandle>,
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        self.in_use.take();
        self.released.notify_one();
    }
}

impl ServerHandle {
    /// Creates an actor without starting the server. Both end when all handles are dropped.
    pub(crate) fn spawn(params: ConnectionParams) -> Self {
        let (commands, received) = mpsc::channel(64);
        let (sender, health) = watch::channel(Health::Stopped);
        let (budget, waiting, released) = Default::default();
        tokio::spawn(Actor { params, health: sender, budget, waiting, released }.run(received));
        Self { commands, health }
    }

    /// Returns a connection to the server, which is started if necessary. The error is the reason why there is no
    /// connection.
    pub(crate) async fn lease(&self, need: Need) -> Result<ConnectionLease, Reason> {
        let (answer, answered) = oneshot::channel();
        let stopping = || Reason::new("agentd is stopping");
        self.commands.send(Command::Lease { need, answer }).await.map_err(|_| stopping())?;
        let mut lease = answered.await.map_err(|_| stopping())??;
        lease.handle = Some(self.clone());
        Ok(lease)
    }

    /// Stops the server. Returns after it has exited, with everything that it started.
    pub(crate) async fn stop(&self) {
        let (answer, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(answer)).await.is_ok() {
            let _ = stopped.await;
        }
    }

    /// Returns the current health of the server.
    pub(crate) fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Returns true if anything besides the pool holds a handle: a pending start, or a connection in use.
    pub(crate) fn is_needed(&self) -> bool {
        self.commands.strong_count() > 1
    }
}

struct Actor {
    /// Connection parameters, with the era of the last connection.
    params: ConnectionParams,
    health: watch::Sender<Health>,
    budget: Budget,
    /// Callers waiting for the start, with their purposes.
    waiting: Vec<(Need, Answer)>,
    /// Notified when a lease is dropped.
    released: Arc<Notify>,
}

/// State of the server.
enum State {
    Stopped,
    /// The token cancels the start.
    Starting(BoxFuture<'static, Result<OpenConnection, Reason>>, CancellationToken),
    Running(Box<RunningServer>),
}

struct RunningServer {
    connection: Arc<Connection>,
    /// Completes when the connection ends.
    ended: BoxFuture<'static, ()>,
    process: Option<Process>,
    /// Cloned by each lease.
    in_use: Arc<()>,
    idle_since: Instant,
    /// True if the server was only needed for listing.
    is_listing_only: bool,
    since: Instant,
    /// Pending listing after a change.
    listing: Option<BoxFuture<'static, ()>>,
}

/// Event of the actor.
enum Event {
    Command(Option<Command>),
    Started(Box<Result<OpenConnection, Reason>>),
    Ended,
    Idle,
    Released,
    /// Listing is due after a change (true), or is complete (false).
    Listing(bool),
}

impl Actor {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut state = State::Stopped;
        loop {
            let event = self.next(&mut state, &mut commands).await;
            state = match event {
                Event::Command(None) => break,
                Event::Command(Some(Command::Lease { need, answer })) => self.lease(state, need, answer),
                Event::Command(Some(Command::Stop(answer))) => {
                    self.budget.reset();
                    self.stop(state, "it was stopped").await;
                    let _ = answer.send(());
                    State::Stopped
                }
                Event::Started(started) => self.started(*started),
                Event::Ended => self.ended(state).await,
                Event::Idle => {
                    let reason = match &state {
                        State::Running(running) if running.is_listing_only => {
                            "stopped: it was started only to list its tools"
                        }
                        _ => "stopped because it was idle",
                    };
                    self.stop(state, reason).await;
                    State::Stopped
                }
                Event::Released => {
                    if let State::Running(running) = &mut state {
                        running.idle_since = Instant::now();
                    }
                    state
                }
                Event::Listing(has_changed) => self.listing(state, has_changed),
            };
        }
        self.stop(state, "agentd no longer needs it").await;
    }

    /// Waits for the next event.
    async fn next(&self, state: &mut State, commands: &mut mpsc::Receiver<Command>) -> Event {
        match state {
            State::Stopped => Event::Command(commands.recv().await),
            State::Starting(starting, _) => tokio::select! {
                command = commands.recv() => Event::Command(command),
                started = starting => Event::Started(Box::new(started)),
            },
            State::Running(running) => {
                let idle = self.idle(running);
                let changed = Arc::clone(&running.connection.handler.changed);
                let is_listing = running.listing.is_some();
                tokio::select! {
                    command = commands.recv() => Event::Command(command),
                    () = &mut running.ended => Event::Ended,
                    () = idle => Event::Idle,
                    () = self.released.notified() => Event::Released,
                    () = changed.notified(), if !is_listing => Event::Listing(true),
                    _ = OptionFuture::from(running.listing.as_mut()), if is_listing => Event::Listing(false),
                }
            }
        }
    }

    /// Completes when the server has been idle for long enough.
    fn idle(&self, running: &RunningServer) -> BoxFuture<'static, ()> {
        // A server needed only for listing keeps running a little longer, for a call by the turn that requested the
        // listing.
        let listed = running.is_listing_only.then_some(LISTED_IDLE_TIME);
        match self.params.config.idle_stop.into_iter().chain(listed).min() {
            Some(limit) if Arc::strong_count(&running.in_use) == 1 => {
                let until = time::Instant::from_std(running.idle_since + limit);
                time::sleep_until(until).boxed()
            }
            // A released connection is reported as an event.
            _ => std::future::pending().boxed(),
        }
    }

    fn lease(&mut self, state: State, need: Need, answer: Answer) -> State {
        match state {
            State::Running(mut running) => {
                running.is_listing_only &= need == Need::Listing;
                let _ = answer.send(Ok(self.leased(&running)));
                State::Running(running)
            }
            State::Starting(starting, cancelled) => {
                self.waiting.push((need, answer));
                State::Starting(starting, cancelled)
            }
            State::Stopped => {
                if need == Need::Person {
                    self.budget.reset();
                }
                if let Some(wait) = self.budget.wait(Instant::now()) {
                    let reason = match self.health.borrow().clone() {
                        Health::Down { why: reason, .. } => reason,
                        _ => Reason::new("it failed"),
                    };
                    let _ = answer.send(Err(reason.with_retry_in(&span(wait.max(Duration::from_secs(1))))));
                    return State::Stopped;
                }
                self.waiting.push((need, answer));
                self.health.send_replace(Health::Starting);
                self.params.log.note("starting");
                let cancelled = CancellationToken::new();
                State::Starting(self.params.clone().open(cancelled.clone()).boxed(), cancelled)
            }
        }
    }

    fn answer_all(&mut self, answer: impl Fn(&Self) -> Result<ConnectionLease, Reason>) {
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let _ = waiting.send(answer(self));
        }
    }

    fn leased(&self, running: &RunningServer) -> ConnectionLease {
        ConnectionLease {
            connection: Arc::clone(&running.connection),
            in_use: Some(Arc::clone(&running.in_use)),
            released: Arc::clone(&self.released),
            handle: None,
        }
    }

    fn started(&mut self, started: Result<OpenConnection, Reason>) -> State {
        match started {
            Ok(OpenConnection { connection, service, process, catalogue, era }) => {
                self.params.era = era;
                let offered = catalogue.tools.len();
                let noun = if offered == 1 { "tool" } else { "tools" };
                self.params.log.note(&format!("running, with {offered} {noun}"));
                // Called before the health is updated, so that the tools of a running server are known.
                (self.params.deps.learn)(&self.params.name, catalogue);
                self.health.send_replace(Health::Running(process.as_ref().and_then(Process::id)));
                let now = Instant::now();
                let running = Box::new(RunningServer {
                    ended: until_ended(service, Arc::clone(&connection)).boxed(),
                    connection,
                    process,
                    in_use: Arc::new(()),
                    idle_since: now,
                    is_listing_only: self.waiting.iter().all(|(need, _)| *need == Need::Listing),
                    since: now,
                    listing: None,
                });
                self.answer_all(|actor| Ok(actor.leased(&running)));
                State::Running(running)
            }
            Err(reason) => {
                // If the era has changed, it is detected again.
                self.params.era = Era::default();
                self.params.log.note(&format!("could not start: {reason}"));
                self.budget.failed(Duration::ZERO, Instant::now());
                self.down(reason.clone());
                self.answer_all(|_| Err(reason.clone()));
                State::Stopped
            }
        }
    }

    /// Handles a server that exited by itself.
    async fn ended(&mut self, state: State) -> State {
        let State::Running(running) = state else { return state };
        let RunningServer { process, since, .. } = *running;
        let status = match process {
            Some(process) => process::exit_reason(process.wait_for_exit().await),
            None => "the connection was closed".to_owned(),
        };
        self.params.log.note(&format!("{status} by itself"));
        self.budget.failed(since.elapsed(), Instant::now());
        self.down(Reason::new(status));
        State::Stopped
    }

    fn down(&self, reason: Reason) {
        let until = self.budget.wait(Instant::now()).map(|wait| Instant::now() + wait);
        self.health.send_replace(Health::Down { why: reason, until });
    }

    /// Stops the server, and waits until it has exited.
    async fn stop(&mut self, state: State, reason: &str) {
        match state {
            State::Stopped => {}
            State::Starting(starting, cancelled) => {
                self.params.log.note(reason);
                cancelled.cancel();
                // A start that completes at this moment is stopped like a running server.
                if let Ok(open) = starting.await {
                    drop((open.connection, open.service));
                    if let Some(process) = open.process {
                        process.wait_for_exit().await;
                    }
                }
                self.answer_all(|_| Err(Reason::new(reason)));
            }
            State::Running(running) => {
                self.params.log.note(reason);
                running.connection.closed.cancel();
                let _ = time::timeout(CLOSE_TIMEOUT, running.ended).await;
                if let Some(process) = running.process {
                    process.wait_for_exit().await;
                }
            }
        }
        self.health.send_replace(Health::Stopped);
    }

    /// Returns the state after a change or a listing. Frequent changes are listed only after a delay.
    fn listing(&self, state: State, changed: bool) -> State {
        let State::Running(mut running) = state else { return state };
        running.listing = changed.then(|| {
            let (connection, params) = (Arc::clone(&running.connection), self.params.clone());
            async move {
                let ConnectionParams { name, fingerprint, config, deps, log, .. } = params;
                time::sleep(CHANGE_DELAY).await;
                let listed = listing::catalogue(&connection.peer, &connection.info, fingerprint);
                match time::timeout(config.start_timeout, listed).await {
                    Ok(Ok(catalogue)) => (deps.learn)(&name, catalogue),
                    Ok(Err(error)) => {
                        let reason = listing::failure_reason(&error, &deps.clean);
                        log.note(&format!("its tools changed, but {reason}"));
                    }
                    Err(_) => log.note("its tools changed, but it does not list them"),
                }
            }
            .boxed()
        });
        State::Running(running)
    }
}

/// Completes when the connection has ended, by itself or by cancellation.
async fn until_ended(service: RunningService<rmcp::RoleClient, Handler>, connection: Arc<Connection>) {
    let close = service.cancellation_token();
    let ended = service.waiting();
    tokio::pin!(ended);
    tokio::select! {
        _ = &mut ended => {}
        never = connection.follow() => match never {},
        () = connection.closed.cancelled() => {
            close.cancel();
            let _ = ended.await;
        }
    }
}

/// Delays after the first failure, the second one, and so on. The last one applies to all further failures.
const DELAYS: [Duration; 6] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Uptime after which a server's failures are forgotten.
const STABLE_UPTIME: Duration = Duration::from_secs(60);

/// Failures of a server, and the delay before it may be started again. A call never waits for a server that keeps
/// failing; the call gets the time of the next attempt immediately. Servers are never given up permanently.
#[derive(Debug, Default)]
struct Budget {
    failures: usize,
    next_try: Option<Instant>,
}

impl Budget {
    /// Returns the time until the server may be started, or `None` if it may be started immediately.
    fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_try.map(|next| next.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Records a failed start, or an unexpected exit after this uptime.
    fn failed(&mut self, uptime: Duration, now: Instant) {
        if uptime >= STABLE_UPTIME {
            self.failures = 0;
        }
        let wait = DELAYS[self.failures.min(DELAYS.len() - 1)];
        self.failures += 1;
        self.next_try = Some(now + wait);
    }

    /// Forgets the failures, because the user wants an immediate attempt.
    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_server_is_retried_with_growing_delays() {
        let mut budget = Budget::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(budget.wait(now), None);
            budget.failed(Duration::from_secs(1), now);
            let wait = budget.wait(now).unwrap_or_default();
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [0, 0, 2, 10, 30, 60, 60, 60]);
        budget.failed(STABLE_UPTIME, now);
        assert_eq!(budget.wait(now), None, "a long uptime does not reset the delay");
        budget.failed(Duration::ZERO, now);
        budget.failed(Duration::ZERO, now);
        assert!(budget.wait(now).is_some());
        budget.reset();
        assert_eq!(budget.wait(now), None);
    }
}
