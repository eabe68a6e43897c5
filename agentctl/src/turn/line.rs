//! The connection to one turn: receives events, and sends answers and cancellations. A broken connection is resumed
//! after the last event. Events of subagents are interleaved with those of their parent session.

use std::time::{Duration, Instant};

use agentd_core::{
    agent::Subagent,
    client_file::ClientFileRequest,
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{InterruptId, SessionId, TurnId},
    input::InputPart,
    interrupt::Answer,
    item::{Item, ItemBody},
    ports::ClientFileAccess,
    session::SessionMode,
};
use agentd_proto::client::{
    Client, ClientError, ClientErrorKind, EventStream, StartRequest, TurnFrame, TurnSender, TurnStream,
};
use futures_util::{FutureExt as _, future::select_all};
use tokio::task::JoinHandle;

use super::or_never;
use crate::{
    daemon::{self, Daemon, DaemonLocation},
    failure::Failure,
    report::short_id,
};

/// Time limit for the daemon to come back. A restart by systemd takes a second or two; loading a large journal takes
/// longer.
const RECONNECT_LIMIT: Duration = Duration::from_secs(15);

/// Time limit for the connection to another machine to come back, such as after a change of networks.
const HOST_RECONNECT_LIMIT: Duration = Duration::from_secs(60);

/// Time for a supervisor such as systemd to restart the daemon. After this time, the client starts the daemon.
const SUPERVISOR_LIMIT: Duration = Duration::from_secs(3);

/// Delay between connection attempts.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Delay between attempts to connect to another machine, whose server for ssh may lock out more frequent clients.
const HOST_RETRY_DELAY: Duration = Duration::from_secs(2);

/// A message received from a line.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// An event of the session.
    Event(Box<Event>),
    /// An event of a subagent. The turn never waits for such an event.
    Child(Box<Event>),
    /// A tool requests a file provided by this client; the answer goes to the sender.
    FileRequested(ClientFileRequest, TurnSender),
    /// A message for the user about the line.
    Note(String),
    /// The connection to the daemon is lost; the line waits for the daemon.
    Lost,
}

/// A connection to one turn.
pub(crate) trait Line: Send {
    /// Returns the next event. Returns `None` after the last event, also if called again. This method is cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<Option<Arrival>, Failure>> + Send;

    /// Sends the answer to an interrupt.
    fn answer(&mut self, id: InterruptId, answer: Answer) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Adds text to the turn; the model reads the text before its next step. If the future is dropped, the text may or
    /// may not arrive.
    fn steer(&mut self, text: String) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Switches the session to its next mode, which applies from the turn's next call on, and returns that mode.
    fn next_mode(&mut self) -> impl Future<Output = Result<SessionMode, Failure>> + Send;

    /// Cancels the turn now, or as soon as the line is connected again.
    fn cancel(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns true if an interrupt is still pending. A replayed interrupt may have been answered long before.
    fn is_pending(&mut self, id: InterruptId) -> impl Future<Output = bool> + Send;

    /// Returns true if the line ends with this turn.
    fn ends_with(&self, turn: TurnId) -> bool;

    /// Returns the command that follows the session from another terminal.
    fn attach_command(&self) -> String;
}

/// A line over the daemon's socket.
#[derive(Debug)]
pub(crate) struct SocketLine {
    client: Client,
    location: DaemonLocation,
    session: SessionId,
    /// Turn started by this client; `None` for a line that only listens.
    turn: Option<TurnId>,
    source: Source,
    /// True if the daemon announced its stop, which means that the stop was intended.
    was_stopped: bool,
    /// Number of the last stored event received.
    last_seq: u64,
    /// True if old events may be replayed. Their interrupts may have been answered already.
    replays: bool,
    /// Client name used for answers.
    client_name: String,
    cancelled: bool,
    /// Subagents, if their events were requested.
    children: Option<Children>,
    /// Event to deliver after the pending events of subagents.
    deferred: Option<Box<Event>>,
    /// Connection attempt in progress.
    connecting: Option<JoinHandle<Result<Client, ClientError>>>,
}

#[derive(Debug)]
enum Source {
    /// The stream that started the turn.
    Turn(Box<TurnStream>),
    /// A subscription to the session.
    Events(Box<EventStream>),
    /// The connection is lost.
    Broken { since: Instant },
    /// The last event was received.
    Ended,
}

impl SocketLine {
    /// Starts a turn, with additional input parts.
    ///
    /// # Errors
    /// Fails if the daemon refuses the turn or is lost.
    pub(crate) async fn start(daemon: &Daemon, request: StartRequest, parts: Vec<InputPart>) -> Result<Self, Failure> {
        Ok(Self::started(daemon, daemon.client.turn_with_parts(request, parts, daemon.variables()).await?))
    }

