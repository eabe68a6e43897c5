//! The actor of a session, and the actor's loop, which is one `select!`.

pub(crate) mod load;
pub(crate) mod state;

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use agentd_core::{
    Timestamp,
    environment::ClientEnvironment,
    event::{Event, EventKind, StateChange},
    files::SessionTree,
    ids::{CallId, SessionId, TraceId, TurnId},
    interrupt::Interrupt,
    item::{Item, ItemBody},
    ports::{FallbackModel, Workspace},
    session::StoredSession,
    state_files::{StateFileChange, StateFiles},
    surroundings::Surroundings,
    turn::{OnInterrupt, QueuedTurn, StopReason, TurnOptions},
};
use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::ProjectAgents,
    answer_form::AnswerForm,
    client::{ClientLines, FileLines, OfferedTools},
    error::EngineError,
    grants::SessionPermissions,
    mentions::Mentions,
    recovery::RecoveredTurn,
    session::{
        actor::state::{Interrupts, SessionState},
        journal::{Journal, Subscription},
        normalise_title,
        registry::shared::{EngineState, GaugeGuard, SessionNews},
    },
    turn::{InFlightCall, answering::AnswerMode, aside::Asides, recorder::TurnMessage, route::SlotChoice},
};

/// Maximum number of turn messages received at once and stored with one commit.
const MAX_BATCH: usize = 128;

/// The only writer of one session's facts.
pub(crate) struct Actor {
    pub(super) id: SessionId,
    pub(super) shared: Arc<EngineState>,
    pub(super) journal: Journal,
    pub(super) state: SessionState,
    pub(super) interrupts: Interrupts,
    /// The turn that was started but has not ended.
    pub(super) open: Option<OpenTurn>,
    /// Current grants and mode, observed by the running turn.
    pub(super) grants: watch::Sender<SessionPermissions>,
    /// Current state files, observed by the running turn.
    pub(super) files: watch::Sender<Arc<StateFiles>>,
    /// Options from the client of the open turn; default without an open turn.
    pub(super) options: TurnOptions,
    /// Connections to the clients of turns that are queued or about to start.
    pub(super) lines: HashMap<TurnId, ClientLines>,
    /// Turns queued after the open one.
    pub(super) queue: VecDeque<QueuedTurn>,
    /// Workspace of the session; located by its first turn.
    pub(super) workspace: Option<Arc<Workspace>>,
    /// Agents of the session's project.
    pub(super) project: ProjectAgents,
    pub(super) recovered: Option<RecoveredTurn>,
    /// Surroundings that are not yet in the journal.
    pub(super) new_surroundings: Option<Surroundings>,
    /// State of the search for the project's code map.
    pub(super) map_search: MapSearch,
    /// True if recovery after the last stop failed because the journal cannot be written.
    pub(super) needs_recovery: bool,
    /// Drain state; `Some` while the daemon is stopping.
    pub(super) draining: Option<Drain>,
    pub(super) commands: mpsc::Receiver<Command>,
    /// Requests beside the turns.
    pub(super) asides: Asides,
    /// Lease that each writer of files into the session clones.
    pub(super) lease: Arc<()>,
    pub(super) gauge: GaugeGuard,
}

