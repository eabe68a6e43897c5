//! Sessions that work for a call of another one: followed to the end of their turn, and no further.

use std::sync::Arc;

use agentd_core::{
    agent::Subagent,
    event::{EventKind, StateChange},
    model::{Message, ModelChunk, ModelRequest},
};
use agentd_engine::{SessionHandle, StartedTurn};
use agentd_testkit::scripted::{Play, calls, says};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{World, input, soon, to_end, until};

/// An answer that is long enough not to be asked for detail.
fn report(of: &str) -> String {
    format!("The report of {of}. {}", "Each thing was looked at and found in order. ".repeat(6))
}

/// The task of the subagent that asks; none where it is the main agent.
fn task_of(request: &ModelRequest) -> Option<String> {
    let is_child =
        matches!(&request.messages[0], Message::System { text } if text.contains("You work for another agent."));
    let said = request.messages.iter().find_map(|message| match message {
        Message::User { text } => Some(text.clone()),
        _ => None,
    });
    said.filter(|_| is_child)
}

fn is_told(request: &ModelRequest) -> bool {
    matches!(request.messages.last(), Some(Message::Tool { .. }))
}

/// A main agent that gives these tasks away at once, and answers when it has heard of each.
fn delegates(
    world: &World,
    tasks: &'static [&'static str],
    subagent: impl Fn(&str, &ModelRequest) -> Play + Send + Sync + 'static,
) {
    world.model.respond_with(move |request| match task_of(request) {
        Some(task) => subagent(&task, request),
        None if is_told(request) => says("All parts are done."),
        None => calls(&tasks.iter().map(|task| ("delegate_task", json!({ "task": task }))).collect::<Vec<_>>()),
    });
}

/// The next subagent that begins.
async fn child_of(world: &World, turn: &mut StartedTurn) -> (Subagent, SessionHandle) {
    let is_subagent = |kind: &EventKind| matches!(kind, EventKind::StateChanged { change: StateChange::Subagent(_) });
    let event = until(&mut turn.events, is_subagent).await;
    let EventKind::StateChanged { change: StateChange::Subagent(subagent) } = &event.kind else { unreachable!() };
    let session = world.engine.session(subagent.session_id).await.unwrap();
    (subagent.clone(), session)
}

#[tokio::test]
async fn its_end_is_heard_whatever_is_told_behind_it() {
    let world = World::new([]);
    let gate = Arc::new(Notify::new());
    let goes_on = Arc::clone(&gate);
    delegates(&world, &["Wait"], move |task, _| {
        Play::Waits(Arc::clone(&goes_on), vec![ModelChunk::Text(report(task))])
    });
    let session = world.session().await;
    let mut turn = session.start_turn(input("Have it done")).await.unwrap();
    let (_, child) = child_of(&world, &mut turn).await;
    soon("the subagent to be asked", world.model.asked(2)).await;
    // Somebody names it again and again: something is told behind its end before anybody can have read that.
    let names = |_| async {
        loop {
            child.rename("a part".to_owned()).await.unwrap();
        }
    };
    gate.notify_one();
    let (_, result) = tokio::select! {
        ended = to_end(&mut turn.events) => ended,
        _ = join_all((0..8).map(names)) => std::future::pending().await,
    };
    assert_eq!(result.text, "All parts are done.");
}