    /// Starts a turn or joins the running one. With `files`, this client also serves files of the project.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub(crate) async fn start_with_files(
        daemon: &Daemon,
        request: StartRequest,
        files: Option<ClientFileAccess>,
    ) -> Result<Self, Failure> {
        let Some(access) = files else { return Self::start(daemon, request, Vec::new()).await };
        Ok(Self::started(daemon, daemon.client.turn_holding_files(request, access, daemon.variables()).await?))
    }

    fn started(daemon: &Daemon, stream: TurnStream) -> Self {
        let (session, turn) = (stream.session_id(), Some(stream.turn_id()));
        Self { turn, replays: false, ..Self::new(daemon, session, Source::Turn(Box::new(stream)), 0) }
    }

    /// Subscribes to a session after an event number, until its live turn has ended.
    ///
    /// # Errors
    /// Fails if the daemon refuses the subscription or is lost.
    pub(crate) async fn attach(daemon: &Daemon, session: SessionId, after_seq: u64) -> Result<Self, Failure> {
        let stream = daemon.client.subscribe(&session.to_string(), after_seq, true).await?;
        Ok(Self::new(daemon, session, Source::Events(Box::new(stream)), after_seq))
    }

    fn new(daemon: &Daemon, session: SessionId, source: Source, last_seq: u64) -> Self {
        Self {
            client: daemon.client.clone(),
            location: daemon.location.clone(),
            session,
            turn: None,
            source,
            was_stopped: false,
            last_seq,
            replays: true,
            client_name: daemon::CLIENT.to_owned(),
            cancelled: false,
            children: None,
            deferred: None,
            connecting: None,
        }
    }

    /// Adds the events of subagents.
    pub(crate) fn with_children(self) -> Self {
        Self { children: Some(Children::default()), ..self }
    }

    /// Sets the client name used for answers.
    #[cfg(feature = "mcp-serve")]
    pub(crate) fn with_client_name(self, client: String) -> Self {
        Self { client_name: client, ..self }
    }

    /// Returns the session of the line.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the number of the last stored event received.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns the turn started by this client, if any.
    pub(crate) fn turn(&self) -> Option<TurnId> {
        self.turn
    }

