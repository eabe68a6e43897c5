//! What a session's actor remembers of its journal: the items that a model sees, and what the state changes add up to; and the one
//! map of questions that wait for a person.

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

/// Items that are read into memory at the most. More than a history may have: only a turn that was still running when the
/// daemon stopped can come near it.
pub(crate) const MAX_ITEMS: usize = 20_000;

/// State of a session's actor.
#[derive(Default)]
pub(crate) struct SessionState {
    pub(crate) created_at: Timestamp,
    pub(crate) settings: SessionSettings,
    pub(crate) todos: Vec<Todo>,
    /// Whom the session was handed to.
    pub(crate) agents: Vec<String>,
    /// Tools that were mentioned or found, in the order in which they came.
    pub(crate) tools: Vec<String>,
    /// Where it works, as its instructions tell.
    pub(crate) surroundings: Option<Surroundings>,
    /// The files of the session's own state.
    pub(crate) files: Arc<StateFiles>,
    /// The items that a model may see, each with the number of its completion.
    history: VecDeque<(u64, Arc<Item>)>,
    /// Which part of the journal that is.
    pub(crate) window: Window,
    /// The summary that stands in front of them.
    compaction: Option<Arc<Item>>,
    /// Files that people handed over, as far as a model is still to be told of them.
    pub(crate) handed_over: PendingAttachments,
    /// End of the last turn that did more than compact, as far as it is known.
    pub(crate) last_stop: Option<StopReason>,
    /// The slot that was chosen for the last turn by what it was about, as far as it is known. None once the history is
    /// another one, which any model has to read anew.
    pub(crate) routed: Option<Slot>,
    /// Set if the last input was to begin with a plan that nobody has approved.
    pub(crate) has_open_plan: bool,
    /// Memory of the last request.
    pub(crate) meter: ContextMeter,
}

impl SessionState {
    pub(crate) fn restore(
        stored: &StoredSession,
        items: Vec<(u64, Item)>,
        compaction: Option<Item>,
        files: StateFiles,
    ) -> Self {
        let mut state = Self::newborn(stored.summary.created_at, stored.settings.clone());
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

    pub(crate) fn newborn(created_at: Timestamp, settings: SessionSettings) -> Self {
        Self { created_at, settings, meter: ContextMeter::newborn(), ..Self::default() }
    }

    /// Lets a model see these items behind that summary, and no others.
    pub(crate) fn show(&mut self, items: Vec<(u64, Item)>, compaction: Option<Item>) {
        // Compactions with a summary, and those that came to no end, are no part of what is seen behind one.
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

    /// The visible history: the summary of what was replaced, and the items after it.
    pub(crate) fn seen(&self) -> Vec<Arc<Item>> {
        self.compaction.iter().chain(self.history.iter().map(|(_, item)| item)).cloned().collect()
    }

    /// The summary that stands in front.
    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        match &self.compaction.as_deref()?.body {
            ItemBody::Compaction(compaction) => Some(compaction),
            _ => None,
        }
    }

    /// The number of an item's completion, where a model may see it. A summary counts as the last that it replaced.
    pub(crate) fn number_of(&self, id: ItemId) -> Option<u64> {
        let summary = self.compaction.as_ref().filter(|item| item.id == id).and(self.compaction());
        let found = self.history.iter().find(|(_, item)| item.id == id).map(|(seq, _)| *seq);
        found.or(summary.map(|compaction| compaction.through))
    }

    /// Takes in a stored event.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.handed_over.apply(&event.kind);
        // The figures of another machine: something has happened here.
        if let Some(imported) = &mut self.settings.imported {
            imported.context = None;
        }
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => {
                self.has_open_plan = route::is_open_behind(item).unwrap_or(self.has_open_plan);
                self.remember(event.seq, item);
            }
            EventKind::TurnStarted { compacts: false, slot, rule, .. } => {
                self.routed = SlotChoice::to_keep(*slot, *rule);
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
                    // What was set aside cannot be continued.
                    self.last_stop = None;
                    (self.routed, self.has_open_plan) = (None, false);
                }
                StateChange::Withdrawn { items, .. } => {
                    self.history.retain(|(seq, _)| !items.contains(seq));
                    self.meter.start_over();
                    self.has_open_plan = false;
                }
                // What is seen then has to be read first; whoever asked for it does that.
                StateChange::Window { window } => self.window = *window,
                StateChange::Title { .. }
                | StateChange::Queue { .. }
                | StateChange::HandedOver { .. }
                | StateChange::Subagent(_)
                | StateChange::TokenLevel { .. }
                // The first of a session's own facts: what it begins with was read from the journal.
                | StateChange::Forked { .. }
                | StateChange::Undone { .. } => {}
            },
            _ => {}
        }
    }

    /// Shows results that compactions moved to files as those say.
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
            // What it takes back has to be read first; whoever does that shows it.
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

