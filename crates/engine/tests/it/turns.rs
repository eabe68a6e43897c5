//! Turns from input to answer.

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    model::{Message, ModelChunk},
    tool::ToolSpec,
    turn::{StartTurn, StopReason},
    usage::Usage,
};
use agentd_engine::{EngineConfig, SessionHandle};
use agentd_testkit::scripted::{Play, calls, says};
use insta::assert_snapshot;
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{World, input, prompts, run, to_end, turn, until, with_time_limit};

#[tokio::test]
async fn answer_is_stored_and_published_in_order() {
    let usage = Usage { prompt_tokens: 10, completion_tokens: 2, ..Usage::default() };
    let world = World::new([Play::Chunks(vec![
        ModelChunk::Reasoning("They greet.".to_owned()),
        ModelChunk::Text("Good ".to_owned()),
        ModelChunk::Text("day.".to_owned()),
        ModelChunk::Usage(usage),
    ])]);
    let session = world.session().await;
    let result = run(&session, "Hello!").await;
    let expected = Usage { calls: 1, unpriced_calls: 1, ..usage };
    assert_eq!((result.text.as_str(), result.usage), ("Good day.", expected));
    assert_snapshot!(world.log(&session), @r#"
    1 turn started, base, at most 100 steps
    2 + user_message
    3 = user "Hello!" (Done)
    4 + reasoning
    5 = reasoning "They greet." (Done)
    6 + agent_message
    7 usage of step 1: 10+2
    8 = agent "Good day." (Done)
    9 turn ended: Completed "Good day.", 1 steps
    "#);
}

#[tokio::test]
async fn first_text_is_published_before_later_events_are_stored() {
    let (world, session) = World::new([says("Good day.")]).begun().await;
    // The first two appends succeed: the turn's start and the beginning of the answer. The model finishes before the
    // session reads, so more events must be stored.
    world.store.hang_appends_after(2);
    let begun = with_time_limit("the turn's start", session.start_turn(input("Hello!"))).await;
    let delta = until(&mut begun.unwrap().events, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
    assert!(matches!(&delta.kind, EventKind::ItemDelta { text, .. } if text == "Good day."));
    assert!(world.log(&session).ends_with("+ agent_message\n"), "{}", world.log(&session));
}

#[tokio::test]
async fn context_size_excludes_tools_not_sent() {
    let measured = async |last: Vec<ModelChunk>| {
        let (world, session) = World::new([calls(&[("look", json!({}))]), Play::Chunks(last)]).begun().await;
        assert_eq!(turn(&session, StartTurn { max_steps: Some(1), ..input("Look!") }).await.text, "Seen.");
        let tools = world.last_request().tools;
        let texts = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
        (prompts(&world, &session).pop().unwrap(), tools.iter().map(texts).sum::<usize>() as u64)
    };
    let text = || ModelChunk::Text("Seen.".to_owned());
    let (with, of_tools) = measured(vec![text()]).await;
    let (without, _) = measured(vec![ModelChunk::WithoutTools, text()]).await;
    assert!(with.broken_by.is_none() && with.repeated_bytes > of_tools && of_tools > 0, "{with:?}");
    assert_eq!((without.bytes, without.repeated_bytes), (with.bytes - of_tools, 0));
    assert_eq!((without.broken_by.as_deref(), without.repeated_tokens), (Some("tools"), 0));
    assert!(without.tokens < with.tokens);
}

/// Returns the prompt segments that differed from the previous request.
fn prefix_breaks(world: &World, session: &SessionHandle) -> Vec<String> {
    prompts(world, session).into_iter().filter_map(|report| report.broken_by).collect()
}

#[tokio::test]
async fn call_in_the_final_answer_is_retried_without_tools() {
    let look = || calls(&[("look", json!({}))]);
    let (world, session) = World::new([look(), look(), says("That is all I saw.")]).begun().await;
    let result = turn(&session, StartTurn { max_steps: Some(1), ..input("Look for ever!") }).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::MaxSteps, "That is all I saw."));
    assert_eq!(world.tools.ran().len(), 1);
    assert!(world.log(&session).contains("warning call_not_run: the model called look"), "{}", world.log(&session));
    assert!(world.model.requests()[2].tools.is_empty());
    assert_eq!(prefix_breaks(&world, &session), ["tools"], "the break is reported");
    // Calls that were not run do not occur in the next request.
    world.model.then(says("Hello."));
    run(&session, "Hi").await;
    assert_eq!(prefix_breaks(&world, &session), ["tools", "tools"]);
    assert_eq!(world.results().len(), 1);
}

#[tokio::test]
async fn text_next_to_a_call_in_the_final_answer_is_used() {
    let both = vec![ModelChunk::Text("It is noon.".to_owned()), ModelChunk::call("look", "{}")];
    let (world, session) = World::new([calls(&[("look", json!({}))]), Play::Chunks(both)]).begun().await;
    let result = turn(&session, StartTurn { max_steps: Some(1), ..input("Look!") }).await;
    assert_eq!((result.text.as_str(), result.steps), ("It is noon.", 2));
    assert!(world.log(&session).contains("warning call_not_run"));
}

