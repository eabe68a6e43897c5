//! Races between two operations: stop and cancel, unload and command, crash and recovery.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    interrupt::Answer,
    policy::Verdict,
    ports::{Store as _, ToolContext},
    session::SessionSettings,
    tool::{ToolCall, ToolErrorCode, ToolOutput},
    turn::{IfBusy, StartTurn, StopReason},
};
use agentd_engine::{Engine, EngineConfig, LookedUp, Ports};
use agentd_testkit::{
    memory_store::MemoryStore,
    memory_workspaces::MemoryWorkspaces,
    scripted::{Play, ScriptedTools, calls, says},
};
use serde_json::json;

use crate::world::{
    WatchedTools, World, continuation, end_of, input, ports, results, run, start_until_question, to_end,
    with_time_limit,
};

fn queued(text: &str) -> StartTurn {
    StartTurn { if_busy: IfBusy::Queue, ..input(text) }
}

#[tokio::test]
async fn recovery_finds_the_running_turn_after_a_queued_cancel() {
    let (world, session) = World::new([calls(&[("hold", json!({}))])]).begun().await;
    let first = session.start_turn(input("one")).await.unwrap();
    with_time_limit("the tool to begin", world.tools.began(1)).await;
    let second = session.start_turn(queued("two")).await.unwrap();
    session.cancel(Some(second.turn_id)).await.unwrap();

    let next = world.restarted([]);
    let recovered = next.engine.recover().await.unwrap();
    assert_eq!(recovered.iter().map(|turn| turn.turn_id).collect::<Vec<_>>(), [first.turn_id]);
    assert!(next.log(&session).contains("turn ended: Interrupted"), "{}", next.log(&session));
}

#[tokio::test(start_paused = true)]
async fn question_and_queue_survive_a_shutdown() {
    let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
    let (started, interrupt) = start_until_question(&session, input("Change!")).await;
    let second = session.start_turn(queued("And more!")).await.unwrap();
    world.engine.drain(Duration::from_secs(1)).await;

    let next = world.restarted([says("Changed."), says("And more.")]);
    assert_eq!(next.engine.recover().await.unwrap().len(), 1);
    let mut events = next.engine.session(session.id()).await.unwrap().subscribe(0).await.unwrap();
    assert_eq!(events.live_turn(), Some(started.turn_id));
    next.engine.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
    assert_eq!(end_of(&mut events, started.turn_id).await.text, "Changed.");
    let (_, result) = to_end(&mut events).await;
    assert_eq!((result.turn_id, result.text.as_str()), (second.turn_id, "And more."));
}

#[tokio::test]
async fn queued_turns_survive_a_kill() {
    let (world, session) = World::new([calls(&[("hold", json!({}))])]).begun().await;
    session.start_turn(input("one")).await.unwrap();
    with_time_limit("the tool to begin", world.tools.began(1)).await;
    let second = session.start_turn(queued("two")).await.unwrap();
    let third = session.start_turn(queued("three")).await.unwrap();

    // Each queued turn runs exactly once, regardless of the event at which the next daemon is killed.
    let stored = world.store.events_of(session.id()).len();
    let (next, session) = world.restarted([says("Two."), says("Three.")]).settled(session.id()).await;
    let mut events = session.subscribe(0).await.unwrap();
    end_of(&mut events, third.turn_id).await;
    let whole = next.store.events_of(session.id()).len();
    for length in stored..whole {
        let store = next.store.copy_prefix(session.id(), length);
        let last = World::on(store, EngineConfig::default(), [says("Two."), says("Three.")]);
        let (last, session) = last.settled(session.id()).await;
        let mut events = session.subscribe(0).await.unwrap();
        for turn in [second.turn_id, third.turn_id] {
            end_of(&mut events, turn).await;
        }
        let starts = last.store.events_of(session.id()).into_iter().filter(|event| event.kind.name() == "turn_started");
        let starts: Vec<_> = starts.filter_map(|event| event.turn_id).skip(1).collect();
        assert_eq!(starts, [second.turn_id, third.turn_id], "killed after {length} events");
        assert!(last.store.session(session.id()).await.unwrap().unwrap().queue.is_empty());
    }
}

#[tokio::test]
async fn session_and_first_turn_are_stored_atomically() {
    // The model may be called while the turn's start is being stored, even if storing fails.
    let script = [says("Hello."), says("Hello.")];
    let world = World::with(EngineConfig { max_input_bytes: 100, ..EngineConfig::default() }, script);
    let settings = || world.engine.session_defaults();
    let refused =
        world.engine.start_session_with(settings(), input(&"x".repeat(101)), Default::default()).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    world.store.fail_next_appends(1);
    let lost = world.engine.start_session_with(settings(), input("Hi!"), Default::default()).await.err().unwrap();
    assert_eq!(lost.kind(), ErrorKind::Storage);
    assert!(world.engine.sessions(10).await.unwrap().is_empty());

    let (session, mut started) =
        world.engine.start_session_with(settings(), input("Hi!"), Default::default()).await.unwrap();
    assert_eq!(to_end(&mut started.events).await.1.text, "Hello.");
    let [stored] = &world.engine.sessions(10).await.unwrap()[..] else { panic!("expected one session") };
    assert_eq!((stored.id, stored.title.as_str(), stored.turns), (session.id(), "Hi!", 1));
}

