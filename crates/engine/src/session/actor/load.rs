//! Restores a session's actor from the journal, and tells what a crash left behind.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    context::{TokenLevel, Window},
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::{SessionId, TraceId, TurnId},
    item::Item,
    model::Slot,
    ports::Store,
    session::{SessionSettings, StoredSession},
    turn::{OnInterrupt, StopReason},
};
use tokio::sync::mpsc;

use crate::{
    answer_form::AnswerForm,
    client_files::OpenFileLines,
    error::EngineError,
    recovery::{self, Disposition, subagents},
    session::{
        actor::{
            Actor, Fault, OpenTurn,
            state::{MAX_ITEMS, SessionState},
        },
        history::{interrupts::Interrupts, journal::Journal},
        registry::{
            handle::Command,
            shared::{Ports, Shared},
        },
    },
    turn::{answering::AnswerMode, plan, route::SlotChoice},
};

/// Events that are read from the journal at once.
const PAGE: usize = 1000;
/// Events that are read at once to find the end of the last turn.
const TAIL: usize = 64;

pub(crate) fn not_found(id: SessionId) -> EngineError {
    EngineError::new(ErrorKind::NotFound, format!("there is no session {id}"))
        .with_hint("agentctl sessions list shows all")
}

pub(crate) async fn load(
    id: SessionId,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
) -> Result<Actor, EngineError> {
    let store = &shared.parts.store;
    let stored = store.session(id).await?.ok_or_else(|| not_found(id))?;
    // A session that was made just now has nothing to read, and somebody waits for its first answer.
    let is_new = stored.summary.last_seq == 0;
    let journal = Journal::new(id, stored.summary.last_seq, Arc::clone(store), Arc::clone(&shared.parts.clock));
    let (items, compaction) = if is_new { (Vec::new(), None) } else { window(&**store, id, stored.window).await? };
    let files = if is_new { Default::default() } else { store.state_files(id).await? };
    let state = SessionState::restore(&stored, items, compaction, files);
    let mut actor = Actor::new(id, shared, journal, state, commands);
    if !is_new {
        let tail = actor.tail().await?;
        actor.state.meter.told(last_level(&tail));
        actor.state.routed = actor.last_routed(tail.clone(), stored.window.after.max(stored.reset_seq)).await?;
        actor.state.has_open_plan = actor.has_open_plan(tail.clone(), stored.reset_seq).await?;
        actor.state.last_stop = actor.last_stop(tail, stored.reset_seq).await?;
        if let Err(error) = actor.settle(stored).await {
            if error.kind() != ErrorKind::Storage {
                return Err(error);
            }
            // It can be looked at until the journal can be written.
            tracing::error!(session = %id, "recovery after the last stop failed: {error}");
        }
    }
    Ok(actor)
}

/// Content of a window for the model: the items, each with the number of its completion, and the summary before them.
pub(crate) async fn window(
    store: &dyn Store,
    id: SessionId,
    window: Window,
) -> Result<(Vec<(u64, Item)>, Option<Item>), EngineError> {
    let items = store.recent_items(id, window.after, MAX_ITEMS).await?;
    let compaction = match window.summary.checked_sub(1) {
        None => None,
        Some(before) => store.events(id, before, 1).await?.into_iter().find_map(|event| match &event.kind {
            EventKind::ItemCompleted { item, .. } => Some(item.clone()),
            _ => None,
        }),
    };
    Ok((items, compaction))
}

/// The actor of a session that is not in the journal yet.
pub(crate) fn newborn(
    id: SessionId,
    settings: SessionSettings,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
) -> Actor {
    let parts = &shared.parts;
    let state = SessionState::newborn(parts.clock.now(), settings.clone());
    let journal = Journal::unborn(id, settings, Arc::clone(&parts.store), Arc::clone(&parts.clock));
    Actor::new(id, shared, journal, state, commands)
}

impl Actor {
    /// The newest events.
    async fn tail(&self) -> Result<Vec<Arc<Event>>, EngineError> {
        let after = self.journal.head().saturating_sub(TAIL as u64);
        Ok(self.shared.parts.store.events(self.id, after, TAIL).await?)
    }

