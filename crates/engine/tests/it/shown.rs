//! A user approves exactly what was shown, under the rules and settings in force when the call runs.

use std::sync::Arc;

use agentd_core::{
    audit::{AuditFact, DecidedBy},
    error::ErrorKind,
    grant::GrantScope,
    interrupt::{Answer, Ask, Interrupt},
    session::SessionSettings,
    turn::StopReason,
};
use agentd_engine::EngineConfig;
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::{
    grants::{answer, asked, make, question, rules},
    policy::compiled,
    world::{World, answer_and_follow, results, run, to_end, warnings},
};

fn change() -> Play {
    calls(&[("change", json!({"path": "a", "content": "ours"}))])
}

fn preview(interrupt: &Interrupt) -> &str {
    match &interrupt.ask {
        Ask::Approval { preview: Some(preview), .. } => preview,
        ask => panic!("{ask:?}"),
    }
}

fn every_approving_answer() -> [Answer; 4] {
    [
        Answer::Approve,
        Answer::Always { scope: GrantScope::Session },
        Answer::Always { scope: GrantScope::ForGood },
        Answer::Edit { args: json!({"path": "a", "content": "edited"}) },
    ]
}

#[tokio::test]
async fn file_changed_during_a_question_is_asked_again() {
    for given in [Answer::Approve, Answer::Edit { args: json!({"path": "a", "content": "edited"}) }] {
        let (world, session) = World::new([change(), change(), says("Changed.")]).begun().await;
        world.disk.write("a", "first");
        let (mut started, first) = asked(&session).await;
        assert!(preview(&first).contains("- first"), "{first:?}");
        world.disk.write("a", "theirs");
        answer(&session, &first, given).await.unwrap();
        let second = question(&mut started.events).await;
        assert!(preview(&second).contains("- theirs"), "{second:?}");
        assert_eq!((world.disk.read("a").as_str(), world.tools.ran().len()), ("theirs", 0));
        assert!(world.sent_text().contains("has changed since the user was asked"), "{}", world.sent_text());
        answer(&session, &second, Answer::Approve).await.unwrap();
        let (events, result) = to_end(&mut started.events).await;
        assert_eq!((world.disk.read("a").as_str(), result.denials.len()), ("ours", 0));
        assert!(warnings(&events, "changed_since_asked").is_empty(), "once");
        let refused = &world.audit.decisions()[0];
        assert_eq!((refused.allowed, &refused.by), (false, &DecidedBy::Daemon));
        assert!(world.audit.ends().iter().map(|end| end.ran).eq([false, true]));
    }
}

#[tokio::test]
async fn file_changed_across_restart_is_not_overwritten() {
    for given in every_approving_answer() {
        // The file changes before the answer, while the question is only in the journal.
        let world = World::new([change()]);
        world.disk.write("a", "first");
        let (_started, interrupt) = asked(&world.session().await).await;
        let (next, session) = world.recovered(interrupt.session_id, [says("I see.")]).await;
        next.disk.write("a", "theirs");
        let (events, _) = answer_and_follow(&session, &interrupt, given.clone()).await;
        assert!(!warnings(&events, "changed_since_asked").is_empty(), "{given:?}");
        assert_eq!((next.disk.read("a").as_str(), next.tools.ran().len()), ("theirs", 0), "{given:?}");

        // The daemon is killed before it acts on the answer, and the file changes before the restart.
        let store = world.killed_when_answered(interrupt.session_id);
        let disk = Arc::clone(&world.disk);
        let last = World::on_disk(store, disk, EngineConfig::default(), [says("I see.")]);
        let (last, session) = last.settled(interrupt.session_id).await;
        let (events, _) = to_end(&mut session.subscribe(0).await.unwrap()).await;
        assert!(!warnings(&events, "changed_since_asked").is_empty(), "{given:?}");
        assert_eq!((last.disk.read("a").as_str(), last.tools.ran().len()), ("theirs", 0), "{given:?}");
    }
}

