//! File changes: recorded with their calls, and undone by the user or the model.

use agentd_core::{
    error::ErrorKind,
    event::{EventKind, StateChange},
    interrupt::{Answer, Ask},
    item::ItemBody,
    tool::ToolResult,
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest},
};
use agentd_engine::SessionHandle;
use agentd_testkit::scripted::{calls, says};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    grants::{answer, asked, question},
    world::{World, input, run, to_end, with_time_limit},
};

pub(crate) fn edit(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

pub(crate) fn last() -> UndoRequest {
    UndoRequest::default()
}

pub(crate) fn redo() -> UndoRequest {
    UndoRequest { redo: true, ..last() }
}

#[track_caller]
pub(crate) fn shown(report: &UndoReport) -> Vec<(u64, &str, UndoOutcome)> {
    report.files.iter().map(|file| (report.turn, file.path.as_str(), file.outcome)).collect()
}

/// A change by the user between two calls of a turn is not lost by undoing the turn.
#[tokio::test]
async fn undo_keeps_user_changes_between_calls() {
    let (world, session) = World::trusting([
        calls(&[("launch", edit("a", "1"))]),
        calls(&[("hold", json!({}))]),
        calls(&[("launch", edit("a", "2"))]),
        says("Done."),
    ])
    .await;
    let mut started = session.start_turn(input("Go!")).await.unwrap();
    with_time_limit("the second call", world.tools.began(2)).await;
    world.disk.write("a", "a person's");
    world.tools.release(1);
    to_end(&mut started.events).await;
    assert_eq!(shown(&session.undo(last()).await.unwrap()), [(1, "a", UndoOutcome::Failed)]);
    assert_eq!(world.disk.read("a"), "2");
}

#[tokio::test]
async fn undo_is_rejected_during_an_open_turn() {
    let (world, session) =
        World::trusting([calls(&[("launch", edit("a", "1"))]), says("Done."), calls(&[("hold", json!({}))])]).await;
    run(&session, "one").await;
    let started = session.start_turn(input("two")).await.unwrap();
    with_time_limit("the call", world.tools.began(2)).await;
    let error = session.undo(last()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(&started.turn_id.to_string()), "{error}");
    assert_eq!(world.disk.read("a"), "1");
}

/// Returns the last result of a tool.
pub(crate) fn result_of(world: &World, session: &SessionHandle, tool: &str) -> ToolResult {
    let of = |body| if let ItemBody::ToolResult(result) = body { Some(result) } else { None };
    world.items(session).into_iter().filter_map(of).rfind(|result| result.name == tool).unwrap()
}

/// Returns the results of `undo_patch`, one line each.
pub(crate) fn undo_results(world: &World, session: &SessionHandle) -> Vec<String> {
    let log = world.log(session);
    let lines = log.lines().filter(|line| line.contains("= result of undo_patch"));
    // Strip the sequence numbers.
    lines.map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest).to_owned()).collect()
}

