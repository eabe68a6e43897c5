//! Recovery after a crash.
//!
//! [`recover`] reads the events of a turn that started but did not end, and returns the events to append to the journal
//! so that the turn is complete and truthful: which calls finished, which never ran, and which have an unknown outcome.
//! No side effects.
//!
//! - [`subagents`]: the state of a turn's subagents after a stop, read from the journal, and their outputs for the
//!   parent's model; [`reading`]: functions that read a journal.

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
    tool::{ToolCall, ToolErrorCode, ToolResult},
    usage::Usage,
};

use crate::{
    recovery::subagents::SubagentOutput,
    turn::{
        InFlightCall,
        recorder::{CallAnswers, ResolvedInterrupt, whole},
    },
};

/// Reason why everything in progress was interrupted.
const STOPPED_REASON: &str = "the daemon stopped";

/// Reason for the end of a turn with a damaged event.
const DAMAGED_REASON: &str = "a part of this turn is damaged on disk";

/// State of a call's subagent after a stop.
#[derive(Debug)]
pub(crate) enum SubagentStatus {
    /// The subagent waits for the user, or has the answer and continues.
    Continues(Subagent),
    /// The subagent has ended or was interrupted, with this result of the call.
    Ended(Box<SubagentOutput>),
}

/// Outcome for the turn after recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The turn waits for the user, and stays open until the answer arrives.
    Park,
    /// The user has answered, but the call has not run. The turn resumes at once, because the answer was acknowledged.
    Resume,
    /// The turn is ended. A client may continue it.
    End,
}

/// Result of recovering one turn.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) disposition: Disposition,
    /// Events to append to the journal, without the turn's end, which requires the turn's whole result.
    pub(crate) facts: Vec<EventKind>,
    pub(crate) report: RecoveredTurn,
    pub(crate) pending: Vec<Interrupt>,
    pub(crate) answered: HashMap<CallId, CallAnswers>,
    /// Pending questions of subagents that were published in this session.
    pub(crate) of_children: Vec<Interrupt>,
    /// All questions that were published in this session.
    pub(crate) published: HashSet<InterruptId>,
    /// Inputs added to a continuing turn that no model has received yet. The turn receives these inputs when it
    /// continues.
    pub(crate) steers: Vec<Item>,
    /// Results in progress that stay open because a subagent still works on them. These results continue with the turn.
    pub(crate) in_flight: Vec<(Item, InFlightCall)>,
}

/// Items, calls and interrupts of one turn, collected from its events.
#[derive(Default)]
struct Ledger {
    open: Vec<Item>,
    calls: Vec<ToolCall>,
    results: BTreeMap<CallId, ToolResult>,
    pending: BTreeMap<InterruptId, Interrupt>,
    answered: HashMap<CallId, CallAnswers>,
    /// The last usage event.
    usage_event: Option<EventKind>,
    /// All questions that were published.
    published_questions: HashSet<InterruptId>,
    /// True if the user has decided on a plan, but the turn has not yet applied the decision.
    plan_decided: bool,
    /// True if the last event is a recovery's notice: the recovery itself was interrupted before its end.
    has_report: bool,
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
        self.has_report = matches!(kind, EventKind::ItemCompleted { item, .. }
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
                self.published_questions.insert(interrupt.id);
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
            EventKind::UsageUpdated { .. } => self.usage_event = Some(kind.clone()),
            _ => {}
        }
    }

    /// Adds a subagent's usage to the turn's and returns the event for it; `None` if the turn has no usage yet.
    fn add_usage(&mut self, usage: Usage) -> Option<EventKind> {
        let EventKind::UsageUpdated { step, slot, model, turn, .. } = self.usage_event.as_mut()? else { return None };
        *turn += usage;
        let (step, slot, model, turn) = (*step, *slot, model.clone(), *turn);
        let (prompt, timing) = (None, None);
        Some(EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated: true, timing })
    }

    /// Returns the names of calls that an earlier recovery closed with this error.
    fn closed_with(&self, code: ToolErrorCode) -> Vec<String> {
        let results = self.calls.iter().filter_map(|call| self.results.get(&call.call_id));
        results.filter(|result| result.error == Some(code)).map(|result| result.name.clone()).collect()
    }
}

/// Returns true if an event on which the turn depends is unreadable.
pub(crate) fn is_damaged(events: &[impl AsRef<Event>]) -> bool {
    events.iter().any(|event| event.as_ref().is_damaged())
}

