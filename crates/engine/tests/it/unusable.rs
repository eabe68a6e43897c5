//! Unusable and truncated answers, open todos, and repeated calls are reported to the model.

use agentd_core::{
    model::{Finish, Message, ModelChunk, ModelRequest, UnrunReason},
    session::{SessionMode, SessionSettings},
    turn::{IfBusy, StartTurn, StopReason, TurnResult},
};
use agentd_engine::{EngineConfig, SessionHandle};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::{Value, json};

use crate::world::{World, input, run, to_end, with_time_limit};

fn text(text: &str) -> ModelChunk {
    ModelChunk::Text(text.to_owned())
}

fn ends(mut chunks: Vec<ModelChunk>, finish: Finish) -> Play {
    chunks.push(ModelChunk::End(finish));
    Play::Chunks(chunks)
}

fn unrun(name: &str, reason: UnrunReason) -> ModelChunk {
    ModelChunk::UnrunCall { name: name.to_owned(), why: reason }
}

fn look() -> Play {
    calls(&[("look", json!({}))])
}

fn nothing() -> Play {
    Play::Chunks(vec![])
}

/// Runs a turn with this script.
async fn run_script<const N: usize>(script: [Play; N]) -> (World, SessionHandle, TurnResult) {
    let (world, session) = World::new(script).begun().await;
    let result = run(&session, "Go!").await;
    (world, session, result)
}

fn check(result: &TurnResult, reason: StopReason, text: &str) {
    assert_eq!((result.stop_reason, result.text.as_str()), (reason, text));
}

/// Returns the messages of a request as text.
fn text_of(request: &ModelRequest) -> String {
    request.messages.iter().map(|message| format!("{message:?}\n")).collect()
}

/// Asserts that each request contains the previous request and has the same callable tools.
fn assert_requests_only_grow(world: &World) {
    let requests = world.model.requests();
    for pair in requests.windows(2) {
        assert_eq!(pair[0].messages[..], pair[1].messages[..pair[0].messages.len()]);
        assert_eq!(pair[0].tools, pair[1].tools);
        assert!(pair[1].may_call);
    }
}

#[tokio::test]
async fn empty_answer_is_retried_with_tools() {
    let thoughts = || Play::Chunks(vec![ModelChunk::Reasoning("Hm.".to_owned())]);
    let script = [look(), nothing(), look(), thoughts(), nothing(), look(), says("Seen.")];
    let (world, session, result) = run_script(script).await;
    check(&result, StopReason::Completed, "Seen.");
    assert_eq!(result.steps, 7);
    assert_eq!(world.tools.ran().len(), 3);
    assert_requests_only_grow(&world);
    let requests = world.model.requests();
    assert!(text_of(&requests[2]).contains("Your last answer was empty: "), "{}", text_of(&requests[2]));
    assert!(text_of(&requests[4]).contains("Your last answer had only reasoning: "), "{}", text_of(&requests[4]));
    assert_eq!(text_of(&requests[6]).matches("Your last answer").count(), 3, "each notice stays at its position");
    let log = world.log(&session);
    assert_eq!(log.matches("warning empty_answer").count(), 2, "{log}");
}

#[tokio::test]
async fn steering_resets_the_empty_answer_count() {
    let (world, session) = World::new([calls(&[("hold", json!({}))])]).begun().await;
    let mut started = session.start_turn(input("Well?")).await.unwrap();
    with_time_limit("the call", world.tools.began(1)).await;
    session.start_turn(StartTurn { if_busy: IfBusy::Steer, ..input("And?") }).await.unwrap();
    world.then([nothing(), nothing(), says("And so.")]);
    world.tools.release(1);
    check(&to_end(&mut started.events).await.1, StopReason::Completed, "And so.");
}

#[tokio::test]
async fn truncated_call_is_reported_and_not_run() {
    let usage = agentd_core::usage::Usage { completion_tokens: 4096, ..Default::default() };
    let cut = vec![ModelChunk::call("look", "{}"), unrun("change", UnrunReason::Cut), ModelChunk::Usage(usage)];
    let (world, session, result) = run_script([ends(cut, Finish::Length), look(), says("In parts.")]).await;
    assert_eq!((result.stop_reason, world.tools.ran().len()), (StopReason::Completed, 2));
    assert_requests_only_grow(&world);
    let second = &world.model.requests()[1].messages;
    let [.., Message::Tool { .. }, last] = &second[..] else { panic!("the result comes first: {second:?}") };
    let last = format!("{last:?}");
    assert!(
        last.contains("Your call of change was cut off by the token limit, at 4096 tokens, and did not run"),
        "{last}"
    );
    assert!(world.log(&session).contains("warning answer_cut"));

    let cut = || ends(vec![unrun("change", UnrunReason::Cut)], Finish::Length);
    let (.., result) = run_script([cut(), cut(), cut()]).await;
    assert_eq!((result.stop_reason, result.steps), (StopReason::Cut, 3));
}

