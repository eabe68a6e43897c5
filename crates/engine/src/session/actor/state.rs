//! State derived from a session's journal: the items visible to a model and the sum of all state changes. Also the
//! pending interrupts of the open turn.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use agentd_context::{ContextMeter, compaction::offload};
use agentd_core::{
    Timestamp,
    context::{Compaction, Window},
    event::{Event, EventKind, StateChange},
    files::PendingAttachments,
    ids::{CallId, InterruptId, ItemId},
    interrupt::{Answer, Ask, Interrupt},
    item::{Item, ItemBody},
    model::Slot,
    session::{SessionSettings, StoredSession, Todo},
    state_files::StateFiles,
    surroundings::Surroundings,
    turn::StopReason,
};
use tokio::sync::oneshot;

use crate::turn::{
    recorder::{CallAnswers, ResolvedInterrupt},
    route::{self, SlotChoice},
};

/// Maximum number of items read into memory. This exceeds the maximum length of a history. Only a turn that was running
/// when the daemon stopped can come near the limit.
pub(crate) const MAX_ITEMS: usize = 20_000;

/// State of the title that the session's model makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TitleState {
    /// The session has no turns before this process, and no title of the user.
    #[default]
    Due,
    /// The model was asked.
    Requested,
    /// The title stays as it is.
    Settled,
}

/// State of a session's actor.
#[derive(Default)]
pub(crate) struct SessionState {
    pub(crate) created_at: Timestamp,
    pub(crate) settings: SessionSettings,
    pub(crate) title: TitleState,
    pub(crate) todos: Vec<Todo>,
    /// Stack of agents to which the session was transferred.
    pub(crate) agents: Vec<String>,
    /// Tools that were mentioned or found, in order of their first use.
    pub(crate) tools: Vec<String>,
    /// Surroundings described in the instructions.
    pub(crate) surroundings: Option<Surroundings>,
    /// Files of the session's internal state.
    pub(crate) files: Arc<StateFiles>,
    /// Items visible to a model, each with the sequence number of its completion.
    history: VecDeque<(u64, Arc<Item>)>,
    /// Part of the journal that the history covers.
    pub(crate) window: Window,
    /// Summary that precedes the visible items.
    compaction: Option<Arc<Item>>,
    /// Uploaded files that have not been announced to a model yet.
    pub(crate) handed_over: PendingAttachments,
    /// Stop reason of the last turn that did more than compact, if known.
    pub(crate) last_stop: Option<StopReason>,
    /// Slot chosen by content for the last turn, if known. `None` once the history was replaced, because any model has
    /// to read the new history from the start.
    pub(crate) routed: Option<Slot>,
    /// True if the last input asked for a plan first and the plan is not approved.
    pub(crate) has_open_plan: bool,
    /// Measurements of the last request.
    pub(crate) meter: ContextMeter,
}

impl SessionState {
    pub(crate) fn restore(
        stored: &StoredSession,
        items: Vec<(u64, Item)>,
        compaction: Option<Item>,
        files: StateFiles,
    ) -> Self {
        let mut state = Self::new_session(stored.summary.created_at, stored.settings.clone());
        if stored.summary.turns > 0 || !stored.summary.title.is_empty() {
            state.title = TitleState::Settled;
        }
        state.todos.clone_from(&stored.todos);
        state.handed_over.clone_from(&stored.handed_over);
        state.agents.clone_from(&stored.agents);
        state.tools.clone_from(&stored.tools);
        state.surroundings.clone_from(&stored.surroundings);
        state.files = Arc::new(files);
        state.window = stored.window;
        state.show(items, compaction);
        state
    }

    pub(crate) fn new_session(created_at: Timestamp, settings: SessionSettings) -> Self {
        Self { created_at, settings, meter: ContextMeter::new_session(), ..Self::default() }
    }

    /// Replaces the visible history with `items`, preceded by `compaction`.
    pub(crate) fn show(&mut self, items: Vec<(u64, Item)>, compaction: Option<Item>) {
        // Unfinished compactions, and compactions with a summary, are not visible after a summary.
        let is_seen = |item: &Item| match &item.body {
            ItemBody::Compaction(compaction) => !compaction.offloaded.is_empty() || compaction.restores.is_some(),
            _ => true,
        };
        let seen = items.into_iter().filter(|(_, item)| is_seen(item));
        self.history = seen.map(|(seq, item)| (seq, Arc::new(for_model(item)))).collect();
        self.offload();
        self.compaction = compaction.map(Arc::new);
        self.meter.start_over();
    }