#[tokio::test(start_paused = true)]
async fn command_during_unload_is_executed_or_rejected() {
    for _ in 0..64 {
        let config = EngineConfig { idle_unload: Duration::from_secs(1), ..EngineConfig::default() };
        let (_world, session) = World::with(config, [says("One."), says("Two.")]).begun().await;
        run(&session, "first").await;
        tokio::task::yield_now().await;
        // The command and the idle timeout are both ready when the actor is polled.
        tokio::time::advance(Duration::from_secs(2)).await;
        let started = session.start_turn(input("second")).await;
        match started {
            Ok(mut started) => {
                assert_eq!(to_end(&mut started.events).await.1.stop_reason, StopReason::Completed);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::ShuttingDown),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_cancel_survives_a_concurrent_shutdown() {
    for _ in 0..32 {
        let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
        let _turn = start_until_question(&session, input("Change!")).await;
        let (cancelled, ()) = tokio::join!(session.cancel(None), world.engine.drain(Duration::from_secs(1)));
        if cancelled.is_ok() {
            assert!(world.log(&session).contains("turn ended: Cancelled"), "{}", world.log(&session));
        }
    }
}

#[tokio::test]
async fn killed_recovery_reports_lost_calls_once() {
    let world = World::new([calls(&[("look", json!({})), ("hold", json!({})), ("change", json!({}))])]);
    let session = world.session().await;
    session.start_turn(input("Go!")).await.unwrap();
    with_time_limit("the second to begin", world.tools.began(2)).await;
    let before = world.store.events_of(session.id()).len();
    let first = world.restarted([]);
    first.engine.recover().await.unwrap();
    let whole = world.store.events_of(session.id()).len();

    // Recovery makes two appends: its findings, then the end of the turn.
    for length in [before, whole - 1] {
        let next = World::on(world.store.copy_prefix(session.id(), length), EngineConfig::default(), []);
        let recovered = next.engine.recover().await.unwrap();
        let [turn] = &recovered[..] else { panic!("one turn is open after {length}") };
        assert_eq!(turn.finished, ["look"], "killed after {length}");
        assert_eq!(turn.never_ran, ["change"], "killed after {length}");
        assert_eq!(turn.unknown, ["hold"], "killed after {length}");
        let log = next.log(&session);
        assert_eq!(log.matches("= notice").count(), 1, "killed after {length}:\n{log}");
        assert_eq!(log.matches("turn ended").count(), 1, "killed after {length}:\n{log}");
    }
}

#[tokio::test]
async fn failed_turn_cannot_be_continued_after_reset() {
    let (_world, session) = World::new([Play::Fails(vec![], ErrorKind::Provider), says("?")]).begun().await;
    run(&session, "first").await;
    session.reset().await.unwrap();
    let error = session.start_turn(continuation()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Creates an engine on this journal whose workspace folder is gone.
fn engine_without_folder(store: &Arc<MemoryStore>) -> Engine {
    let workspaces = MemoryWorkspaces::default();
    workspaces.simulate_missing_folder();
    let ports = ports(ScriptedTools::new(), []);
    let ports = Ports { store: Arc::clone(store) as _, workspaces: Arc::new(workspaces), ..ports };
    Engine::new(ports, EngineConfig::default())
}

#[tokio::test]
async fn answered_turn_without_its_project_fails_but_session_survives() {
    let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
    let (_started, interrupt) = start_until_question(&session, input("Change!")).await;
    let events_before_answer = world.store.events_of(session.id()).len();
    session.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();

    // The daemon is killed before the answer, and immediately after the answer.
    for length in [events_before_answer, events_before_answer + 1] {
        let store = world.store.copy_prefix(session.id(), length);
        let engine = engine_without_folder(&store);
        engine.recover().await.unwrap();
        if length == events_before_answer {
            engine.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
        }
        let session = engine.session(session.id()).await.unwrap();
        assert_eq!(session.show().await.unwrap().live_turn, None);
        let (_, result) = to_end(&mut session.subscribe(0).await.unwrap()).await;
        assert_eq!(result.stop_reason, StopReason::Failed);
        assert!(result.error.unwrap().message.contains("the project folder is gone"));
        engine.delete_session(session.id()).await.unwrap();
    }
}

#[tokio::test]
async fn session_with_missing_project_uses_its_own_settings() {
    let world = World::new([]);
    let settings = SessionSettings { confirm_write: false, ..SessionSettings::default() };
    let session = world.engine.create_session(settings, None).await.unwrap();
    let engine = engine_without_folder(&world.store);
    let tool = engine.tool("change").unwrap();
    let verdict = async |session| {
        let dry_run_subject = engine.dry_run_subject(session).await.unwrap();
        dry_run_subject.judge(&engine.config().policy, &tool, "{}", &LookedUp::default()).verdict
    };
    assert_eq!(verdict(Some(session.id())).await, Verdict::Allow);
    assert_ne!(verdict(None).await, Verdict::Allow, "a new session requires approval");
    assert_eq!(engine.dry_run_subject(Some(SessionId::generate())).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn panicking_tool_is_not_reported_as_success() {
    let on_call = |_: &ToolContext, _: &ToolCall| -> Option<ToolOutput> { panic!("intentional") };
    let tools =
        WatchedTools { inner: ScriptedTools::new(), specs: None, enforces_read_only: true, on_call: Box::new(on_call) };
    let engine = Engine::new(ports(Arc::new(tools), [calls(&[("look", json!({}))])]), EngineConfig::default());
    let session = engine.create_session(engine.session_defaults(), None).await.unwrap();
    let mut started = session.start_turn(input("Look!")).await.unwrap();
    let (events, result) = to_end(&mut started.events).await;
    assert_eq!(result.stop_reason, StopReason::Failed);
    let [result] = &results(&events)[..] else { panic!("{events:#?}") };
    assert_eq!((result.error, result.text.is_empty()), (Some(ToolErrorCode::UnknownOutcome), false));
}
