//! Cancellation, panics, full disks and daemon shutdown.

use std::time::Duration;

use agentd_core::{
    error::ErrorKind,
    event::EventKind,
    model::ModelChunk,
    turn::{IfBusy, StartTurn, StopReason},
};
use agentd_engine::{SessionHandle, StartedTurn};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::{
    grants::asked,
    world::{World, end_of, input, run, to_end, until, with_time_limit},
};

async fn begun(session: &SessionHandle, text: &str) -> StartedTurn {
    let mut started = session.start_turn(input(text)).await.unwrap();
    until(&mut started.events, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
    started
}

#[tokio::test]
async fn panicked_turn_fails_but_the_session_survives() {
    let (_world, session) = World::new([Play::Panics, says("Still here.")]).begun().await;
    let result = run(&session, "Break!").await;
    assert_eq!(result.error.unwrap().kind, ErrorKind::Internal);
    assert_eq!(run(&session, "And now?").await.text, "Still here.");
}

#[tokio::test]
async fn full_disk_rejects_turns_without_losing_events() {
    let (world, session) = World::new([says("One."), says("lost"), says("Two.")]).begun().await;
    run(&session, "first").await;
    let before = world.log(&session);
    world.store.fail_next_appends(1);
    let error = session.start_turn(input("second")).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert_eq!(world.log(&session), before);
    let session = world.engine.session(session.id()).await.unwrap();
    assert_eq!(with_time_limit("the next turn", run(&session, "third")).await.stop_reason, StopReason::Completed);
}

#[tokio::test]
async fn subscribers_are_notified_of_a_full_disk_during_a_turn() {
    let (world, session) = World::new([calls(&[("hold", json!({}))])]).begun().await;
    let mut started = session.start_turn(input("Hold!")).await.unwrap();
    with_time_limit("the tool to begin", world.tools.began(1)).await;
    world.store.fail_next_appends(1);
    world.tools.release(1);
    let error = loop {
        match with_time_limit("the error", started.events.next()).await.expect("the stream ends before the error") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Storage);

    // While the disk is full, the session is read-only, and no turn continues.
    world.store.fail_next_appends(2);
    let session = world.engine.session(session.id()).await.unwrap();
    let view = session.show().await.unwrap();
    assert_eq!((view.live_turn, view.pending.len()), (None, 0));
    session.context().await.unwrap();
    let mut reader = session.subscribe(0).await.unwrap();
    assert_eq!(with_time_limit("the first event", reader.next()).await.unwrap().unwrap().seq, 1);
    let refused = session.rename("Now".to_owned()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Storage);
    // Once there is space again, the next command records the end of the turn.
    session.rename("Later".to_owned()).await.unwrap();
    assert_eq!(to_end(&mut reader).await.1.stop_reason, StopReason::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_short_turns_and_suspends_the_rest() {
    let world =
        World::new([Play::Hangs(vec![ModelChunk::Text("Once upon".to_owned())]), calls(&[("change", json!({}))])]);
    let (long, asking) = (world.session().await, world.session().await);
    let mut story = begun(&long, "A story!").await;
    let queued = long.start_turn(StartTurn { if_busy: IfBusy::Queue, ..input("And another!") }).await.unwrap();
    let (question, _) = asked(&asking).await;
    world.engine.drain(Duration::from_secs(10)).await;
    assert_eq!(to_end(&mut story.events).await.1.stop_reason, StopReason::Suspended);
    for mut waits in [queued.events, question.events] {
        let end = waits.next().await.unwrap();
        assert_eq!(end.err().unwrap().kind(), ErrorKind::ShuttingDown, "the stream ends before the turn does");
    }
    assert_eq!(world.engine.session(long.id()).await.err().unwrap().kind(), ErrorKind::ShuttingDown);
    assert_eq!(world.engine.interrupts(None).await.unwrap().len(), 1);

    let (_next, long) = world.recovered(long.id(), [says("Another.")]).await;
    let mut events = long.subscribe(0).await.unwrap();
    assert_eq!(end_of(&mut events, queued.turn_id).await.text, "Another.");
}

#[tokio::test(start_paused = true)]
async fn draining_session_accepts_a_cancel() {
    let (world, session) = World::new([Play::Hangs(vec![ModelChunk::Text("Once upon".to_owned())])]).begun().await;
    let mut story = begun(&session, "A story!").await;
    let engine = world.engine.clone();
    let drained = tokio::spawn(async move { engine.drain(Duration::from_secs(3600)).await });
    with_time_limit("the stop to begin", async {
        while session.start_turn(input("More!")).await.err().unwrap().kind() != ErrorKind::ShuttingDown {
            tokio::task::yield_now().await;
        }
    })
    .await;
    session.cancel(None).await.unwrap();
    assert_eq!(to_end(&mut story.events).await.1.stop_reason, StopReason::Cancelled);
    with_time_limit("the stop to end", drained).await.unwrap();
}