/// A turn that was started but has not ended.
pub(super) struct OpenTurn {
    pub(super) turn_id: TurnId,
    pub(super) trace_id: TraceId,
    pub(super) started_at: Timestamp,
    /// Start time on the monotonic clock; `None` if the turn was started before a restart.
    pub(super) started: Option<Instant>,
    /// Sequence number of the turn's first event.
    pub(super) first_seq: u64,
    /// Slot used by the session and by agents without their own slot.
    pub(super) choice: SlotChoice,
    /// Fallback model in use, if the slot's model did not answer.
    pub(super) fallback: Option<FallbackModel>,
    /// Number of tried fallbacks of the slot.
    pub(super) tried: usize,
    pub(super) max_steps: u32,
    /// Mode of answering the turn's interrupts.
    pub(super) answering: AnswerMode,
    /// Name of the client that started the turn; unknown after a restart.
    pub(super) client: Option<String>,
    pub(super) environment: Arc<ClientEnvironment>,
    /// Uploaded files mentioned by the turn's input. Empty after a restart, because only turns that have begun to
    /// answer stay open.
    pub(super) handed_over: Vec<StateChange>,
    /// True if the turn was started only to compact.
    pub(super) compacts: bool,
    /// True if the session gets a title after the turn.
    pub(super) generates_title: bool,
    /// Required form of the turn's answer.
    pub(super) form: Option<Arc<AnswerForm>>,
    /// Tools that the turn's client implements.
    pub(super) client_tools: OfferedTools,
    /// Clients that provide access to files of the project.
    pub(super) file_lines: Arc<FileLines>,
    /// Mentions of the turn's input; `None` after a restart, when they are unknown.
    pub(super) mentions: Option<Arc<Mentions>>,
    /// Started items that were added to the turn but not yet given to a model. Each item is completed when it is taken,
    /// so that its position in the journal is the position where the model reads it.
    pub(super) steers: Vec<Arc<Item>>,
    /// Calls started before the restart on which a subagent still works.
    pub(super) in_flight: HashMap<CallId, InFlightCall>,
    /// Subagent sessions by call, until the call has its result.
    pub(super) children: HashMap<CallId, SessionId>,
    /// Task that runs the turn; `None` while it waits for an answer after a restart.
    pub(super) running: Option<RunningTurn>,
}

impl OpenTurn {
    /// Creates a turn that started with event `first_seq` and has nothing in flight.
    pub(super) fn new(turn_id: TurnId, trace_id: TraceId, started_at: Timestamp, first_seq: u64) -> Self {
        Self {
            turn_id,
            trace_id,
            started_at,
            started: None,
            first_seq,
            choice: SlotChoice::default(),
            fallback: None,
            tried: 0,
            max_steps: 0,
            // With any other mode, the turn would have been rejected or ended instead of waiting.
            answering: AnswerMode::new(OnInterrupt::Wait, false),
            client: None,
            environment: Arc::default(),
            handed_over: Vec::new(),
            compacts: false,
            generates_title: false,
            form: None,
            client_tools: None,
            file_lines: Arc::default(),
            mentions: None,
            steers: Vec::new(),
            in_flight: HashMap::new(),
            children: HashMap::new(),
            running: None,
        }
    }

    /// Returns true if the user cancelled the turn and it has not ended yet.
    pub(super) fn is_cancelled(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.cancelled_for == Some(StopReason::Cancelled))
    }
}

/// Task that runs a turn.
pub(super) struct RunningTurn {
    pub(super) cancel: CancellationToken,
    /// Reason for the cancellation, if the turn was cancelled.
    pub(super) cancelled_for: Option<StopReason>,
    pub(super) messages: mpsc::Receiver<TurnMessage>,
    pub(super) task: JoinHandle<()>,
}

/// State of a session during shutdown. Such a session still accepts answers and cancellations, but no more turns.
pub(super) struct Drain {
    /// Deadline for the open turn.
    pub(super) until: Instant,
    /// True if the turn was already suspended.
    pub(super) suspended: bool,
}

/// A turn that was accepted.
pub struct StartedTurn {
    /// Id of the accepted turn.
    pub turn_id: TurnId,
    /// Events of the turn, from its first one. A queued turn has none until it starts.
    pub events: Subscription,
    /// True if the turn was already running and the input was added to it.
    pub joined: bool,
}

/// Snapshot of a session for clients.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// State in the journal.
    pub session: StoredSession,
    /// Interrupts that wait for an answer.
    pub pending: Vec<Interrupt>,
    /// Turn that is running or waiting.
    pub live_turn: Option<TurnId>,
}

/// Effect of a command on its session. Determines when the command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Changes nothing in the session.
    ReadOnly,
    Changes,
    /// Also changes files in the session's folders.
    ChangesFiles,
}

/// Command for a session's actor.
pub(crate) struct Command {
    pub(crate) access: Access,
    /// Executes the command, or replies with the error if it was refused.
    pub(crate) run: Box<RunCommand>,
}

