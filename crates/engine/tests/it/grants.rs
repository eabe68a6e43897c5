//! Grants: their scope, and the immediate effect of adding and revoking grants.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{
    audit::AuditFact,
    error::ErrorKind,
    event::{Event, EventKind},
    grant::GrantScope,
    interrupt::{Answer, AnsweredBy, Interrupt},
    ports::ToolContext,
    session::SessionSettings,
    tool::{Effect, ToolCall, ToolOutput},
    turn::StopReason,
};
use agentd_engine::{Engine, EngineConfig, SessionHandle, StartedTurn, Subscription};
use agentd_policy::SHELL_TOOL;
use agentd_testkit::scripted::{Play, ScriptedTools, calls, says};
use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::json;

use crate::{
    policy::{self, compiled, properties::wrapped, shipped, tool},
    world::{
        WatchedTools, World, answer_and_follow, input, is_question_raised, ports, run, run_with_answer,
        start_until_question, to_end, until, warnings, with_time_limit,
    },
};

const MAKE: &str = "launch: make";

pub(crate) fn make() -> Play {
    calls(&[("launch", json!({"command": "make"}))])
}

/// Starts a turn and waits for its first question.
pub(crate) async fn asked(session: &SessionHandle) -> (StartedTurn, Interrupt) {
    start_until_question(session, input("Go!")).await
}

pub(crate) async fn question(events: &mut Subscription) -> Interrupt {
    let event = until(events, is_question_raised).await;
    let EventKind::InterruptRaised { interrupt } = &event.kind else { panic!() };
    (**interrupt).clone()
}

pub(crate) async fn answer(session: &SessionHandle, interrupt: &Interrupt, answer: Answer) -> Result<(), ErrorKind> {
    session.answer(interrupt.id, answer, "phone".to_owned()).await.map_err(|error| error.kind())
}

pub(crate) async fn rules(world: &World) -> Vec<(GrantScope, String)> {
    let grants = world.engine.grants(None).await.unwrap();
    grants.into_iter().map(|grant| (grant.scope(), grant.grant.rule)).collect()
}

/// After a crash at any point of the journal, the grant exists if and only if the answer does.
#[tokio::test]
async fn permanent_grant_is_as_durable_as_its_answer() {
    let (world, session) = World::new([make(), says("Made.")]).begun().await;
    run_with_answer(&session, input("Go!"), Answer::Always { scope: GrantScope::ForGood }).await;
    let events = world.store.events_of(session.id());
    let answered = |event: &Arc<Event>| matches!(event.kind, EventKind::InterruptResolved { .. });
    for length in 1..=events.len() {
        let store = world.store.copy_prefix(session.id(), length);
        let next = World::on(store, EngineConfig::default(), [says("I see.")]);
        next.engine.recover().await.unwrap();
        let expected = usize::from(events[..length].iter().any(answered));
        assert_eq!(rules(&next).await.len(), expected, "after {length} events");
    }
}

#[tokio::test]
async fn grants_added_and_revoked_mid_turn_apply_at_once() {
    for for_good in [true, false] {
        let hold = || calls(&[("hold", json!({}))]);
        let (world, session) = World::new([hold(), make(), hold(), make(), says("Done.")]).begun().await;
        let target = (!for_good).then(|| session.id());
        let mut started = session.start_turn(input("Go!")).await.unwrap();
        with_time_limit("the first to begin", world.tools.began(1)).await;
        world.engine.add_grant(target, MAKE.to_owned(), "phone".to_owned()).await.unwrap();
        world.tools.release(1);
        // No question is raised, because the call was allowed after the start of the turn.
        with_time_limit("the third to begin", world.tools.began(3)).await;
        world.engine.revoke_grant(target, MAKE.to_owned(), "phone".to_owned()).await.unwrap();
        world.tools.release(1);
        let interrupt = question(&mut started.events).await;
        assert_eq!(world.tools.ran().len(), 3, "{:?}", world.tools.ran());
        answer(&session, &interrupt, Answer::Reject { reason: None }).await.unwrap();
        to_end(&mut started.events).await;
        let error = world.engine.revoke_grant(target, MAKE.to_owned(), "phone".to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.hint().is_some());
    }
}

#[tokio::test]
async fn configure_keeps_session_grants() {
    let (world, session) = World::new([make(), says("Made.")]).begun().await;
    world.engine.add_grant(Some(session.id()), MAKE.to_owned(), "phone".to_owned()).await.unwrap();
    session.configure(world.engine.session_defaults()).await.unwrap();
    run(&session, "Go!").await;
    assert_eq!(world.tools.ran().len(), 1);
}