/// Recovers one open turn from its stored events, starting with its `TurnStarted`, given the states of its subagents.
///
/// If one of the events is damaged, it is unknown which questions were asked and which calls were allowed or started.
/// In this case, the turn ends: the questions in `waiting`, which the journal stores separately from its events, are
/// withdrawn, and every call without a result may have run.
pub(crate) fn recover(
    session_id: SessionId,
    turn_id: TurnId,
    events: &[impl AsRef<Event>],
    outcomes: &HashMap<CallId, SubagentStatus>,
    waiting: Vec<Interrupt>,
) -> Recovery {
    let mut ledger = Ledger::read(events);
    let mut facts = Vec::new();
    let is_damaged = is_damaged(events);
    if is_damaged {
        ledger.pending.clear();
        ledger.answered.clear();
        ledger.plan_decided = false;
        facts.extend(waiting.into_iter().map(|asked| withdrawal(asked, DAMAGED_REASON)));
    }
    let mut unknown = ledger.closed_with(ToolErrorCode::UnknownOutcome);
    let mut names_never_ran = ledger.closed_with(ToolErrorCode::NotRun);
    let (mut steers, cut_off): (Vec<Item>, Vec<Item>) =
        std::mem::take(&mut ledger.open).into_iter().partition(is_input);
    let (ran, in_flight) = close_cut_off_items(cut_off, outcomes, &mut ledger, &mut unknown, &mut facts);
    let newly_unknown = ran.len() > in_flight.len();
    // Pending questions, of this session and of its subagents.
    let (pending, of_children): (Vec<Interrupt>, Vec<Interrupt>) =
        std::mem::take(&mut ledger.pending).into_values().partition(|interrupt| interrupt.session_id == session_id);
    // The answer to a question from a call that was running or is over can no longer be used.
    let is_over = |call: &CallId| ran.contains(call) || ledger.results.contains_key(call);
    let of_ran = |interrupt: &Interrupt| interrupt.call_id.as_ref().is_some_and(is_over);
    let (obsolete, pending): (Vec<Interrupt>, Vec<Interrupt>) = pending.into_iter().partition(of_ran);
    facts.extend(obsolete.into_iter().map(|asked| withdrawal(asked, "the daemon stopped while its call was running")));
    let never_ran: Vec<&ToolCall> = ledger.calls.iter().filter(|call| !is_over(&call.call_id)).collect();
    let without_result = if is_damaged { &mut unknown } else { &mut names_never_ran };
    without_result.extend(never_ran.iter().map(|call| call.name.clone()));
    let disposition = if !in_flight.is_empty() {
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
                let text = format!("{DAMAGED_REASON}: this may or may not have taken effect; check before retrying");
                (ToolErrorCode::UnknownOutcome, text)
            } else {
                (ToolErrorCode::NotRun, not_run_text(STOPPED_REASON))
            };
            facts.extend(placeholder(turn_id, call, error, text));
        }
        // Acknowledged inputs are passed to the model in the next turn.
        for item in steers.drain(..) {
            facts.push(EventKind::ItemCompleted { item, status: ItemStatus::Done });
        }
    }
    if (disposition == Disposition::End && !ledger.has_report) || newly_unknown {
        facts.extend(notice(turn_id, &report));
    }
    let (answered, published) = (ledger.answered, ledger.published_questions);
    Recovery { disposition, facts, report, pending, answered, of_children, published, steers, in_flight }
}

