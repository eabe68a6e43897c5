//! What is counted of answers that came to nothing.

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    model::ModelChunk,
    turn::{StartTurn, StopReason, TurnOptions},
    usage::Usage,
};
use agentd_testkit::scripted::{Play, says};
use serde_json::json;

use crate::world::{World, input, run, to_end, until};

fn counted(prompt_tokens: u64) -> ModelChunk {
    let cost_microusd = Some(10 * prompt_tokens);
    ModelChunk::Usage(Usage { prompt_tokens, completion_tokens: 1, cost_microusd, ..Usage::default() })
}

fn retry() -> ModelChunk {
    ModelChunk::Retry { attempt: 2, delay_ms: 0, reason: "busy".to_owned() }
}

fn text(words: &str) -> ModelChunk {
    ModelChunk::Text(words.to_owned())
}

/// Tokens, money, calls, and those of them without a price.
fn sum(usage: Usage) -> (u64, Option<u64>, u64, u64) {
    (usage.tokens(), usage.cost_microusd, usage.calls, usage.unpriced_calls)
}

#[tokio::test]
async fn all_attempts_of_a_call_are_paid_for() {
    let broken = [counted(100), text("Half"), ModelChunk::Discarded, retry()];
    let silent = [counted(200), retry()];
    let uncounted = [text("Half"), ModelChunk::Discarded, retry()];
    // A later count takes the place of an earlier one.
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
async fn a_cancelled_answer_is_paid_for_as_far_as_it_was_counted() {
    let world = World::new([Play::Hangs(vec![counted(100), text("Half")])]);
    let session = world.session().await;
    let mut started = session.start_turn(input("one")).await.unwrap();
    until(&mut started.events, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
    session.cancel(None).await.unwrap();
    let result = to_end(&mut started.events).await.1;
    assert_eq!((result.stop_reason, sum(result.usage)), (StopReason::Cancelled, (101, Some(1000), 1, 0)));
}

#[tokio::test]
async fn broken_answers_use_up_the_budget_of_tokens() {
    let broken = [counted(600), text("Half"), ModelChunk::Discarded, retry(), counted(600)];
    let call = ModelChunk::call("look", json!({}).to_string());
    let world = World::new([Play::Chunks(broken.into_iter().chain([call]).collect()), says("Last words.")]);
    let session = world.session().await;
    let options = TurnOptions { tokens: Some(1000), ..TurnOptions::default() };
    let start = StartTurn { options, ..input("Look") };
    let result = to_end(&mut session.start_turn(start).await.unwrap().events).await.1;
    assert_eq!(result.stop_reason, StopReason::Budget, "{result:?}");
}
