//! Restores a session's actor from the journal, and tells what a crash left behind.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    context::{TokenLevel, Window},
    error::{ErrorKind, StoreError},
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
    client::OpenFileLines,
    error::EngineError,
    recovery::{self, Disposition, reading, subagents::of_turn},
    session::{
        actor::{
            Actor, Fault, OpenTurn,
            state::{MAX_ITEMS, SessionState},
        },
        history::{interrupts::Interrupts, journal::Journal},
        registry::{
            handle::{Access, Command},
            shared::Shared,
        },
    },
    turn::{
        answering::AnswerMode,
        route::{self, SlotChoice},
    },
};

pub(crate) fn not_found(id: SessionId) -> EngineError {
    EngineError::not_found(format!("there is no session {id}"), "agentctl sessions list shows all")
}

pub(crate) async fn load(
    id: SessionId,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
) -> Result<Actor, EngineError> {
    let store = &shared.ports.store;
    let stored = store.session(id).await?.ok_or_else(|| not_found(id))?;
    // A session that was made just now has nothing to read, and somebody waits for its first answer.
    let is_new = stored.summary.last_seq == 0;
    let journal = Journal::new(id, stored.summary.last_seq, Arc::clone(store), Arc::clone(&shared.ports.clock));
    let (items, compaction) = if is_new { (Vec::new(), None) } else { window(&**store, id, stored.window).await? };
    let files = if is_new { Default::default() } else { store.state_files(id).await? };
    let state = SessionState::restore(&stored, items, compaction, files);
    let mut actor = Actor::new(id, shared, journal, state, commands);
    if !is_new {
        actor.state.meter.told(actor.last_level().await?);
        actor.state.routed = actor.last_routed(stored.window.after.max(stored.reset_seq)).await?;
        actor.state.has_open_plan = actor.has_open_plan(stored.reset_seq).await?;
        actor.state.last_stop = actor.last_stop(stored.reset_seq).await?;
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
    let parts = &shared.ports;
    let state = SessionState::newborn(parts.clock.now(), settings.clone());
    let journal = Journal::unborn(id, settings, Arc::clone(&parts.store), Arc::clone(&parts.clock));
    Actor::new(id, shared, journal, state, commands)
}

impl Actor {
    /// Finding in the last event behind that one in which there is anything.
    async fn last<T>(&self, since: u64, found: impl Fn(&Event) -> Option<T>) -> Result<Option<T>, StoreError> {
        reading::last(&*self.shared.ports.store, self.id, since, self.journal.head(), found).await
    }

    /// The level that was told last. None where it was told before the tail: then it is told again with the next answer.
    async fn last_level(&self) -> Result<Option<TokenLevel>, StoreError> {
        let since = self.journal.head().saturating_sub(reading::TAIL);
        let told = self.last(since, |event| match &event.kind {
            EventKind::StateChanged { change: StateChange::TokenLevel { level, .. } } => Some(*level),
            _ => None,
        });
        Ok(told.await?.or((since == 0).then_some(TokenLevel::Info)))
    }

    /// End of the last turn since the last reset, but for those that only compacted.
    async fn last_stop(&self, reset_seq: u64) -> Result<Option<StopReason>, StoreError> {
        let stop = self.last(reset_seq, |event| match &event.kind {
            EventKind::TurnEnded { result } if !result.only_compacted => Some(Some(result.stop_reason)),
            // It may have been that end.
            _ if event.is_damaged() => Some(None),
            _ => None,
        });
        Ok(stop.await?.flatten())
    }

    /// Returns whether the last input was to begin with a plan that nobody has approved. It is found in the journal, whatever
    /// the model sees of it.
    async fn has_open_plan(&self, since: u64) -> Result<bool, StoreError> {
        let is_open = self.last(since, |event| match &event.kind {
            EventKind::ItemCompleted { item, .. } => route::is_open_behind(item),
            _ => None,
        });
        Ok(is_open.await?.unwrap_or_default())
    }

    /// The slot that was chosen for the last turn by what it was about, as far as the model sees that turn. Where there is
    /// nothing to choose from, nobody looks.
    async fn last_routed(&self, since: u64) -> Result<Option<Slot>, StoreError> {
        if self.shared.ports.models.own_slots().len() < 2 {
            return Ok(None);
        }
        let routed = self.last(since, |event| match &event.kind {
            EventKind::TurnStarted { slot, rule, compacts: false, .. } => Some(SlotChoice::to_keep(*slot, *rule)),
            _ => None,
        });
        Ok(routed.await?.flatten())
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

    /// Refuses what cannot be done now. What changes something first has settled what could not be settled before; what would
    /// change files waits until their folders are open.
    pub(crate) async fn admit(&mut self, access: Access) -> Result<(), EngineError> {
        if self.unsettled && access != Access::Looks {
            self.settle_again().await?;
        }
        let settings = &self.state.settings;
        if access == Access::ChangesFiles && self.shared.closed.concern(settings.project.as_ref(), &settings.folders) {
            let message = "a worktree of this session's project is being merged or removed";
            return Err(EngineError::busy(message, "try again in a moment, when that is over"));
        }
        Ok(())
    }

    async fn settle_again(&mut self) -> Result<(), EngineError> {
        let stored = self.shared.ports.store.session(self.id).await?.ok_or_else(|| not_found(self.id))?;
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
            let asked = self.shared.ports.store.pending_interrupts(Some(self.id)).await?;
            (HashMap::new(), asked.into_iter().filter(|asked| asked.session_id == self.id).collect())
        } else {
            let (ports, subagents) = (&self.shared.ports, &*self.shared.subagents);
            (of_turn(ports, subagents, self.id, &events).await?, Vec::new())
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
    pub(crate) async fn turn_events(&self, turn_id: TurnId, first_seq: u64) -> Result<Vec<Arc<Event>>, EngineError> {
        let mut events = Vec::new();
        let of_turn = |event: Arc<Event>| {
            // Of one that is damaged it may not be known.
            if event.turn_id == Some(turn_id) || event.is_damaged() {
                events.push(event);
            }
            Ok(())
        };
        reading::each_after(&*self.shared.ports.store, self.id, first_seq.saturating_sub(1), of_turn).await?;
        Ok(events)
    }
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
