//! Sessions that are deleted or expire while they are in use: acknowledged input is never lost, and removals are
//! complete.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    agent::Parent,
    error::ErrorKind,
    event::EventKind,
    ids::SessionId,
    ports::{ArtifactDir, Clock as _, Store as _, Workspaces as _},
    session::SessionSettings,
    turn::TurnResult,
};
use agentd_engine::{CleanOrder, EngineConfig, EngineError, SessionHandle};
use agentd_testkit::{
    daemon,
    memory_workspaces::Gate,
    scripted::{calls, says},
};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::world::{World, input, log, to_end, until, with_time_limit};

/// Creates a world whose sessions are unloaded as soon as they are idle.
fn world() -> World {
    let world = World::with(EngineConfig { idle_unload: Duration::ZERO, ..EngineConfig::default() }, []);
    world.model.respond_with(|_| says("So be it."));
    world
}

async fn is_gone(world: &World, id: SessionId) -> bool {
    world.store.session(id).await.unwrap().is_none()
}

/// Creates a world like `world`, with a session that was used.
async fn used_world() -> (World, SessionId) {
    let world = world();
    let id = unloaded_session(&world).await;
    (world, id)
}

/// Creates a session with a turn and a file, and unloads it.
async fn unloaded_session(world: &World) -> SessionId {
    let id = world.session().await.id();
    say(world, id, "Hello").await;
    let text = b"what was said".to_vec();
    world.workspaces.keep(id, ArtifactDir::ConversationHistory, "h.md".to_owned(), text).await.unwrap();
    unloaded(world, id).await;
    id
}

/// Runs a turn to its end. Retries if the session is unloaded at that moment.
async fn say(world: &World, id: SessionId, text: &str) -> TurnResult {
    loop {
        match opened(world, id).await.unwrap().start_turn(input(text)).await {
            Ok(mut started) => return to_end(&mut started.events).await.1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ShuttingDown, "{error}"),
        }
    }
}

async fn unloaded(world: &World, id: SessionId) {
    let is_gone = async || world.engine.live_session(id).await.unwrap().is_none().then_some(());
    daemon::until("the session is unloaded", is_gone).await;
}

async fn last_used(world: &World, id: SessionId) -> Timestamp {
    world.store.session(id).await.unwrap().unwrap().summary.updated_at
}

async fn opened(world: &World, id: SessionId) -> Result<SessionHandle, EngineError> {
    world.engine.session(id).await
}

/// Starts a removal that waits before it removes files.
async fn deleting(world: &World, id: SessionId) -> (Arc<Gate>, JoinHandle<Result<(), EngineError>>) {
    let gate = world.workspaces.hold();
    let engine = world.engine.clone();
    let deleting = tokio::spawn(async move { engine.delete_session(id).await });
    with_time_limit("the files", gate.reached()).await;
    (gate, deleting)
}

#[tokio::test]
async fn session_is_unreachable_during_deletion() {
    let (world, id) = used_world().await;
    let open = opened(&world, id).await.unwrap();
    open.show().await.unwrap();
    let (gate, deleting) = deleting(&world, id).await;
    for session in [open, opened(&world, id).await.unwrap()] {
        let refused = [
            session.start_turn(input("Wait!")).await.err(),
            session.subscribe(0).await.err(),
            session.rename("another".to_owned()).await.err(),
        ];
        for error in refused.map(Option::unwrap) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains("is being deleted") && error.hint().is_some(), "{error}");
        }
    }
    let upload = world.engine.upload(id, "a.txt".to_owned(), b"a".to_vec()).await.unwrap_err();
    assert_eq!(upload.kind(), ErrorKind::NotFound);
    let second = world.engine.delete_session(id).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::NotFound);
    gate.open();
    with_time_limit("the removal", deleting).await.unwrap().unwrap();
    assert!(world.workspaces.kept_paths(id).is_empty() && world.workspaces.uploads().is_empty());
    assert!(world.store.files_left().await.unwrap().is_empty());
    let removed = opened(&world, id).await.unwrap().show().await.unwrap_err();
    assert!(removed.to_string().contains("no such session"), "{removed}");
}

#[tokio::test]
async fn failed_journal_removal_keeps_the_session() {
    let (world, id) = used_world().await;
    let child = child_of(&world, id).await;
    unloaded(&world, child).await;
    world.store.fail_deletions(true);
    assert_eq!(world.engine.delete_session(id).await.unwrap_err().kind(), ErrorKind::Storage);
    assert_eq!(world.workspaces.kept_paths(id), ["conversation_history/h.md"]);
    for session in [id, child] {
        say(&world, session, "Are you there?").await;
    }
    world.store.fail_deletions(false);
    world.engine.delete_session(id).await.unwrap();
    assert!(is_gone(&world, child).await);
}

async fn child_of(world: &World, parent: SessionId) -> SessionId {
    let parent = Some(Parent { session: parent, agent: None, tools: Vec::new() });
    let settings = SessionSettings { parent, ..SessionSettings::default() };
    world.engine.create_session(settings, None).await.unwrap().id()
}

