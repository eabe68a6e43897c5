//! Readers: many, late, slow and gone.

use agentd_core::{event::EventKind, model::ModelChunk};
use agentd_testkit::scripted::{Play, says};

use crate::world::{World, input, log, run, soon, to_end, until};

fn many_words(n: usize) -> Play {
    Play::Chunks((0..n).map(|n| ModelChunk::Text(format!("{n} "))).collect())
}

fn stored(events: &[std::sync::Arc<agentd_core::event::Event>]) -> Vec<u64> {
    events.iter().filter(|event| event.kind.is_stored()).map(|event| event.seq).collect()
}

#[tokio::test]
async fn two_readers_see_the_same_numbered_events() {
    let world = World::new([many_words(100)]);
    let session = world.session().await;
    let mut other = session.subscribe(0).await.unwrap();
    let mut started = session.start_turn(input("Count!")).await.unwrap();
    let (mine, _) = to_end(&mut started.events).await;
    let (theirs, _) = to_end(&mut other).await;
    assert_eq!(stored(&mine), stored(&theirs));
    assert_eq!(stored(&mine), (1..=stored(&mine).len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reader_that_does_not_read_stalls_nobody_and_misses_no_stored_event() {
    let turns = 60;
    let world = World::new((0..turns).map(|_| many_words(40)));
    let session = world.session().await;
    let mut sleeper = session.subscribe(0).await.unwrap();
    for _ in 0..turns {
        soon("a turn beside a reader that sleeps", run(&session, "Count!")).await;
    }
    let mut seen = Vec::new();
    for _ in 0..turns {
        seen.extend(to_end(&mut sleeper).await.0);
    }
    assert_eq!(log(&seen.iter().filter(|e| e.kind.is_stored()).cloned().collect::<Vec<_>>()), world.log(&session));
}

#[tokio::test]
async fn a_late_reader_gets_the_words_said_so_far() {
    let world = World::new([Play::Hangs(vec![
        ModelChunk::Text("Half a ".to_owned()),
        ModelChunk::Text("sentence".to_owned()),
    ])]);
    let session = world.session().await;
    let mut started = session.start_turn(input("Speak!")).await.unwrap();
    let mut heard = String::new();
    while heard != "Half a sentence" {
        let event = until(&mut started.events, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
        if let EventKind::ItemDelta { text, .. } = &event.kind {
            heard.push_str(text);
        }
    }
    let mut late = session.subscribe(0).await.unwrap();
    let event = until(&mut late, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
    let EventKind::ItemDelta { offset, text, .. } = &event.kind else { panic!() };
    assert_eq!((*offset, text.as_str()), (0, "Half a sentence"));
    assert!(late.is_current());
}

#[tokio::test]
async fn a_turn_outlives_its_reader() {
    let world = World::new([many_words(10), says("Two.")]);
    let session = world.session().await;
    drop(session.start_turn(input("Count!")).await.unwrap());
    let mut later = session.subscribe(0).await.unwrap();
    to_end(&mut later).await;
    let mut resumed = session.subscribe(3).await.unwrap();
    let (events, _) = to_end(&mut resumed).await;
    assert_eq!(events[0].seq, 4);
}

#[tokio::test]
async fn an_idle_session_is_unloaded_and_comes_back() {
    let config = agentd_engine::EngineConfig { idle_unload: std::time::Duration::from_millis(5), ..Default::default() };
    let world = World::with(config, [says("One."), says("Two.")]);
    let session = world.session().await;
    run(&session, "first").await;
    soon("the session to be unloaded", async {
        while world.engine.stats().activity.sessions > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let again = world.engine.session(session.id()).await.unwrap();
    run(&again, "second").await;
    assert_eq!(world.model.requests()[1].messages.len(), 4);
}
