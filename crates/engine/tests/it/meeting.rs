//! Compaction during other events of a turn: questions to the user, and added input.

use std::sync::Arc;

use agentd_core::{
    context::{CompactionCause, CompactionStrategy},
    error::ErrorKind,
    event::EventKind,
    interrupt::{Answer, Interrupt},
    model::{Message, ModelChunk, ModelRequest},
    turn::{IfBusy, StartTurn, StopReason},
    usage::Usage,
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    compaction::{SUMMARY, compactions, full, run_turns, texts},
    grants::answer,
    world::{World, continuation, input, run, start_until_question, to_end, until},
};

/// Asserts that every call is followed by its result, and every result has a call.
fn assert_calls_are_paired(request: &ModelRequest) {
    let mut open = Vec::new();
    for message in &request.messages {
        match message {
            Message::Assistant { tool_calls, .. } => {
                assert!(open.is_empty(), "{:#?}", request.messages);
                open.extend(tool_calls.iter().map(|call| call.call_id.clone()));
            }
            Message::Tool { call_id, .. } => {
                assert!(open.contains(call_id), "{:#?}", request.messages);
                open.retain(|id| id != call_id);
            }
            Message::System { .. } | Message::User { .. } | Message::Pictures { .. } => {
                assert!(open.is_empty(), "{:#?}", request.messages)
            }
        }
    }
    assert!(open.is_empty(), "{:#?}", request.messages);
}

fn on_request(if_busy: IfBusy) -> StartTurn {
    StartTurn { compact: Some(CompactionStrategy::Auto), if_busy, ..continuation() }
}

/// Creates a session whose turn waits for the user and whose call filled the window.
async fn waiting() -> (World, SessionHandle, Interrupt) {
    let (world, session) = World::new([]).begun().await;
    run_turns(&world, 0..9, &session).await;
    let Play::Chunks(mut call) = calls(&[("change", json!({"path": "a"}))]) else { panic!() };
    call.push(ModelChunk::Usage(Usage { prompt_tokens: 7900, completion_tokens: 10, ..Usage::default() }));
    world.model.then(Play::Chunks(call));
    let (_, interrupt) = start_until_question(&session, input("Never mind the cat. Change it!")).await;
    (world, session, interrupt)
}

#[tokio::test]
async fn compaction_is_refused_while_a_question_is_open() {
    let (world, session, interrupt) = waiting().await;
    let refused = session.start_turn(on_request(IfBusy::Refuse)).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(session.undo_compaction().await.err().unwrap().kind(), ErrorKind::Busy);
    assert_eq!((compactions(&world, &session), world.engine.interrupts(None).await.unwrap().len()), (vec![], 1));

    world.model.then_all([says(SUMMARY), says("It is changed.")]);
    let mut events = session.subscribe(0).await.unwrap();
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    while to_end(&mut events).await.1.text != "It is changed." {}
    let done = compactions(&world, &session);
    assert_eq!(done.iter().filter(|done| !done.summary.is_empty()).count(), 1);
    let last = world.model.requests().pop().unwrap();
    assert_calls_are_paired(&last);
    assert!(texts(&last).contains("Never mind the cat."), "{last:#?}");
}

#[tokio::test]
async fn queued_compaction_survives_restart_with_an_open_question() {
    let (world, session, interrupt) = waiting().await;
    session.start_turn(on_request(IfBusy::Queue)).await.unwrap();

    let script = [says("It is changed."), says(SUMMARY), says("And on.")];
    let (world, session) = world.recovered(session.id(), script).await;
    assert_eq!(compactions(&world, &session), []);
    let mut events = session.subscribe(0).await.unwrap();
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    while !to_end(&mut events).await.1.only_compacted {}
    let done = compactions(&world, &session);
    assert_eq!(done.last().unwrap().report.cause, CompactionCause::Person);
    run(&session, "Well?").await;
    world.model.requests().iter().for_each(assert_calls_are_paired);
    assert!(texts(world.model.requests().last().unwrap()).contains("Never mind the cat."));
}

#[tokio::test]
async fn steering_before_an_overflowing_final_answer_is_sent_once() {
    let world = World::new([]);
    let session = full(&world).await;
    world.model.then_all([says(SUMMARY), calls(&[("look", json!({}))])]);
    let gate = Arc::new(Notify::new());
    let half = vec![ModelChunk::Text("Half a".to_owned())];
    world.model.then_all([Play::Breaks(Arc::clone(&gate), half, ErrorKind::ContextOverflow), says("What I saw.")]);
    let start = StartTurn { max_steps: Some(1), ..input("Look around") };
    let mut started = session.start_turn(start).await.unwrap();
    until(&mut started.events, |kind| matches!(kind, EventKind::ItemDelta { text, .. } if text == "Half a")).await;
    session.steer(None, "It must be blue!".to_owned()).await.unwrap();
    gate.notify_one();
    let result = to_end(&mut started.events).await.1;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::MaxSteps, "What I saw."));
    assert_eq!(compactions(&world, &session).pop().unwrap().report.cause, CompactionCause::Overflow);

    // The next turn includes the added input, both in this daemon and after a restart.
    world.model.then(says("Blue it is."));
    run(&session, "Well?").await;
    let (second, reopened) = world.restarted([says("Still blue.")]).with_session(session.id()).await;
    run(&reopened, "Which colour?").await;
    let added = Message::User { text: "It must be blue!".to_owned() };
    let (live_request, restarted_request) =
        (world.model.requests().pop().unwrap(), second.model.requests().pop().unwrap());
    for request in [&live_request, &restarted_request] {
        let positions: Vec<usize> =
            request.messages.iter().enumerate().filter(|(_, message)| **message == added).map(|(at, _)| at).collect();
        let answer = |message: &Message| matches!(message, Message::Assistant { text, .. } if text == "What I saw.");
        let answer = request.messages.iter().position(answer).unwrap();
        assert_eq!(positions, [answer + 1], "{:#?}", request.messages);
        assert_calls_are_paired(request);
    }
    assert_eq!(restarted_request.messages[..live_request.messages.len()], live_request.messages);
}