#[tokio::test]
async fn session_is_kept_while_a_subagent_works() {
    let (world, id) = used_world().await;
    let child = opened(&world, child_of(&world, id).await).await.unwrap();
    world.model.respond_with(|_| calls(&[("change", json!({}))]));
    let mut asking = child.start_turn(input("Change!")).await.unwrap();
    until(&mut asking.events, |kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    let error = world.engine.delete_session(id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    world.model.respond_with(|_| says("I am here."));
    assert_eq!(say(&world, id, "Are you there?").await.text, "I am here.");
    child.cancel(None).await.unwrap();
    until(&mut asking.events, |kind| matches!(kind, EventKind::TurnEnded { .. })).await;
    world.engine.delete_session(id).await.unwrap();
}

#[tokio::test]
async fn upload_in_flight_keeps_its_session() {
    let (world, id) = used_world().await;
    let used_last = last_used(&world, id).await;
    let gate = world.workspaces.hold();
    let engine = world.engine.clone();
    let uploading = tokio::spawn(async move { engine.upload(id, "a.txt".to_owned(), b"a".to_vec()).await });
    with_time_limit("the upload", gate.reached()).await;
    assert!(!world.engine.expire_session(id, used_last, false).await.unwrap());
    let error = world.engine.delete_session(id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("a file is being written"), "{error}");
    gate.open();
    let uploaded = with_time_limit("the upload", uploading).await.unwrap().unwrap();
    assert!(world.workspaces.uploads().contains_key(&uploaded.path));
    world.workspaces.remove_gate();
    unloaded(&world, id).await;
    world.engine.delete_session(id).await.unwrap();
}

/// Creates two sessions that were used after the returned time, one of them by a subagent.
async fn used_since(world: &World) -> ([SessionId; 2], SessionId, Timestamp) {
    let (id, other) = (unloaded_session(world).await, unloaded_session(world).await);
    let child = child_of(world, other).await;
    let checked_at = world.clock.now();
    world.clock.advance(Duration::from_secs(60));
    say(world, id, "One more thing").await;
    say(world, child, "And you?").await;
    ([id, other], child, checked_at)
}

#[tokio::test]
async fn session_used_since_the_check_does_not_expire() {
    let world = world();
    let (sessions, child, checked_at) = used_since(&world).await;
    for session in sessions {
        unloaded(&world, session).await;
        assert!(!world.engine.expire_session(session, checked_at, false).await.unwrap());
        assert!(!is_gone(&world, session).await);
        assert!(!world.workspaces.kept_paths(session).is_empty());
        // The session continues normally.
        say(&world, session, "Still there?").await;
        unloaded(&world, session).await;
    }
    unloaded(&world, child).await;
    for session in sessions {
        assert!(world.engine.expire_session(session, world.clock.now(), false).await.unwrap());
        assert!(is_gone(&world, session).await);
        assert!(world.workspaces.kept_paths(session).is_empty());
    }
}

#[tokio::test]
async fn session_used_since_the_check_is_not_cleaned() {
    let world = world();
    let (sessions, _, checked_at) = used_since(&world).await;
    let order = |last_used| CleanOrder { undo: true, last_used: Some(last_used), ..CleanOrder::default() };
    for session in sessions {
        unloaded(&world, session).await;
        assert_eq!(world.engine.clean_session(session, order(checked_at)).await.unwrap(), None);
        unloaded(&world, session).await;
        let cleaned = world.engine.clean_session(session, order(world.clock.now())).await.unwrap();
        assert!(cleaned.is_some_and(|cleaned| cleaned.undo));
    }
}

/// In any interleaving, an accepted turn is completed, and a removed session has accepted no turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turn_acceptance_and_session_removal_are_exclusive() {
    let world = world();
    let (mut accepted, mut removed) = (0, 0);
    for round in 0..200 {
        let id = unloaded_session(&world).await;
        let used_last = last_used(&world, id).await;
        world.clock.advance(Duration::from_secs(60));
        let engine = world.engine.clone();
        let expiring = tokio::spawn(async move { engine.expire_session(id, used_last, false).await });
        for _ in 0..round % 20 {
            tokio::task::yield_now().await;
        }
        let started = match opened(&world, id).await {
            Ok(session) => session.start_turn(input("One more thing")).await,
            Err(error) => Err(error),
        };
        let expired = with_time_limit("the removal", expiring).await.unwrap().unwrap();
        match started {
            Ok(mut started) => {
                assert!(!expired, "a turn was accepted, and its session removed");
                until(&mut started.events, |kind| matches!(kind, EventKind::TurnEnded { .. })).await;
                let events = log(&world.store.events_of(id));
                assert!(events.contains("One more thing"), "{events}");
                accepted += 1;
            }
            // The session was unloaded at that moment.
            Err(error) if error.kind() == ErrorKind::ShuttingDown => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                assert!(expired && is_gone(&world, id).await);
                removed += 1;
            }
        }
    }
    assert!(accepted + removed > 100, "{accepted} and {removed}");
}

#[tokio::test]
async fn interrupted_removal_is_finished_at_next_start() {
    let (world, id) = used_world().await;
    let (_gate, deleting) = deleting(&world, id).await;
    // The removal is aborted before the first file is removed.
    deleting.abort();
    assert!(deleting.await.unwrap_err().is_cancelled());
    world.workspaces.remove_gate();
    assert_eq!(world.store.files_left().await.unwrap(), [id]);
    assert!(!world.workspaces.kept_paths(id).is_empty());

    let next = world.restarted_with_files([]);
    assert!(next.engine.sessions(10).await.unwrap().is_empty(), "a partly removed session is not listed");
    next.engine.finish_removals().await.unwrap();
    assert!(next.workspaces.kept_paths(id).is_empty());
    assert!(next.store.files_left().await.unwrap().is_empty());
}

/// The caller is dropped before the removal is in the journal.
#[tokio::test]
async fn abandoned_removal_keeps_the_session_usable() {
    let (world, id) = used_world().await;
    for polls in 1..30 {
        let mut deleting = Box::pin(world.engine.delete_session(id));
        for _ in 0..polls {
            let _ = futures_util::poll!(&mut deleting);
            tokio::task::yield_now().await;
        }
        drop(deleting);
        if is_gone(&world, id).await {
            return;
        }
        say(&world, id, "Are you there?").await;
    }
    panic!("the session was never removed");
}
