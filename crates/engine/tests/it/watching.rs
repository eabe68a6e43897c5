//! News of all sessions: told to those who watch, gathered for nobody else, and never waited for.

use agentd_core::{event::EventKind, ids::SessionId};
use agentd_engine::{MissedNews, NewsReader, SessionNews};
use agentd_testkit::scripted::says;

use crate::world::{World, run, soon};

async fn next(news: &mut NewsReader) -> SessionNews {
    soon("news", news.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn every_watcher_hears_of_every_session() {
    let world = World::new((0..20).map(|_| says("Hi.")));
    let (mut one, mut other) = (world.engine.watch(), world.engine.watch());
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let session = world.session().await;
        run(&session, "Hello").await;
        sessions.push(session.id());
    }
    for news in [&mut one, &mut other] {
        let mut ended: Vec<SessionId> = Vec::new();
        while ended.len() < sessions.len() {
            let SessionNews::Fact { session, seq, is_event, is_child: false } = next(news).await else { continue };
            let event = world.engine.stored_event(session, seq).await.unwrap().unwrap();
            assert_eq!((event.seq, event.session_id), (seq, session));
            // What is said is no news.
            assert!(!matches!(event.kind, EventKind::ItemStarted { .. } | EventKind::ItemCompleted { .. }));
            if matches!(event.kind, EventKind::TurnEnded { .. }) {
                assert!(is_event);
                ended.push(event.session_id);
            }
        }
        assert_eq!(ended, sessions);
    }
    world.engine.delete_session(sessions[0]).await.unwrap();
    assert!(
        matches!(next(&mut one).await, SessionNews::Deleted { session, is_child: false } if session == sessions[0])
    );
    assert_eq!(world.engine.stored_event(sessions[0], 1).await.unwrap(), None, "it is gone");
    world.engine.reconfigure(agentd_engine::EngineConfig::default());
    assert!(matches!(next(&mut one).await, SessionNews::Reconfigured));
    assert!(one.try_next().is_none());
}

/// A watcher that does not read holds a thousand of them.
#[test]
fn news_hold_no_texts() {
    assert!(size_of::<SessionNews>() <= 64 && !std::mem::needs_drop::<SessionNews>());
}

#[tokio::test]
async fn who_does_not_read_misses_the_oldest_and_holds_up_nobody() {
    let world = World::new([]);
    let mut news = world.engine.watch();
    let session = world.session().await;
    for at in 0..2000 {
        session.rename(format!("name {at}")).await.unwrap();
    }
    let missed = soon("news", news.next()).await.unwrap();
    assert!(matches!(missed, Err(MissedNews(missed)) if missed > 900), "{missed:?}");
    let mut left = 0;
    while let Some(Ok(_)) = news.try_next() {
        left += 1;
    }
    assert!((1000..=1024).contains(&left), "{left}");
}

#[tokio::test]
async fn sessions_that_begin_with_their_turn_and_forks_are_told_of() {
    let world = World::new([says("Hi.")]);
    let mut news = world.engine.watch();
    let settings = world.engine.session_defaults();
    let (session, mut started) =
        world.engine.start_session_with(settings, crate::world::input("Hello"), Default::default()).await.unwrap();
    crate::world::to_end(&mut started.events).await;
    assert!(matches!(next(&mut news).await, SessionNews::Created(id) if id == session.id()));
    while let Some(Ok(_)) = news.try_next() {}
    let fork = world.engine.fork_session(session.id(), Default::default()).await.unwrap();
    assert!(matches!(next(&mut news).await, SessionNews::Created(id) if id == fork.session.id()));
}
