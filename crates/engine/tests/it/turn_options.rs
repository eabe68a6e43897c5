//! Options of a client for one turn: instructions, allowed tools, limits. These options apply only to this turn, even
//! after a restart.

use std::time::Duration;

use agentd_core::{
    event::EventKind,
    interrupt::Answer,
    model::ModelChunk,
    turn::{StartTurn, StopReason, TurnOptions},
    usage::Usage,
};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::{
    grants::question,
    world::{World, answer_and_follow, continuation, input, run, to_end, turn},
};

fn with(options: TurnOptions) -> StartTurn {
    StartTurn { options, ..input("Go!") }
}

fn names(world: &World, at: usize) -> Vec<String> {
    world.model.requests()[at].tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn turn_instructions_apply_to_one_turn() {
    let (world, session) = World::new(["one", "two", "three"].map(says)).begun().await;
    let options = TurnOptions { instructions: Some("Answer in rhymes.".to_owned()), ..TurnOptions::default() };
    turn(&session, with(options)).await;
    run(&session, "And now?").await;
    run(&session, "And then?").await;
    let sent = |at: usize| format!("{:?}", world.model.requests()[at].messages);
    assert_eq!(sent(0).matches("Answer in rhymes.").count(), 1, "{}", sent(0));
    assert_eq!(sent(1).matches("no longer apply").count(), 1, "{}", sent(1));
    assert_eq!(sent(2).matches("no longer apply").count(), 1, "{}", sent(2));
    // Each request starts with the previous one.
    let [first, second] = [0, 1].map(|at| world.model.requests()[at].messages.clone());
    assert_eq!(first[..], second[..first.len()]);
}

#[tokio::test]
async fn only_allowed_tools_are_offered_and_callable() {
    let call = calls(&[("todo_read", json!({})), ("search_history", json!({"query": "x"}))]);
    let (world, session) = World::new([call, says("one"), says("two")]).begun().await;
    let allowed_tools = Some(vec!["todo_read".to_owned()]);
    turn(&session, with(TurnOptions { allowed_tools, ..TurnOptions::default() })).await;
    let results = world.results();
    run(&session, "And now?").await;
    assert_eq!(names(&world, 0), ["todo_read"]);
    assert!(names(&world, 2).len() > 5, "{:?}", names(&world, 2));
    assert!(!results[0].starts_with("E_"), "{results:?}");
    assert!(results[1].contains("the client does not allow it for this turn"), "{results:?}");
}

#[tokio::test]
async fn turn_options_survive_restart() {
    let (world, session) = World::new([calls(&[("ask_human", json!({"question": "Tea?"}))])]).begun().await;
    let options = TurnOptions {
        allowed_tools: Some(vec!["ask_human".to_owned()]),
        instructions: Some("Be brief.".to_owned()),
        ..TurnOptions::default()
    };
    let mut started = session.start_turn(with(options)).await.unwrap();
    let pending_question = question(&mut started.events).await;
    let (next, session) = world.recovered(session.id(), [says("Tea."), says("More.")]).await;
    answer_and_follow(&session, &pending_question, Answer::Text { text: "yes".to_owned() }).await;
    assert_eq!(names(&next, 0), ["ask_human"]);
    let sent = next.sent_text();
    assert_eq!((sent.matches("Be brief.").count(), sent.matches("no longer apply").count()), (1, 0), "{sent}");
    run(&session, "And now?").await;
    assert!(names(&next, 1).len() > 5);
}

/// Builds a read-only call that uses ten tokens.
fn look() -> Play {
    let Play::Chunks(mut chunks) = calls(&[("todo_read", json!({}))]) else { panic!() };
    chunks.push(ModelChunk::Usage(Usage { prompt_tokens: 7, completion_tokens: 3, ..Usage::default() }));
    Play::Chunks(chunks)
}

#[tokio::test]
async fn continued_turn_keeps_its_turn_options() {
    let tight = TurnOptions {
        allowed_tools: Some(vec!["todo_read".to_owned(), "transfer_to_nobody".to_owned()]),
        tokens: Some(1),
        ..TurnOptions::default()
    };
    let (world, session) = World::new([look(), says("enough"), says("and on"), says("free")]).begun().await;
    assert_eq!(turn(&session, with(tight)).await.stop_reason, StopReason::Budget);
    let first = world.model.requests().len();
    turn(&session, continuation()).await;
    assert_eq!(names(&world, first), ["todo_read"]);
    run(&session, "And now?").await;
    assert!(names(&world, world.model.requests().len() - 1).len() > 5);
}

#[tokio::test]
async fn turn_limit_above_the_daemons_is_stored_with_the_start() {
    let (_world, session) = World::new([says("Hi.")]).begun().await;
    let time_ms = u64::try_from(Duration::from_secs(86_400).as_millis()).ok();
    let options = TurnOptions { time_ms, ..TurnOptions::default() };
    let (events, result) = to_end(&mut session.start_turn(with(options)).await.unwrap().events).await;
    assert_eq!(result.stop_reason, StopReason::Completed);
    let is_without = |kind: &EventKind| matches!(kind, EventKind::TurnStarted { options: None, .. });
    assert!(!events.iter().any(|event| is_without(&event.kind)), "the options are stored with the start");
}
