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

/// Why questions are withdrawn.
const LEFT: &str = "the session was moved while this waited";

/// Turns that have begun and not ended, and questions that wait, as far as the events were seen.
#[derive(Default)]
pub(super) struct OpenTurns {
    turns: Vec<OpenTurn>,
    pending: BTreeMap<InterruptId, Interrupt>,
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
    pub(super) fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnStarted { trace_id, .. } => {
                let Some(id) = event.turn_id else { return };
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
                self.pending.insert(interrupt.id, (**interrupt).clone());
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                self.pending.remove(interrupt_id);
            }
            _ => {
                if let Some(turn) = self.turns.iter_mut().find(|turn| Some(turn.id) == event.turn_id) {
                    turn.take(event);
                }
            }
        }
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

impl OpenTurn {
    fn take(&mut self, event: &Event) {
        let mut event = event.clone();
        match &mut event.kind {
            EventKind::ItemCompleted { item, .. } => match &mut item.body {
                ItemBody::AgentMessage { text } => self.text = std::mem::take(text),
                ItemBody::ToolCall(call) => call.arguments.clear(),
                ItemBody::ToolResult(result) => {
                    self.tool_used = true;
                    (result.text, result.details) = (String::new(), None);
                }
                ItemBody::Notice { text, .. } | ItemBody::Reasoning { text } => text.clear(),
                _ => {}
            },
            EventKind::UsageUpdated { step, turn, .. } => (self.steps, self.usage) = (*step, *turn),
            EventKind::ItemStarted { .. } => {}
            _ => return,
        }
        self.events.push(Arc::new(event));
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
