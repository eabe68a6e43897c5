//! Loads a session from the journal, and reports and settles turns that a crash interrupted. Also unloads a session
//! that is not in use, drains it when the daemon stops, retires it for removal, and cleans unused data.
//!
//! The actor itself decides about retiring and cleaning, so that no turn can start at the same time: earlier commands
//! prevent a removal, and later commands are refused. The remover holds a `HoldMark` on the session until the removal
//! is done. While the hold is alive, all other callers get the error that the session is being deleted. Once the hold
//! is dropped, the session is looked up again.
//!
//! A cleaning is recorded in the history before anything is removed. A crash in between leaves files that are recorded
//! as removed and that the next cleaning deletes. No file is missing without such a record.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use agentd_core::{
    Timestamp,
    context::{TokenLevel, Window},
    error::{ErrorKind, StoreError},
    event::{Event, EventKind, StateChange},
    files::FilesRemoved,
    ids::{SessionId, TraceId, TurnId},
    item::{Item, ItemBody},
    model::Slot,
    ports::{Store, WorkspaceArea},
    session::{SessionSettings, StoredSession},
    turn::StopReason,
};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    answer_form::AnswerForm,
    error::EngineError,
    recovery::{self, Disposition, reading, subagents::subagent_states},
    session::{
        actor::{
            Access, Actor, Command, Drain, Fault, NextMove, OpenTurn, not_found,
            state::{Interrupts, MAX_ITEMS, PendingInterrupt, SessionState},
        },
        journal::Journal,
        registry::{
            handle::{CleanOrder, HoldMark, SessionCleaned, being_deleted_error},
            shared::EngineState,
        },
    },
    turn::{
        recorder::whole,
        route::{self, SlotChoice},
    },
};

pub(crate) async fn load(
    id: SessionId,
    shared: Arc<EngineState>,
    commands: mpsc::Receiver<Command>,
) -> Result<Actor, EngineError> {
    let store = &shared.ports.store;
    let stored = store.session(id).await?.ok_or_else(|| not_found(id))?;
    // A new session has no events to read, and its client is waiting for the first answer.
    let is_new = stored.summary.last_seq == 0;
    let journal = Journal::new(id, stored.summary.last_seq, &shared.ports, None);
    let (items, compaction) = if is_new { (Vec::new(), None) } else { window(&**store, id, stored.window).await? };
    let files = if is_new { Default::default() } else { store.state_files(id).await? };
    let state = SessionState::restore(&stored, items, compaction, files);
    let mut actor = Actor::new(id, shared, journal, state, commands);
    if !is_new {
        actor.state.meter.restore_level(actor.last_level().await?);
        actor.state.routed = actor.last_routed(stored.window.after.max(stored.reset_seq)).await?;
        actor.state.has_open_plan = actor.has_open_plan(stored.reset_seq).await?;
        actor.state.last_stop = actor.last_stop(stored.reset_seq).await?;
        if let Err(error) = actor.recover_session(stored).await {
            if error.kind() != ErrorKind::Storage {
                return Err(error);
            }
            // The session can be read until the journal is writable again.
            tracing::error!(session = %id, "recovery after the last stop failed: {error}");
        }
    }
    Ok(actor)
}

/// Reads the content of a model's window: the items, each with the sequence number of its completion, and the summary
/// before the items.
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

/// Creates the actor of a session that is not yet in the journal.
pub(crate) fn new_session(
    id: SessionId,
    settings: SessionSettings,
    shared: Arc<EngineState>,
    commands: mpsc::Receiver<Command>,
) -> Actor {
    let state = SessionState::new_session(shared.ports.clock.now(), settings.clone());
    let journal = Journal::new(id, 0, &shared.ports, Some(settings));
    Actor::new(id, shared, journal, state, commands)
}

impl Actor {
    /// Searches backwards through events after `since`, and returns the first match.
    async fn last<T>(&self, since: u64, found: impl Fn(&Event) -> Option<T>) -> Result<Option<T>, StoreError> {
        reading::last(&*self.shared.ports.store, self.id, since, self.journal.head(), found).await
    }

    /// Returns the last recorded token level. `None` if the level is older than the tail of the journal, in which case
    /// it is reported again with the next answer.
    async fn last_level(&self) -> Result<Option<TokenLevel>, StoreError> {
        let since = self.journal.head().saturating_sub(reading::TAIL_EVENTS);
        let reported = self.last(since, |event| match &event.kind {
            EventKind::StateChanged { change: StateChange::TokenLevel { level, .. } } => Some(*level),
            _ => None,
        });
        Ok(reported.await?.or((since == 0).then_some(TokenLevel::Info)))
    }