pub(crate) type RunCommand =
    dyn for<'a> FnOnce(Result<&'a mut Actor, EngineError>) -> BoxFuture<'a, Result<NextMove, EngineError>> + Send;

/// Next move of the actor.
pub(crate) enum NextMove {
    Go,
    /// The actor ends normally.
    Exit,
}

impl Actor {
    pub(super) fn new(
        id: SessionId,
        shared: Arc<EngineState>,
        journal: Journal,
        state: SessionState,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            id,
            gauge: GaugeGuard::new(&shared.activity),
            shared,
            journal,
            grants: watch::Sender::new(SessionPermissions::of(&state.settings)),
            files: watch::Sender::new(Arc::clone(&state.files)),
            state,
            interrupts: Interrupts::default(),
            open: None,
            options: TurnOptions::default(),
            lines: HashMap::new(),
            queue: VecDeque::new(),
            workspace: None,
            project: ProjectAgents::default(),
            recovered: None,
            new_surroundings: None,
            map_search: MapSearch::default(),
            needs_recovery: false,
            draining: None,
            commands,
            asides: Asides::default(),
            lease: Arc::default(),
        }
    }

    /// Stores and publishes facts of a turn, or of the session if `turn` is `None`.
    pub(super) async fn commit(&mut self, turn: Option<TurnId>, facts: Vec<EventKind>) -> Result<(), Fault> {
        let is_new = self.journal.is_unstored();
        let stored = self.journal.commit(turn, facts).await.map_err(Fault::Fatal)?;
        self.apply(&stored);
        if is_new && !stored.is_empty() {
            self.shared.news.publish(SessionNews::Created(self.id));
        }
        self.shared.news.publish_facts(&stored, self.state.settings.parent.is_some());
        Ok(())
    }

    /// Applies stored events to the state and makes the new state visible to the running turn.
    fn apply(&mut self, stored: &[Arc<Event>]) {
        for event in stored {
            self.state.apply(event);
            let Some(open) = &mut self.open else { continue };
            // Track the subagents that work on calls of the turn.
            match &event.kind {
                EventKind::StateChanged { change: StateChange::Subagent(subagent) } => {
                    open.children.insert(subagent.call_id.clone(), subagent.session_id);
                }
                EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                    open.children.remove(&result.call_id);
                }
                _ => {}
            }
        }
        if !self.grants.borrow().are_those_of(&self.state.settings) {
            self.grants.send_replace(SessionPermissions::of(&self.state.settings));
        }
        if !Arc::ptr_eq(&self.files.borrow(), &self.state.files) {
            self.files.send_replace(Arc::clone(&self.state.files));
        }
    }

    pub(super) async fn change(&mut self, change: StateChange) -> Result<(), Fault> {
        self.commit(None, vec![EventKind::StateChanged { change }]).await
    }

    pub(super) async fn rename(&mut self, title: String) -> Result<(), Fault> {
        self.change(StateChange::Title { title: normalise_title(&title)? }).await
    }

    pub(super) async fn reset(&mut self) -> Result<(), Fault> {
        if self.open.is_some() {
            let open = "the session cannot be reset while a turn is open";
            return Err(EngineError::busy(open, "cancel the turn first").into());
        }
        self.shared.ports.workspaces.clear_temp(self.id).await?;
        self.change(StateChange::Reset).await?;
        self.change(StateChange::Todos { todos: Vec::new() }).await?;
        self.record_level().await
    }

    pub(super) async fn tree(&mut self) -> Result<(SessionId, SessionTree), Fault> {
        let tree = SessionTree { workspace: self.workspace().await?, state: Arc::clone(&self.state.files) };
        Ok((self.state.settings.files_of(self.id), tree))
    }

    pub(super) async fn change_state_file(&mut self, change: StateFileChange) -> Result<(), Fault> {
        // The files may have changed since the caller checked the change.
        self.state.files.check(&change)?;
        self.change(StateChange::File(change)).await
    }

    pub(super) async fn subscribe(&mut self, after: u64) -> Result<Subscription, Fault> {
        let live_turn = self.open.as_ref().map(|open| open.turn_id);
        Ok(self.journal.subscribe(after, live_turn, None))
    }

    pub(super) async fn show(&mut self) -> Result<SessionView, Fault> {
        let stored = self.shared.ports.store.session(self.id).await?;
        let session = stored.ok_or_else(|| not_found(self.id))?;
        let live_turn = self.open.as_ref().map(|open| open.turn_id);
        Ok(SessionView { session, pending: self.interrupts.pending(), live_turn })
    }
}

