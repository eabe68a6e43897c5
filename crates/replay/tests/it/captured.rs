//! Tests of recordings created from the events of a journal.

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    event::{Event, EventKind},
    ids::{SessionId, TraceId, TurnId},
    item::{Item, ItemBody, ItemStatus},
    usage::Usage,
};
use agentd_replay::{CapturedSession, RecordedFinish, SpokenPart, TurnFact, capture};
use serde_json::{Value, json};

#[test]
fn broken_answer_is_dropped_and_failed_call_ends_unknown() {
    let (session_id, turn_id) = (SessionId::generate(), TurnId::generate());
    let fact = |fact: Value| serde_json::from_value::<EventKind>(fact).unwrap();
    let used = || {
        let usage = Usage::default();
        fact(json!({"type": "usage_updated", "step": 1, "slot": "base", "model": "m", "usage": usage, "turn": usage}))
    };
    let message = |text: &str| Item::new(turn_id, ItemBody::AgentMessage { text: text.to_owned() });
    let text = "Do it".to_owned();
    let input = Item::new(turn_id, ItemBody::UserMessage { text, steered: false, typed_bytes: None, stored: None });
    let (broken, whole) = (message("I lo"), message("I look."));
    let kinds = [
        fact(json!({
            "type": "turn_started", "trace_id": TraceId::generate(), "slot": "base", "model": "m", "reason": "", "max_steps": 9,
        })),
        EventKind::ItemCompleted { item: input, status: ItemStatus::Done },
        EventKind::ItemStarted { item: broken.clone() },
        EventKind::ItemCompleted { item: Item { body: message("").body, ..broken }, status: ItemStatus::Cut },
        EventKind::ItemStarted { item: whole.clone() },
        used(),
        EventKind::ItemCompleted { item: whole, status: ItemStatus::Done },
        used(),
    ];
    let event =
        |(kind, seq)| Arc::new(Event { session_id, turn_id: Some(turn_id), seq, at: Timestamp::UNIX_EPOCH, kind });
    let events = kinds.into_iter().zip(1..).map(event).collect();
    let recording = capture(&CapturedSession { events, ..CapturedSession::default() }, "test");
    let [TurnFact::Exchange(first), TurnFact::Exchange(failed)] = recording.turns[0].facts.as_slice() else {
        panic!("{:#?}", recording.turns[0].facts)
    };
    assert_eq!(first.answer.parts, [SpokenPart::Text("I look.".to_owned())]);
    assert_eq!(failed.answer.finish, RecordedFinish::Unknown);
}
