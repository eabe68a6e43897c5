//! What a crash left behind.
//!
//! [`recover`] reads the events of a turn that has begun and not ended and says what to add to the journal, so
//! that the story is whole and honest: which calls finished, which never ran, which are unknown. Pure.
//!
//! - [`subagents`]: what a stop left of the subagents of a turn, read from the journal, and what the parent's model is told
//!   of one; [`reading`]: how a journal is read.

pub(crate) mod reading;
pub(crate) mod subagents;

use std::collections::{BTreeMap, HashMap, HashSet};

pub use agentd_core::turn::RecoveredTurn;
use agentd_core::{
    agent::Subagent,
    event::{Event, EventKind},
    ids::{CallId, InterruptId, SessionId, TurnId},
    interrupt::{Answer, AnsweredBy, Interrupt},
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    tool::{ToolCall, ToolErrorCode, ToolOutput, ToolResult},
    usage::Usage,
};

use crate::{
    recovery::subagents::SubagentOutput,
    turn::{
        InFlightCall,
        recorder::{CallAnswers, ResolvedInterrupt, whole},
    },
};

/// Why what was under way did not come to its end.
const STOPPED: &str = "the daemon stopped";

/// Why a turn ends of which an event is damaged.
const DAMAGED: &str = "a part of this turn is damaged on the disk";

/// Fate of the subagent of one call after a stop.
#[derive(Debug)]
pub(crate) enum SubagentStatus {
    /// It waits for a person, or has the answer and goes on.
    GoesOn(Subagent),
    /// It has ended, or was cut off: this is the result of the call.
    Ended(Box<SubagentOutput>),
}

/// Fate of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It waits for a person: leave it open until the answer comes.
    Park,
    /// A person has answered and the call has not run: go on at once, the answer was acknowledged.
    Resume,
    /// End it; a client may continue.
    End,
}

/// Decisions of recovery.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) disposition: Disposition,
    /// To be added to the journal; the turn's end, which needs the turn's whole result, not included.
    pub(crate) facts: Vec<EventKind>,
    pub(crate) report: RecoveredTurn,
    pub(crate) pending: Vec<Interrupt>,
    pub(crate) answered: HashMap<CallId, CallAnswers>,
    /// Questions of sessions that work for its calls, as far as they were told here.
    pub(crate) of_children: Vec<Interrupt>,
    /// All that was told of such questions.
    pub(crate) told: HashSet<InterruptId>,
    /// Additions to the turn that no model was given, where the turn continues: it takes them when it does.
    pub(crate) steers: Vec<Item>,
    /// Results under way that it does not end, because another session still works for them: those go on with the turn.
    pub(crate) under_way: Vec<(Item, InFlightCall)>,
}

/// The ledger of one turn: what its events say of items, calls and interrupts.
#[derive(Default)]
struct Ledger {
    open: Vec<Item>,
    calls: Vec<ToolCall>,
    results: BTreeMap<CallId, ToolResult>,
    pending: BTreeMap<InterruptId, Interrupt>,
    answered: HashMap<CallId, CallAnswers>,
    /// The last that was told of the steps so far, and what they took.
    paid: Option<EventKind>,
    /// All that anybody was asked.
    told_of_children: HashSet<InterruptId>,
    /// Set if a person has decided about a plan, and the turn has not taken that in.
    plan_decided: bool,
    /// Set if the last thing told is what a stop had left behind: a recovery was itself cut short before the end.
    told: bool,
}

impl Ledger {
    fn read(events: &[impl AsRef<Event>]) -> Self {
        let mut ledger = Self::default();
        for event in events {
            ledger.note(&event.as_ref().kind);
        }
        ledger
    }

