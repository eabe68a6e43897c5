//! Turns that start with a plan: nothing is changed before the user has approved it.

use agentd_core::{
    context::CompactionStrategy,
    interrupt::{Answer, Ask, Interrupt},
    item::{ItemBody, NoticeTopic},
    routing::Planning,
    session::{SessionMode, TodoStatus},
    tool::ToolErrorCode,
    turn::{IfBusy, OnInterrupt, StartTurn, StopReason},
};
use agentd_engine::{EngineConfig, SessionHandle, StartedTurn};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::{
    grants::{answer, question},
    world::{World, answer_and_follow, continuation, input, run, run_with_answer, start_until_question, to_end, turn},
};

const PLAN: &str = "# Plan\n\n1. Look at `a`\n2. Change `a`";

fn planned(text: &str) -> StartTurn {
    StartTurn { planning: Some(Planning::Always), ..input(text) }
}

/// Returns the error codes of tool results, in order.
fn results(world: &World, session: &SessionHandle) -> Vec<Option<ToolErrorCode>> {
    let code = |body| if let ItemBody::ToolResult(result) = body { Some(result.error) } else { None };
    world.items(session).into_iter().filter_map(code).collect()
}

async fn trusting(script: impl IntoIterator<Item = Play>) -> (World, SessionHandle) {
    let (world, session) = World::new(script).begun().await;
    session.set_mode(SessionMode::AcceptEdits, "test".to_owned()).await.unwrap();
    (world, session)
}

/// Starts a turn with a plan, and waits for the question about it.
async fn start_planning(script: impl IntoIterator<Item = Play>) -> (World, SessionHandle, StartedTurn, Interrupt) {
    let (world, session) = trusting(script).await;
    let (started, interrupt) = start_until_question(&session, planned("Change a")).await;
    (world, session, started, interrupt)
}

fn change() -> Play {
    calls(&[("change", json!({"path": "a"}))])
}

/// Builds the model's answer to the question about open todos.
fn no_open_todos() -> Play {
    says("Nothing is left.")
}

#[tokio::test]
async fn writes_wait_for_plan_approval_and_steps_become_todos() {
    let (world, session, mut turn, interrupt) =
        start_planning([calls(&[("look", json!({}))]), change(), says(PLAN), change(), says("Done."), no_open_todos()])
            .await;
    assert_eq!(interrupt.ask.plan(), Some(PLAN));
    assert_eq!(results(&world, &session), [None, Some(ToolErrorCode::Denied)], "only reads are allowed");
    answer(&session, &interrupt, Answer::Approve).await.unwrap();
    let (_, result) = to_end(&mut turn.events).await;
    assert_eq!((result.text.as_str(), result.stop_reason), ("Done.\n\nNothing is left.", StopReason::Completed));
    assert_eq!(results(&world, &session).last(), Some(&None), "writes are allowed after approval");
    let todos = session.show().await.unwrap().session.todos;
    let todos: Vec<_> = todos.iter().map(|todo| (todo.content.as_str(), todo.status)).collect();
    assert_eq!(todos, [("Look at `a`", TodoStatus::Pending), ("Change `a`", TodoStatus::Pending)]);
    // Each request starts with the previous one.
    let requests = world.model.requests();
    for pair in requests.windows(2) {
        assert!(pair[1].messages.starts_with(&pair[0].messages));
    }
    assert!(format!("{:?}", requests[3].messages).contains("The plan is approved."));
}

#[tokio::test]
async fn edited_plan_replaces_the_original() {
    let (world, session, mut turn, interrupt) = start_planning([says(PLAN), says("Done.")]).await;
    let changed = "1. Leave `a` alone";
    answer(&session, &interrupt, Answer::Edit { args: json!({ Ask::PLAN: changed }) }).await.unwrap();
    to_end(&mut turn.events).await;
    assert!(world.sent_text().contains("Leave `a` alone"));
    assert_eq!(session.show().await.unwrap().session.todos[0].content, "Leave `a` alone");
}

#[tokio::test]
async fn rejection_with_reason_replans_and_without_ends_the_turn() {
    let (world, session, mut turn, interrupt) = start_planning([says(PLAN), change(), says("1. Only look")]).await;
    answer(&session, &interrupt, Answer::Reject { reason: Some("Do not touch a".to_owned()) }).await.unwrap();
    let second = question(&mut turn.events).await;
    assert_eq!(results(&world, &session), [Some(ToolErrorCode::Denied)], "planning continues");
    let request = world.model.requests().remove(1);
    assert!(format!("{:?}", request.messages).contains("Do not touch a"));
    assert_eq!(second.ask.plan(), Some("1. Only look"));
    answer(&session, &second, Answer::Reject { reason: None }).await.unwrap();
    let (_, result) = to_end(&mut turn.events).await;
    assert_eq!((result.stop_reason, result.denials.last().unwrap().tool.as_str()), (StopReason::Denied, "plan"));
    // Planning has ended: the next input starts with a plan only if requested.
    world.then([change(), says("Done.")]);
    assert_eq!(run(&session, "Change a after all").await.text, "Done.");
    assert_eq!(results(&world, &session).last(), Some(&None));
}

