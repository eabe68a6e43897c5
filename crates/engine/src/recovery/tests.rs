use std::sync::Arc;

use agentd_core::{
    Timestamp,
    interrupt::{AnsweredBy, Ask, AskedBy},
};

use super::*;

#[test]
fn what_a_call_asked_that_is_over_is_asked_no_more() {
    let (session_id, turn_id) = (SessionId::generate(), TurnId::generate());
    let call = ToolCall { call_id: CallId::generate(), name: "act".to_owned(), arguments: "{}".to_owned() };
    let result =
        ToolResult { text: "done".to_owned(), duration_ms: 1, ..ToolResult::empty(call.call_id.clone(), "act") };
    let question = "Sure?".to_owned();
    let interrupt = Interrupt {
        id: InterruptId::generate(),
        session_id,
        turn_id,
        call_id: Some(call.call_id.clone()),
        asked_by: AskedBy { agent: "main".to_owned(), session_title: None, client: None },
        ask: Ask::Question {
            secret: false,
            question,
            context: None,
            default: None,
            required: true,
            choices: Vec::new(),
        },
        raised_at: Timestamp::UNIX_EPOCH,
        deadline: None,
        on_deadline: None,
    };
    let completed = |body: ItemBody| {
        let item = Item::new(turn_id, body);
        EventKind::ItemCompleted { item, status: ItemStatus::Done }
    };
    let facts = [
        completed(ItemBody::ToolCall(call)),
        EventKind::InterruptRaised { interrupt: Box::new(interrupt.clone()) },
        completed(ItemBody::ToolResult(result)),
    ];
    let event =
        |(seq, kind)| Arc::new(Event { session_id, turn_id: Some(turn_id), seq, at: Timestamp::UNIX_EPOCH, kind });
    let events: Vec<Arc<Event>> = (1..).zip(facts).map(event).collect();
    let recovery = recover(session_id, turn_id, &events, &HashMap::new(), Vec::new());
    assert_eq!(recovery.disposition, Disposition::End, "nobody can use an answer");
    assert!(recovery.pending.is_empty());
    assert!(recovery.facts.iter().any(|fact| matches!(fact,
        EventKind::InterruptResolved { interrupt_id, by: AnsweredBy::Daemon, .. } if *interrupt_id == interrupt.id)));
}

#[test]
fn of_a_damaged_turn_nothing_goes_on_and_no_call_is_said_not_to_have_run() {
    let (session_id, turn_id) = (SessionId::generate(), TurnId::generate());
    let call = ToolCall { call_id: CallId::generate(), name: "act".to_owned(), arguments: "{}".to_owned() };
    let interrupt = Interrupt {
        id: InterruptId::generate(),
        session_id,
        turn_id,
        call_id: Some(call.call_id.clone()),
        asked_by: AskedBy { agent: "main".to_owned(), session_title: None, client: None },
        ask: Ask::Question {
            secret: false,
            question: "Sure?".to_owned(),
            context: None,
            default: None,
            required: true,
            choices: Vec::new(),
        },
        raised_at: Timestamp::UNIX_EPOCH,
        deadline: None,
        on_deadline: None,
    };
    let event = |seq, kind| Event { session_id, turn_id: Some(turn_id), seq, at: Timestamp::UNIX_EPOCH, kind };
    let item = Item::new(turn_id, ItemBody::ToolCall(call));
    let asked = |seq| event(seq, EventKind::InterruptRaised { interrupt: Box::new(interrupt.clone()) });
    let mut events =
        vec![Arc::new(event(1, EventKind::ItemCompleted { item, status: ItemStatus::Done })), Arc::new(asked(2))];
    let whole = recover(session_id, turn_id, &events, &HashMap::new(), vec![interrupt.clone()]);
    assert_eq!(whole.disposition, Disposition::Park, "a whole one waits for its answer");

    events.push(Arc::new(Event::damaged(session_id, None, 3)));
    let recovery = recover(session_id, turn_id, &events, &HashMap::new(), vec![interrupt.clone()]);
    assert_eq!((recovery.disposition, recovery.pending.len()), (Disposition::End, 0));
    assert_eq!(
        (recovery.report.unknown.as_slice(), recovery.report.never_ran.len()),
        (["act".to_owned()].as_slice(), 0)
    );
    assert!(recovery.facts.iter().any(|fact| matches!(fact,
        EventKind::InterruptResolved { interrupt_id, .. } if *interrupt_id == interrupt.id)));
    // What the journal says is answered is not asked again, nor withdrawn once more.
    let recovery = recover(session_id, turn_id, &events, &HashMap::new(), Vec::new());
    assert!(!recovery.facts.iter().any(|fact| matches!(fact, EventKind::InterruptResolved { .. })));
}