    /// Returns the stop reason of the last turn since the last reset, ignoring turns that only compacted.
    async fn last_stop(&self, reset_seq: u64) -> Result<Option<StopReason>, StoreError> {
        let stop = self.last(reset_seq, |event| match &event.kind {
            EventKind::TurnEnded { result } if !result.only_compacted => Some(Some(result.stop_reason)),
            // The damaged event may have been the end of the turn.
            _ if event.is_damaged() => Some(None),
            _ => None,
        });
        Ok(stop.await?.flatten())
    }

    /// Returns true if the last input asked for a plan first and the plan is not approved. Reads the journal,
    /// regardless of the visible history.
    async fn has_open_plan(&self, since: u64) -> Result<bool, StoreError> {
        let is_open = self.last(since, |event| match &event.kind {
            EventKind::ItemCompleted { item, .. } => route::plan_pending_after(item),
            _ => None,
        });
        Ok(is_open.await?.unwrap_or_default())
    }

    /// Returns the slot chosen by content for the last turn that is visible to the model. Skips the search if fewer
    /// than two slots have their own model.
    async fn last_routed(&self, since: u64) -> Result<Option<Slot>, StoreError> {
        if self.shared.ports.models.own_slots().len() < 2 {
            return Ok(None);
        }
        let routed = self.last(since, |event| match &event.kind {
            EventKind::TurnStarted { slot, rule, compacts: false, .. } => Some(SlotChoice::reusable_slot(*slot, *rule)),
            _ => None,
        });
        Ok(routed.await?.flatten())
    }

    /// Settles turns that were open when the daemon last stopped. Until this succeeds, the session is read-only: no
    /// turn runs, and no questions are asked.
    async fn recover_session(&mut self, stored: StoredSession) -> Result<(), EngineError> {
        self.needs_recovery = true;
        self.journal.forget_open();
        self.queue = stored.queue.into();
        // Clients of queued turns were connected to the previous daemon process.
        self.queue.iter_mut().for_each(|queued| queued.start.note_disconnect());
        let recovery_result = match stored.open_turn {
            Some((turn_id, first_seq)) => self.recover(turn_id, first_seq).await,
            // Turns that were queued when the daemon stopped start automatically.
            None => self.begin_next().await,
        };
        self.needs_recovery = recovery_result.is_err();
        recovery_result.map_err(|fault| {
            self.open = None;
            self.interrupts = Interrupts::default();
            self.queue.clear();
            fault.into_error()
        })
    }

    /// Refuses a command that cannot run now. A command that changes the session first retries a failed recovery. A
    /// command that changes files is refused while the session's folders are closed.
    pub(crate) async fn check_access(&mut self, access: Access) -> Result<(), EngineError> {
        if self.needs_recovery && access != Access::ReadOnly {
            let stored = self.shared.ports.store.session(self.id).await?.ok_or_else(|| not_found(self.id))?;
            self.recover_session(stored).await?;
        }
        if access == Access::ChangesFiles { self.check_open_folders(&self.state.settings) } else { Ok(()) }
    }

    /// Fails if a session with these settings could change files in a folder that is closed at the moment.
    pub(crate) fn check_open_folders(&self, settings: &SessionSettings) -> Result<(), EngineError> {
        if self.shared.closed.affect(settings.project.as_ref(), &settings.folders) {
            let message = "a worktree of this session's project is being merged or removed";
            return Err(EngineError::busy(message, "retry in a moment"));
        }
        Ok(())
    }

