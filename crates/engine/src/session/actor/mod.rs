//! The actor of a session: what it holds, and its loop: one `select!`.

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
        plain_title,
        registry::shared::{GaugeGuard, SessionNews, Shared},
    },
    turn::{InFlightCall, answering::AnswerMode, recorder::TurnMessage, route::SlotChoice},
};

/// Messages of a turn that are taken at once, and then stored with one commit.
const BATCH: usize = 128;

/// The only writer of one session's facts.
pub(crate) struct Actor {
    pub(super) id: SessionId,
    pub(super) shared: Arc<Shared>,
    pub(super) journal: Journal,
    pub(super) state: SessionState,
    pub(super) interrupts: Interrupts,
    /// The turn that has begun and not ended.
    pub(super) open: Option<OpenTurn>,
    /// The rules that the session keeps and its mode, for the running turn to see as they are now.
    pub(super) grants: watch::Sender<SessionPermissions>,
    /// The files of the session's own state, for the running turn to see as they are now.
    pub(super) files: watch::Sender<Arc<StateFiles>>,
    /// Wishes of the client of the open turn; none where there is none.
    pub(super) options: TurnOptions,
    /// Lines to the clients of turns that wait, or are about to begin.
    pub(super) lines: HashMap<TurnId, ClientLines>,
    /// Turns that wait behind it.
    pub(super) queue: VecDeque<QueuedTurn>,
    /// Where the session's files are; found by its first turn.
    pub(super) workspace: Option<Arc<Workspace>>,
    /// Agents of its project.
    pub(super) project: ProjectAgents,
    pub(super) recovered: Option<RecoveredTurn>,
    /// Where the session works, as far as the journal does not know it yet.
    pub(super) found_out: Option<Surroundings>,
    /// Search for the map of its project.
    pub(super) map_search: MapSearch,
    /// Set if what the last stop left behind is not settled, because the journal cannot be written.
    pub(super) unsettled: bool,
    /// Set when the daemon stops.
    pub(super) draining: Option<Drain>,
    pub(super) commands: mpsc::Receiver<Command>,
    /// Held by everybody who brings the session files.
    pub(super) lease: Arc<()>,
    pub(super) share: GaugeGuard,
}

/// A turn that has begun and not ended.
pub(super) struct OpenTurn {
    pub(super) turn_id: TurnId,
    pub(super) trace_id: TraceId,
    pub(super) started_at: Timestamp,
    /// The same by a clock that nobody sets; none where an earlier life of the daemon began it.
    pub(super) begun: Option<Instant>,
    /// The number of its first event.
    pub(super) first_seq: u64,
    /// The slot of whoever works with none of their own.
    pub(super) choice: SlotChoice,
    /// The model that stands in for the slot's, where that did not answer.
    pub(super) stand_in: Option<FallbackModel>,
    /// Number of fallbacks of the slot that were looked at for that.
    pub(super) tried: usize,
    pub(super) max_steps: u32,
    /// The way in which interrupts are answered.
    pub(super) answering: AnswerMode,
    /// Name of the client that started it; not known after a restart.
    pub(super) client: Option<String>,
    pub(super) environment: Arc<ClientEnvironment>,
    /// Files handed over that its input tells of; none after a restart, which leaves open only what has begun to answer.
    pub(super) handed_over: Vec<StateChange>,
    /// Set if it was begun to compact and for nothing else.
    pub(super) compacts: bool,
    /// The form that its answer has to be in.
    pub(super) form: Option<Arc<AnswerForm>>,
    /// Tools that its client answers.
    pub(super) of_client: OfferedTools,
    /// Clients that hold files of the project.
    pub(super) file_lines: Arc<FileLines>,
    /// Mentions of its input; none where they are not known any more, after a restart.
    pub(super) mentions: Option<Arc<Mentions>>,
    /// Additions to the turn that no model was given yet, each a started item: it is completed where it is taken, so
    /// that the journal has it in the place in which the model reads it.
    pub(super) steers: Vec<Arc<Item>>,
    /// Calls that an earlier life of the daemon began, and that a session still works for.
    pub(super) under_way: HashMap<CallId, InFlightCall>,
    /// The sessions that work for its calls, each until the call has its result.
    pub(super) children: HashMap<CallId, SessionId>,
    /// The task that runs it; none while it waits for an answer after a restart.
    pub(super) running: Option<RunningTurn>,
}

