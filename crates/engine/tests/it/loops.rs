//! Models that repeat calls, and the events that restart the count.

use std::sync::Arc;

use agentd_core::{
    interrupt::Answer,
    model::{Message, ModelChunk},
    turn::{IfBusy, OnInterrupt, StartTurn, TurnResult},
};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{
    World, continuation, input, results, run, run_with_answer, to_end, turn, warnings, with_time_limit,
};

fn look() -> Play {
    calls(&[("look", json!({}))])
}

fn looks(times: usize) -> impl Iterator<Item = Play> {
    (0..times).map(|_| look())
}

fn reason(result: &TurnResult) -> serde_json::Value {
    serde_json::to_value(result.stop_reason).unwrap()
}

#[tokio::test]
async fn user_input_resets_the_repetition_count() {
    let gate = Arc::new(Notify::new());
    let gated = Play::Waits(Arc::clone(&gate), vec![ModelChunk::call("look", "{}")]);
    let (world, session) =
        World::new(looks(4).chain([gated]).chain(looks(4)).chain([says("I give up.")])).begun().await;
    let mut started = session.start_turn(input("Look!")).await.unwrap();
    with_time_limit("the fifth request", world.model.asked(5)).await;
    session.start_turn(StartTurn { if_busy: IfBusy::Steer, ..input("Look on.") }).await.unwrap();
    gate.notify_one();
    let (_, result) = to_end(&mut started.events).await;
    assert_eq!((reason(&result), result.text.as_str()), (json!("completed"), "I give up."));
}

#[tokio::test]
async fn only_user_approval_resets_the_repetition_count() {
    let change = || calls(&[("change", json!({}))]);
    let script = || (0..6).map(|_| change()).chain([says("I give up.")]);
    let (_world, session) = World::new(script()).begun().await;
    let (events, result) = run_with_answer(&session, input("Change!"), Answer::Approve).await;
    assert_eq!((reason(&result), results(&events).len()), (json!("completed"), 6));
    let (_world, session) = World::new(script()).begun().await;
    let start = StartTurn { on_interrupt: OnInterrupt::Approve, ..input("Change!") };
    assert_eq!(reason(&turn(&session, start).await), json!("loop"));
}

#[tokio::test]
async fn repetition_count_survives_restart_and_resets_after_answer() {
    let (world, session) = World::new(looks(4).chain([Play::Hangs(Vec::new())])).begun().await;
    session.start_turn(input("Look!")).await.unwrap();
    with_time_limit("the fifth request", world.model.asked(5)).await;
    let (next, session) = world.restarted(looks(2).chain([says("In circles.")])).settled(session.id()).await;
    let result = turn(&session, continuation()).await;
    assert_eq!((reason(&result), result.text.as_str(), result.steps), (json!("loop"), "In circles.", 3));
    let noted = warnings(&next.store.events_of(session.id()), "repeated_call");
    assert_eq!(noted.len(), 1, "the notice was sent before the restart");
    // A user who continues after the final answer has seen that answer, so the count restarts.
    looks(1).chain([says("Seen.")]).for_each(|play| next.model.then(play));
    let result = turn(&session, continuation()).await;
    assert_eq!((reason(&result), result.text.as_str()), (json!("completed"), "Seen."));
}

#[tokio::test]
async fn looping_subagent_ends_alone_and_reports_to_its_parent() {
    let (world, session) = World::new([]).begun().await;
    world.model.respond_with(|request| {
        let is_child =
            matches!(&request.messages[0], Message::System { text } if text.contains("You work for another agent."));
        match request.messages.last() {
            _ if is_child && request.may_call => look(),
            _ if is_child => says("In circles."),
            Some(Message::Tool { .. }) => says("It went in circles."),
            _ => calls(&[("delegate_task", json!({"task": "Look"}))]),
        }
    });
    let result = run(&session, "Have somebody look.").await;
    assert_eq!((reason(&result), result.text.as_str()), (json!("completed"), "It went in circles."));
    let result_text = &results(&world.store.events_of(session.id()))[0].text;
    assert!(result_text.contains("repeated the same calls") && result_text.contains("In circles."), "{result_text}");
}
