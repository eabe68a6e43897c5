//! Costs of model calls by tools, which count towards the turn's limits, and of failed answers.

use std::time::Duration;

use agentd_core::{
    error::ErrorKind,
    model::{Finish, Message, ModelChunk, ModelRequest},
    turn::{StartTurn, StopReason, TurnOptions},
    usage::Usage,
};
use agentd_engine::EngineConfig;
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::world::{World, input, run, to_end, turn};

/// Returns true if the request was sent by a tool instead of a step of the turn.
fn is_tool_request(request: &ModelRequest) -> bool {
    matches!(request.messages.first(), Some(Message::System { text }) if text == "Answer.")
}

/// Creates a world in which a tool asks once and gets this answer.
fn asking(config: EngineConfig, answer: impl Fn() -> Play + Send + Sync + 'static) -> World {
    let world = World::with(config, []);
    asks_in(&world, "look", answer);
    world
}

fn asks_in(world: &World, tool: &'static str, answer: impl Fn() -> Play + Send + Sync + 'static) {
    world.model.respond_with(move |request| {
        if is_tool_request(request) {
            answer()
        } else if request.messages.iter().any(|message| matches!(message, Message::Tool { .. })) {
            says("over")
        } else {
            calls(&[(tool, json!({"ask": "Who are you?"}))])
        }
    });
}

fn text(text: &str) -> ModelChunk {
    ModelChunk::Text(text.to_owned())
}

/// Builds an answer that starts but never ends.
fn hangs() -> Play {
    Play::Hangs(vec![text("A model.")])
}

fn tool_requests(world: &World) -> Vec<ModelRequest> {
    world.model.requests().into_iter().filter(is_tool_request).collect()
}

#[tokio::test]
async fn uncounted_sampling_is_estimated() {
    for (answer, expected) in [
        // The request has about five tokens, and the answer two.
        (Play::Chunks as fn(Vec<ModelChunk>) -> Play, (5, 2)),
        (|chunks| Play::Fails(chunks, ErrorKind::CutStream), (5, 2)),
        (|_| Play::Fails(Vec::new(), ErrorKind::Unreachable), (0, 0)),
    ] {
        let world = asking(EngineConfig::default(), move || answer(vec![text("A model.")]));
        let usage = run(&world.session().await, "Go").await.usage;
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), expected);
    }
}

#[tokio::test]
async fn overlong_sampled_answer_is_truncated() {
    let long = || Play::Hangs(vec![text(&"x".repeat(500)), text(&"y".repeat(500))]);
    let (world, session) = asking(EngineConfig::default(), long).begun().await;
    assert_eq!(run(&session, "Go").await.stop_reason, StopReason::Completed);
    assert!(world.log(&session).contains("yyy (scripted, cut: true)"), "{}", world.log(&session));
}

#[tokio::test(start_paused = true)]
async fn turn_time_limit_applies_to_sampling() {
    let config = EngineConfig { turn_time_limit: Some(Duration::from_secs(5)), ..EngineConfig::default() };
    let (world, session) = asking(config, hangs).begun().await;
    let result = run(&session, "Go").await;
    assert!(world.log(&session).contains("the turn's time limit was reached"), "{}", world.log(&session));
    assert_eq!(result.usage.completion_tokens, 2, "the partial answer is counted");
}

#[tokio::test]
async fn filtered_sampled_answer_is_an_error() {
    let world = asking(EngineConfig::default(), || Play::Chunks(vec![ModelChunk::End(Finish::Filtered)]));
    let session = world.session().await;
    run(&session, "Go").await;
    assert!(world.log(&session).contains("withheld"), "{}", world.log(&session));
}

#[tokio::test]
async fn sampling_left_by_a_call_is_cancelled_and_counted() {
    let (world, session) = World::new([]).begun().await;
    asks_in(&world, "hold", hangs);
    let mut turn = session.start_turn(input("Go")).await.unwrap();
    world.model.asked(2).await;
    world.tools.release(1);
    let (_, result) = to_end(&mut turn.events).await;
    assert_eq!((result.stop_reason, result.usage.prompt_tokens), (StopReason::Completed, 5));
}

#[tokio::test(start_paused = true)]
async fn turn_token_budget_covers_parallel_calls() {
    let config = EngineConfig {
        turn_token_budget: Some(5 + 50 + 4),
        turn_time_limit: Some(Duration::from_secs(5)),
        ..EngineConfig::default()
    };
    let (world, session) = World::with(config, []).begun().await;
    world.model.respond_with(|request| {
        let look = || ("look", json!({"ask": "Who are you?"}));
        if is_tool_request(request) { Play::Hangs(Vec::new()) } else { calls(&[look(), look()]) }
    });
    run(&session, "Go").await;
    assert_eq!(tool_requests(&world).len(), 1);
    assert!(world.log(&session).contains("the turn's token budget is spent"), "{}", world.log(&session));
}

fn counted(prompt_tokens: u64) -> ModelChunk {
    let cost_microusd = Some(10 * prompt_tokens);
    ModelChunk::Usage(Usage { prompt_tokens, completion_tokens: 1, cost_microusd, ..Usage::default() })
}

fn retry() -> ModelChunk {
    ModelChunk::Retry { attempt: 2, attempts: Some(4), delay_ms: 0, reason: "busy".to_owned() }
}

/// Returns tokens, cost, calls and unpriced calls.
fn sum(usage: Usage) -> (u64, Option<u64>, u64, u64) {
    (usage.tokens(), usage.cost_microusd, usage.calls, usage.unpriced_calls)
}

#[tokio::test]
async fn usage_of_all_sampling_attempts_is_counted() {
    let broken = [counted(100), text("Half"), ModelChunk::Discarded, retry()];
    let silent = [counted(200), retry()];
    let uncounted = [text("Half"), ModelChunk::Discarded, retry()];
    // A later count replaces an earlier one.
    let whole = [counted(300), text("Whole."), counted(301)];
    let chunks = broken.into_iter().chain(silent).chain(uncounted).chain(whole).collect();
    let world = World::new([Play::Chunks(chunks), Play::Fails(vec![counted(400)], ErrorKind::Provider)]);
    let session = world.session().await;
    let result = run(&session, "one").await;
    assert_eq!((result.text.as_str(), sum(result.usage)), ("Whole.", (604, Some(6010), 4, 1)));
    let result = run(&session, "two").await;
    assert_eq!((result.stop_reason, sum(result.usage)), (StopReason::Failed, (401, Some(4000), 1, 0)));
    assert_eq!(sum(session.show().await.unwrap().session.summary.usage), (1005, Some(10_010), 5, 1));
}

#[tokio::test]
async fn broken_answers_consume_the_token_budget() {
    let broken = [counted(600), text("Half"), ModelChunk::Discarded, retry(), counted(600)];
    let call = ModelChunk::call("look", "{}");
    let world = World::new([Play::Chunks(broken.into_iter().chain([call]).collect()), says("Last words.")]);
    let session = world.session().await;
    let options = TurnOptions { tokens: Some(1000), ..TurnOptions::default() };
    let result = turn(&session, StartTurn { options, ..input("Look") }).await;
    assert_eq!(result.stop_reason, StopReason::Budget, "{result:?}");
}
