//! The actor of a session: one `select!`, one `match`.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
};

use agentd_core::{
    Timestamp,
    environment::ClientEnvironment,
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    files::SessionTree,
    grant::Grant,
    ids::{CallId, SessionId, TraceId, TurnId},
    item::{Item, ItemBody},
    model::Slot,
    ports::Workspace,
    session::SessionSettings,
    state_files::{StateFileChange, StateFiles},
    turn::QueuedTurn,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinHandle},
    time::Instant,
};

use super::{
    Command, QUEUE, SessionHandle, SessionView,
    drain::Drain,
    interrupts::Interrupts,
    journal::{Ahead, Journal},
    launch::Running,
    load, plain_title,
    state::SessionState,
};
use crate::{
    error::EngineError,
    large_input::UserInput,
    mentions::Mentions,
    recovery::RecoveredTurn,
    session::{gauges::Share, shared::Shared},
    turn::{UnderWay, answering::Answering, recorder::TurnMessage},
};

/// Messages of a turn that are taken at once, and then stored with one commit.
pub(super) const BATCH: usize = 128;

/// The only writer of one session's facts.
pub(super) struct Actor {
    pub(super) id: SessionId,
    pub(super) shared: Arc<Shared>,
    pub(super) journal: Journal,
    pub(super) state: SessionState,
    pub(super) interrupts: Interrupts,
    /// The turn that has begun and not ended.
    pub(super) open: Option<OpenTurn>,
    /// The rules that the session keeps, for the running turn to see as they are now.
    pub(super) grants: watch::Sender<Arc<[Grant]>>,
    /// The files of the session's own state, for the running turn to see as they are now.
    pub(super) files: watch::Sender<Arc<StateFiles>>,
    /// Turns that wait behind it.
    pub(super) queue: VecDeque<QueuedTurn>,
    /// Where the session's files are; found by its first turn.
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) recovered: Option<RecoveredTurn>,
    /// Whether what the last stop left behind is not settled, because the journal cannot be written.
    pub(super) unsettled: bool,
    /// Set when the daemon stops.
    pub(super) draining: Option<Drain>,
    pub(super) commands: mpsc::Receiver<Command>,
    /// Held by everybody who brings the session files.
    pub(super) lease: Arc<()>,
    share: Share,
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
    pub(super) slot: Slot,
    pub(super) max_steps: u32,
    /// The way in which interrupts are answered.
    pub(super) answering: Answering,
    /// Who started it, by the name that it gave; not known after a restart.
    pub(super) client: Option<String>,
    pub(super) environment: Arc<ClientEnvironment>,
    /// Whether it was begun to compact and for nothing else.
    pub(super) compacts: bool,
    /// What its input mentions; none where that is not known any more, after a restart.
    pub(super) mentions: Option<Arc<Mentions>>,
    /// What was added to the turn and no model was given yet, each a started item: it is completed where it is taken, so that
    /// the journal has it in the place in which the model reads it.
    pub(super) steers: Vec<Arc<Item>>,
    /// Calls that an earlier life of the daemon began, and that a session still works for.
    pub(super) under_way: HashMap<CallId, UnderWay>,
    /// The sessions that work for its calls, each until the call has its result.
    pub(super) children: HashMap<CallId, SessionId>,
    /// The task that runs it; none while it waits for an answer after a restart.
    pub(super) running: Option<Running>,
}

impl OpenTurn {
    /// Takes note of who works for its calls.
    fn note(&mut self, fact: &EventKind) {
        match fact {
            EventKind::StateChanged { change: StateChange::Subagent(subagent) } => {
                self.children.insert(subagent.call_id.clone(), subagent.session_id);
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                self.children.remove(&result.call_id);
            }
            _ => {}
        }
    }
}

/// Whether the actor lives on.
pub(super) enum Next {
    Go,
    /// It ends in good order.
    Leave,
}

/// What happened.
enum Input {
    Command(Option<Command>),
    Messages(Vec<TurnMessage>),
    TaskEnded(Result<(), JoinError>),
    Deadline,
    DrainDue,
    Idle,
}