    /// Waits for the daemon and resubscribes after the last event received.
    async fn reconnect(&mut self, since: Instant) -> Result<(), Failure> {
        loop {
            match self.subscribe_again().await {
                // A daemon that was stopped on purpose is not started again.
                Err(error)
                    if error.kind == ClientErrorKind::NotRunning
                        && !self.was_stopped
                        && since.elapsed() > SUPERVISOR_LIMIT =>
                {
                    daemon::start(self.location.clone()).await?;
                }
                Ok(()) => return Ok(()),
                Err(error) if !is_connection_lost(&error) => return Err(error.into()),
                Err(error) if self.location.host().is_some() && since.elapsed() > HOST_RECONNECT_LIMIT => {
                    return Err(self.lost_error(&error.message));
                }
                Err(_) if self.location.host().is_none() && since.elapsed() > RECONNECT_LIMIT => {
                    return Err(self.lost_error("the daemon stopped and did not come back"));
                }
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    async fn subscribe_again(&mut self) -> Result<(), ClientError> {
        let client = self.connect_again().await?;
        let session = self.session.to_string();
        let stream = client.subscribe(&session, self.last_seq, true).await?;
        if self.cancelled {
            // Fails if the turn has already ended; the event of its end is received in any case.
            let _ = client.cancel_turn(&session, self.turn).await;
        }
        self.client = client;
        self.source = Source::Events(Box::new(stream));
        self.replays = true;
        Ok(())
    }

    /// Connects in a task, because `next` is cancelled at every key, and another machine takes seconds to answer.
    async fn connect_again(&mut self) -> Result<Client, ClientError> {
        let location = self.location.clone();
        let connecting = self.connecting.get_or_insert_with(|| {
            tokio::spawn(async move {
                let connected = location.connect().await;
                if connected.is_err() && location.host().is_some() {
                    tokio::time::sleep(HOST_RETRY_DELAY).await;
                }
                connected
            })
        });
        let connected = connecting.await;
        self.connecting = None;
        connected.unwrap_or_else(|error| Err(ClientError::new(ClientErrorKind::Lost, error.to_string())))
    }

    fn lost_error(&self, message: &str) -> Failure {
        let session = short_id(self.session);
        Failure::unreachable(format!("{message}; the turn belongs to session {session}")).hint(format!(
            "nothing reported so far is lost: follow it with `{}`, or continue it with `agentctl run --session {session}`",
            self.attach_command()
        ))
    }
}

/// Returns true if the error means a lost connection or a stopping daemon.
pub(crate) fn is_connection_lost(error: &ClientError) -> bool {
    use ClientErrorKind as Kind;
    matches!(error.kind, Kind::Lost | Kind::NotRunning | Kind::Answered(ErrorKind::ShuttingDown))
}

impl Line for SocketLine {
    async fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        loop {
            if let (Some(children), Some(event)) = (&mut self.children, &self.deferred) {
                let before = children.before(&self.client, event).await;
                let child = before.map(|event| Arrival::Child(Box::new(event)));
                return Ok(child.or_else(|| self.deferred.take().map(Arrival::Event)));
            }
            let from_children = or_never(self.children.as_mut().map(|children| children.next()));
            let from_session = async {
                match &mut self.source {
                    Source::Turn(stream) => Some(stream.next_frame().await),
                    Source::Events(stream) => {
                        Some(stream.next().await.map(|event| event.map(Box::new).map(TurnFrame::Event)))
                    }
                    Source::Broken { .. } | Source::Ended => None,
                }
            };
            let received = tokio::select! {
                biased;
                received = from_session => received,
                event = from_children => return Ok(Some(Arrival::Child(Box::new(event)))),
            };
            let received = match (received, &mut self.source) {
                (Some(received), _) => received,
                (None, Source::Broken { since }) => {
                    let since = *since;
                    self.reconnect(since).await?;
                    return Ok(Some(Arrival::Note("the daemon is back".to_owned())));
                }
                (None, _) => return Ok(None),
            };
            match received {
                Ok(Some(TurnFrame::FileRequested(asked))) => {
                    let Source::Turn(stream) = &self.source else { continue };
                    return Ok(Some(Arrival::FileRequested(asked, stream.sender())));
                }
                // This client offers no tools.
                Ok(Some(TurnFrame::ToolRequested(_))) => {}
                Ok(Some(TurnFrame::Event(event))) => {
                    self.last_seq = self.last_seq.max(event.seq);
                    if let EventKind::TurnEnded { result } = &event.kind
                        && self.ends_with(result.turn_id)
                    {
                        self.source = Source::Ended;
                    }
                    if self.children.is_none() {
                        return Ok(Some(Arrival::Event(event)));
                    }
                    self.deferred = Some(event);
                }
                Ok(None) if self.turn.is_some() => {
                    self.source = Source::Ended;
                    return Err(self.lost_error("the daemon did not report the end of the turn"));
                }
                Ok(None) => self.source = Source::Ended,
                Err(error) if is_connection_lost(&error) => {
                    self.was_stopped = error.kind == ClientErrorKind::Answered(ErrorKind::ShuttingDown);
                    self.source = Source::Broken { since: Instant::now() };
                    return Ok(Some(Arrival::Lost));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn answer(&mut self, id: InterruptId, answer: Answer) -> Result<(), Failure> {
        Ok(self.client.answer(id, &answer, &self.client_name).await?)
    }

    async fn steer(&mut self, text: String) -> Result<(), Failure> {
        Ok(self.client.steer_turn(&self.session.to_string(), self.turn, &text).await?)
    }

    async fn next_mode(&mut self) -> Result<SessionMode, Failure> {
        let session = self.session.to_string();
        let mode = self.client.session(&session).await?.session.settings.mode.next_during_turn();
        self.client.set_mode(&session, mode, &self.client_name).await?;
        Ok(mode)
    }

    async fn cancel(&mut self) {
        self.cancelled = true;
        // Fails if the line is broken, which `next` handles, or if the turn has ended.
        let _ = match &self.source {
            Source::Turn(stream) => stream.sender().cancel().await,
            Source::Events(_) => self.client.cancel_turn(&self.session.to_string(), self.turn).await,
            Source::Broken { .. } | Source::Ended => Ok(()),
        };
    }

    async fn is_pending(&mut self, id: InterruptId) -> bool {
        if !self.replays {
            return true;
        }
        let session = self.session.to_string();
        // If the state is unknown, the question is asked: a surplus answer is rejected, but a missing answer blocks the
        // turn.
        let pending = self.client.interrupts(Some(&session)).await;
        pending.map_or(true, |pending| pending.iter().any(|interrupt| interrupt.id == id))
    }

    fn ends_with(&self, turn: TurnId) -> bool {
        self.turn == Some(turn)
    }

    fn attach_command(&self) -> String {
        let host = self.location.host().map(|host| format!("--host {host} ")).unwrap_or_default();
        format!("agentctl {host}attach {}", short_id(self.session))
    }
}

/// Subagents that are in progress.
#[derive(Debug, Default)]
struct Children {
    active: Vec<Child>,
}

#[derive(Debug)]
struct Child {
    subagent: Subagent,
    /// Number of the last stored event received from the subagent.
    seen: u64,
    /// Live events; `None` until the subscription succeeds.
    live: Option<EventStream>,
    /// Stream of the remaining events after the end of the subagent's work, and the number of the last event to
    /// deliver. Later events belong to other work.
    rest: Option<(EventStream, u64)>,
}

impl Children {
    /// Handles an event of the parent, and returns the next subagent event to deliver before it. When a subagent has
    /// finished its work, its remaining events are returned. The caller must repeat the call with the same event until
    /// it returns `None`. This method is cancel safe.
    pub(crate) async fn before(&mut self, client: &Client, event: &Event) -> Option<Event> {
        match &event.kind {
            EventKind::StateChanged { change: StateChange::Subagent(subagent) } => {
                if !self.active.iter().any(|child| child.subagent == *subagent) {
                    let (subagent, seen) = (subagent.clone(), subagent.after);
                    self.active.push(Child { subagent, seen, live: None, rest: None });
                }
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                let over = self.active.iter().position(|child| child.subagent.call_id == result.call_id)?;
                let remaining = self.active[over].remaining_event(client).await;
                if remaining.is_none() {
                    self.active.remove(over);
                }
                return remaining;
            }
            _ => self.listen(client).await,
        }
        None
    }

    /// Subscribes to subagents without a stream. A session that does not exist yet is retried at the next event.
    async fn listen(&mut self, client: &Client) {
        for child in self.active.iter_mut().filter(|child| child.live.is_none()) {
            child.live = client.subscribe(&child.subagent.session_id.to_string(), child.seen, false).await.ok();
        }
    }

    /// Returns the next event of any subagent. Never completes if there is no subscription.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let live = self.active.iter_mut().enumerate();
            let waits = live.filter_map(|(index, child)| {
                let live = child.live.as_mut()?;
                Some(live.next().map(move |received| (index, received)).boxed())
            });
            let waits: Vec<_> = waits.collect();
            if waits.is_empty() {
                return std::future::pending().await;
            }
            let ((index, received), ..) = select_all(waits).await;
            let Some(child) = self.active.get_mut(index) else { continue };
            match received {
                Ok(Some(event)) => {
                    child.note(&event);
                    // Rotates the list, so that the other streams are polled first next time.
                    self.active[index..].rotate_left(1);
                    return event;
                }
                // Missing events are delivered when the subagent has finished its work.
                Ok(None) | Err(_) => child.live = None,
            }
        }
    }
}

impl Child {
    fn note(&mut self, event: &Event) {
        if event.kind.is_stored() {
            self.seen = self.seen.max(event.seq);
        }
    }

    /// Returns the next remaining event after the end of the subagent's work. Returns `None` if there are no more
    /// events, or the session is unreachable.
    async fn remaining_event(&mut self, client: &Client) -> Option<Event> {
        if self.rest.is_none() {
            self.live = None;
            let id = self.subagent.session_id.to_string();
            let last = client.session(&id).await.ok()?.session.summary.last_seq;
            let events = client.subscribe(&id, self.seen, false).await.ok()?;
            self.rest = Some((events, last));
        }
        let (events, last) = self.rest.as_mut()?;
        if self.seen >= *last {
            return None;
        }
        let event = events.next().await.ok()??;
        self.note(&event);
        Some(event)
    }
}