#[tokio::test]
async fn broken_answer_keeps_its_text_and_runs_no_calls() {
    let cut = vec![ModelChunk::Text("I will".to_owned()), ModelChunk::call("look", "{}")];
    let (world, session) = World::new([Play::Fails(cut, ErrorKind::CutStream)]).begun().await;
    let result = run(&session, "Go!").await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Failed, "I will"));
    assert_eq!(result.error.unwrap().kind, ErrorKind::CutStream);
    assert!(world.tools.ran().is_empty());
    assert!(world.log(&session).contains(r#"= agent "I will" (Cut)"#), "{}", world.log(&session));
}

#[tokio::test]
async fn steering_is_rejected_after_the_turn_ended() {
    let (world, session) = World::new([Play::Hangs(vec![])]).begun().await;
    let mut started = session.start_turn(input("one")).await.unwrap();
    with_time_limit("the model to be asked", world.model.asked(1)).await;
    session.steer(Some(started.turn_id), "wait".to_owned()).await.unwrap();
    session.cancel(None).await.unwrap();
    assert_eq!(to_end(&mut started.events).await.1.stop_reason, StopReason::Cancelled);
    let error = session.steer(Some(started.turn_id), "too late".to_owned()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn invalid_inputs_are_rejected_with_a_hint() {
    let world = World::with(EngineConfig { max_input_bytes: 100, ..EngineConfig::default() }, []);
    let session = world.session().await;
    for text in ["", " \n", &"x".repeat(101)] {
        let error = session.start_turn(input(text)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text:?}");
        assert!(error.hint().is_some());
    }
    assert_eq!(world.log(&session), "");
    let unknown = world.engine.session(agentd_core::ids::SessionId::generate()).await.unwrap();
    assert_eq!(unknown.start_turn(input("x")).await.err().unwrap().kind(), ErrorKind::NotFound);
}

/// Checks that input added during this answer keeps the position where the model read it, in the next turn and after
/// a restart.
async fn check_steering_position(answer: ModelChunk) {
    let gate = Arc::new(Notify::new());
    let world = World::new([Play::Waits(Arc::clone(&gate), vec![answer]), says("Green it is."), says("Still green.")]);
    let session = world.session().await;
    let mut started = session.start_turn(input("Which colour?")).await.unwrap();
    world.model.asked(1).await;
    session.steer(None, "Be green!".to_owned()).await.unwrap();
    session.steer(None, "Light green!".to_owned()).await.unwrap();
    gate.notify_one();
    to_end(&mut started.events).await;
    run(&session, "And now?").await;
    let (second, resumed) = world.recovered(session.id(), [says("Green for ever.")]).await;
    run(&resumed, "And in another life?").await;

    let mut requests: Vec<Vec<Message>> = world.model.requests().into_iter().map(|request| request.messages).collect();
    requests.push(second.last_request().messages);
    assert_eq!(requests[0].len(), 2, "the first request precedes the steering");
    for pair in requests.windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0], "{pair:#?}");
    }
    let added = |text: &str| requests[1].iter().position(|message| *message == Message::User { text: text.to_owned() });
    let (answer, end) = (2, requests[1].len());
    assert!(matches!(requests[1][answer], Message::Assistant { .. }), "{requests:#?}");
    assert_eq!((added("Be green!"), added("Light green!")), (Some(end - 2), Some(end - 1)), "{requests:#?}");
    assert!(prefix_breaks(&world, &session).is_empty(), "{}", world.log(&session));
}

#[tokio::test]
async fn steering_keeps_its_position_in_later_requests() {
    check_steering_position(ModelChunk::Text("Half an answer.".to_owned())).await;
    check_steering_position(ModelChunk::call("look", "{}")).await;
}

/// Streams this text when the gate is opened.
fn when_open(gate: &Arc<Notify>, text: &str) -> Play {
    Play::Waits(Arc::clone(gate), vec![ModelChunk::Text(text.to_owned())])
}

#[tokio::test]
async fn steering_during_the_final_answer_moves_to_next_turn() {
    let gate = Arc::new(Notify::new());
    let world = World::new([calls(&[("look", json!({}))]), when_open(&gate, "All I saw."), says("Blue, then.")]);
    let session = world.session().await;
    let start = StartTurn { max_steps: Some(1), ..input("Which colour?") };
    let mut started = session.start_turn(start).await.unwrap();
    world.model.asked(2).await;
    session.steer(None, "It must be blue!".to_owned()).await.unwrap();
    gate.notify_one();
    let (_, result) = to_end(&mut started.events).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::MaxSteps, "All I saw."));
    assert!(world.log(&session).contains("warning added_too_late"), "{}", world.log(&session));
    run(&session, "Well?").await;
    let added = Message::User { text: "It must be blue!".to_owned() };
    assert!(world.model.requests()[2].messages.contains(&added));
}

#[tokio::test]
async fn steering_during_retry_of_an_empty_answer_is_answered() {
    let gate = Arc::new(Notify::new());
    let world = World::new([Play::Chunks(vec![]), when_open(&gate, "Well."), says("Blue, then.")]);
    let session = world.session().await;
    let mut started = session.start_turn(input("Which colour?")).await.unwrap();
    world.model.asked(2).await;
    session.steer(None, "It must be blue!".to_owned()).await.unwrap();
    gate.notify_one();
    let (_, result) = to_end(&mut started.events).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, "Blue, then."));
}
