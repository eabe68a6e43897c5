//! The actor of one server: it starts it when it is called, knows whether it lives, and stops it when nobody needs it.

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
    connect::{Connection, Era, OpenConnection, Opening},
    handler::Handler,
    listing,
    process::{self, Process},
};
use crate::reason::{Reason, span};

/// Delay after a change of what a server offers, before it is listed: one that changes all the time is asked this
/// often.
const SETTLING: Duration = Duration::from_secs(2);
/// Lifetime of a server that was started only to be listed.
const LISTED: Duration = Duration::from_secs(5);
/// Time limit for the messages of a connection that is closed.
const CLOSING: Duration = Duration::from_millis(500);

/// Health of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Health {
    /// It does not run. The next call starts it.
    #[default]
    Stopped,
    /// It is being started.
    Starting,
    /// It runs; the number is that of its guard, where it is a program of this machine.
    Running(Option<u32>),
    /// It failed, for this reason. The next call starts it, unless that comes before the time.
    Down {
        /// Why.
        why: Reason,
        /// When the next try may be, if not at once.
        until: Option<Instant>,
    },
}

/// The front of a server.
#[derive(Clone)]
pub(crate) struct ServerHandle {
    commands: mpsc::Sender<Command>,
    health: watch::Receiver<Health>,
}

/// Why a server has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// For a call, or to be there for calls.
    Call,
    /// A person wants it, who knows that it failed.
    Person,
    /// To say what it offers, and nothing else.
    Listing,
}

enum Command {
    Lease { need: Need, answer: Answer },
    Stop(oneshot::Sender<()>),
}

type Answer = oneshot::Sender<Result<Lease, Reason>>;

/// A connection that is needed. It is not stopped as long as this is held.
pub(crate) struct Lease {
    pub(crate) connection: Arc<Connection>,
    in_use: Option<Arc<()>>,
    released: Arc<Notify>,
    /// Keeps the actor: it ends when nobody holds a handle any more.
    keeps: Option<ServerHandle>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.in_use.take();
        self.released.notify_one();
    }
}

impl ServerHandle {
    /// A server that is not started yet. The actor ends, and the server with it, when all handles are gone.
    pub(crate) fn spawn(opening: Opening) -> Self {
        let (commands, received) = mpsc::channel(64);
        let (told, health) = watch::channel(Health::Stopped);
        let (budget, waiting, released) = Default::default();
        tokio::spawn(Actor { opening, health: told, budget, waiting, released }.run(received));
        Self { commands, health }
    }

    /// The connection, started where it is not there. An error says why there is none.
    pub(crate) async fn lease(&self, need: Need) -> Result<Lease, Reason> {
        let (answer, answered) = oneshot::channel();
        let gone = || Reason::ours("agentd is stopping");
        self.commands.send(Command::Lease { need, answer }).await.map_err(|_| gone())?;
        let mut lease = answered.await.map_err(|_| gone())??;
        lease.keeps = Some(self.clone());
        Ok(lease)
    }

    /// Stops it. It is gone when this returns, with all that it started.
    pub(crate) async fn stop(&self) {
        let (answer, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(answer)).await.is_ok() {
            let _ = stopped.await;
        }
    }

    /// Its health now.
    pub(crate) fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Returns whether another than the pool holds it: to start the server, or because its connection is needed.
    pub(crate) fn is_needed(&self) -> bool {
        self.commands.strong_count() > 1
    }
}

struct Actor {
    /// The way to it; its era is that of the last connection.
    opening: Opening,
    health: watch::Sender<Health>,
    budget: Budget,
    /// Callers that wait for the start, and why.
    waiting: Vec<(Need, Answer)>,
    /// Told when somebody needs it no more.
    released: Arc<Notify>,
}

/// State of the server.
enum State {
    Stopped,
    /// The token gives it up.
    Starting(BoxFuture<'static, Result<OpenConnection, Reason>>, CancellationToken),
    Running(Box<RunningServer>),
}

struct RunningServer {
    connection: Arc<Connection>,
    /// Ends when the connection does.
    ended: BoxFuture<'static, ()>,
    process: Option<Process>,
    /// Held by all who need it.
    in_use: Arc<()>,
    idle_since: Instant,
    /// Set if it was needed only to be listed.
    only_listed: bool,
    since: Instant,
    /// Time of the next listing, for it has changed.
    listing: Option<BoxFuture<'static, ()>>,
}

/// Event of the actor.
enum Event {
    Command(Option<Command>),
    Started(Box<Result<OpenConnection, Reason>>),
    Ended,
    Idle,
    Released,
    /// Listing of what it offers is due, for that has changed, or is over.
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
                    self.budget.forgive();
                    self.stop(state, "it was stopped").await;
                    let _ = answer.send(());
                    State::Stopped
                }
                Event::Started(started) => self.started(*started),
                Event::Ended => self.ended(state).await,
                Event::Idle => {
                    let why = match &state {
                        State::Running(running) if running.only_listed => {
                            "it was stopped: it was started only to list its tools"
                        }
                        _ => "it was stopped because it was idle",
                    };
                    self.stop(state, why).await;
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
        self.stop(state, "agentd has no more use for it").await;
    }