    /// Returns the visible history: the summary, followed by the items after it.
    pub(crate) fn visible_history(&self) -> Vec<Arc<Item>> {
        self.compaction.iter().chain(self.history.iter().map(|(_, item)| item)).cloned().collect()
    }

    /// Returns the compaction at the start of the visible history.
    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        match &self.compaction.as_deref()?.body {
            ItemBody::Compaction(compaction) => Some(compaction),
            _ => None,
        }
    }

    /// Returns the sequence number of a visible item's completion. For a summary, returns the number of the last item
    /// that the summary replaced.
    pub(crate) fn number_of(&self, id: ItemId) -> Option<u64> {
        let summary = self.compaction.as_ref().filter(|item| item.id == id).and(self.compaction());
        let found = self.history.iter().find(|(_, item)| item.id == id).map(|(seq, _)| *seq);
        found.or(summary.map(|compaction| compaction.through))
    }

    /// Applies a stored event to the state.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.handed_over.apply(&event.kind);
        // Imported figures are out of date once an event is stored here.
        if let Some(imported) = &mut self.settings.imported {
            imported.context = None;
        }
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => {
                self.has_open_plan = route::plan_pending_after(item).unwrap_or(self.has_open_plan);
                self.remember(event.seq, item);
            }
            EventKind::TurnStarted { compacts: false, slot, rule, .. } => {
                self.routed = SlotChoice::reusable_slot(*slot, *rule);
            }
            EventKind::TurnEnded { result } if result.only_compacted => {}
            EventKind::TurnEnded { result } => self.last_stop = Some(result.stop_reason),
            EventKind::StateChanged { change } => match change {
                StateChange::Todos { todos } => self.todos.clone_from(todos),
                StateChange::Agent { stack } => self.agents.clone_from(stack),
                StateChange::Tools { names } => self.tools.clone_from(names),
                StateChange::Surroundings(found) => self.surroundings = Some(found.clone()),
                StateChange::Settings { settings } => self.settings.clone_from(settings),
                StateChange::File(change) => Arc::make_mut(&mut self.files).apply(change, event.at),
                StateChange::Reset => {
                    self.files = Arc::default();
                    self.agents.clear();
                    self.tools.clear();
                    self.surroundings = None;
                    self.show(Vec::new(), None);
                    self.window = Window { after: event.seq, summary: 0, held: 0 };
                    // A turn hidden by the reset cannot be resumed.
                    self.last_stop = None;
                    (self.routed, self.has_open_plan) = (None, false);
                }
                StateChange::Withdrawn { items, .. } => {
                    self.history.retain(|(seq, _)| !items.contains(seq));
                    self.meter.start_over();
                    self.has_open_plan = false;
                }
                // The caller first reads the visible items from the journal.
                StateChange::Window { window } => self.window = *window,
                StateChange::Title { .. } => self.title = TitleState::Settled,
                StateChange::Queue { .. }
                | StateChange::HandedOver { .. }
                | StateChange::Subagent(_)
                | StateChange::TokenLevel { .. }
                // This is the first of the session's own facts; the copied state was read from the journal.
                | StateChange::Forked { .. }
                | StateChange::Undone { .. } => {}
            },
            _ => {}
        }
    }

    /// Replaces results in the history that compactions have offloaded to files.
    fn offload(&mut self) {
        let (numbers, mut items): (Vec<u64>, Vec<Arc<Item>>) = self.history.drain(..).unzip();
        offload::apply(&mut items);
        self.history = numbers.into_iter().zip(items).collect();
    }

    fn remember(&mut self, seq: u64, item: &Item) {
        match &item.body {
            ItemBody::Compaction(compaction) if !compaction.offloaded.is_empty() => {
                self.history.push_back((seq, Arc::new(item.clone())));
                self.offload();
                self.meter.start_over();
            }
            // The caller first reads the restored items from the journal, and then shows them.
            ItemBody::Compaction(compaction) if compaction.summary.is_empty() => {}
            ItemBody::Compaction(compaction) => {
                self.history.retain(|(number, _)| *number > compaction.through);
                self.compaction = Some(Arc::new(item.clone()));
                self.window = Window { after: compaction.through, summary: seq, held: 0 };
                self.routed = None;
                self.meter.start_over();
            }
            _ => self.history.push_back((seq, Arc::new(for_model(item.clone())))),
        }
    }
}

/// Strips details that only programs read, because sessions stay in memory for a long time.
fn for_model(mut item: Item) -> Item {
    if let ItemBody::ToolResult(result) = &mut item.body {
        result.details = None;
    }
    item
}

