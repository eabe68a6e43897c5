//! Questions that get no answer from a client: disconnected clients, and deadlines.

use std::time::Duration;

use agentd_core::{
    interrupt::Answer,
    turn::{IfBusy, OnInterrupt, StartTurn},
};
use agentd_engine::EngineConfig;
use agentd_testkit::scripted::{calls, says};
use serde_json::json;

use crate::world::{World, input, is_question_raised, results, start_until_question, to_end, until, with_time_limit};

/// Builds a start of a turn that approves automatically while its client is connected.
fn approving(text: &str) -> StartTurn {
    StartTurn { on_interrupt: OnInterrupt::Approve, while_connected: true, ..input(text) }
}

#[tokio::test]
async fn disconnected_client_auto_approves_nothing() {
    let change = |path: &str| calls(&[("change", json!({ "path": path })), ("hold", json!({}))]);
    let world = World::new([change("a.txt"), change("b.txt"), says("Two."), change("c.txt"), says("Three.")]);
    let session = world.session().await;
    let mut first = session.start_turn(approving("Change!")).await.unwrap();
    with_time_limit("the first hold", world.tools.began(1)).await;
    assert!(world.tools.ran()[0].starts_with("change"), "the first change was approved automatically");
    // The client of the queued turn also disconnects.
    let mut second = session.start_turn(StartTurn { if_busy: IfBusy::Queue, ..approving("More!") }).await.unwrap();
    // Disconnecting a client of another turn, such as a client that only added input, has no effect.
    session.client_left(agentd_core::ids::TurnId::generate()).await.unwrap();
    session.client_left(first.turn_id).await.unwrap();
    session.client_left(second.turn_id).await.unwrap();
    world.tools.release(3);
    for events in [&mut first.events, &mut second.events] {
        until(events, is_question_raised).await;
        let [interrupt] = &world.engine.interrupts(None).await.unwrap()[..] else {
            panic!("expected one pending question")
        };
        session.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
        to_end(events).await;
    }
    let by = world.audit.entries().iter().map(|entry| format!("{entry:?}")).collect::<String>();
    assert!(!by.contains("OnInterrupt(Wait)"), "each decision names the policy of the start: {by}");
}

/// A deadline that passed while the machine slept, or because of a clock change, takes effect without a further wait.
#[tokio::test(start_paused = true)]
async fn question_deadline_survives_clock_jumps() {
    let config = EngineConfig { interrupt_deadline: Some(Duration::from_secs(3600)), ..EngineConfig::default() };
    let (world, session) = World::with(config, [calls(&[("change", json!({}))]), says("Never mind.")]).begun().await;
    let (mut started, _) = start_until_question(&session, input("Change!")).await;
    let jumped = tokio::time::Instant::now();
    world.clock.advance(Duration::from_secs(2 * 24 * 3600));
    tokio::time::advance(Duration::from_secs(31)).await;
    let (events, result) = to_end(&mut started.events).await;
    assert!(jumped.elapsed() < Duration::from_secs(60), "{:?}", jumped.elapsed());
    assert_eq!((result.text.as_str(), result.denials.len()), ("Never mind.", 1));
    // Durations do not depend on the wall clock, and exclude the wait for an answer.
    assert!(results(&events)[0].duration_ms < 60_000, "{events:?}");
    assert!(result.duration_ms < 3600 * 1000, "{}", result.duration_ms);
}