    /// Waits for what happens next.
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
                let asks = running.listing.is_some();
                tokio::select! {
                    command = commands.recv() => Event::Command(command),
                    () = &mut running.ended => Event::Ended,
                    () = idle => Event::Idle,
                    () = self.released.notified() => Event::Released,
                    () = changed.notified(), if !asks => Event::Listing(true),
                    _ = OptionFuture::from(running.listing.as_mut()), if asks => Event::Listing(false),
                }
            }
        }
    }

    /// Returns when nobody has needed the server for long enough.
    fn idle(&self, running: &RunningServer) -> BoxFuture<'static, ()> {
        // What it was started for is over then. It is there a little longer, for a call of the turn that made it known.
        let listed = running.only_listed.then_some(LISTED);
        match self.opening.config.idle_stop.into_iter().chain(listed).min() {
            Some(limit) if Arc::strong_count(&running.in_use) == 1 => {
                let until = time::Instant::from_std(running.idle_since + limit);
                time::sleep_until(until).boxed()
            }
            // Whoever needs it says when that is over.
            _ => std::future::pending().boxed(),
        }
    }

    fn lease(&mut self, state: State, need: Need, answer: Answer) -> State {
        match state {
            State::Running(mut running) => {
                running.only_listed &= need == Need::Listing;
                let _ = answer.send(Ok(self.leased(&running)));
                State::Running(running)
            }
            State::Starting(starting, given_up) => {
                self.waiting.push((need, answer));
                State::Starting(starting, given_up)
            }
            State::Stopped => {
                if need == Need::Person {
                    self.budget.forgive();
                }
                if let Some(wait) = self.budget.wait(Instant::now()) {
                    let why = match self.health.borrow().clone() {
                        Health::Down { why, .. } => why,
                        _ => Reason::ours("it failed"),
                    };
                    let _ = answer.send(Err(why.tried_again_in(&span(wait.max(Duration::from_secs(1))))));
                    return State::Stopped;
                }
                self.waiting.push((need, answer));
                self.health.send_replace(Health::Starting);
                self.opening.log.note("it is started");
                let given_up = CancellationToken::new();
                State::Starting(self.opening.clone().open(given_up.clone()).boxed(), given_up)
            }
        }
    }

    fn answer_all(&mut self, answer: impl Fn(&Self) -> Result<Lease, Reason>) {
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let _ = waiting.send(answer(self));
        }
    }

    fn leased(&self, running: &RunningServer) -> Lease {
        Lease {
            connection: Arc::clone(&running.connection),
            in_use: Some(Arc::clone(&running.in_use)),
            released: Arc::clone(&self.released),
            keeps: None,
        }
    }

    fn started(&mut self, started: Result<OpenConnection, Reason>) -> State {
        match started {
            Ok(OpenConnection { connection, service, process, catalogue, era }) => {
                self.opening.era = era;
                let offered = catalogue.tools.len();
                let noun = if offered == 1 { "tool" } else { "tools" };
                self.opening.log.note(&format!("it runs, and offers {offered} {noun}"));
                // Whoever sees that it runs sees its tools.
                (self.opening.supplies.learn)(&self.opening.name, catalogue);
                self.health.send_replace(Health::Running(process.as_ref().and_then(Process::id)));
                let now = Instant::now();
                let running = Box::new(RunningServer {
                    ended: until_ended(service, Arc::clone(&connection)).boxed(),
                    connection,
                    process,
                    in_use: Arc::new(()),
                    idle_since: now,
                    only_listed: self.waiting.iter().all(|(need, _)| *need == Need::Listing),
                    since: now,
                    listing: None,
                });
                self.answer_all(|actor| Ok(actor.leased(&running)));
                State::Running(running)
            }
            Err(why) => {
                // Where it was another one than before, it is found out anew.
                self.opening.era = Era::default();
                self.opening.log.note(&format!("it could not be started: {why}"));
                self.budget.failed(Duration::ZERO, Instant::now());
                self.down(why.clone());
                self.answer_all(|_| Err(why.clone()));
                State::Stopped
            }
        }
    }

    /// It ended by itself.
    async fn ended(&mut self, state: State) -> State {
        let State::Running(running) = state else { return state };
        let RunningServer { process, since, .. } = *running;
        let status = match process {
            Some(process) => process::told(process.gone().await),
            None => "the connection was closed".to_owned(),
        };
        self.opening.log.note(&format!("{status} by itself"));
        self.budget.failed(since.elapsed(), Instant::now());
        self.down(Reason::ours(status));
        State::Stopped
    }

    fn down(&self, why: Reason) {
        let until = self.budget.wait(Instant::now()).map(|wait| Instant::now() + wait);
        self.health.send_replace(Health::Down { why, until });
    }

    /// Ends what runs, and waits until it is gone.
    async fn stop(&mut self, state: State, why: &str) {
        match state {
            State::Stopped => {}
            State::Starting(starting, given_up) => {
                self.opening.log.note(why);
                given_up.cancel();
                // Where it came up in this moment it is stopped as one that runs.
                if let Ok(open) = starting.await {
                    drop((open.connection, open.service));
                    if let Some(process) = open.process {
                        process.gone().await;
                    }
                }
                self.answer_all(|_| Err(Reason::ours(why)));
            }
            State::Running(running) => {
                self.opening.log.note(why);
                running.connection.lost.cancel();
                let _ = time::timeout(CLOSING, running.ended).await;
                if let Some(process) = running.process {
                    process.gone().await;
                }
            }
        }
        self.health.send_replace(Health::Stopped);
    }

    /// State after a change or a listing. One that changes all the time is asked once in a while.
    fn listing(&self, state: State, changed: bool) -> State {
        let State::Running(mut running) = state else { return state };
        running.listing = changed.then(|| {
            let (connection, opening) = (Arc::clone(&running.connection), self.opening.clone());
            async move {
                let Opening { name, fingerprint, config, supplies, log, .. } = opening;
                time::sleep(SETTLING).await;
                let listed = listing::catalogue(&connection.peer, &connection.info, fingerprint);
                match time::timeout(config.start_timeout, listed).await {
                    Ok(Ok(catalogue)) => (supplies.learn)(&name, catalogue),
                    Ok(Err(error)) => {
                        let why = listing::none(&error, &supplies.clean);
                        log.note(&format!("what it offers has changed, but {why}"));
                    }
                    Err(_) => log.note("what it offers has changed, but it does not say how"),
                }
            }
            .boxed()
        });
        State::Running(running)
    }
}