/// A user's answer to a call is not overridden by a later grant.
#[tokio::test]
async fn later_grant_does_not_override_an_answer() {
    let check = async |given: Answer, expected: &[&str]| {
        let (world, session) = World::new([make()]).begun().await;
        let (_started, interrupt) = asked(&session).await;
        let (next, session) = world.restarted([says("I see.")]).settled(session.id()).await;
        next.engine.add_grant(None, MAKE.to_owned(), "phone".to_owned()).await.unwrap();
        answer_and_follow(&session, &interrupt, given).await;
        assert_eq!(next.tools.ran(), expected);
    };
    check(Answer::Reject { reason: None }, &[]).await;
    check(Answer::Edit { args: json!({"command": "make test"}) }, &[r#"launch {"command":"make test"}"#]).await;
    check(Answer::Approve, &[r#"launch {"command":"make"}"#]).await;
}

#[tokio::test]
async fn always_is_rejected_without_an_exact_rule() {
    let (world, session) = World::new([calls(&[("launch", json!({}))]), says("Done.")]).begun().await;
    let (mut started, interrupt) = asked(&session).await;
    for scope in [GrantScope::Session, GrantScope::ForGood] {
        assert_eq!(answer(&session, &interrupt, Answer::Always { scope }).await, Err(ErrorKind::InvalidInput));
    }
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    to_end(&mut started.events).await;
    assert_eq!((world.tools.ran().len(), rules(&world).await.len()), (1, 0));
}

const RULES: &str = "
global:
  risk_patterns:
    critical: {patterns: [wipe], action: require_approval, reason: it wipes}
tools:
  launch: {patterns: {high_risk: [forbidden]}, actions: {high_risk: deny}}
  look: {patterns: {medium_risk: [secret]}, actions: {medium_risk: require_approval}}
";

fn ruled(script: impl IntoIterator<Item = Play>) -> World {
    World::with(EngineConfig { policy: Arc::new(compiled(RULES)), ..EngineConfig::default() }, script)
}

fn edit(command: &str) -> Answer {
    Answer::Edit { args: json!({ "command": command }) }
}

/// The gate judges edits under the rules in force when the call is about to run. Here, the answer was given under
/// more permissive rules, and the daemon was stopped before it acted on the answer.
#[tokio::test]
async fn edited_call_is_judged_under_current_rules() {
    let (world, session) = World::new([make(), says("Done.")]).begun().await;
    run_with_answer(&session, input("Go!"), edit("forbidden")).await;
    assert_eq!(world.tools.ran(), [r#"launch {"command":"forbidden"}"#], "no rule denies it yet");

    let store = world.killed_when_answered(session.id());
    let config = EngineConfig { policy: Arc::new(compiled(RULES)), ..EngineConfig::default() };
    let (next, session) = World::on(store, config, [says("Then not.")]).settled(session.id()).await;
    let (events, result) = to_end(&mut session.subscribe(0).await.unwrap()).await;
    assert!(next.tools.ran().is_empty());
    assert_eq!((result.denials.len(), result.tool_used), (1, false));
    assert!(result.denials[0].reason.contains("the rules deny that"), "{:?}", result.denials);
    assert_eq!(warnings(&events, "edit_denied").len(), 1);
    assert!(next.model.requests().last().unwrap().messages.iter().any(|m| format!("{m:?}").contains("the rules deny")));
}

/// Builds three read-only calls, which run in parallel and whose questions are raised in parallel.
fn three_reads() -> Play {
    let look = |n: u32| ("look", json!({"path": format!("secret {n}")}));
    calls(&[look(1), look(2), look(3)])
}

#[tokio::test]
async fn parallel_questions_can_be_answered_in_any_order() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let (world, session) = ruled([three_reads(), says("Looked.")]).begun().await;
        let (mut started, first) = asked(&session).await;
        let mut waiting = vec![first];
        while waiting.len() < 3 {
            waiting.push(question(&mut started.events).await);
        }
        assert_eq!(world.engine.interrupts(None).await.unwrap(), waiting);
        waiting.sort_by_key(|interrupt| serde_json::to_value(interrupt).unwrap()["args"]["path"].to_string());
        let answers = [
            Answer::Approve,
            Answer::Reject { reason: Some("not this".to_owned()) },
            Answer::Edit { args: json!({"path": "open"}) },
        ];
        for at in order {
            answer(&session, &waiting[at], answers[at].clone()).await.unwrap();
            assert_eq!(
                answer(&session, &waiting[at], Answer::Approve).await,
                Err(ErrorKind::Conflict),
                "answered twice"
            );
        }
        let (_, result) = to_end(&mut started.events).await;
        let mut ran = world.tools.ran();
        ran.sort();
        assert_eq!(ran, [r#"look {"path":"open"}"#, r#"look {"path":"secret 1"}"#], "{order:?}");
        assert_eq!((result.stop_reason, result.denials.len()), (StopReason::Completed, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn each_question_has_its_own_deadline() {
    let config = EngineConfig {
        policy: Arc::new(compiled(RULES)),
        interrupt_deadline: Some(Duration::from_secs(60)),
        ..EngineConfig::default()
    };
    let (world, session) = World::with(config, [three_reads(), says("Looked.")]).begun().await;
    let (mut started, first) = asked(&session).await;
    answer(&session, &first, Answer::Approve).await.unwrap();
    world.clock.advance(Duration::from_secs(61));
    tokio::time::advance(Duration::from_secs(61)).await;
    let (events, result) = to_end(&mut started.events).await;
    let by = |by: fn(&AnsweredBy) -> bool| {
        let given =
            |kind: &EventKind| matches!(kind, EventKind::InterruptResolved { by: answerer, .. } if by(answerer));
        events.iter().filter(|event| given(&event.kind)).count()
    };
    assert_eq!((by(|by| *by == AnsweredBy::Deadline), result.denials.len()), (2, 2));
    assert_eq!(world.tools.ran().len(), 1);
}

#[tokio::test]
async fn every_grant_change_is_audited() {
    let (world, session) = World::new([make(), says("Made.")]).begun().await;
    run_with_answer(&session, input("Go!"), Answer::Always { scope: GrantScope::ForGood }).await;
    let (id, tablet) = (Some(session.id()), || "tablet".to_owned());
    world.engine.add_grant(id, "change".to_owned(), tablet()).await.unwrap();
    world.engine.revoke_grant(id, "change".to_owned(), tablet()).await.unwrap();
    world.engine.revoke_grant(None, MAKE.to_owned(), tablet()).await.unwrap();
    let line = |fact: &AuditFact| match fact {
        AuditFact::GrantAdded { rule, scope, by } => Some(format!("+ {rule} {scope} {by:?}")),
        AuditFact::GrantRevoked { rule, scope, by } => Some(format!("- {rule} {scope} {by:?}")),
        _ => None,
    };
    let lines: Vec<String> = world.audit.entries().iter().filter_map(|entry| line(&entry.fact)).collect();
    assert_eq!(
        lines,
        [
            r#"+ launch: make for_good Client("phone")"#,
            r#"+ change session Client("tablet")"#,
            r#"- change session Client("tablet")"#,
            r#"- launch: make for_good Client("tablet")"#,
        ]
    );
    // A grant needs the audit log; a revocation does not wait for the log.
    world.engine.add_grant(id, "change".to_owned(), tablet()).await.unwrap();
    world.audit.simulate_failures(true);
    assert!(world.engine.add_grant(None, "change".to_owned(), tablet()).await.is_err());
    world.engine.revoke_grant(id, "change".to_owned(), tablet()).await.unwrap();
    assert_eq!(rules(&world).await, []);
}

/// Neither an edit nor a grant can run a denied command, regardless of its quoting.
#[tokio::test]
async fn denied_command_never_runs_by_edit_or_grant() {
    // Named like the real shell tool so that commands are parsed, but only records the commands.
    let commands: Arc<Mutex<Vec<String>>> = Arc::default();
    let ran = Arc::clone(&commands);
    let on_call = move |_: &ToolContext, call: &ToolCall| {
        ran.lock().unwrap().push(call.arguments.clone());
        Some(ToolOutput::ok("done"))
    };
    let (inner, specs) = (ScriptedTools::new(), Some(tool(SHELL_TOOL, Effect::Execute)));
    let shell = WatchedTools { inner, specs, enforces_read_only: true, on_call: Box::new(on_call) };
    let script = [calls(&[(SHELL_TOOL, json!({"command": "make"}))]), says("Done.")];
    let config = EngineConfig { policy: Arc::new(shipped()), ..EngineConfig::default() };
    let engine = Engine::new(ports(Arc::new(shell), script), config);
    let session = engine.create_session(engine.session_defaults(), None).await.unwrap();
    let (mut started, interrupt) = asked(&session).await;
    let (policy, mut runner, mut denied) = (shipped(), TestRunner::deterministic(), 0);
    for _ in 0..300 {
        let command = wrapped().new_tree(&mut runner).unwrap().current();
        let rule = format!("{SHELL_TOOL}: {command}");
        assert!(engine.add_grant(None, rule, "phone".to_owned()).await.is_err(), "{command:?} can be granted");
        // An unparsable command is asked about instead, and the user's edit would already count as the approval.
        if policy::mark(&policy::run(&policy, &command, &SessionSettings::default())) == "deny" {
            denied += 1;
            assert_eq!(answer(&session, &interrupt, edit(&command)).await, Err(ErrorKind::InvalidInput), "{command:?}");
        }
    }
    assert!(denied > 200, "{denied} of 300 were denied");
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    to_end(&mut started.events).await;
    assert_eq!(*commands.lock().unwrap(), [r#"{"command":"make"}"#]);
    assert_eq!(engine.grants(None).await.unwrap(), []);
}