    fn note(&mut self, kind: &EventKind) {
        self.told = matches!(kind, EventKind::ItemCompleted { item, .. }
                if matches!(item.body, ItemBody::Notice { topic: NoticeTopic::General, .. }));
        match kind {
            EventKind::ItemStarted { item } => self.open.push(item.clone()),
            EventKind::ItemCompleted { item, .. } => {
                self.open.retain(|open| open.id != item.id);
                match &item.body {
                    ItemBody::ToolCall(call) => self.calls.push(call.clone()),
                    ItemBody::Notice { topic: NoticeTopic::Planned, .. } | ItemBody::UserMessage { .. } => {
                        self.plan_decided = false;
                    }
                    ItemBody::ToolResult(result) => {
                        self.results.insert(result.call_id.clone(), result.clone());
                    }
                    _ => {}
                }
            }
            EventKind::InterruptRaised { interrupt } => {
                self.told_of_children.insert(interrupt.id);
                self.pending.insert(interrupt.id, (**interrupt).clone());
            }
            EventKind::InterruptResolved { interrupt_id, call_id, answer, by } => {
                let asked = self.pending.remove(interrupt_id).map(|interrupt| interrupt.ask);
                self.plan_decided |= asked.as_ref().is_some_and(|ask| ask.plan().is_some());
                if let Some(call) = call_id {
                    let answers = self.answered.entry(call.clone()).or_default();
                    answers.note(ResolvedInterrupt::new(asked, answer, by));
                }
            }
            EventKind::UsageUpdated { .. } => self.paid = Some(kind.clone()),
            _ => {}
        }
    }

    /// The count of what a subagent took, where its turn has any.
    fn pay(&mut self, usage: Usage) -> Option<EventKind> {
        let EventKind::UsageUpdated { step, slot, model, turn, .. } = self.paid.as_mut()? else { return None };
        *turn += usage;
        let (step, slot, model, turn) = (*step, *slot, model.clone(), *turn);
        let (prompt, timing) = (None, None);
        Some(EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated: true, timing })
    }

    /// The calls of which an earlier recovery had to say this.
    fn told_of(&self, code: ToolErrorCode) -> Vec<String> {
        let results = self.calls.iter().filter_map(|call| self.results.get(&call.call_id));
        results.filter(|result| result.error == Some(code)).map(|result| result.name.clone()).collect()
    }
}

/// Returns whether something that a turn would have to go by cannot be read.
pub(crate) fn is_damaged(events: &[impl AsRef<Event>]) -> bool {
    events.iter().any(|event| event.as_ref().is_damaged())
}

