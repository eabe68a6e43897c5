//! The end of turns that were open when their session left. Pure.
//!
//! Such a turn never goes on: whatever it waits for, and whatever a person had said to it, nothing of it runs here. It ends
//! as one does that a stop of the daemon has cut off.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use agentd_core::{
    Timestamp,
    event::{Event, EventKind},
    ids::{InterruptId, SessionId, TraceId, TurnId},
    interrupt::Interrupt,
    item::ItemBody,
    turn::{StopReason, TurnResult},
    usage::Usage,
};

use crate::recovery;

/// Turns that are open at once. Few are in a journal: one that runs, and such as never ran.
const MAX_OPEN: usize = 1000;
/// Bytes of words and questions that wait in open turns.
const MAX_HELD: usize = 64 << 20;

/// Why questions are withdrawn.
const LEFT: &str = "the session was moved while this waited";

/// Turns that have begun and not ended, and questions that wait, as far as the events were seen.
#[derive(Default)]
pub(super) struct OpenTurns {
    turns: Vec<OpenTurn>,
    pending: BTreeMap<InterruptId, Interrupt>,
    /// Bytes that are held.
    held: usize,
}

struct OpenTurn {
    id: TurnId,
    trace_id: TraceId,
    began: Timestamp,
    /// Its events, as far as its end depends on them: without texts.
    events: Vec<Arc<Event>>,
    text: String,
    steps: u32,
    usage: Usage,
    tool_used: bool,
}

impl OpenTurns {
    /// Takes note of the next event.
    ///
    /// # Errors
    /// When more is open than any session has.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), &'static str> {
        match &event.kind {
            EventKind::TurnStarted { trace_id, .. } => {
                let Some(id) = event.turn_id else { return Ok(()) };
                if self.turns.len() == MAX_OPEN {
                    return Err("more turns are open than a session has");
                }
                self.turns.push(OpenTurn {
                    id,
                    trace_id: *trace_id,
                    began: event.at,
                    events: Vec::new(),
                    text: String::new(),
                    steps: 0,
                    usage: Usage::default(),
                    tool_used: false,
                });
            }
            EventKind::TurnEnded { .. } => self.turns.retain(|turn| Some(turn.id) != event.turn_id),
            EventKind::InterruptRaised { interrupt } => {
                self.held += serde_json::to_vec(interrupt).map_or(0, |text| text.len());
                self.pending.insert(interrupt.id, (**interrupt).clone());
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                self.pending.remove(interrupt_id);
            }
            _ => {
                if let Some(turn) = self.turns.iter_mut().find(|turn| Some(turn.id) == event.turn_id) {
                    self.held += turn.take(event);
                }
            }
        }
        if self.held > MAX_HELD { Err("open turns hold more than a session can") } else { Ok(()) }
    }

    /// Returns whether something is open.
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.pending.is_empty()
    }

    /// The facts that end what is open, each with its turn.
    pub(super) fn endings(self, session_id: SessionId, at: Timestamp) -> Vec<(Option<TurnId>, EventKind)> {
        let mut facts = Vec::new();
        for interrupt in self.pending.into_values() {
            facts.push((Some(interrupt.turn_id), recovery::withdrawn(interrupt, LEFT)));
        }
        for turn in self.turns.into_iter().rev() {
            let turn_id = Some(turn.id);
            facts.extend(turn.ending(session_id, at).into_iter().map(|fact| (turn_id, fact)));
        }
        facts
    }
}

/// Bytes of an event without texts, about.
const EVENT: usize = 500;

/// Takes the texts out of an item.
fn empty(body: &mut ItemBody) {
    match body {
        ItemBody::ToolCall(call) => call.arguments.clear(),
        ItemBody::ToolResult(result) => {
            result.text.clear();
            result.details = None;
        }
        ItemBody::AgentMessage { text }
        | ItemBody::Notice { text, .. }
        | ItemBody::Reasoning { text }
        | ItemBody::UserMessage { text, .. } => text.clear(),
        ItemBody::Compaction(compaction) => compaction.summary.clear(),
    }
}

impl OpenTurn {
    /// Takes note of an event, and returns the bytes that it holds on to.
    fn take(&mut self, event: &Event) -> usize {
        let mut event = event.clone();
        let mut held = 0;
        match &mut event.kind {
            EventKind::ItemCompleted { item, .. } => {
                match &mut item.body {
                    ItemBody::AgentMessage { text } => self.text = std::mem::take(text),
                    ItemBody::ToolResult(_) => self.tool_used = true,
                    _ => {}
                }
                empty(&mut item.body);
                item.origin = None;
            }
            EventKind::UsageUpdated { step, turn, .. } => (self.steps, self.usage) = (*step, *turn),
            EventKind::ItemStarted { item } => {
                match &item.body {
                    // Words that nobody was given yet: the end of the turn tells them.
                    ItemBody::UserMessage { text, .. } => held = text.len(),
                    _ => empty(&mut item.body),
                }
                item.origin = None;
            }
            _ => return 0,
        }
        self.events.push(Arc::new(event));
        held + EVENT
    }

    fn ending(self, session_id: SessionId, at: Timestamp) -> Vec<EventKind> {
        let mut facts = recovery::recover(session_id, self.id, &self.events, &HashMap::new(), Vec::new()).facts;
        let took = at.duration_since(self.began).as_millis();
        facts.push(EventKind::TurnEnded {
            result: Box::new(TurnResult {
                turn_id: self.id,
                trace_id: self.trace_id,
                text: self.text,
                tool_used: self.tool_used,
                stop_reason: StopReason::Interrupted,
                error: None,
                steps: self.steps,
                usage: self.usage,
                denials: Vec::new(),
                files: Vec::new(),
                duration_ms: u64::try_from(took).unwrap_or_default(),
                only_compacted: false,
            }),
        });
        facts
    }
}