/// The item without what only programs read: sessions stay in memory for long.
fn for_model(mut item: Item) -> Item {
    if let ItemBody::ToolResult(result) = &mut item.body {
        result.details = None;
    }
    item
}

/// The interrupts of a session's open turn.
#[derive(Default)]
pub(crate) struct Interrupts {
    pub(crate) pending: Vec<Pending>,
    /// Answers of this turn, by the call that asked: a call that is dispatched again after a restart gets the
    /// answer that was given, and nobody is asked twice.
    pub(crate) answered: HashMap<CallId, CallAnswers>,
    /// Questions of sessions that work for calls of this turn. They wait themselves; here they are only told.
    pub(crate) of_children: Vec<Interrupt>,
    /// All that was told of them in this turn.
    pub(crate) told: HashSet<InterruptId>,
}

pub(crate) struct Pending {
    pub(crate) interrupt: Interrupt,
    /// The turn's end; nobody while no turn runs, after a restart.
    pub(crate) waiter: Option<oneshot::Sender<ResolvedInterrupt>>,
}

impl Interrupts {
    /// Lets the waiter of a call that has asked the same before wait again. Whether a call may run is asked once, whatever
    /// has changed in how it is put.
    pub(crate) fn wait_again(
        &mut self,
        call: &CallId,
        ask: &Ask,
        waiter: oneshot::Sender<ResolvedInterrupt>,
    ) -> Result<(), oneshot::Sender<ResolvedInterrupt>> {
        let is_same = |asked: &Ask| match ask {
            Ask::Approval { .. } => matches!(asked, Ask::Approval { .. }),
            Ask::Question { .. } => asked == ask,
        };
        let is_meant = |pending: &&mut Pending| {
            pending.interrupt.call_id.as_ref() == Some(call) && is_same(&pending.interrupt.ask)
        };
        let Some(pending) = self.pending.iter_mut().find(is_meant) else { return Err(waiter) };
        pending.waiter = Some(waiter);
        Ok(())
    }

    pub(crate) fn get(&self, id: InterruptId) -> Option<&Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).find(|interrupt| interrupt.id == id)
    }

    /// Takes the interrupt out and hands its answer to the turn, if one waits.
    pub(crate) fn resolve(&mut self, id: InterruptId, answered: ResolvedInterrupt) {
        let Some(index) = self.pending.iter().position(|pending| pending.interrupt.id == id) else { return };
        let Pending { interrupt, waiter } = self.pending.remove(index);
        if let Some(call) = interrupt.call_id.filter(|_| !interrupt.ask.is_secret()) {
            self.answered.entry(call).or_default().note(answered.clone());
        }
        if let Some(waiter) = waiter {
            // The turn may have been cancelled meanwhile; then nobody needs the answer.
            let _ = waiter.send(answered);
        }
    }

    /// Takes out what a call waits for, and nobody gets an answer.
    pub(crate) fn withdraw(&mut self, call: &CallId) -> Vec<Interrupt> {
        let of_call = |pending: &mut Pending| pending.interrupt.call_id.as_ref() == Some(call);
        self.pending.extract_if(.., of_call).map(|pending| pending.interrupt).collect()
    }

    pub(crate) fn pending(&self) -> Vec<Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).chain(&self.of_children).cloned().collect()
    }

    /// Returns whether nobody is asked, by the turn or by those that work for it.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.of_children.is_empty()
    }

    /// The interrupt whose deadline comes first.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.pending.iter().filter_map(|pending| pending.interrupt.deadline).min()
    }

    /// The interrupts whose deadline has passed, each with the answer that is taken now.
    pub(crate) fn overdue(&self, now: Timestamp) -> Vec<(InterruptId, Answer)> {
        self.pending
            .iter()
            .filter(|pending| pending.interrupt.deadline.is_some_and(|deadline| deadline <= now))
            .map(|pending| (pending.interrupt.id, pending.interrupt.on_deadline.clone().unwrap_or_else(no_answer)))
            .collect()
    }
}

/// The answer where a default does not fit.
pub(crate) fn no_answer() -> Answer {
    Answer::Reject { reason: Some("no answer in time".to_owned()) }
}