    /// End of the last turn since the last reset, but for those that only compacted. Few facts follow a turn's end, so
    /// it is found in the journal's tail, or soon before it.
    async fn last_stop(&self, mut tail: Vec<Arc<Event>>, reset_seq: u64) -> Result<Option<StopReason>, EngineError> {
        loop {
            let since = tail.iter().rev().take_while(|event| event.seq > reset_seq);
            let mut found = since.filter_map(|event| match &event.kind {
                EventKind::TurnEnded { result } if !result.only_compacted => Some(Some(result.stop_reason)),
                // It may have been that end.
                _ if event.is_damaged() => Some(None),
                _ => None,
            });
            if let Some(stop) = found.next() {
                return Ok(stop);
            }
            let before = tail.first().map_or(0, |event| event.seq - 1);
            if before <= reset_seq {
                return Ok(None);
            }
            let after = before.saturating_sub(TAIL as u64);
            tail =
                self.shared.parts.store.events(self.id, after, usize::try_from(before - after).unwrap_or(TAIL)).await?;
        }
    }

    /// Returns whether the last input was to begin with a plan that nobody has approved. It is found in the journal, whatever
    /// the model sees of it.
    async fn has_open_plan(&self, mut tail: Vec<Arc<Event>>, since: u64) -> Result<bool, EngineError> {
        loop {
            let seen = tail.iter().rev().take_while(|event| event.seq > since);
            let mut told = seen.filter_map(|event| match &event.kind {
                EventKind::ItemCompleted { item, .. } => plan::is_open_behind(item),
                _ => None,
            });
            if let Some(is_open) = told.next() {
                return Ok(is_open);
            }
            let before = tail.first().map_or(0, |event| event.seq - 1);
            if before <= since {
                return Ok(false);
            }
            let after = before.saturating_sub(PAGE as u64).max(since);
            let page = usize::try_from(before - after).unwrap_or(PAGE);
            tail = self.shared.parts.store.events(self.id, after, page).await?;
        }
    }

    /// The slot that was chosen for the last turn by what it was about, as far as the model sees that turn. Where there is
    /// nothing to choose from, nobody looks.
    async fn last_routed(&self, mut tail: Vec<Arc<Event>>, since: u64) -> Result<Option<Slot>, EngineError> {
        if self.shared.parts.models.own_slots().len() < 2 {
            return Ok(None);
        }
        loop {
            let seen = tail.iter().rev().take_while(|event| event.seq > since);
            let mut routed = seen.filter_map(|event| match &event.kind {
                EventKind::TurnStarted { slot, rule, compacts: false, .. } => Some(SlotChoice::to_keep(*slot, *rule)),
                _ => None,
            });
            if let Some(routed) = routed.next() {
                return Ok(routed);
            }
            let before = tail.first().map_or(0, |event| event.seq - 1);
            if before <= since {
                return Ok(None);
            }
            let after = before.saturating_sub(PAGE as u64).max(since);
            let page = usize::try_from(before - after).unwrap_or(PAGE);
            tail = self.shared.parts.store.events(self.id, after, page).await?;
        }
    }

    /// Settles what the last stop left behind. Until that is done the session can only be looked at: nothing of it runs, and
    /// nobody is asked anything.
    async fn settle(&mut self, stored: StoredSession) -> Result<(), EngineError> {
        self.unsettled = true;
        self.journal.forget_open();
        self.queue = stored.queue.into();
        // Their clients were connected to the daemon before this one.
        self.queue.iter_mut().for_each(|queued| queued.start.client_is_gone());
        let settled = match stored.open_turn {
            Some((turn_id, first_seq)) => self.recover(turn_id, first_seq).await,
            // Turns that waited when the daemon stopped go on without being asked for again.
            None => self.begin_next().await,
        };
        match settled {
            Ok(()) => {
                self.unsettled = false;
                Ok(())
            }
            Err(Fault::Request(error) | Fault::Fatal(error)) => {
                self.open = None;
                self.interrupts = Interrupts::default();
                self.queue.clear();
                Err(error)
            }
        }
    }

    /// A command, if it can be carried out. What changes something first has settled what could not be settled before.
    pub(crate) async fn admit(&mut self, command: Command) -> Option<Command> {
        if self.unsettled
            && !command.only_looks()
            && let Err(error) = self.settle_again().await
        {
            command.refuse(error);
            return None;
        }
        if let Some(error) = self.refusal(&command) {
            command.refuse(error);
            return None;
        }
        Some(command)
    }

    /// Refuses what would change files that are closed.
    fn refusal(&self, command: &Command) -> Option<EngineError> {
        let changes = match command {
            Command::Start { .. } => true,
            Command::Undo { request, .. } => !request.preview,
            _ => false,
        };
        let settings = &self.state.settings;
        (changes && self.shared.closed.concern(settings.project.as_ref(), &settings.folders)).then(|| {
            EngineError::new(ErrorKind::Busy, "a worktree of this session's project is being merged or removed")
                .with_hint("try again in a moment, when that is over")
        })
    }

    async fn settle_again(&mut self) -> Result<(), EngineError> {
        let stored = self.shared.parts.store.session(self.id).await?.ok_or_else(|| not_found(self.id))?;
        self.settle(stored).await
    }