pub(crate) fn not_found(id: SessionId) -> EngineError {
    EngineError::not_found(format!("no such session: {id}"), "list all with `agentctl sessions list`")
}

/// Reason why a command failed.
pub(crate) enum Fault {
    /// The request was invalid; the session continues.
    Request(EngineError),
    /// The journal could not be written. The actor must end and be reloaded, because it is unknown which facts were
    /// stored.
    Fatal(EngineError),
}

impl Fault {
    pub(crate) fn into_error(self) -> EngineError {
        match self {
            Self::Request(error) | Self::Fatal(error) => error,
        }
    }
}

impl<E: Into<EngineError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

/// Search for a project's code map.
#[derive(Debug, Default)]
pub(crate) struct MapSearch {
    pub(crate) project: PathBuf,
    /// Number of turns that searched for the map.
    pub(crate) tries: u8,
    /// True if the project has no code to draw.
    pub(crate) is_empty: bool,
}

impl Actor {
    /// Runs until the session is not needed or its journal cannot be written. In the latter case, readers receive the
    /// error.
    pub(super) async fn run_to_end(mut self) -> Result<(), EngineError> {
        let ended = self.run().await;
        if let Err(error) = &ended {
            if let Some(OpenTurn { running, children, .. }) = self.open.take() {
                if let Some(running) = running {
                    running.task.abort();
                }
                self.cancel_children(children);
            }
            self.journal.close(error.clone());
        } else if self.draining.is_some() {
            self.journal.close(EngineError::stopping());
        }
        self.shared.ports.languages.end_session(self.id);
        ended
    }

    async fn run(&mut self) -> Result<(), EngineError> {
        // The batch grows on demand, because space for a whole batch would be most of a quiet turn's memory.
        let mut batch = Vec::new();
        loop {
            let deadline = self.interrupts.next_deadline().map(|at| self.next_check(at));
            let idle = self.is_idle().then(|| Instant::now() + self.shared.config().idle_unload);
            let drain = self.draining.as_ref().map(|drain| drain.until);
            let running = self.open.as_mut().and_then(|open| open.running.as_mut());
            let (messages, task) = running.map(|running| (&mut running.messages, &mut running.task)).unzip();
            // The large futures are boxed, so that the hundreds of waiting sessions do not reserve memory for them.
            let next = tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => {
                        let access_result = Box::pin(self.check_access(command.access)).await;
                        (command.run)(access_result.map(|()| &mut *self)).await?
                    }
                    // All handles were dropped, because the registry and the daemon have ended.
                    None => NextMove::Exit,
                },
                count = receive(messages, &mut batch) => if count == 0 {
                    // The turn's channel is closed; its task returns the reason.
                    let ended = match task { Some(task) => task.await, None => Ok(()) };
                    Box::pin(self.task_ended(ended)).await?
                } else {
                    let messages = std::mem::take(&mut batch);
                    self.handle_messages(messages).await.map(|()| NextMove::Go).map_err(Fault::into_error)?
                },
                ended = self.asides.next() => {
                    Box::pin(self.aside_ended(ended)).await.map(|()| NextMove::Go).map_err(Fault::into_error)?
                }
                () = wait_until(deadline) => Box::pin(self.resolve_overdue()).await?,
                () = wait_until(drain) => self.handle_drain_deadline(),
                () = wait_until(idle) => self.unload(),
            };
            self.gauge.set(self.open.is_some(), !self.interrupts.is_empty());
            if matches!(next, NextMove::Exit) || self.is_drained() {
                return Ok(());
            }
        }
    }
}

async fn receive(messages: Option<&mut mpsc::Receiver<TurnMessage>>, batch: &mut Vec<TurnMessage>) -> usize {
    match messages {
        Some(messages) => messages.recv_many(batch, MAX_BATCH).await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn wait_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