impl OpenTurn {
    /// A turn that began with that event, with nothing of it in flight.
    pub(super) fn new(turn_id: TurnId, trace_id: TraceId, started_at: Timestamp, first_seq: u64) -> Self {
        Self {
            turn_id,
            trace_id,
            started_at,
            begun: None,
            first_seq,
            choice: SlotChoice::default(),
            stand_in: None,
            tried: 0,
            max_steps: 0,
            // Whoever had said otherwise would have had the turn refused or ended, not waiting.
            answering: AnswerMode::new(OnInterrupt::Wait, false),
            client: None,
            environment: Arc::default(),
            handed_over: Vec::new(),
            compacts: false,
            form: None,
            of_client: None,
            file_lines: Arc::default(),
            mentions: None,
            steers: Vec::new(),
            under_way: HashMap::new(),
            children: HashMap::new(),
            running: None,
        }
    }

    /// Returns true if a person cancelled it, and it has not ended yet.
    pub(super) fn is_cancelled(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.cancelled_for == Some(StopReason::Cancelled))
    }
}

/// The task of a turn.
pub(super) struct RunningTurn {
    pub(super) cancel: CancellationToken,
    /// Why it was cancelled, where it was.
    pub(super) cancelled_for: Option<StopReason>,
    pub(super) messages: mpsc::Receiver<TurnMessage>,
    pub(super) task: JoinHandle<()>,
}

/// A session on its way out. It still takes answers and cancels, but no more turns.
pub(super) struct Drain {
    /// When patience with the open turn ends.
    pub(super) until: Instant,
    /// Set if the turn was told so.
    pub(super) suspended: bool,
}

/// A turn that was accepted.
pub struct StartedTurn {
    /// Its id.
    pub turn_id: TurnId,
    /// Its events, from the first. A turn that waits behind another has none until its time comes.
    pub events: Subscription,
    /// It ran before, and the input was added to it.
    pub joined: bool,
}

/// A session, as a person wants to see it.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// State in the journal.
    pub session: StoredSession,
    /// Pending interrupts.
    pub pending: Vec<Interrupt>,
    /// The turn that runs or waits.
    pub live_turn: Option<TurnId>,
}

/// Effect of a command on its session, by which it is refused while that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It changes nothing of the session.
    Looks,
    Changes,
    /// It changes files of the session's folders, too.
    ChangesFiles,
}

/// A command of a session, for its actor.
pub(crate) struct Command {
    pub(crate) access: Access,
    /// Carries it out, or answers why it cannot be.
    pub(crate) run: Box<RunCommand>,
}

pub(crate) type RunCommand =
    dyn for<'a> FnOnce(Result<&'a mut Actor, EngineError>) -> BoxFuture<'a, Result<Next, EngineError>> + Send;

/// The actor's next move.
pub(crate) enum Next {
    Go,
    /// It ends in good order.
    Leave,
}