#[tokio::test]
async fn plan_approval_survives_restart_and_steering() {
    for steering in [None, Some("And be quick")] {
        let (world, session, _, interrupt) = start_planning([says(PLAN)]).await;
        if let Some(steering) = steering {
            session.steer(None, steering.to_owned()).await.unwrap();
        }
        let (second, session) = world.recovered(session.id(), [change(), says("Done."), no_open_todos()]).await;
        let (_, result) = answer_and_follow(&session, &interrupt, Answer::Approve).await;
        assert_eq!((result.text.as_str(), result.stop_reason), ("Done.\n\nNothing is left.", StopReason::Completed));
        assert_eq!(results(&second, &session), [None]);
        let is_planned_notice = |body: &ItemBody| matches!(body, ItemBody::Notice { topic: NoticeTopic::Planned, .. });
        assert_eq!(second.items(&session).iter().filter(|body| is_planned_notice(body)).count(), 1);
        assert!(
            steering.is_none_or(|steering| format!("{:?}", second.model.requests()[0].messages).contains(steering))
        );
    }
}

#[tokio::test]
async fn unattended_plan_is_returned_or_executed() {
    let ran = async |on_interrupt, script: Vec<Play>| {
        let (world, session) = trusting(script).await;
        let result = turn(&session, StartTurn { on_interrupt, ..planned("Change a") }).await;
        (result.stop_reason, result.text, results(&world, &session))
    };
    let (stop, text, ran_calls) = ran(OnInterrupt::Deny, vec![says(PLAN)]).await;
    assert_eq!((stop, text.as_str(), ran_calls.len()), (StopReason::Completed, PLAN, 0));
    let (stop, text, ran_calls) =
        ran(OnInterrupt::Approve, vec![says(PLAN), change(), says("Done."), no_open_todos()]).await;
    assert_eq!((stop, text.as_str(), ran_calls), (StopReason::Completed, "Done.\n\nNothing is left.", vec![None]));
    let (stop, ..) = ran(OnInterrupt::Fail, vec![says(PLAN)]).await;
    assert_eq!(stop, StopReason::Denied);
}

#[tokio::test]
async fn auto_planning_covers_large_coding_tasks_only() {
    let config = EngineConfig { planning: Planning::Auto, ..EngineConfig::default() };
    let (_world, session) = World::with(config, [says("Hello."), says(PLAN), says("Done.")]).begun().await;
    assert_eq!(run(&session, "Hello").await.text, "Hello.");
    let large = "Migrate the whole project from one API to another, step by step, and keep the tests green";
    assert_eq!(run_with_answer(&session, input(large), Answer::Approve).await.1.text, "Done.");
}

#[tokio::test]
async fn planning_turn_accepts_steering_and_cancel() {
    let (world, session, mut turn, interrupt) = start_planning([says(PLAN)]).await;
    session.cancel(None).await.unwrap();
    assert_eq!(to_end(&mut turn.events).await.1.stop_reason, StopReason::Cancelled);
    assert!(world.engine.interrupts(Some(session.id())).await.unwrap().is_empty());
    assert!(session.answer(interrupt.id, Answer::Approve, "late".to_owned()).await.is_err());
}

#[tokio::test]
async fn edit_without_a_plan_is_rejected() {
    let (world, session, _, interrupt) = start_planning([says(PLAN)]).await;
    for args in [json!({"text": "1. do less"}), json!({ Ask::PLAN: " " }), json!({ Ask::PLAN: [] }), json!("x")] {
        let refused = session.answer(interrupt.id, Answer::Edit { args }, "test".to_owned()).await.unwrap_err();
        assert!(refused.to_string().contains("invalid answer"), "{refused}");
    }
    assert_eq!(world.engine.interrupts(Some(session.id())).await.unwrap().len(), 1, "the question is still pending");
}

#[tokio::test]
async fn open_plan_survives_compaction_and_restart() {
    let (world, session) = trusting([calls(&[("look", json!({}))]), Play::Hangs(Vec::new())]).await;
    let mut started = session.start_turn(planned("Change a")).await.unwrap();
    world.model.asked(2).await;
    session.cancel(None).await.unwrap();
    to_end(&mut started.events).await;
    world.model.then(says("<summary>All was looked at.</summary>"));
    turn(&session, StartTurn { compact: Some(CompactionStrategy::Summarize), ..continuation() }).await;
    let (second, session) = world.recovered(session.id(), [change(), says(PLAN)]).await;
    question(&mut session.start_turn(continuation()).await.unwrap().events).await;
    assert_eq!(results(&second, &session).last(), Some(&Some(ToolErrorCode::Denied)));
}

#[tokio::test]
async fn steering_with_a_plan_request_is_rejected() {
    let (world, session) = World::new([Play::Hangs(Vec::new())]).begun().await;
    session.start_turn(input("Look")).await.unwrap();
    world.model.asked(1).await;
    let start = StartTurn { if_busy: IfBusy::Steer, ..planned("Change a") };
    assert!(session.start_turn(start).await.err().unwrap().hint().unwrap().contains("queue"));
}