    /// Settles a turn that was open when the daemon stopped.
    async fn recover(&mut self, turn_id: TurnId, first_seq: u64) -> Result<(), Fault> {
        let events = self.turn_events(turn_id, first_seq).await?;
        self.open = Some(open_turn(turn_id, first_seq, &events)?);
        if let Some(EventKind::TurnStarted { options: Some(options), .. }) = events.first().map(|event| &event.kind) {
            self.options = (**options).clone();
        }
        let (outcomes, waiting) = if recovery::is_damaged(&events) {
            tracing::error!(session = %self.id, turn = %turn_id, "an event of an open turn is damaged; ending it");
            let asked = self.shared.ports.store.pending_interrupts(Some(self.id)).await?;
            (HashMap::new(), asked.into_iter().filter(|asked| asked.session_id == self.id).collect())
        } else {
            let (ports, subagents) = (&self.shared.ports, &*self.shared.subagents);
            (subagent_states(ports, subagents, self.id, &events).await?, Vec::new())
        };
        let mut recovery = recovery::recover(self.id, turn_id, &events, &outcomes, waiting);
        self.add_file_changes(first_seq, &mut recovery.facts).await;
        let pending = recovery.pending.into_iter().map(|interrupt| PendingInterrupt { interrupt, waiter: None });
        self.interrupts = Interrupts {
            pending: pending.collect(),
            answered: recovery.answered,
            of_children: recovery.of_children,
            published: recovery.published,
        };
        self.commit(Some(turn_id), recovery.facts).await?;
        self.journal.reopen(&recovery.steers);
        for (item, call) in recovery.in_flight {
            self.journal.reopen(&[item]);
            if let Some(open) = &mut self.open {
                let call_id = call.subagent.call_id.clone();
                open.children.insert(call_id.clone(), call.subagent.session_id);
                open.in_flight.insert(call_id, call);
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

    /// Reads all stored events of a turn.
    pub(crate) async fn turn_events(&self, turn_id: TurnId, first_seq: u64) -> Result<Vec<Arc<Event>>, EngineError> {
        let mut events = Vec::new();
        let of_turn = |event: Arc<Event>| {
            // The turn of a damaged event may be unknown.
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
            ..OpenTurn::new(turn_id, *trace_id, event.at, first_seq)
        }),
        // A damaged turn runs no more steps.
        Some((event, _)) if event.is_damaged() => Ok(OpenTurn::new(turn_id, TraceId::generate(), event.at, first_seq)),
        _ => Err(EngineError::new(
            ErrorKind::Storage,
            format!("the first event of turn {turn_id} in the journal is not its start"),
        )),
    }
}

impl Actor {
    /// Stops accepting commands if the session may be removed. Returns false if the session is in use, pinned, or was
    /// used after `last_used`. Without `last_used`, the user asked for the removal, and only work in progress prevents
    /// it.
    pub(crate) async fn retire(
        &mut self,
        last_used: Option<Timestamp>,
        mark: HoldMark,
        end_error: &OnceLock<EngineError>,
        hold: &OnceLock<HoldMark>,
    ) -> Result<bool, Fault> {
        match last_used {
            None => self.check_free()?,
            Some(last_used) => {
                let is_pinned = self.state.settings.pinned && self.state.settings.parent.is_none();
                if is_pinned || self.is_in_use() || !self.commands.is_empty() || self.was_used_after(last_used).await? {
                    return Ok(false);
                }
            }
        }
        // The mark is set before callers can notice that the channel is closed.
        let _ = hold.set(mark);
        let _ = end_error.set(being_deleted_error(self.id));
        self.commands.close();
        Ok(true)
    }

    /// Returns true if the journal records a use after `last_used`.
    pub(crate) async fn was_used_after(&self, last_used: Timestamp) -> Result<bool, EngineError> {
        let stored = self.shared.ports.store.session(self.id).await?;
        Ok(stored.is_some_and(|stored| stored.summary.updated_at > last_used))
    }

    /// Returns an error if a turn is open or files are being written.
    fn check_free(&self) -> Result<(), EngineError> {
        if self.open.is_some() {
            let hint = "cancel it first (agentctl attach, then Ctrl-C), or answer its question";
            return Err(EngineError::busy("a turn of this session is open", hint));
        }
        if self.is_leased() {
            return Err(EngineError::busy("a file is being written into this session", "retry when it is complete"));
        }
        Ok(())
    }

    pub(crate) fn close(&mut self) -> (Result<(), Fault>, NextMove) {
        if let Err(busy) = self.check_free() {
            return (Err(busy.into()), NextMove::Go);
        }
        self.commands.close();
        (Ok(()), NextMove::Exit)
    }

    /// Returns true if files are being written into the session.
    pub(crate) fn is_leased(&self) -> bool {
        Arc::strong_count(&self.lease) > 1
    }

    /// Returns true if the session itself is idle: no turn is running or queued, and no deadline is pending.
    pub(crate) fn is_idle(&self) -> bool {
        let runs = self.open.as_ref().is_some_and(|open| open.running.is_some());
        !runs && self.queue.is_empty() && self.interrupts.next_deadline().is_none() && self.asides.is_empty()
    }

    /// Unloads the session unless it is in use. Readers and file writers do not wake the actor when they leave, so the
    /// idle timer also runs while they are present.
    pub(crate) fn unload(&mut self) -> NextMove {
        if !self.is_idle() || self.journal.has_readers() || self.is_leased() || !self.commands.is_empty() {
            return NextMove::Go;
        }
        // A command that arrives now is refused when the channel is dropped. Such a command must not run, because
        // nothing could reach a turn started by it.
        self.commands.close();
        NextMove::Exit
    }
}

impl Actor {
    /// Returns true if the session is in use or waits for an answer.
    pub(crate) fn is_in_use(&mut self) -> bool {
        self.open.is_some()
            || !self.queue.is_empty()
            || !self.interrupts.is_empty()
            || self.journal.has_readers()
            || self.is_leased()
            || !self.asides.is_empty()
    }

    /// Returns true if the session or one of its subagents was used after `last_used`.
    async fn is_used_since(&self, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        let Some(last_used) = last_used else { return Ok(false) };
        if !self.commands.is_empty() || self.was_used_after(last_used).await? {
            return Ok(true);
        }
        let children = self.shared.ports.store.children(self.id).await?;
        Ok(children.iter().any(|child| child.updated_at > last_used))
    }

    /// Removes unused data. Returns `None` if the session is in use.
    pub(crate) async fn clean(&mut self, order: CleanOrder) -> Result<Option<SessionCleaned>, Fault> {
        if self.is_in_use() || self.state.settings.pinned || self.is_used_since(order.last_used).await? {
            return Ok(None);
        }
        let ports = &self.shared.ports;
        let CleanOrder { areas, undo, trial, .. } = order;
        let mut found = ports.workspaces.clean(self.id, areas.clone(), true).await?;
        if found.is_empty() && !undo {
            return Ok(Some(SessionCleaned::default()));
        }
        if !trial {
            self.commit(None, notice(&found, undo).into()).await?;
            let ports = &self.shared.ports;
            if !found.is_empty() {
                // New files may have appeared since the trial. These files, and all files next to them, are not
                // removed.
                found = ports.workspaces.clean(self.id, areas, false).await?;
            }
            if undo {
                ports.snapshots.remove(self.id).await?;
            }
        }
        Ok(Some(SessionCleaned { areas: found, undo }))
    }
}

/// Returns the notice about the cleaning, for the model and the user.
fn notice(found: &[(WorkspaceArea, FilesRemoved)], undo: bool) -> [EventKind; 2] {
    let mut removed: Vec<String> = found
        .iter()
        .map(|(area, removed)| {
            let files = if removed.files == 1 { "1 file".to_owned() } else { format!("{} files", removed.files) };
            format!("{}/ ({files})", area.as_str())
        })
        .collect();
    if undo {
        removed.push("the data to undo earlier file changes".to_owned());
    }
    let text = format!(
        "Files of this session, unused for long, were removed to save space: {}. The history is complete. If you \
         need a file, ask for it again.",
        removed.join(", ")
    );
    // The notice belongs to no turn.
    whole(Item::new(TurnId::generate(), ItemBody::notice(text)))
}

/// Time for a suspended turn to report its end.
const CANCEL_GRACE: Duration = Duration::from_secs(7);

impl Actor {
    /// Stops starting turns. Queued turns are in the journal and start with the next daemon process.
    pub(crate) async fn drain(&mut self, deadline: Duration) -> Result<(), Fault> {
        self.asides.cancel();
        self.draining = Some(Drain { until: Instant::now() + deadline, suspended: false });
        Ok(())
    }

    /// Handles the drain deadline: suspends the turn, or aborts it if it was already suspended.
    pub(crate) fn handle_drain_deadline(&mut self) -> NextMove {
        let Some(drain) = &mut self.draining else { return NextMove::Go };
        let Some(running) = self.open.as_mut().and_then(|open| open.running.as_mut()) else { return NextMove::Go };
        if drain.suspended {
            running.task.abort();
            return NextMove::Exit;
        }
        drain.suspended = true;
        drain.until = Instant::now() + CANCEL_GRACE;
        running.cancelled_for.get_or_insert(StopReason::Suspended);
        running.cancel.cancel();
        NextMove::Go
    }

    /// Returns true if a draining session can end, because its turn has ended or waits for the user. A turn that waits
    /// for the user can wait for the next daemon process, because it has nothing in flight.
    pub(crate) fn is_drained(&mut self) -> bool {
        if self.draining.is_none() || !self.asides.is_empty() {
            return false;
        }
        let Some(running) = self.open.as_ref().and_then(|open| open.running.as_ref()) else { return true };
        let waits_for_user = !self.interrupts.is_empty() && running.cancelled_for.is_none();
        if waits_for_user {
            running.task.abort();
        }
        waits_for_user
    }
}