/// Starts a session's actor. It first waits for its predecessor to be gone: there is one writer per session.
pub(crate) fn spawn(
    id: SessionId,
    shared: Arc<Shared>,
    predecessor: Option<JoinHandle<()>>,
) -> (SessionHandle, JoinHandle<()>) {
    spawn_with(id, |commands| async move {
        if let Some(predecessor) = predecessor {
            // Whether it ended well or not, it is gone.
            let _ = predecessor.await;
        }
        load::load(id, shared, commands).await
    })
}

/// Starts the actor of a session that its first facts will bring into the journal.
pub(crate) fn spawn_newborn(
    id: SessionId,
    settings: SessionSettings,
    shared: Arc<Shared>,
) -> (SessionHandle, JoinHandle<()>) {
    spawn_with(id, |commands| async move { Ok(load::newborn(id, settings, shared, commands)) })
}

fn spawn_with<F: Future<Output = Result<Actor, EngineError>> + Send + 'static>(
    id: SessionId,
    actor: impl FnOnce(mpsc::Receiver<Command>) -> F,
) -> (SessionHandle, JoinHandle<()>) {
    let (sender, commands) = mpsc::channel(QUEUE);
    let fate = Arc::new(OnceLock::new());
    let handle = SessionHandle { id, commands: sender, fate: Arc::clone(&fate), held: Arc::default() };
    let actor = actor(commands);
    let task = tokio::spawn(async move {
        let ended = match actor.await {
            Ok(actor) => actor.live().await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::error!(session = %id, "the session was closed: {error}");
            let _ = fate.set(error);
        }
    });
    (handle, task)
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
            share: shared.gauges.enter(),
            shared,
            journal,
            grants: watch::Sender::new(Arc::from(state.settings.grants.as_slice())),
            files: watch::Sender::new(Arc::clone(&state.files)),
            state,
            interrupts: Interrupts::default(),
            open: None,
            queue: VecDeque::new(),
            workspace: None,
            recovered: None,
            unsettled: false,
            draining: None,
            commands,
            lease: Arc::default(),
        }
    }

    /// Lives until nobody needs the session, or its journal cannot be written. Then readers are told why.
    async fn live(mut self) -> Result<(), EngineError> {
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
        self.tell_drained();
        ended
    }

    async fn run(&mut self) -> Result<(), EngineError> {
        // It grows with what comes: room for a whole batch would be most of the memory of a quiet turn.
        let mut batch = Vec::new();
        loop {
            // The room that most of these take while they work is no part of a session that waits: there are hundreds of those.
            let next = match self.next_input(&mut batch).await {
                Input::Command(Some(command)) => Box::pin(self.command(command)).await?,
                // Nobody can ask any more: the registry is gone, and the daemon with it.
                Input::Command(None) => Next::Leave,
                Input::Messages(messages) => self.turn_messages(messages).await?,
                Input::TaskEnded(ended) => Box::pin(self.task_ended(ended)).await?,
                Input::Deadline => Box::pin(self.deadline_passed()).await?,
                Input::DrainDue => self.drain_due(),
                Input::Idle => self.unload(),
            };
            self.share.set(self.open.is_some(), !self.interrupts.is_empty());
            if matches!(next, Next::Leave) || self.is_drained() {
                return Ok(());
            }
        }
    }

    async fn next_input(&mut self, batch: &mut Vec<TurnMessage>) -> Input {
        let deadline = self.interrupts.next_deadline().map(|at| self.until(at));
        let idle = self.is_idle().then(|| Instant::now() + self.shared.config().idle_unload);
        let drain = self.draining.as_ref().map(Drain::due);
        let mut running = self.open.as_mut().and_then(|open| open.running.as_mut());
        if let Some(running) = &mut running
            && !running.taken.is_empty()
        {
            // Whoever waits for the turn's first words has them before more is stored.
            tokio::task::yield_now().await;
            return Input::Messages(std::mem::take(&mut running.taken));
        }
        let (messages, task) = running.map(|running| (&mut running.messages, &mut running.task)).unzip();
        tokio::select! {
            command = self.commands.recv() => Input::Command(command),
            count = receive(messages, batch) => match count {
                // The turn's end of the line is gone; its task says why.
                0 => Input::TaskEnded(match task { Some(task) => task.await, None => Ok(()) }),
                _ => Input::Messages(std::mem::take(batch)),
            },
            () = at(deadline) => Input::Deadline,
            () = at(drain) => Input::DrainDue,
            () = at(idle) => Input::Idle,
        }
    }

    async fn command(&mut self, command: Command) -> Result<Next, EngineError> {
        let Some(command) = self.admit(command).await else { return Ok(Next::Go) };
        match command {
            Command::Start { start, reply } => reply_to(reply, self.start(*start).await)?,
            Command::Steer { turn, text, reply } => {
                let input = UserInput::whole(text, None);
                reply_to(reply, self.steer(turn, input, false).await)?;
            }
            Command::Cancel { turn, reply } => reply_to(reply, self.cancel(turn).await)?,
            Command::Leave { turn, reply } => reply_to(reply, self.client_left(turn))?,
            Command::Answer { id, answer, client, reply } => reply_to(reply, self.answer(id, *answer, client).await)?,
            Command::Subscribe { after, reply } => {
                let live_turn = self.open.as_ref().map(|open| open.turn_id);
                reply_to(reply, Ok(self.journal.subscribe(after, live_turn)))?;
            }
            Command::Uploaded { path, picture, reply } => {
                let picture = picture.map(|picture| *picture);
                reply_to(reply, self.change(StateChange::HandedOver { path, picture }).await)?;
            }
            Command::Show { reply } => reply_to(reply, self.show().await)?,
            Command::Rename { title, reply } => reply_to(reply, self.rename(title).await)?,
            Command::Grant { grant, reply } => reply_to(reply, self.grant(*grant).await)?,
            Command::Revoke { rule, reply } => reply_to(reply, self.revoke(&rule).await)?,
            Command::TakeGrants { grants, reply } => reply_to(reply, self.take_grants(grants).await)?,
            Command::Adopt { settings, reply } => reply_to(reply, self.adopt(*settings).await)?,
            Command::Configure { settings, reply } => reply_to(reply, self.configure(*settings).await)?,
            Command::Pin { pinned, reply } => reply_to(reply, self.pin(pinned).await)?,
            Command::Clean { order, reply } => {
                let cleaned = self.clean(*order).await;
                // It was loaded for this alone.
                let next = self.unload();
                reply_to(reply, cleaned)?;
                return Ok(next);
            }
            Command::Reset { reply } => reply_to(reply, self.reset().await)?,
            Command::Context { reply } => reply_to(reply, self.context().await)?,
            Command::Tools { reply } => reply_to(reply, self.tools())?,
            Command::UndoCompaction { reply } => reply_to(reply, self.undo_compaction().await)?,
            Command::Tree { reply } => reply_to(reply, self.tree().await)?,
            Command::StateFile { change, reply } => reply_to(reply, self.change_state_file(change).await)?,
            Command::Undo { request, reply } => reply_to(reply, self.undo(*request).await)?,
            Command::Recovered { reply } => reply_to(reply, Ok(self.recovered.clone()))?,
            Command::Drain { deadline, reply } => {
                self.drain(deadline, reply);
            }
            Command::Lease { reply } => reply_to(reply, Ok(self.let_out()))?,
            Command::Retire { order, reply } => {
                let retired = self.retire(&order).await;
                let next = if matches!(retired, Ok(true)) { Next::Leave } else { self.unload() };
                reply_to(reply, retired)?;
                return Ok(next);
            }
            Command::Close { reply } => return Ok(self.close(reply)),
        }
        Ok(Next::Go)
    }

    /// Stores and shows facts of the open turn, or of the session where none is open.
    pub(super) async fn commit(&mut self, turn: Option<TurnId>, facts: Vec<EventKind>) -> Result<(), Fault> {
        let stored = self.journal.commit(turn, facts).await.map_err(Fault::Fatal)?;
        self.apply(&stored);
        Ok(())
    }

    /// The same of facts that follow what was written ahead, together with that.
    pub(super) async fn commit_behind(&mut self, ahead: Ahead, facts: Vec<EventKind>) -> Result<(), Fault> {
        let stored = self.journal.commit_behind(ahead, facts).await.map_err(Fault::Fatal)?;
        self.apply(&stored);
        Ok(())
    }

    /// Takes what is stored into the state, and lets the running turn see it.
    fn apply(&mut self, stored: &[Arc<Event>]) {
        for event in stored {
            self.state.apply(event);
            if let Some(open) = &mut self.open {
                open.note(&event.kind);
            }
        }
        let grants = &self.state.settings.grants;
        self.grants.send_if_modified(|live| {
            let changed = **live != **grants;
            if changed {
                *live = Arc::from(grants.as_slice());
            }
            changed
        });
        let files = &self.state.files;
        self.files.send_if_modified(|live| {
            let changed = !Arc::ptr_eq(live, files);
            if changed {
                live.clone_from(files);
            }
            changed
        });
    }

    pub(super) async fn change(&mut self, change: StateChange) -> Result<(), Fault> {
        self.commit(None, vec![EventKind::StateChanged { change }]).await
    }

    async fn rename(&mut self, title: String) -> Result<(), Fault> {
        self.change(StateChange::Title { title: plain_title(&title)? }).await
    }

    async fn reset(&mut self) -> Result<(), Fault> {
        if self.open.is_some() {
            return Err(EngineError::new(ErrorKind::Busy, "the session cannot be reset while a turn is open")
                .with_hint("cancel the turn first")
                .into());
        }
        self.shared.parts.workspaces.clear_temp(self.id).await.map_err(EngineError::from)?;
        self.change(StateChange::Reset).await?;
        self.change(StateChange::Todos { todos: Vec::new() }).await?;
        self.tell_level().await
    }

    async fn tree(&mut self) -> Result<(SessionId, SessionTree), Fault> {
        let tree = SessionTree { workspace: self.workspace().await?, state: Arc::clone(&self.state.files) };
        Ok((self.state.settings.files_of(self.id), tree))
    }

    async fn change_state_file(&mut self, change: StateFileChange) -> Result<(), Fault> {
        // The files may have changed since it was tried.
        self.state.files.check(&change).map_err(EngineError::from)?;
        self.change(StateChange::File(change)).await
    }

    async fn show(&mut self) -> Result<SessionView, Fault> {
        let stored = self.shared.parts.store.session(self.id).await.map_err(EngineError::from)?;
        let session = stored.ok_or_else(|| load::not_found(self.id))?;
        let live_turn = self.open.as_ref().map(|open| open.turn_id);
        Ok(SessionView { session, pending: self.interrupts.pending(), live_turn })
    }
}

/// Why a command was not carried out.
pub(super) enum Fault {
    /// The request is at fault; the session goes on.
    Request(EngineError),
    /// The journal could not be written: the actor must end and be loaded again, because nobody knows what is
    /// stored.
    Fatal(EngineError),
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        Self::Request(error)
    }
}

fn reply_to<T>(reply: super::Reply<T>, outcome: Result<T, Fault>) -> Result<(), EngineError> {
    // A caller that went away does not need the answer.
    match outcome {
        Ok(value) => {
            let _ = reply.send(Ok(value));
            Ok(())
        }
        Err(Fault::Request(error)) => {
            let _ = reply.send(Err(error));
            Ok(())
        }
        Err(Fault::Fatal(error)) => {
            let _ = reply.send(Err(error.clone()));
            Err(error)
        }
    }
}

async fn receive(messages: Option<&mut mpsc::Receiver<TurnMessage>>, batch: &mut Vec<TurnMessage>) -> usize {
    match messages {
        Some(messages) => messages.recv_many(batch, BATCH).await,
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
