//! Subagent sessions, which are followed only until their turn ends.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    agent::Subagent,
    error::ErrorKind,
    event::{EventKind, StateChange},
    interrupt::{Answer, Interrupt},
    item::ItemBody,
    model::{Message, ModelChunk, ModelRequest},
    turn::{OnInterrupt, StartTurn, StopReason},
};
use agentd_engine::{EngineConfig, SessionHandle, StartedTurn};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    grants::{asked, question},
    world::{World, input, to_end, until, with_time_limit},
};

/// Builds a report that is long enough to be accepted without a request for more detail.
fn report(of: &str) -> String {
    format!("The report of {of}. {}", "Each thing was looked at and found in order. ".repeat(6))
}

/// Returns the task of the subagent that sends the request; `None` for the main agent.
fn task_of(request: &ModelRequest) -> Option<String> {
    let is_child =
        matches!(&request.messages[0], Message::System { text } if text.contains("You work for another agent."));
    let task = request.messages.iter().find_map(|message| match message {
        Message::User { text } => Some(text.clone()),
        _ => None,
    });
    task.filter(|_| is_child)
}

fn has_result(request: &ModelRequest) -> bool {
    matches!(request.messages.last(), Some(Message::Tool { .. }))
}

/// Scripts a main agent that delegates these tasks at once, and answers when it has all results.
fn delegates(
    world: &World,
    tasks: &'static [&'static str],
    subagent: impl Fn(&str, &ModelRequest) -> Play + Send + Sync + 'static,
) {
    world.model.respond_with(move |request| match task_of(request) {
        Some(task) => subagent(&task, request),
        None if has_result(request) => says("All parts are done."),
        None => calls(&tasks.iter().map(|task| ("delegate_task", json!({ "task": task }))).collect::<Vec<_>>()),
    });
}

/// Waits for the next subagent to start.
async fn child_of(world: &World, turn: &mut StartedTurn) -> (Subagent, SessionHandle) {
    let is_subagent = |kind: &EventKind| matches!(kind, EventKind::StateChanged { change: StateChange::Subagent(_) });
    let event = until(&mut turn.events, is_subagent).await;
    let EventKind::StateChanged { change: StateChange::Subagent(subagent) } = &event.kind else { unreachable!() };
    let session = world.engine.session(subagent.session_id).await.unwrap();
    (subagent.clone(), session)
}

#[tokio::test]
async fn subagent_end_is_received_despite_later_events() {
    let (world, session) = World::new([]).begun().await;
    let gate = Arc::new(Notify::new());
    let continues = Arc::clone(&gate);
    delegates(&world, &["Wait"], move |task, _| {
        Play::Waits(Arc::clone(&continues), vec![ModelChunk::Text(report(task))])
    });
    let mut turn = session.start_turn(input("Have it done")).await.unwrap();
    let (_, child) = child_of(&world, &mut turn).await;
    with_time_limit("the subagent to be asked", world.model.asked(2)).await;
    // Concurrent renames add events after the end of the child's turn before the parent can read the end.
    let mut naming = JoinSet::new();
    for _ in 0..8 {
        let child = child.clone();
        naming.spawn(async move { while child.rename("a part".to_owned()).await.is_ok() {} });
    }
    gate.notify_one();
    assert_eq!(to_end(&mut turn.events).await.1.text, "All parts are done.");
    naming.shutdown().await;
    world.all_calls_are_counted().await;
}

/// Scripts a subagent that changes a file, which needs approval, and reports.
fn changes(task: &str, request: &ModelRequest) -> Play {
    if has_result(request) { says(&report(task)) } else { calls(&[("change", json!({}))]) }
}

async fn answer(world: &World, interrupt: &Interrupt, answer: Answer) {
    world.engine.answer(interrupt.id, answer, "test".to_owned()).await.unwrap();
}

fn is_result(kind: &EventKind, name: &str) -> bool {
    matches!(kind, EventKind::ItemCompleted { item, .. }
        if matches!(&item.body, ItemBody::ToolResult(result) if result.name == name))
}