#[tokio::test]
async fn new_deny_rule_applies_to_pending_question() {
    let strict = "tools:\n  launch: {patterns: {high_risk: [make]}, actions: {high_risk: deny}}\n";
    for given in [Answer::Approve, Answer::Always { scope: GrantScope::Session }] {
        let (world, session) = World::new([make(), says("Then not.")]).begun().await;
        let (mut started, interrupt) = asked(&session).await;
        world.engine.reconfigure(EngineConfig { policy: Arc::new(compiled(strict)), ..EngineConfig::default() });
        answer(&session, &interrupt, given).await.unwrap();
        let (events, result) = to_end(&mut started.events).await;
        assert!(world.tools.ran().is_empty());
        assert!(!warnings(&events, "approval_denied").is_empty());
        assert_eq!((result.denials.len(), result.stop_reason), (1, StopReason::Completed));
        let refused = &world.audit.decisions()[0];
        assert_eq!((refused.allowed, &refused.by), (false, &DecidedBy::Rules));
    }
}

#[tokio::test]
async fn configure_is_rejected_during_an_open_turn() {
    let world = World::new([make(), says("Made.")]);
    let (_started, interrupt) = asked(&world.session().await).await;
    let (next, session) = world.recovered(interrupt.session_id, [says("Made."), says("Later.")]).await;
    let loose = SessionSettings { confirm_exec: false, ..SessionSettings::default() };
    let refused = session.configure(loose.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.hint().is_some());
    assert_eq!(session.show().await.unwrap().session.settings, next.engine.session_defaults());
    answer_and_follow(&session, &interrupt, Answer::Approve).await;
    session.configure(loose.clone()).await.unwrap();
    assert_eq!(session.show().await.unwrap().session.settings, loose);
    run(&session, "More!").await;
}

#[tokio::test]
async fn always_is_rejected_if_it_cannot_be_audited() {
    for scope in [GrantScope::Session, GrantScope::ForGood] {
        let (world, session) = World::new([make(), says("Made.")]).begun().await;
        let (mut started, interrupt) = asked(&session).await;
        world.audit.simulate_failures(true);
        let refused = session.answer(interrupt.id, Answer::Always { scope }, "phone".to_owned()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Storage);
        assert!(refused.to_string().contains("still pending") && refused.hint().is_some(), "{refused}");
        assert_eq!(world.engine.interrupts(None).await.unwrap(), std::slice::from_ref(&interrupt));
        assert_eq!((rules(&world).await.len(), world.tools.ran().len()), (0, 0));
        world.audit.simulate_failures(false);
        answer(&session, &interrupt, Answer::Always { scope }).await.unwrap();
        let (events, _) = to_end(&mut started.events).await;
        assert!(results(&events).iter().all(|result| result.ran_with.is_none()), "nothing was edited: {events:?}");
        assert_eq!((rules(&world).await.len(), world.tools.ran().len()), (1, 1));
        // The log contains the grant before the call runs.
        let entries = world.audit.entries();
        let granted = entries.iter().position(|entry| matches!(entry.fact, AuditFact::GrantAdded { .. }));
        let ran = entries.iter().position(|entry| matches!(entry.fact, AuditFact::CallDecided(_)));
        assert!(granted.is_some() && granted < ran, "{entries:?}");
    }
}

#[tokio::test]
async fn denied_edit_is_reported_before_it_is_submitted() {
    let strict = "tools:\n  change: {patterns: {high_risk: [forbidden]}, actions: {high_risk: deny}}\n";
    let config = EngineConfig { policy: Arc::new(compiled(strict)), ..EngineConfig::default() };
    let (world, session) = World::with(config, [change(), says("Changed.")]).begun().await;
    let (mut started, interrupt) = asked(&session).await;
    for (args, part) in [
        (json!({"path": "forbidden", "content": "x"}), "the edited arguments are denied: "),
        (json!(["a"]), "are not a JSON object"),
        (json!({"path": "a", "content": "x".repeat(7 << 20)}), "the call would fail with these arguments: "),
    ] {
        let refused = world.engine.foresee(interrupt.id, args).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains(part), "{refused}");
    }
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    to_end(&mut started.events).await;
    assert_eq!(world.disk.read("a"), "ours", "the question stayed pending");
}

#[tokio::test]
async fn call_too_large_to_preview_is_denied_without_asking() {
    let long = "x".repeat(7 << 20);
    let world = World::new([calls(&[("change", json!({"path": "a", "content": long}))]), says("In steps, then.")]);
    let result = run(&world.session().await, "Go!").await;
    assert_eq!((result.stop_reason, result.denials.len()), (StopReason::Completed, 1));
    assert!(result.denials[0].reason.contains("smaller steps"), "{:?}", result.denials[0].reason);
    assert_eq!((world.disk.read("a").as_str(), world.tools.ran().len()), ("", 0));
}