#[tokio::test]
async fn undo_patch_reverts_edits_one_by_one() {
    let (world, session) = World::trusting([
        calls(&[("change", edit("a", "1")), ("change", edit("a", "2")), ("change", edit("b", "1"))]),
        calls(&[("launch", edit("c", "1")), ("undo_patch", json!({}))]),
        calls(&[("undo_patch", json!({})), ("undo_patch", json!({"path": "./a"})), ("undo_patch", json!({}))]),
        says("All taken back."),
    ])
    .await;
    let result = run(&session, "Go!").await;
    assert_eq!(result.text, "All taken back.");
    let read = |path: &str| world.disk.read(path);
    assert_eq!((read("a"), read("b"), read("c")), (String::new(), String::new(), "1".to_owned()));
    assert_snapshot!(undo_results(&world, &session).join("\n"), @r#"
    = result of undo_patch: "Reverted.\nb: is removed" (Done)
    = result of undo_patch: "Reverted.\na: is restored" (Done)
    = result of undo_patch: "Reverted.\na: is removed" (Done)
    = result of undo_patch E_TOOL: "there is no edit left to revert" (Done)
    "#);
    // The net change of the turn is undone.
    assert_eq!(shown(&session.undo(last()).await.unwrap()), [(1, "c", UndoOutcome::Done)]);
}

#[tokio::test]
async fn undo_patch_asks_with_the_full_diff() {
    for content in ["1".to_owned(), "word ".repeat(1000) + "and a tail"] {
        let undo = calls(&[("undo_patch", json!({}))]);
        let world = World::new([calls(&[("change", edit("a", &content))]), undo, says("Done.")]);
        let session = world.session().await;
        let (mut started, change) = asked(&session).await;
        answer(&session, &change, Answer::Approve).await.unwrap();
        let undo = question(&mut started.events).await;
        answer(&session, &undo, Answer::Approve).await.unwrap();
        to_end(&mut started.events).await;
        let expected = [format!("+ {}", edit("a", &content)), format!("-{content}\n+\n")];
        for (interrupt, expected) in [change, undo].iter().zip(expected) {
            let Ask::Approval { preview, .. } = &interrupt.ask else { panic!("{interrupt:?}") };
            assert_eq!(preview.as_deref(), Some(expected.as_str()));
        }
        assert_eq!(world.disk.read("a"), "");
    }
}

#[tokio::test]
async fn undo_without_changes_marks_its_turn_undone() {
    let (world, session) = World::trusting([
        calls(&[("change", edit("b", "1"))]),
        says("Done."),
        calls(&[("change", edit("a", "1"))]),
        says("Done."),
    ])
    .await;
    run(&session, "one").await;
    run(&session, "two").await;
    // The change is reverted manually, or by an undo whose record was lost in a crash.
    world.disk.write("a", "");
    let before = world.store.events_of(session.id()).len();
    session.undo(UndoRequest { preview: true, ..last() }).await.unwrap();
    assert_eq!(world.store.events_of(session.id()).len(), before, "a preview stores no event");
    assert_eq!(shown(&session.undo(last()).await.unwrap()), [(2, "a", UndoOutcome::Already)]);
    let [settled] = &world.store.events_of(session.id())[before..] else { panic!("expected one event") };
    let EventKind::StateChanged { change: StateChange::Undone { files, .. } } = &settled.kind else {
        panic!("{settled:?}")
    };
    assert_eq!(files, &[]);
    // The next undo applies to the previous turn, and this turn cannot be redone.
    assert_eq!(session.undo(redo()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let second = Some(TurnChoice::Number(2));
    assert_eq!(session.undo(UndoRequest { turn: second, ..redo() }).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(shown(&session.undo(last()).await.unwrap()), [(1, "b", UndoOutcome::Done)]);
    assert_eq!(session.undo(last()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let before = world.store.events_of(session.id()).len();
    session.undo(UndoRequest { turn: second, ..last() }).await.unwrap();
    assert_eq!(world.store.events_of(session.id()).len(), before, "the turn is already undone");
    let (_world, session) = World::new([]).begun().await;
    assert_eq!(session.undo(last()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn undo_patch_is_judged_by_the_paths_it_changes() {
    for path in ["/memories/people.md", "/project/.envrc"] {
        let (world, session) = World::trusting([
            calls(&[("change", edit(path, "1"))]),
            calls(&[("undo_patch", json!({}))]),
            says("It was refused."),
        ])
        .await;
        // The edit is approved. Undoing the edit also needs approval, although the session does not ask for writes.
        let (mut started, change) = asked(&session).await;
        assert!(matches!(&change.ask, Ask::Approval { tool, .. } if tool == "change"), "{path}: {change:?}");
        answer(&session, &change, Answer::Approve).await.unwrap();
        let undo = question(&mut started.events).await;
        // No grant is offered, because no rule can identify the edit.
        assert!(
            matches!(&undo.ask, Ask::Approval { tool, grants, .. } if tool == "undo_patch" && grants.is_empty()),
            "{path}: {undo:?}"
        );
        answer(&session, &undo, Answer::Reject { reason: None }).await.unwrap();
        to_end(&mut started.events).await;
        assert_eq!(world.disk.read(path), "1", "{path}");
    }
}