    /// Settles a turn that was open when the daemon stopped.
    async fn recover(&mut self, turn_id: TurnId, first_seq: u64) -> Result<(), Fault> {
        let events = self.turn_events(turn_id, first_seq).await?;
        self.open = Some(open_turn(turn_id, first_seq, &events)?);
        if let Some(EventKind::TurnStarted { options: Some(options), .. }) = events.first().map(|event| &event.kind) {
            self.options = (**options).clone();
        }
        let (fates, waiting) = if recovery::is_damaged(&events) {
            tracing::error!(session = %self.id, turn = %turn_id, "an event of an open turn is damaged: the turn ends");
            let asked = self.shared.parts.store.pending_interrupts(Some(self.id)).await.map_err(EngineError::from)?;
            (HashMap::new(), asked.into_iter().filter(|asked| asked.session_id == self.id).collect())
        } else {
            (
                {
                    let shared = &self.shared;
                    let Ports { store, snapshots, .. } = &shared.parts;
                    subagents::of_turn(&**store, &**snapshots, &*shared.subagents, self.id, &events).await?
                },
                Vec::new(),
            )
        };
        let mut recovery = recovery::recover(self.id, turn_id, &events, &fates, waiting);
        self.tell_what_was_changed(first_seq, &mut recovery.facts).await;
        self.interrupts = Interrupts::restore(recovery.pending, recovery.answered, recovery.of_children, recovery.told);
        self.commit(Some(turn_id), recovery.facts).await?;
        self.journal.reopen(&recovery.steers);
        for (item, known) in recovery.under_way {
            self.journal.reopen(&[item]);
            if let Some(open) = &mut self.open {
                let call_id = known.subagent.call_id.clone();
                open.children.insert(call_id.clone(), known.subagent.session_id);
                open.under_way.insert(call_id, known);
            }
        }
        if let Some(open) = &mut self.open {
            open.steers = recovery.steers.into_iter().map(Arc::new).collect();
        }
        self.recovered = Some(recovery.report);
        match recovery.disposition {
            Disposition::Park => Ok(()),
            Disposition::Resume => self.resume().await,
            Disposition::End => self.end_idle_turn(StopReason::Interrupted).await,
        }
    }

    /// All stored events of a turn.
    pub(crate) async fn turn_events(&self, turn_id: TurnId, first_seq: u64) -> Result<Vec<Arc<Event>>, Fault> {
        let mut events = Vec::new();
        let mut after = first_seq.saturating_sub(1);
        loop {
            let page = self.shared.parts.store.events(self.id, after, PAGE).await.map_err(EngineError::from)?;
            let Some(last) = page.last() else { return Ok(events) };
            after = last.seq;
            // Of one that is damaged it may not be known.
            events.extend(page.into_iter().filter(|event| event.turn_id == Some(turn_id) || event.is_damaged()));
        }
    }
}

/// The level that was told last. None where it was told before the tail: then it is told again with the next answer.
fn last_level(tail: &[Arc<Event>]) -> Option<TokenLevel> {
    let told = tail.iter().rev().find_map(|event| match &event.kind {
        EventKind::StateChanged { change: StateChange::TokenLevel { level, .. } } => Some(*level),
        _ => None,
    });
    let is_all = tail.first().is_none_or(|event| event.seq == 1);
    told.or(is_all.then_some(TokenLevel::Info))
}

fn open_turn(turn_id: TurnId, first_seq: u64, events: &[Arc<Event>]) -> Result<OpenTurn, EngineError> {
    let open = |trace_id, started_at| OpenTurn {
        mentions: None,
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
        file_lines: OpenFileLines::new(Vec::new()),
        steers: Vec::new(),
        under_way: HashMap::new(),
        children: HashMap::new(),
        running: None,
    };
    match events.first().map(|event| (event, &event.kind)) {
        Some((
            event,
            EventKind::TurnStarted { trace_id, slot, rule, max_steps, compacts, environment, answer_schema, .. },
        )) => Ok(OpenTurn {
            choice: SlotChoice { slot: *slot, rule: *rule },
            max_steps: *max_steps,
            environment: Arc::new(environment.clone()),
            compacts: *compacts,
            form: AnswerForm::of(answer_schema.as_ref())?,
            ..open(*trace_id, event.at)
        }),
        // It takes no step any more.
        Some((event, _)) if event.is_damaged() => Ok(open(TraceId::generate(), event.at)),
        _ => Err(EngineError::new(
            ErrorKind::Storage,
            format!("the journal does not begin turn {turn_id} with its start"),
        )),
    }
}