/// Interrupts of a session's open turn.
#[derive(Default)]
pub(crate) struct Interrupts {
    pub(crate) pending: Vec<PendingInterrupt>,
    /// Answers in this turn, by call. A call that is dispatched again after a restart gets the earlier answer instead
    /// of asking again.
    pub(crate) answered: HashMap<CallId, CallAnswers>,
    /// Questions of subagents that work for this turn. The questions are only listed here, because the subagents
    /// themselves wait for the answers.
    pub(crate) of_children: Vec<Interrupt>,
    /// IDs of all subagent interrupts announced in this turn.
    pub(crate) published: HashSet<InterruptId>,
}

pub(crate) struct PendingInterrupt {
    pub(crate) interrupt: Interrupt,
    /// Channel to the turn; `None` after a restart, while no turn is running.
    pub(crate) waiter: Option<oneshot::Sender<ResolvedInterrupt>>,
}

impl Interrupts {
    /// Attaches a new waiter if the call has already asked the same question. Approval is asked once per call, even if
    /// the request is now phrased differently.
    pub(crate) fn reattach(
        &mut self,
        call: &CallId,
        ask: &Ask,
        waiter: oneshot::Sender<ResolvedInterrupt>,
    ) -> Result<(), oneshot::Sender<ResolvedInterrupt>> {
        let is_same = |asked: &Ask| match ask {
            Ask::Approval { .. } => matches!(asked, Ask::Approval { .. }),
            Ask::Question { .. } => asked == ask,
        };
        let is_asked = |pending: &&mut PendingInterrupt| {
            pending.interrupt.call_id.as_ref() == Some(call) && is_same(&pending.interrupt.ask)
        };
        let Some(pending) = self.pending.iter_mut().find(is_asked) else { return Err(waiter) };
        pending.waiter = Some(waiter);
        Ok(())
    }

    pub(crate) fn get(&self, id: InterruptId) -> Option<&Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).find(|interrupt| interrupt.id == id)
    }

    /// Removes the interrupt and sends its answer to the turn, if the turn waits.
    pub(crate) fn resolve(&mut self, id: InterruptId, answered: ResolvedInterrupt) {
        let Some(index) = self.pending.iter().position(|pending| pending.interrupt.id == id) else { return };
        let PendingInterrupt { interrupt, waiter } = self.pending.remove(index);
        if let Some(call) = interrupt.call_id.filter(|_| !interrupt.ask.is_secret()) {
            self.answered.entry(call).or_default().note(answered.clone());
        }
        if let Some(waiter) = waiter {
            // The turn may have been cancelled in the meantime.
            let _ = waiter.send(answered);
        }
    }

    /// Returns the answer by which the project stays read-only for the rest of the turn. Only the call that asked
    /// receives the user's reason.
    pub(crate) fn project_refusal(&self, call: &CallId) -> Option<ResolvedInterrupt> {
        let refusal =
            |answers: &CallAnswers| answers.project.clone().filter(|answered| answered.answer != Answer::Approve);
        self.answered.get(call).and_then(refusal).or_else(|| {
            let earlier = self.answered.values().find_map(refusal)?;
            Some(ResolvedInterrupt { answer: Answer::Reject { reason: None }, ..earlier })
        })
    }

    /// Removes the interrupts of a call without answering them.
    pub(crate) fn withdraw(&mut self, call: &CallId) -> Vec<Interrupt> {
        let of_call = |pending: &mut PendingInterrupt| pending.interrupt.call_id.as_ref() == Some(call);
        self.pending.extract_if(.., of_call).map(|pending| pending.interrupt).collect()
    }

    pub(crate) fn pending(&self) -> Vec<Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).chain(&self.of_children).cloned().collect()
    }

    /// Returns true if neither the turn nor its subagents wait for an answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.of_children.is_empty()
    }

    /// Returns the earliest deadline of a pending interrupt.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.pending.iter().filter_map(|pending| pending.interrupt.deadline).min()
    }

    /// Returns the interrupts whose deadline has passed, each with its default answer.
    pub(crate) fn overdue(&self, now: Timestamp) -> Vec<(InterruptId, Answer)> {
        self.pending
            .iter()
            .filter(|pending| pending.interrupt.deadline.is_some_and(|deadline| deadline <= now))
            .map(|pending| {
                (pending.interrupt.id, pending.interrupt.on_deadline.clone().unwrap_or_else(default_rejection))
            })
            .collect()
    }
}

/// Returns the answer used at a deadline if the question has no default, or if the default does not fit the question.
pub(crate) fn default_rejection() -> Answer {
    Answer::Reject { reason: Some("no answer in time".to_owned()) }
}