/// Reads the stored events of one open turn, from its `TurnStarted` on, knowing what became of those who worked for it.
///
/// Where one of them is damaged, nobody knows what was asked, allowed or begun. The turn ends then: `waiting`, which the
/// journal knows apart from its events, is withdrawn, and every call without a result may have run.
pub(crate) fn recover(
    session_id: SessionId,
    turn_id: TurnId,
    events: &[impl AsRef<Event>],
    fates: &HashMap<CallId, SubagentStatus>,
    waiting: Vec<Interrupt>,
) -> Recovery {
    let mut ledger = Ledger::read(events);
    let mut facts = Vec::new();
    let is_damaged = is_damaged(events);
    if is_damaged {
        ledger.pending.clear();
        ledger.answered.clear();
        ledger.plan_decided = false;
        facts.extend(waiting.into_iter().map(|asked| withdrawn(asked, DAMAGED)));
    }
    let mut unknown = ledger.told_of(ToolErrorCode::UnknownOutcome);
    let mut names_never_ran = ledger.told_of(ToolErrorCode::NotRun);
    let (mut steers, cut_off): (Vec<Item>, Vec<Item>) =
        std::mem::take(&mut ledger.open).into_iter().partition(is_input);
    let (ran, under_way) = close_cut_off_items(cut_off, fates, &mut ledger, &mut unknown, &mut facts);
    let newly_unknown = ran.len() > under_way.len();
    // Questions that still wait: of this session, and of its subagents.
    let (pending, of_children): (Vec<Interrupt>, Vec<Interrupt>) =
        std::mem::take(&mut ledger.pending).into_values().partition(|interrupt| interrupt.session_id == session_id);
    // What a call asked while it ran has nobody left who could use the answer, and so has what one asked that is over.
    let is_over = |call: &CallId| ran.contains(call) || ledger.results.contains_key(call);
    let of_ran = |interrupt: &Interrupt| interrupt.call_id.as_ref().is_some_and(is_over);
    let (moot, pending): (Vec<Interrupt>, Vec<Interrupt>) = pending.into_iter().partition(of_ran);
    facts.extend(moot.into_iter().map(|asked| withdrawn(asked, "the daemon stopped while what asked it ran")));
    let never_ran: Vec<&ToolCall> = ledger.calls.iter().filter(|call| !is_over(&call.call_id)).collect();
    let without_result = if is_damaged { &mut unknown } else { &mut names_never_ran };
    without_result.extend(never_ran.iter().map(|call| call.name.clone()));
    let disposition = if !under_way.is_empty() {
        Disposition::Resume
    } else if !pending.is_empty() {
        Disposition::Park
    } else if ledger.plan_decided || never_ran.iter().any(|call| ledger.answered.contains_key(&call.call_id)) {
        Disposition::Resume
    } else {
        Disposition::End
    };
    let has_outcome = |call: &&ToolCall| ledger.results.get(&call.call_id).is_some_and(is_outcome);
    let report = RecoveredTurn {
        session_id,
        turn_id,
        finished: ledger.calls.iter().filter(has_outcome).map(|call| call.name.clone()).collect(),
        never_ran: names_never_ran,
        unknown,
        goes_on: disposition != Disposition::End,
    };
    if disposition == Disposition::End {
        for call in never_ran {
            let (error, text) = if is_damaged {
                let text = format!("{DAMAGED}: this may have taken effect or not; look before you run it again");
                (ToolErrorCode::UnknownOutcome, text)
            } else {
                (ToolErrorCode::NotRun, never_ran_because(STOPPED))
            };
            facts.extend(stand_in(turn_id, call, error, text));
        }
        // What was acknowledged is read in the next turn.
        for item in steers.drain(..) {
            facts.push(EventKind::ItemCompleted { item, status: ItemStatus::Done });
        }
    }
    if (disposition == Disposition::End && !ledger.told) || newly_unknown {
        facts.extend(notice(turn_id, &report));
    }
    let (answered, told) = (ledger.answered, ledger.told_of_children);
    Recovery { disposition, facts, report, pending, answered, of_children, told, steers, under_way }
}

/// Closes items that a stop cut off: with the result of a subagent, honestly as unknown, or not at all where a subagent
/// still works. Returns the calls that ran when the daemon stopped, and those that a subagent still works for.
fn close_cut_off_items(
    items: Vec<Item>,
    fates: &HashMap<CallId, SubagentStatus>,
    ledger: &mut Ledger,
    unknown: &mut Vec<String>,
    facts: &mut Vec<EventKind>,
) -> (Vec<CallId>, Vec<(Item, InFlightCall)>) {
    let (mut ran, mut under_way) = (Vec::new(), Vec::new());
    for item in items {
        let mut paid = None;
        let fate = match &item.body {
            ItemBody::ToolResult(result) => fates.get(&result.call_id),
            _ => None,
        };
        let (item, status) = match fate {
            Some(SubagentStatus::GoesOn(subagent)) => {
                ran.push(subagent.call_id.clone());
                let known = InFlightCall { item: item.id, subagent: subagent.clone() };
                under_way.push((item, known));
                continue;
            }
            Some(SubagentStatus::Ended(ended)) => {
                paid = Some(ended.delegated.usage).filter(|usage| *usage != Usage::default());
                let item = with_outcome(item, &ended.output);
                let is_outcome = matches!(&item.body, ItemBody::ToolResult(result) if is_outcome(result));
                (item, if is_outcome { ItemStatus::Done } else { ItemStatus::Unknown })
            }
            None => close_cut_off(&item, STOPPED),
        };
        match &item.body {
            ItemBody::ToolResult(result) if status == ItemStatus::Done => {
                ledger.results.insert(result.call_id.clone(), result.clone());
            }
            ItemBody::ToolResult(result) => {
                unknown.push(result.name.clone());
                ran.push(result.call_id.clone());
            }
            _ => {}
        }
        facts.push(EventKind::ItemCompleted { item, status });
        // Right behind the result: so it is known of which call it is.
        facts.extend(paid.and_then(|usage| ledger.pay(usage)));
    }
    (ran, under_way)
}

