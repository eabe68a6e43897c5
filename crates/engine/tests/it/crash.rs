//! Killed daemons: the report of the next daemon, and the continuation of turns.

use agentd_core::{
    environment::ClientEnvironment,
    event::EventKind,
    interrupt::Answer,
    model::{Message, ModelChunk},
    turn::{StartTurn, StopReason},
};
use agentd_engine::EngineConfig;
use agentd_testkit::scripted::{Play, calls, says};
use insta::assert_snapshot;
use serde_json::json;

use crate::world::{
    World, answer_and_follow, continuation, input, results, run, run_with_answer, start_until_question, to_end, turn,
    until,
};

#[tokio::test]
async fn client_environment_survives_restart_for_its_turn_only() {
    let environment = ClientEnvironment::unchecked([("PATH".to_owned(), "/client/bin".to_owned())]);
    let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
    let start = StartTurn { environment: environment.clone(), ..input("Change!") };
    let (_started, interrupt) = start_until_question(&session, start).await;

    let next = world.restarted([says("Changed."), calls(&[("look", json!({}))]), says("Looked.")]);
    let (next, session) = next.settled(session.id()).await;
    let (all, _) = answer_and_follow(&session, &interrupt, Answer::Approve).await;
    // A client that has seen some events receives the later events.
    let mut rest = session.subscribe(all[2].seq).await.unwrap();
    assert_eq!(to_end(&mut rest).await.0, all[3..]);
    turn(&session, input("Look!")).await;
    assert_eq!(next.tools.environments(), [environment, ClientEnvironment::default()]);
}

#[tokio::test]
async fn kill_after_any_event_neither_loses_nor_repeats_work() {
    let script = || [calls(&[("look", json!({})), ("change", json!({}))]), says("Changed.")];
    let (world, session) = World::new(script()).begun().await;
    run_with_answer(&session, input("Change!"), Answer::Approve).await;
    let whole = world.store.events_of(session.id());

    for length in 1..=whole.len() {
        let store = world.store.copy_prefix(session.id(), length);
        let next = World::on(store, EngineConfig::default(), [says("Going on."), says("Going on.")]);
        let (next, session) = next.settled(session.id()).await;
        for interrupt in next.engine.interrupts(None).await.unwrap() {
            session.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
        }
        if session.show().await.unwrap().live_turn.is_some() {
            to_end(&mut session.subscribe(0).await.unwrap()).await;
        }
        let events = next.store.events_of(session.id());
        assert_eq!(events[..length], whole[..length], "acknowledged events remain, killed after {length}");
        assert!(events.iter().enumerate().all(|(n, event)| event.seq == n as u64 + 1), "the numbers have no gaps");
        for result in results(&whole[..length]) {
            let repeated = next.tools.ran().iter().any(|ran| ran.starts_with(&result.name));
            assert!(!repeated, "{} ran twice, killed after {length}", result.name);
        }
        let ends = events.iter().filter(|event| matches!(event.kind, EventKind::TurnEnded { .. }));
        assert_eq!(ends.count(), 1, "one end, killed after {length}:\n{}", next.log(&session));
        if length < whole.len()
            && !matches!(&events[events.len() - 1].kind, EventKind::TurnEnded { result } if result.stop_reason == StopReason::Completed)
        {
            assert_eq!(
                turn(&session, continuation()).await.stop_reason,
                StopReason::Completed,
                "killed after {length}"
            );
        }
    }
}

/// Returns how many times a request contains the added input.
fn times_sent(world: &World, request: usize) -> usize {
    let messages = &world.model.requests()[request].messages;
    messages.iter().filter(|message| **message == Message::User { text: "Be green!".to_owned() }).count()
}

#[tokio::test]
async fn steering_survives_a_kill_before_the_next_request() {
    let (world, session) = World::new([Play::Hangs(vec![ModelChunk::Text("Half an".to_owned())])]).begun().await;
    let mut started = session.start_turn(input("Which colour?")).await.unwrap();
    until(&mut started.events, |kind| matches!(kind, EventKind::ItemDelta { .. })).await;
    session.steer(None, "Be green!".to_owned()).await.unwrap();

    let (next, session) = world.restarted([says("Green it is."), says("Still green.")]).settled(session.id()).await;
    assert_snapshot!(next.log(&session), @r#"
     1 turn started, base, at most 100 steps
     2 + user_message
     3 = user "Which colour?" (Done)
     4 + agent_message
     5 + user_message
     6 = agent "" (Cut)
     7 = steered "Be green!" (Done)
     8 + notice
     9 = notice "The daemon stopped while this turn ran." (Done)
    10 turn ended: Interrupted "", 0 steps
    "#);
    turn(&session, continuation()).await;
    run(&session, "And now?").await;
    assert_eq!((times_sent(&next, 0), times_sent(&next, 1)), (1, 1));
    let requests = next.model.requests();
    assert_eq!(requests[1].messages[..requests[0].messages.len()], requests[0].messages);
}

#[tokio::test]
async fn steering_of_a_waiting_turn_is_sent_on_resume() {
    let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
    let (_started, interrupt) = start_until_question(&session, input("Change!")).await;
    session.steer(None, "Be green!".to_owned()).await.unwrap();
    // The daemon is restarted twice. After that, the question is answered, or the turn is cancelled.
    for cancelled in [false, true] {
        let store = world.store.copy_prefix(session.id(), world.store.events_of(session.id()).len());
        let second = World::on(store, EngineConfig::default(), []);
        second.engine.recover().await.unwrap();
        let (next, session) = second.restarted([says("Changed."), says("Green.")]).settled(session.id()).await;
        if cancelled {
            session.cancel(None).await.unwrap();
            to_end(&mut session.subscribe(0).await.unwrap()).await;
        } else {
            answer_and_follow(&session, &interrupt, Answer::Approve).await;
        }
        run(&session, "And now?").await;
        let requests = next.model.requests();
        assert_eq!(requests.len(), if cancelled { 1 } else { 2 });
        // A cancel withdraws unread input.
        let expected = usize::from(!cancelled);
        assert!((0..requests.len()).all(|request| times_sent(&next, request) == expected), "{requests:#?}");
        let (first, last) = (&requests[0].messages, &requests[requests.len() - 1].messages);
        assert_eq!(last[..first.len()], first[..]);
        let log = next.log(&session);
        assert_eq!(log.matches(r#"steered "Be green!" (Done)"#).count(), 1, "{log}");
    }
}
