//! Session modes: they apply from the next call, survive a restart, and are announced.

use agentd_core::{
    audit::AuditFact,
    session::{SessionMode, SessionSettings},
};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::world::{World, run};

fn change() -> Play {
    calls(&[("change", json!({"path": "/project/a.txt"}))])
}

fn client() -> String {
    "phone".to_owned()
}

#[tokio::test]
async fn mode_survives_restart_and_configure() {
    let (world, session) = World::new([]).begun().await;
    session.set_mode(SessionMode::Plan, client()).await.unwrap();
    session.configure(world.engine.session_defaults()).await.unwrap();
    let (next, session) = world.restarted([change(), says("I only look.")]).with_session(session.id()).await;
    assert_eq!(session.show().await.unwrap().session.settings.mode, SessionMode::Plan);
    run(&session, "Go!").await;
    assert!(next.tools.ran().is_empty(), "{:?}", next.tools.ran());
}

#[tokio::test]
async fn session_can_start_in_a_mode() {
    let world = World::new([change(), says("Done.")]);
    let settings = SessionSettings { mode: SessionMode::AcceptEdits, ..world.engine.session_defaults() };
    let session = world.engine.create_session(settings.clone(), None).await.unwrap();
    run(&session, "Go!").await;
    assert_eq!(world.tools.ran().len(), 1);
    let mode_changes =
        || world.audit.entries().into_iter().filter(|entry| matches!(entry.fact, AuditFact::ModeSet { .. })).count();
    assert_eq!(mode_changes(), 1, "the mode is audited");
    world.audit.simulate_failures(true);
    assert!(world.engine.create_session(settings, None).await.is_err(), "no session is created without an audit entry");
}

#[tokio::test]
async fn fork_resets_to_ask_mode_except_in_plan_mode() {
    let (world, session) = World::new([says("One."), says("Two.")]).begun().await;
    run(&session, "Go!").await;
    for (mode, expected) in [(SessionMode::Auto, SessionMode::Ask), (SessionMode::Plan, SessionMode::Plan)] {
        session.set_mode(mode, client()).await.unwrap();
        let fork = world.engine.fork_session(session.id(), Default::default()).await.unwrap().session;
        assert_eq!(fork.show().await.unwrap().session.settings.mode, expected);
    }
}

#[tokio::test]
async fn requests_mention_plan_mode_while_active() {
    let (world, session) = World::new([says("One."), says("Two.")]).begun().await;
    let mentions_plan = |request: usize| format!("{:?}", world.model.requests()[request]).contains("in plan mode");
    session.set_mode(SessionMode::Plan, client()).await.unwrap();
    run(&session, "Plan!").await;
    session.set_mode(SessionMode::Ask, client()).await.unwrap();
    run(&session, "Go!").await;
    let ends = |request: usize| format!("{:?}", world.model.requests()[request]).contains("ended plan mode");
    // The announcement stays in the history, so the end of the mode is also announced.
    assert!(mentions_plan(0) && !ends(0) && mentions_plan(1) && ends(1));
    world.model.then(says("Three."));
    run(&session, "And?").await;
    assert_eq!(format!("{:?}", world.model.requests()[2]).matches("ended plan mode").count(), 1);
}

#[tokio::test]
async fn mode_change_fails_if_it_cannot_be_audited() {
    let (world, session) = World::new([]).begun().await;
    world.audit.simulate_failures(true);
    assert!(session.set_mode(SessionMode::Auto, client()).await.is_err());
    assert_eq!(session.show().await.unwrap().session.settings.mode, SessionMode::Ask);
}