/// The result that another session has come to.
fn with_outcome(mut item: Item, output: &ToolOutput) -> Item {
    if let ItemBody::ToolResult(result) = &mut item.body {
        result.text.clone_from(&output.text);
        result.error = output.error;
        result.files.clone_from(&output.files);
    }
    item
}

/// Returns whether a result is a tool's own, and not one that stands in for what a stop had cut off.
fn is_outcome(result: &ToolResult) -> bool {
    !matches!(result.error, Some(ToolErrorCode::NotRun | ToolErrorCode::UnknownOutcome))
}

/// The end of a question that nobody answered.
pub(crate) fn withdrawn(interrupt: Interrupt, why: &str) -> EventKind {
    EventKind::InterruptResolved {
        interrupt_id: interrupt.id,
        call_id: interrupt.call_id,
        answer: Answer::Reject { reason: Some(why.to_owned()) },
        by: AnsweredBy::Daemon,
    }
}

/// Returns whether an item is a person's words. Started and not completed they are whole: nobody was given them yet.
pub(crate) fn is_input(item: &Item) -> bool {
    matches!(item.body, ItemBody::UserMessage { .. })
}

/// The end of an item that its own turn did not end, for that reason: a tool's is unknown, a text's is cut.
pub(crate) fn close_cut_off(item: &Item, why: &str) -> (Item, ItemStatus) {
    let mut item = item.clone();
    let status = if let ItemBody::ToolResult(result) = &mut item.body {
        result.error = Some(ToolErrorCode::UnknownOutcome);
        result.text = format!("{why} while this ran: it may have taken effect or not; look before you run it again");
        ItemStatus::Unknown
    } else if is_input(&item) {
        ItemStatus::Done
    } else {
        ItemStatus::Cut
    };
    (item, status)
}

/// The text on a call that had not begun when its turn ended.
pub(crate) fn never_ran_because(why: &str) -> String {
    format!("{why} before this ran: it never ran; call it again if it is still wanted")
}

/// Results of calls that had not begun when their turn ended: every one that had is among these open items.
pub(crate) fn never_begun(turn_id: TurnId, calls: &[ToolCall], cut_off: &[EventKind]) -> Vec<EventKind> {
    let has_begun = |call: &&ToolCall| {
        let of_call =
            |item: &Item| matches!(&item.body, ItemBody::ToolResult(result) if result.call_id == call.call_id);
        cut_off.iter().any(|fact| matches!(fact, EventKind::ItemCompleted { item, .. } if of_call(item)))
    };
    let never_ran = never_ran_because("the turn ended");
    let results = calls.iter().filter(|call| !has_begun(call));
    results.flat_map(|call| stand_in(turn_id, call, ToolErrorCode::NotRun, never_ran.clone())).collect()
}

/// The result of a call that has none, and never will.
pub(crate) fn stand_in(turn_id: TurnId, call: &ToolCall, error: ToolErrorCode, text: String) -> [EventKind; 2] {
    let result = ToolResult { text, error: Some(error), ..ToolResult::empty(call.call_id.clone(), call.name.clone()) };
    whole(Item::new(turn_id, ItemBody::ToolResult(result)))
}

fn notice(turn_id: TurnId, report: &RecoveredTurn) -> [EventKind; 2] {
    let mut text = "The daemon stopped while this turn ran.".to_owned();
    for (what, names) in [
        ("Finished and not run again", &report.finished),
        ("Never ran", &report.never_ran),
        ("Unknown, may have taken effect or not", &report.unknown),
    ] {
        if !names.is_empty() {
            text.push_str(&format!(" {what}: {}.", names.join(", ")));
        }
    }
    whole(Item::new(turn_id, ItemBody::notice(text)))
}
