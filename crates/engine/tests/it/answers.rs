//! Interrupts: asked, answered once, refused, granted, and withdrawn.

use std::time::Duration;

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    interrupt::{Answer, AnsweredBy},
    turn::{IfBusy, OnInterrupt, StartTurn},
};
use agentd_engine::{EngineConfig, StartedTurn};
use agentd_testkit::scripted::{calls, says};
use insta::assert_snapshot;
use serde_json::json;

use crate::world::{World, input, raised, raising, results, soon, to_end, until};

#[tokio::test]
async fn a_change_asks_first_and_runs_when_approved() {
    let (world, session) = World::new([calls(&[("change", json!({"path": "a.txt"}))]), says("Changed.")]).begun().await;
    let mut started = session.start_turn(input("Change!")).await.unwrap();
    until(&mut started.events, raised).await;
    assert!(world.tools.ran().is_empty(), "nothing runs before the answer");
    let [interrupt] = &world.engine.interrupts(None).await.unwrap()[..] else { panic!("one is pending") };
    let misfit = world.engine.answer(interrupt.id, Answer::Text { text: "sure".to_owned() }, "test".to_owned()).await;
    assert_eq!(misfit.err().unwrap().kind(), ErrorKind::InvalidInput);
    world.engine.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
    to_end(&mut started.events).await;
    let again = world.engine.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.err().unwrap();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    assert!(world.engine.interrupts(None).await.unwrap().is_empty());
    assert_snapshot!(world.log(&session), @r#"
     1 turn started, base, at most 100 steps
     2 + user_message
     3 = user "Change!" (Done)
     4 usage of step 1: 0+0
     5 + call change
     6 = call change {"path":"a.txt"} (Done)
     7 ? change {"path":"a.txt"} Medium, it changes files; preview Some("+ {\"path\":\"a.txt\"}"); grants ["change"]
     8 ! Approve by Client("test")
     9 + result of change
    10 = result of change: "written" (Done)
    11 + agent_message
    12 usage of step 2: 0+0
    13 = agent "Changed." (Done)
    14 turn ended: Completed "Changed.", 2 steps, tools ran, a.txt Created
    "#);
}

/// A turn that approves by itself while its client is there.
fn approving(text: &str) -> StartTurn {
    StartTurn { on_interrupt: OnInterrupt::Approve, while_connected: true, ..input(text) }
}

#[tokio::test]
async fn a_client_that_is_gone_approves_nothing_more() {
    let change = |path: &str| calls(&[("change", json!({ "path": path })), ("hold", json!({}))]);
    let world = World::new([change("a.txt"), change("b.txt"), says("Two."), change("c.txt"), says("Three.")]);
    let session = world.session().await;
    let mut first = session.start_turn(approving("Change!")).await.unwrap();
    soon("the first hold", world.tools.began(1)).await;
    assert!(world.tools.ran()[0].starts_with("change"), "the first change was let run");
    // One that waits for its turn loses its client, too.
    let mut second = session.start_turn(StartTurn { if_busy: IfBusy::Queue, ..approving("More!") }).await.unwrap();
    // Somebody who has added to the turn and leaves is not its client, and neither is one of another turn.
    session.client_left(agentd_core::ids::TurnId::generate()).await.unwrap();
    session.client_left(first.turn_id).await.unwrap();
    session.client_left(second.turn_id).await.unwrap();
    world.tools.release(3);
    for events in [&mut first.events, &mut second.events] {
        until(events, raised).await;
        let [interrupt] = &world.engine.interrupts(None).await.unwrap()[..] else { panic!("one is pending") };
        session.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
        to_end(events).await;
    }
    let by = world.audit.entries().iter().map(|entry| format!("{entry:?}")).collect::<String>();
    assert!(!by.contains("OnInterrupt(Wait)"), "what was decided was decided by what was said at the start: {by}");
}

/// A turn whose question has a deadline in an hour, and the world in which nobody answers it.
async fn unanswered() -> (World, StartedTurn) {
    let config = EngineConfig { interrupt_deadline: Some(Duration::from_secs(3600)), ..EngineConfig::default() };
    let world = World::with(config, [calls(&[("change", json!({}))]), says("Never mind.")]);
    let started = raising(&world.session().await, input("Change!")).await.0;
    (world, started)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_takes_the_default() {
    let (world, mut started) = unanswered().await;
    world.clock.advance(Duration::from_secs(3601));
    tokio::time::advance(Duration::from_secs(3601)).await;
    let (events, result) = to_end(&mut started.events).await;
    assert_eq!((result.text.as_str(), result.denials.len()), ("Never mind.", 1));
    let by_deadline = |kind: &EventKind| matches!(kind, EventKind::InterruptResolved { by: AnsweredBy::Deadline, .. });
    assert!(events.iter().any(|event| by_deadline(&event.kind)));
    // The hour in which nobody answered is not the call's.
    let took = results(&events)[0].duration_ms;
    assert!(took < 60_000, "{took}");
}

/// A machine that slept, or a clock that was set: the time has come, though nobody has waited for it.
#[tokio::test(start_paused = true)]
async fn a_deadline_holds_when_the_clock_jumps() {
    let (world, mut started) = unanswered().await;
    let jumped = tokio::time::Instant::now();
    world.clock.advance(Duration::from_secs(2 * 24 * 3600));
    tokio::time::advance(Duration::from_secs(31)).await;
    let (_, result) = to_end(&mut started.events).await;
    assert!(jumped.elapsed() < Duration::from_secs(60), "{:?}", jumped.elapsed());
    assert_eq!((result.text.as_str(), result.denials.len()), ("Never mind.", 1));
    // How long it took is not what the clock says.
    assert!(result.duration_ms < 3600 * 1000, "{}", result.duration_ms);
}
