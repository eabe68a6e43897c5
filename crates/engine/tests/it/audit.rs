//! The audit log contains every call's decision and end. Nothing runs or changes before its decision is stored.

use std::sync::{Arc, Mutex};

use agentd_core::{
    audit::{AuditEntry, AuditFact, DecidedBy, VerdictName},
    grant::GrantScope,
    interrupt::Answer,
    ports::ToolContext,
    session::SessionSettings,
    tool::{ToolCall, ToolErrorCode},
    turn::{OnInterrupt, StartTurn, StopReason},
    undo::UndoRequest,
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_testkit::{
    memory_audit::MemoryAudit,
    scripted::{Play, ScriptedTools, calls, says},
};
use insta::assert_snapshot;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::world::{
    WatchedTools, World, answer_and_follow, followed, input, ports, run, run_with_answer, start_until_question, to_end,
    with_time_limit,
};

/// Formats the entries of the log, one per line.
fn log_lines(audit: &MemoryAudit) -> String {
    let line = |fact: AuditFact| match fact {
        AuditFact::CallDecided(decision) => {
            let mut line = format!(
                "{} {}: {} by {:?}, the rules say {:?}",
                decision.tool,
                decision.args,
                if decision.allowed { "may run" } else { "may not" },
                decision.by,
                decision.verdict
            );
            for part in [decision.layer, decision.rule].into_iter().flatten() {
                line.push_str(&format!(", {part}"));
            }
            if let Some(answer) = decision.answer {
                line.push_str(&format!(", answer {answer:?}"));
            }
            line
        }
        AuditFact::CallEnded(end) => {
            let error = end.error.map(|error| format!(" {}", error.as_str())).unwrap_or_default();
            let files: String = end.files.iter().map(|file| format!(", {} {:?}", file.path, file.change)).collect();
            format!("{}: {}{error}{files}", end.tool, if end.ran { "ran" } else { "never ran" })
        }
        other => format!("{other:?}"),
    };
    audit.entries().into_iter().map(|entry| line(entry.fact) + "\n").collect()
}

/// Runs a turn with one call, and gives the same answer to every question.
async fn one_call(tool: &str, args: Value, start: StartTurn, answer: Answer) -> World {
    let (world, session) = World::new([calls(&[(tool, args)]), says("Done.")]).begun().await;
    run_with_answer(&session, start, answer).await;
    world
}

async fn audited(tool: &str, args: Value, answer: Answer) -> String {
    log_lines(&one_call(tool, args, input("Go!"), answer).await.audit)
}

#[tokio::test]
async fn every_decision_and_outcome_is_audited() {
    let approve = || Answer::Approve;
    assert_snapshot!(audited("look", json!({"a": 1}), approve()).await, @r#"
    look {"a":1}: may run by Rules, the rules say Allow, default, it changes nothing outside the session
    look: ran
    "#);
    assert_snapshot!(audited("fail", json!({}), approve()).await, @r"
    fail {}: may run by Rules, the rules say Allow, default, it changes nothing outside the session
    fail: ran E_TOOL
    ");
    assert_snapshot!(audited("change", json!({"path": "impossible"}), approve()).await, @r#"
    change {"path":"impossible"}: may not by Tool, the rules say Ask, default, the session's confirm_write is on
    change: never ran E_INVALID_ARGS
    "#);
    assert_snapshot!(audited("dance", json!({}), approve()).await, @r"
    dance {}: may not by Rules, the rules say Deny, checker, no such tool
    dance: never ran E_UNKNOWN_TOOL
    ");
    assert_snapshot!(audited("ask_human", json!({"question": "Why?"}), Answer::Text { text: "So.".to_owned() }).await, @r#"
    ask_human {"question":"Why?"}: may run by Client("phone"), the rules say Allow, default, it changes nothing outside the session, answer Text { text: "So." }
    ask_human: never ran
    "#);
}

#[tokio::test]
async fn decisions_without_a_question_are_audited() {
    for (on_interrupt, decided, ended) in [
        (OnInterrupt::Approve, "may run", "ran, a.txt Created"),
        (OnInterrupt::Deny, "may not", "never ran E_DENIED"),
        (OnInterrupt::Fail, "may not", "never ran E_DENIED"),
    ] {
        let start = StartTurn { on_interrupt, ..input("Go!") };
        let world = one_call("change", json!({}), start, Answer::Approve).await;
        let rules = "the rules say Ask, default, the session's confirm_write is on";
        let expected = format!("change {{}}: {decided} by OnInterrupt({on_interrupt:?}), {rules}\nchange: {ended}\n");
        assert_eq!(log_lines(&world.audit), expected);
    }
}

#[tokio::test]
async fn audit_names_the_applied_grant() {
    let make = || calls(&[("launch", json!({"command": "make"}))]);
    let (world, session) = World::new([make(), says("Once."), make(), says("Twice.")]).begun().await;
    run_with_answer(&session, input("Go!"), Answer::Always { scope: GrantScope::Session }).await;
    run(&session, "Again!").await;
    let [first, second] = &world.audit.decisions()[..] else { panic!("{}", log_lines(&world.audit)) };
    assert_eq!(
        (&first.by, &first.answer),
        (&DecidedBy::Client("phone".to_owned()), &Some(Answer::Always { scope: GrantScope::Session }))
    );
    assert_eq!((&second.by, second.verdict), (&DecidedBy::Grant, VerdictName::Allow));
    assert_eq!(second.granted_by.len(), 1);
}

#[tokio::test]
async fn answer_across_restart_is_audited_with_its_client() {
    let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
    let (_started, interrupt) = start_until_question(&session, input("Change!")).await;
    assert_eq!(world.audit.entries(), []);

    let (later, session) = world.restarted([says("Changed.")]).settled(session.id()).await;
    answer_and_follow(&session, &interrupt, Answer::Approve).await;
    assert_eq!(later.audit.decisions()[0].by, DecidedBy::Client("phone".to_owned()));

    // The daemon is killed immediately after the answer, so the next daemon finds the answer in the journal.
    let last = World::on(later.killed_when_answered(session.id()), EngineConfig::default(), [says("Changed.")]);
    let (last, session) = last.with_session(session.id()).await;
    to_end(&mut session.subscribe(0).await.unwrap()).await;
    assert_eq!(last.audit.decisions()[0].by, DecidedBy::Client("phone".to_owned()));
}

#[tokio::test]
async fn only_effectful_calls_wait_for_the_audit_log() {
    for (tool, waits) in [("change", true), ("launch", true), ("undo_patch", true), ("look", false)] {
        let (world, session) = World::trusting([calls(&[(tool, json!({}))]), says("Done.")]).await;
        world.audit.hold();
        let mut started = session.start_turn(input("Go!")).await.unwrap();
        if waits {
            with_time_limit("the log to receive the entry", world.audit.asked(1)).await;
            // The call must not run before the log has replied, however long that takes.
            tokio::task::yield_now().await;
            assert!(world.tools.ran().is_empty(), "{tool} ran");
            world.audit.release();
        }
        to_end(&mut started.events).await;
        assert_eq!(world.audit.received(), usize::from(waits), "{tool}");
    }
}

#[tokio::test]
async fn recovered_audit_log_records_the_refused_call() {
    let (world, session) = World::trusting([calls(&[("change", json!({}))]), says("Hm.")]).await;
    world.audit.hold();
    let mut started = session.start_turn(input("Go!")).await.unwrap();
    with_time_limit("the log to receive the entry", world.audit.asked(1)).await;
    world.audit.fail_next();
    world.audit.release();
    to_end(&mut started.events).await;
    assert!(world.tools.ran().is_empty());
    assert_snapshot!(log_lines(&world.audit), @r"
    change {}: may not by Daemon, the rules say Allow, default, the session's confirm_write is off
    change: never ran E_NOT_RUN
    ");
}

#[tokio::test]
async fn cancelled_question_is_audited_without_a_client() {
    let (world, session) = World::new([calls(&[("change", json!({}))])]).begun().await;
    let (mut started, _) = start_until_question(&session, input("Change!")).await;
    session.cancel(None).await.unwrap();
    assert_eq!(to_end(&mut started.events).await.1.stop_reason, StopReason::Cancelled);
    assert!(world.engine.interrupts(None).await.unwrap().is_empty() && world.tools.ran().is_empty());
    assert_snapshot!(log_lines(&world.audit), @r"
    change {}: may not by Daemon, the rules say Ask, default, the session's confirm_write is on
    change: never ran E_CANCELLED
    ");
}

#[tokio::test]
async fn parallel_reads_each_have_an_audited_end() {
    let (world, session) = World::new([calls(&[("hold", json!({"n": 1})), ("hold", json!({"n": 2}))])]).begun().await;
    let mut started = session.start_turn(input("Look!")).await.unwrap();
    with_time_limit("both", world.tools.began(2)).await;
    session.cancel(None).await.unwrap();
    to_end(&mut started.events).await;
    let ends = world.audit.ends();
    assert_eq!(ends.len(), 2, "{}", log_lines(&world.audit));
    assert!(ends.iter().all(|end| end.ran && end.error == Some(ToolErrorCode::Cancelled)));
}

#[tokio::test]
async fn undo_is_audited_with_its_client() {
    let (world, session) =
        World::trusting([calls(&[("change", json!({"path": "a", "content": "1"}))]), says("Changed.")]).await;
    let turn = run(&session, "Change!").await.turn_id;
    let request = UndoRequest { client: "phone".to_owned(), ..UndoRequest::default() };
    session.undo(UndoRequest { preview: true, ..request.clone() }).await.unwrap();
    assert_eq!(world.audit.entries().len(), 2, "a preview changes nothing");
    session.undo(request).await.unwrap();
    let entries = world.audit.entries();
    let Some(AuditFact::Undone { of_turn, files, by }) = entries.last().map(|entry| &entry.fact) else {
        panic!("{}", log_lines(&world.audit))
    };
    assert_eq!((*of_turn, by.as_str()), (Some(turn), "phone"));
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a"]);
}

/// Generates a client's possible answers.
fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Approve),
        Just(Answer::Always { scope: GrantScope::Session }),
        Just(Answer::Always { scope: GrantScope::ForGood }),
        Just(Answer::Reject { reason: None }),
        Just(Answer::Edit { args: json!({"command": "true"}) }),
    ]
}

fn step() -> impl Strategy<Value = (Vec<&'static str>, bool)> {
    let tool = prop_oneof![Just("change"), Just("launch"), Just("look"), Just("dance"), Just("undo_patch")];
    (vec(tool, 1..4), any::<bool>())
}

async fn play(steps: Vec<(Vec<&'static str>, bool)>, on_interrupt: OnInterrupt, confirm: bool, answer: Answer) {
    let (audit, inner) = (Arc::new(MemoryAudit::default()), ScriptedTools::new());
    // These tools check, when called, that the log contains the decision on the call.
    let unknown: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, unlogged) = (Arc::clone(&audit), Arc::clone(&unknown));
    let on_call = move |context: &ToolContext, call: &ToolCall| {
        let admits = |fact: &AuditFact| matches!(fact, AuditFact::CallDecided(decision) if decision.allowed);
        let is_of_call = |entry: &AuditEntry| entry.call_id.as_ref() == Some(&context.call_id) && admits(&entry.fact);
        if call.name != "look" && !log.entries().iter().any(is_of_call) {
            unlogged.lock().unwrap().push(call.name.clone());
        }
        None
    };
    let tools =
        WatchedTools { inner: Arc::clone(&inner), specs: None, enforces_read_only: true, on_call: Box::new(on_call) };
    let script: Vec<Play> = steps
        .iter()
        .flat_map(|(names, _)| {
            let named_calls: Vec<(&str, Value)> = names.iter().map(|name| (*name, json!({"command": "ls"}))).collect();
            [calls(&named_calls), says("Next.")]
        })
        .collect();
    let ports = Ports { audit: Arc::clone(&audit) as _, ..ports(Arc::new(tools), script) };
    let engine = Engine::new(ports, EngineConfig::default());
    let settings = SessionSettings { confirm_write: confirm, confirm_exec: confirm, ..SessionSettings::default() };
    let session = engine.create_session(settings, None).await.unwrap();
    for (_, broken) in steps {
        audit.simulate_failures(broken);
        let before = inner.ran().len();
        let mut started = session.start_turn(StartTurn { on_interrupt, ..input("Go!") }).await.unwrap();
        followed(&mut started.events, async |interrupt| {
            let answered = session.answer(interrupt.id, answer.clone(), "phone".to_owned()).await;
            if answered.is_err() {
                // An answer with a grant is refused while the log is broken.
                assert!(broken && matches!(answer, Answer::Always { .. }), "{answered:?}");
                session.answer(interrupt.id, Answer::Approve, "phone".to_owned()).await.unwrap();
            }
        })
        .await;
        let ran = inner.ran();
        assert!(!broken || ran[before..].iter().all(|call| call.starts_with("look ")), "{ran:?}");
    }
    assert_eq!(*unknown.lock().unwrap(), Vec::<String>::new());
    let allowed = audit.decisions().into_iter().filter(|decision| decision.allowed).count();
    let ran = audit.ends().into_iter().filter(|end| end.ran).count();
    assert_eq!(allowed, ran, "{}", log_lines(&audit));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_effect_is_in_the_audit_log(
        steps in vec(step(), 1..4),
        on_interrupt in prop_oneof![Just(OnInterrupt::Wait), Just(OnInterrupt::Approve), Just(OnInterrupt::Deny)],
        confirm in any::<bool>(),
        answer in answer(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps, on_interrupt, confirm, answer));
    }
}