impl Actor {
    pub(super) fn new(
        id: SessionId,
        shared: Arc<Shared>,
        journal: Journal,
        state: SessionState,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            id,
            share: GaugeGuard::new(&shared.activity),
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
            found_out: None,
            map_search: MapSearch::default(),
            unsettled: false,
            draining: None,
            commands,
            lease: Arc::default(),
        }
    }

    /// Stores and shows facts of the open turn, or of the session where none is open.
    pub(super) async fn commit(&mut self, turn: Option<TurnId>, facts: Vec<EventKind>) -> Result<(), Fault> {
        let is_new = self.journal.is_unborn();
        let stored = self.journal.commit(turn, facts).await.map_err(Fault::Fatal)?;
        self.apply(&stored);
        if is_new && !stored.is_empty() {
            self.shared.news.tell(SessionNews::Created(self.id));
        }
        self.shared.news.tell_facts(&stored, self.state.settings.parent.is_some());
        Ok(())
    }

    /// Takes what is stored into the state, and lets the running turn see it.
    fn apply(&mut self, stored: &[Arc<Event>]) {
        for event in stored {
            self.state.apply(event);
            let Some(open) = &mut self.open else { continue };
            // Who works for its calls.
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
        self.change(StateChange::Title { title: plain_title(&title)? }).await
    }

    pub(super) async fn reset(&mut self) -> Result<(), Fault> {
        if self.open.is_some() {
            let open = "the session cannot be reset while a turn is open";
            return Err(EngineError::busy(open, "cancel the turn first").into());
        }
        self.shared.ports.workspaces.clear_temp(self.id).await?;
        self.change(StateChange::Reset).await?;
        self.change(StateChange::Todos { todos: Vec::new() }).await?;
        self.tell_level().await
    }

    pub(super) async fn tree(&mut self) -> Result<(SessionId, SessionTree), Fault> {
        let tree = SessionTree { workspace: self.workspace().await?, state: Arc::clone(&self.state.files) };
        Ok((self.state.settings.files_of(self.id), tree))
    }

    pub(super) async fn change_state_file(&mut self, change: StateFileChange) -> Result<(), Fault> {
        // The files may have changed since it was tried.
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
    EngineError::not_found(format!("there is no session {id}"), "agentctl sessions list shows all")
}

/// Why a command was not carried out.
pub(crate) enum Fault {
    /// The request is at fault; the session goes on.
    Request(EngineError),
    /// The journal could not be written: the actor must end and be loaded again, because nobody knows what is
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

/// Search for a project's map.
#[derive(Debug, Default)]
pub(crate) struct MapSearch {
    pub(crate) project: PathBuf,
    /// Turns that asked for it.
    pub(crate) tries: u8,
    /// Set if there is nothing to draw.
    pub(crate) is_empty: bool,
}

impl Actor {
    /// Lives until nobody needs the session, or its journal cannot be written. Then readers are told why.
    pub(super) async fn live(mut self) -> Result<(), EngineError> {
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
        // It grows with what comes: room for a whole batch would be most of the memory of a quiet turn.
        let mut batch = Vec::new();
        loop {
            let deadline = self.interrupts.next_deadline().map(|at| self.until(at));
            let idle = self.is_idle().then(|| Instant::now() + self.shared.config().idle_unload);
            let drain = self.draining.as_ref().map(|drain| drain.until);
            let running = self.open.as_mut().and_then(|open| open.running.as_mut());
            let (messages, task) = running.map(|running| (&mut running.messages, &mut running.task)).unzip();
            // The room that most of these take while they work is no part of a session that waits: there are hundreds of those.
            let next = tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => {
                        let admitted = Box::pin(self.admit(command.access)).await;
                        (command.run)(admitted.map(|()| &mut *self)).await?
                    }
                    // Nobody can ask any more: the registry is gone, and the daemon with it.
                    None => Next::Leave,
                },
                count = receive(messages, &mut batch) => if count == 0 {
                    // The turn's end of the line is gone; its task says why.
                    let ended = match task { Some(task) => task.await, None => Ok(()) };
                    Box::pin(self.task_ended(ended)).await?
                } else {
                    let messages = std::mem::take(&mut batch);
                    self.take(messages).await.map(|()| Next::Go).map_err(Fault::into_error)?
                },
                () = at(deadline) => Box::pin(self.deadline_passed()).await?,
                () = at(drain) => self.drain_due(),
                () = at(idle) => self.unload(),
            };
            self.share.set(self.open.is_some(), !self.interrupts.is_empty());
            if matches!(next, Next::Leave) || self.is_drained() {
                return Ok(());
            }
        }
    }
}

async fn receive(messages: Option<&mut mpsc::Receiver<TurnMessage>>, batch: &mut Vec<TurnMessage>) -> usize {
    match messages {
        Some(messages) => messages.recv_many(batch, BATCH).await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