#[tokio::test]
async fn subagent_asks_after_its_parents_client_disconnects() {
    let (world, session) = World::new([]).begun().await;
    delegates(&world, &["Ask"], |task, request| {
        match request.messages.iter().filter(|message| matches!(message, Message::Tool { .. })).count() {
            0 => calls(&[("hold", json!({}))]),
            1 => calls(&[("change", json!({}))]),
            _ => says(&report(task)),
        }
    });
    let start = StartTurn { on_interrupt: OnInterrupt::Approve, while_connected: true, ..input("Have it done") };
    let mut turn = session.start_turn(start).await.unwrap();
    with_time_limit("the hold", world.tools.began(1)).await;
    session.client_left(turn.turn_id).await.unwrap();
    world.tools.release(1);
    let interrupt = question(&mut turn.events).await;
    answer(&world, &interrupt, Answer::Approve).await;
    assert_eq!(to_end(&mut turn.events).await.1.text, "All parts are done.");
}

#[tokio::test(start_paused = true)]
async fn subagent_question_is_exempt_from_the_time_limit() {
    let limit = Duration::from_secs(1);
    let world = World::with(EngineConfig { turn_time_limit: Some(limit), ..EngineConfig::default() }, []);
    delegates(&world, &["Ask"], changes);
    let session = world.session().await;
    let (mut turn, interrupt) = asked(&session).await;
    tokio::time::advance(5 * limit).await;
    answer(&world, &interrupt, Answer::Approve).await;
    let (_, result) = to_end(&mut turn.events).await;
    assert_eq!((result.stop_reason, result.text.as_str()), (StopReason::Completed, "All parts are done."));
}

#[tokio::test]
async fn subagent_ends_if_its_parents_journal_fails() {
    let (world, session) = World::new([]).begun().await;
    delegates(&world, &["Ask"], changes);
    let mut turn = session.start_turn(input("Have it done")).await.unwrap();
    let (_, child) = child_of(&world, &mut turn).await;
    question(&mut turn.events).await;
    world.store.fail_next_appends(1);
    assert_eq!(session.rename("full".to_owned()).await.unwrap_err().kind(), ErrorKind::Storage);
    let (_, ended) = to_end(&mut child.subscribe(0).await.unwrap()).await;
    assert_eq!(ended.stop_reason, StopReason::Cancelled);
    assert!(world.engine.interrupts(Some(child.id())).await.unwrap().is_empty());
    // The session receives the result at its next use.
    let session = world.engine.session(session.id()).await.unwrap();
    to_end(&mut session.subscribe(0).await.unwrap()).await;
    assert!(world.log(&session).contains("result of delegate_task E_CANCELLED"), "{}", world.log(&session));
}

#[tokio::test]
async fn subagent_denials_count_after_a_crash() {
    let (world, session) = World::new([]).begun().await;
    let tasks = &["First", "Second"];
    delegates(&world, tasks, changes);
    let (mut turn, first) = asked(&session).await;
    let second = question(&mut turn.events).await;
    answer(&world, &first, Answer::Reject { reason: None }).await;
    until(&mut turn.events, |kind| is_result(kind, "delegate_task")).await;

    let next = world.restarted([]);
    delegates(&next, tasks, changes);
    let (next, session) = next.settled(session.id()).await;
    let mut events = session.subscribe(0).await.unwrap();
    answer(&next, &second, Answer::Approve).await;
    let (_, result) = to_end(&mut events).await;
    let refused: Vec<&str> = result.denials.iter().map(|denial| denial.tool.as_str()).collect();
    assert_eq!((result.stop_reason, refused), (StopReason::Completed, vec!["change of subagent"]));
}

#[tokio::test]
async fn pending_subagent_question_blocks_new_calls_after_a_crash() {
    let (world, session) = World::with(EngineConfig { parallel_calls: 1, ..EngineConfig::default() }, []).begun().await;
    let responds = |request: &ModelRequest| match task_of(request) {
        Some(task) => changes(&task, request),
        None if has_result(request) => says("All parts are done."),
        None => calls(&[("delegate_task", json!({"task": "Ask"})), ("look", json!({}))]),
    };
    world.model.respond_with(responds);
    let (_turn, interrupt) = asked(&session).await;

    let next = world.restarted([]);
    next.model.respond_with(responds);
    let (next, session) = next.settled(session.id()).await;
    let mut events = session.subscribe(0).await.unwrap();
    answer(&next, &interrupt, Answer::Approve).await;
    assert_eq!(to_end(&mut events).await.1.text, "All parts are done.");
    let log = next.log(&session);
    let at = |part: &str| log.find(part).unwrap_or_else(|| panic!("no {part} in {log}"));
    assert!(at("! Approve") < at("+ result of look"), "{log}");
}