/// Ends when the connection has, by itself or because it was asked to.
async fn until_ended(service: RunningService<rmcp::RoleClient, Handler>, connection: Arc<Connection>) {
    let close = service.cancellation_token();
    let ended = service.waiting();
    tokio::pin!(ended);
    tokio::select! {
        _ = &mut ended => {}
        never = connection.follow() => match never {},
        () = connection.lost.cancelled() => {
            close.cancel();
            let _ = ended.await;
        }
    }
}

/// Delays after the first failure, the second, and so on. The last holds for all that follow.
const WAITS: [Duration; 6] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Uptime after which a server's failures are forgotten.
const STEADY: Duration = Duration::from_secs(60);

/// Failures of a server, and how soon it may be started again. A call never waits for a server that keeps failing: it is told at
/// once when the next try may be. No server is given up for good.
#[derive(Debug, Default)]
struct Budget {
    failures: usize,
    next_try: Option<Instant>,
}

impl Budget {
    /// Time until it may be started, if not now.
    fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_try.map(|next| next.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// It could not be started, or ended by itself after it had lived so long.
    fn failed(&mut self, lived: Duration, now: Instant) {
        if lived >= STEADY {
            self.failures = 0;
        }
        let wait = WAITS[self.failures.min(WAITS.len() - 1)];
        self.failures += 1;
        self.next_try = Some(now + wait);
    }

    /// A person wants it to be tried at once.
    fn forgive(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_failing_is_tried_less_and_less_but_never_given_up() {
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
        budget.failed(STEADY, now);
        assert_eq!(budget.wait(now), None, "one that lived long begins anew");
        budget.failed(Duration::ZERO, now);
        budget.failed(Duration::ZERO, now);
        assert!(budget.wait(now).is_some());
        budget.forgive();
        assert_eq!(budget.wait(now), None);
    }
}