#[tokio::test]
async fn truncated_text_is_continued_as_one_answer() {
    let cut = |part: &str| ends(vec![text(part)], Finish::Length);
    let (world, _, result) = run_script([cut("One, tw"), cut("o, thr"), says("ee.")]).await;
    check(&result, StopReason::Completed, "One, two, three.");
    assert_requests_only_grow(&world);
    assert!(text_of(&world.model.requests()[1]).contains("Continue exactly where it stops"));

    let (.., result) = run_script([cut("One, tw"), cut("o, thr"), cut("ee, fo"), says("ur.")]).await;
    check(&result, StopReason::Cut, "One, two, three, fo");
    let thoughts = || ends(vec![ModelChunk::Reasoning("Hm".to_owned())], Finish::Length);
    let (world, _, result) = run_script([thoughts(), thoughts(), thoughts()]).await;
    assert_eq!((result.stop_reason, result.steps), (StopReason::Cut, 3));
    assert!(text_of(&world.model.requests()[1]).contains("before any text or tool call"));
}

#[tokio::test]
async fn runaway_answer_is_retried() {
    let runaway = ModelChunk::Runaway { what: "repeated \"ha \" without end".to_owned() };
    let repeats = ends(vec![text("ha ha ha "), runaway], Finish::Runaway);
    let (world, session, result) = run_script([repeats, says("Funny.")]).await;
    check(&result, StopReason::Completed, "Funny.");
    assert!(world.log(&session).contains("warning answer_runaway"));
}

#[tokio::test]
async fn call_as_text_is_reported_and_reasoning_reclassified() {
    let leaked = Play::Chunks(vec![text("I look."), unrun("look", UnrunReason::Foreign)]);
    let (world, _, result) = run_script([leaked, look(), says("Seen.")]).await;
    check(&result, StopReason::Completed, "Seen.");
    assert!(text_of(&world.model.requests()[1]).contains("contained a call of look as text. It did not run"));

    let chunks = vec![text("They want 5."), ModelChunk::WasReasoning, text("It is 5.")];
    let (world, session, result) = run_script([Play::Chunks(chunks)]).await;
    check(&result, StopReason::Completed, "It is 5.");
    let log = world.log(&session);
    assert!(log.contains("= agent \"\" (Cut)") && log.contains("= reasoning \"They want 5.\" (Done)"), "{log}");
}

#[tokio::test]
async fn doubtful_call_is_queried_once() {
    let doubtful = |part: &str| Play::Chunks(vec![text(part), unrun("look", UnrunReason::Doubtful)]);
    for (second, expected) in [(doubtful("So it is: {…}"), "So it is: {…}"), (nothing(), "{…} looks.")] {
        let (.., result) = run_script([doubtful("{…} looks."), second]).await;
        check(&result, StopReason::Completed, expected);
        assert_eq!(result.steps, 2);
    }
}

fn todos(statuses: &[&str]) -> (&'static str, Value) {
    let entry = |(n, status): (usize, &&str)| json!({"content": format!("part {n}"), "status": status});
    ("todo_write", json!({"todos": statuses.iter().enumerate().map(entry).collect::<Vec<_>>()}))
}

#[tokio::test]
async fn open_todos_are_queried_once() {
    let open = || calls(&[todos(&["completed", "in_progress", "pending"])]);
    let (world, session, result) = run_script([open(), says("Half is done."), says("The rest needs a key.")]).await;
    // The reason is appended to the answer.
    check(&result, StopReason::Completed, "Half is done.\n\nThe rest needs a key.");
    let asked = text_of(&world.last_request());
    assert!(asked.contains("2 todos open: 2. part 1; 3. part 2. Do what is left now"), "{asked}");
    assert!(world.log(&session).contains("warning open_todos"));
    // The next turn is not affected.
    world.model.then(says("Noon."));
    assert_eq!(run(&session, "What time is it?").await.steps, 1);

    // After later work, the model is asked about an unfinished list once, until the list changes.
    let (world, session, result) = run_script([open(), says("Shall I go on?")]).await;
    assert_eq!(result.steps, 2);
    for (more, steps) in [(vec![says("The rest needs a key.")], 3), (vec![], 2)] {
        world.then([look(), says("Looked.")].into_iter().chain(more));
        assert_eq!(run(&session, "Go on.").await.steps, steps);
    }

    // If the model works again after the question, its next answer is the result.
    let (.., result) = run_script([open(), says("Half."), calls(&[todos(&["completed"; 3])]), says("All.")]).await;
    check(&result, StopReason::Completed, "All.");
    // An empty reply is also an answer.
    check(&run_script([open(), says("Half."), nothing()]).await.2, StopReason::Completed, "Half.");
}

#[tokio::test]
async fn open_todos_are_not_queried_if_the_user_decides() {
    let open = || calls(&[todos(&["pending"])]);
    let steps = async |config: EngineConfig, script: Vec<Play>| {
        let world = World::with(config, script);
        run(&world.session().await, "Plan!").await.steps
    };
    let plan = SessionSettings { mode: SessionMode::Plan, ..SessionSettings::default() };
    let in_plan_mode = EngineConfig { session_defaults: plan, ..EngineConfig::default() };
    assert_eq!(steps(EngineConfig::default(), vec![open(), says("Left or right?")]).await, 2);
    assert_eq!(steps(EngineConfig::default(), vec![calls(&[todos(&["completed"])]), says("Done.")]).await, 2);
    assert_eq!(steps(in_plan_mode, vec![open(), says("The plan.")]).await, 2);
}
