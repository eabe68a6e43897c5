//! Builder for the events of a session.

use agentd_core::{
    Timestamp,
    agent::Subagent,
    event::{Event, EventKind, StateChange},
    ids::{CallId, InterruptId, ItemId, SessionId, TraceId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    item::{Item, ItemBody, ItemStatus},
    model::Slot,
    tool::{ToolCall, ToolResult},
    turn::StopReason,
    usage::{CallTiming, Usage},
};
use serde_json::{Value, json};

/// Writer for the events of successive turns, which are stamped with the script's clock.
pub(crate) struct Script {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) events: Vec<Event>,
    pub(crate) usage: Usage,
    /// Number of milliseconds since the start.
    pub(crate) clock: i64,
}

pub(crate) fn at(milliseconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_millis(1_790_000_000_000 + milliseconds)
}

pub(crate) fn tokens(prompt: u64, completion: u64) -> Usage {
    Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        calls: 1,
        cost_microusd: Some(prompt),
        ..Usage::default()
    }
}

impl Script {
    pub(crate) fn new() -> Self {
        let (session, turn) = (SessionId::generate(), TurnId::generate());
        Self { session, turn, events: Vec::new(), usage: Usage::default(), clock: 0 }
    }

    pub(crate) fn after(&mut self, milliseconds: i64) -> &mut Self {
        self.clock += milliseconds;
        self
    }

    pub(crate) fn push(&mut self, kind: EventKind) -> &mut Self {
        let seq = self.events.len() as u64 + 1;
        let event = Event { session_id: self.session, turn_id: Some(self.turn), seq, at: at(self.clock), kind };
        self.events.push(event);
        self
    }

    pub(crate) fn start(&mut self) -> &mut Self {
        (self.turn, self.usage) = (TurnId::generate(), Usage::default());
        self.push(fact(json!({
            "type": "turn_started", "trace_id": TraceId::generate(), "slot": "base", "model": "m", "reason": "", "max_steps": 9,
        })))
    }

    pub(crate) fn item_started(&mut self, id: ItemId, body: ItemBody) -> &mut Self {
        let item = Item { id, ..Item::new(self.turn, body) };
        self.push(EventKind::ItemStarted { item })
    }

    pub(crate) fn item_completed(&mut self, id: ItemId, body: ItemBody, status: ItemStatus) -> &mut Self {
        let item = Item { id, ..Item::new(self.turn, body) };
        self.push(EventKind::ItemCompleted { item, status })
    }

    pub(crate) fn add_item(&mut self, body: ItemBody) -> &mut Self {
        self.item_completed(ItemId::generate(), body, ItemStatus::Done)
    }

    pub(crate) fn input(&mut self, text: &str) -> &mut Self {
        let text = text.to_owned();
        self.add_item(ItemBody::UserMessage { text, steered: false, typed_bytes: None, stored: None })
    }

    pub(crate) fn used(&mut self, step: u32, usage: Usage, timing: Option<CallTiming>, delegated: bool) -> &mut Self {
        self.usage += usage;
        let turn = self.usage;
        let (slot, model, prompt) = (Slot::Base, "m".to_owned(), None);
        self.push(EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated, timing })
    }

    pub(crate) fn called(&mut self, call: &CallId, name: &str) -> &mut Self {
        let (call_id, name, arguments) = (call.clone(), name.to_owned(), r#"{"path":"a"}"#.to_owned());
        self.add_item(ItemBody::ToolCall(ToolCall { call_id, name, arguments }))
    }

    pub(crate) fn asked(&mut self, id: InterruptId, session_id: SessionId, call: Option<&CallId>) -> &mut Self {
        let (question, choices) = ("Sure?".to_owned(), Vec::new());
        let ask = Ask::Question { secret: false, question, context: None, default: None, required: true, choices };
        let (turn_id, call_id, asked_by, raised_at) = (self.turn, call.cloned(), AskedBy::default(), at(self.clock));
        let (deadline, on_deadline) = (None, None);
        let interrupt = Interrupt { id, session_id, turn_id, call_id, asked_by, ask, raised_at, deadline, on_deadline };
        self.push(EventKind::InterruptRaised { interrupt: Box::new(interrupt) })
    }

    pub(crate) fn answered(&mut self, interrupt_id: InterruptId, by: AnsweredBy) -> &mut Self {
        self.push(EventKind::InterruptResolved { interrupt_id, call_id: None, answer: Answer::Approve, by })
    }

    pub(crate) fn subagent(&mut self, call: &CallId, session_id: SessionId, after: u64) -> &mut Self {
        let (name, task) = ("researcher".to_owned(), "look".to_owned());
        let change = StateChange::Subagent(Subagent { call_id: call.clone(), session_id, name, task, after });
        self.push(EventKind::StateChanged { change })
    }

    pub(crate) fn warn(&mut self, code: &str) -> &mut Self {
        self.push(EventKind::Warning { code: code.to_owned(), message: "m".to_owned(), retry_in_ms: None })
    }

    pub(crate) fn end(&mut self, stop_reason: StopReason) -> &mut Self {
        let result = json!({
            "turn_id": self.turn, "trace_id": TraceId::generate(), "text": "done", "tool_used": true, "stop_reason": stop_reason,
            "steps": 2, "usage": self.usage, "denials": [], "files": [], "duration_ms": 1,
        });
        self.push(fact(json!({"type": "turn_ended", "result": result})))
    }
}

/// Parses an event kind in its journal form.
fn fact(fact: Value) -> EventKind {
    serde_json::from_value(fact).unwrap()
}

pub(crate) fn message(text: &str) -> ItemBody {
    ItemBody::AgentMessage { text: text.to_owned() }
}

pub(crate) fn result(call: &CallId, name: &str, text: &str) -> ItemBody {
    let result = ToolResult { text: text.to_owned(), duration_ms: 40, ..ToolResult::empty(call.clone(), name) };
    ItemBody::ToolResult(result)
}