/// Closes items that were interrupted by a stop, either with the result of a subagent or as unknown. An item stays open
/// if a subagent still works on it. Returns the calls that ran when the daemon stopped, and the calls on which a
/// subagent still works.
fn close_cut_off_items(
    items: Vec<Item>,
    outcomes: &HashMap<CallId, SubagentStatus>,
    ledger: &mut Ledger,
    unknown: &mut Vec<String>,
    facts: &mut Vec<EventKind>,
) -> (Vec<CallId>, Vec<(Item, InFlightCall)>) {
    let (mut ran, mut in_flight) = (Vec::new(), Vec::new());
    for item in items {
        let mut delegated_usage = None;
        let outcome = match &item.body {
            ItemBody::ToolResult(result) => outcomes.get(&result.call_id),
            _ => None,
        };
        let (item, status) = match outcome {
            Some(SubagentStatus::Continues(subagent)) => {
                ran.push(subagent.call_id.clone());
                let call = InFlightCall { item: item.id, subagent: subagent.clone() };
                in_flight.push((item, call));
                continue;
            }
            Some(SubagentStatus::Ended(ended)) => {
                delegated_usage = Some(ended.delegated.usage).filter(|usage| *usage != Usage::default());
                let (mut item, mut status) = (item, ItemStatus::Unknown);
                if let ItemBody::ToolResult(result) = &mut item.body {
                    result.text.clone_from(&ended.output.text);
                    result.error = ended.output.error;
                    result.files.clone_from(&ended.output.files);
                    if is_outcome(result) {
                        status = ItemStatus::Done;
                    }
                }
                (item, status)
            }
            None => close_cut_off(&item, STOPPED_REASON),
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
        // The usage event follows the result directly, to show the call to which the usage belongs.
        facts.extend(delegated_usage.and_then(|usage| ledger.add_usage(usage)));
    }
    (ran, in_flight)
}

/// Returns true if a result comes from a tool, as opposed to a placeholder inserted after a stop.
fn is_outcome(result: &ToolResult) -> bool {
    !matches!(result.error, Some(ToolErrorCode::NotRun | ToolErrorCode::UnknownOutcome))
}

/// Ends a question that was not answered.
pub(crate) fn withdrawal(interrupt: Interrupt, reason: &str) -> EventKind {
    EventKind::InterruptResolved {
        interrupt_id: interrupt.id,
        call_id: interrupt.call_id,
        answer: Answer::Reject { reason: Some(reason.to_owned()) },
        by: AnsweredBy::Daemon,
    }
}

/// Returns true if an item is a user's input. An input that was started but not completed is whole, but no model has
/// received it.
pub(crate) fn is_input(item: &Item) -> bool {
    matches!(item.body, ItemBody::UserMessage { .. })
}

/// Closes an item that was still open when its turn ended for this reason. A tool result becomes unknown, and text is
/// cut.
pub(crate) fn close_cut_off(item: &Item, reason: &str) -> (Item, ItemStatus) {
    let mut item = item.clone();
    let status = if let ItemBody::ToolResult(result) = &mut item.body {
        result.error = Some(ToolErrorCode::UnknownOutcome);
        result.text =
            format!("{reason} while the call ran: it may or may not have taken effect; check before retrying");
        ItemStatus::Unknown
    } else if is_input(&item) {
        ItemStatus::Done
    } else {
        ItemStatus::Cut
    };
    (item, status)
}

/// Returns the text for a call that had not started when its turn ended.
pub(crate) fn not_run_text(reason: &str) -> String {
    format!("{reason} before the call ran: it never ran; retry it if still needed")
}

/// Returns placeholder results for calls that had not started when their turn ended. Calls that had started are among
/// the items in `cut_off`.
pub(crate) fn unstarted_results(turn_id: TurnId, calls: &[ToolCall], cut_off: &[EventKind]) -> Vec<EventKind> {
    let has_begun = |call: &&ToolCall| {
        let of_call =
            |item: &Item| matches!(&item.body, ItemBody::ToolResult(result) if result.call_id == call.call_id);
        cut_off.iter().any(|fact| matches!(fact, EventKind::ItemCompleted { item, .. } if of_call(item)))
    };
    let never_ran = not_run_text("the turn ended");
    let results = calls.iter().filter(|call| !has_begun(call));
    results.flat_map(|call| placeholder(turn_id, call, ToolErrorCode::NotRun, never_ran.clone())).collect()
}

/// Returns a placeholder result for a call that will never have a result.
pub(crate) fn placeholder(turn_id: TurnId, call: &ToolCall, error: ToolErrorCode, text: String) -> [EventKind; 2] {
    let result = ToolResult { text, error: Some(error), ..ToolResult::empty(call.call_id.clone(), call.name.clone()) };
    whole(Item::new(turn_id, ItemBody::ToolResult(result)))
}

fn notice(turn_id: TurnId, report: &RecoveredTurn) -> [EventKind; 2] {
    let mut text = "The daemon stopped while this turn ran.".to_owned();
    for (label, names) in [
        ("Finished and not run again", &report.finished),
        ("Never ran", &report.never_ran),
        ("Unknown, may or may not have taken effect", &report.unknown),
    ] {
        if !names.is_empty() {
            text.push_str(&format!(" {label}: {}.", names.join(", ")));
        }
    }
    whole(Item::new(turn_id, ItemBody::notice(text)))
}
