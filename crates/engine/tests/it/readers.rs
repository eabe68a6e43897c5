//! Readers of a session: many, late, slow and disconnected. Updates of all sessions are collected only while there
//! are watchers, and never wait for a watcher.

use std::time::Duration;

use agentd_core::{event::EventKind, model::ModelChunk};
use agentd_engine::{EngineConfig, NewsReader, SessionNews};
use agentd_testkit::scripted::{Play, says};

use crate::world::{World, input, run, to_end, until, with_time_limit};

#[tokio::test]
async fn late_subscriber_gets_the_text_so_far() {
    let world = World::new([Play::Hangs(vec![
        ModelChunk::Text("Half a ".to_owned()),
        ModelChunk::Text("sentence".to_owned()),
    ])]);
    let session = world.session().await;
    let mut started = session.start_turn(input("Speak!")).await.unwrap();
    let mut received = String::new();
    while received != "Half a sentence" {
        let event = until(&mut started.events, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
        if let EventKind::ItemDelta { text, .. } = &event.kind {
            received.push_str(text);
        }
    }
    let mut late = session.subscribe(0).await.unwrap();
    let event = until(&mut late, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
    let EventKind::ItemDelta { offset, text, .. } = &event.kind else { panic!() };
    assert_eq!((*offset, text.as_str()), (0, "Half a sentence"));
    assert!(late.is_current());
}

#[tokio::test]
async fn idle_session_is_unloaded_and_reloaded() {
    let config = EngineConfig { idle_unload: Duration::from_millis(5), ..EngineConfig::default() };
    let (world, session) = World::with(config, [says("One."), says("Two.")]).begun().await;
    run(&session, "first").await;
    with_time_limit("the session to be unloaded", async {
        while world.engine.stats().activity.sessions > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let reloaded = world.engine.session(session.id()).await.unwrap();
    run(&reloaded, "second").await;
    assert_eq!(world.model.requests()[1].messages.len(), 4);
}

async fn next(news: &mut NewsReader) -> SessionNews {
    with_time_limit("news", news.next()).await.unwrap().unwrap()
}

/// A slow watcher buffers about a thousand items.
#[test]
fn session_news_stay_small_and_hold_no_text() {
    assert!(size_of::<SessionNews>() <= 64 && !std::mem::needs_drop::<SessionNews>());
}

#[tokio::test]
async fn watchers_see_new_sessions_and_forks() {
    let world = World::new([says("Hi.")]);
    let mut news = world.engine.watch();
    let settings = world.engine.session_defaults();
    let (session, mut started) =
        world.engine.start_session_with(settings, input("Hello"), Default::default()).await.unwrap();
    to_end(&mut started.events).await;
    assert!(matches!(next(&mut news).await, SessionNews::Created(id) if id == session.id()));
    while let Some(Ok(_)) = news.try_next() {}
    let fork = world.engine.fork_session(session.id(), Default::default()).await.unwrap();
    assert!(matches!(next(&mut news).await, SessionNews::Created(id) if id == fork.session.id()));
}
