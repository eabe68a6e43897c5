//! Undoing edits of state files, alone and together with files on disk, also after a crash.

use std::sync::Arc;

use agentd_core::{
    event::{EventKind, StateChange},
    state_files::StateFileChange,
    undo::UndoOutcome,
};
use agentd_engine::{EngineConfig, SessionHandle};
use agentd_testkit::scripted::{Play, calls, says};
use insta::assert_snapshot;
use serde_json::json;

use crate::{
    undoing::{edit, last, redo, result_of, shown, undo_results},
    world::{World, run},
};

fn state_of(world: &World, session: &SessionHandle) -> Vec<String> {
    let files = world.store.events_of(session.id());
    let mut now = std::collections::BTreeMap::new();
    for event in &files {
        if let EventKind::StateChanged { change: StateChange::File(change) } = &event.kind {
            match &change.content {
                Some(content) => now.insert(change.path.clone(), content.clone()),
                None => now.remove(&change.path),
            };
        }
    }
    now.into_iter().map(|(path, content)| format!("{path}: {content}")).collect()
}

#[tokio::test]
async fn undo_patch_reverts_the_last_edit_even_of_state() {
    let (world, session) = World::trusting([
        calls(&[("change", edit("/state/plan", "dig")), ("change", edit("a", "1"))]),
        calls(&[("change", edit("/state/plan", "sow"))]),
        calls(&[("change", json!({"path": "/state/plan"}))]),
        undo(),
        undo(),
        says("So far."),
        undo(),
        undo(),
        undo(),
        says("All of it."),
    ])
    .await;
    run(&session, "Go!").await;
    assert_eq!((state_of(&world, &session), world.disk.read("a")), (vec!["plan: dig".to_owned()], "1".to_owned()));
    run(&session, "Go on!").await;
    assert_eq!((state_of(&world, &session), world.disk.read("a")), (vec![], String::new()));
    assert_snapshot!(undo_results(&world, &session).join("\n"), @r#"
    = result of undo_patch: "Reverted.\n/state/plan: is restored" (Done)
    = result of undo_patch: "Reverted.\n/state/plan: is restored" (Done)
    = result of undo_patch: "Reverted.\na: is removed" (Done)
    = result of undo_patch: "Reverted.\n/state/plan: is removed" (Done)
    = result of undo_patch E_TOOL: "there is no edit left to revert" (Done)
    "#);
}

#[tokio::test]
async fn failed_state_undo_is_reported_without_a_substitute() {
    let (world, session) = World::trusting([
        calls(&[("change", edit("a", "1")), ("change", edit("/state/plan", "dig"))]),
        says("Noted."),
        undo(),
        says("I see."),
    ])
    .await;
    run(&session, "one").await;
    let user_change = StateFileChange { path: "plan".to_owned(), content: Some("rest".to_owned()) };
    session.change_state_file(user_change).await.unwrap();
    run(&session, "two").await;
    let result = result_of(&world, &session, "undo_patch");
    assert!(result.text.contains("nothing was reverted") && result.text.contains("/state/plan"), "{result:?}");
    assert_eq!((world.disk.read("a").as_str(), state_of(&world, &session)), ("1", vec!["plan: rest".to_owned()]));
}

/// Restarts the session from a journal that keeps only the events before the first one that `fits`, and `after` more.
async fn restart_after_kill(
    world: &World,
    session: &SessionHandle,
    after: usize,
    fits: impl Fn(&EventKind) -> bool,
    script: impl IntoIterator<Item = Play>,
) -> (World, SessionHandle) {
    let at = world.store.events_of(session.id()).iter().position(|event| fits(&event.kind)).unwrap();
    let store = world.store.copy_prefix(session.id(), at + after);
    let next = World::on_disk(store, Arc::clone(&world.disk), EngineConfig::default(), script);
    next.settled(session.id()).await
}

fn undo() -> Play {
    calls(&[("undo_patch", json!({}))])
}

fn is_state_change(kind: &EventKind) -> bool {
    matches!(kind, EventKind::StateChanged { change: StateChange::File(_) })
}

#[tokio::test]
async fn undo_after_a_crash_reverts_the_interrupted_edit_only() {
    let (world, session) = World::trusting([
        calls(&[("change", edit("a", "1"))]),
        says("Changed."),
        calls(&[("change", edit("/state/plan", "dig"))]),
        says("Noted."),
    ])
    .await;
    run(&session, "one").await;
    run(&session, "two").await;
    // The daemon is killed when the tool has run, before its effect is stored.
    let script = [undo(), calls(&[("undo_patch", json!({"path": "a"}))]), says("I see.")];
    let (next, session) = restart_after_kill(&world, &session, 0, is_state_change, script).await;
    run(&session, "three").await;
    let results = undo_results(&next, &session);
    assert!(results[0].contains("E_TOOL") && results[0].contains("is unknown"), "{results:#?}");
    assert!(results[1].contains("a: is removed"), "{results:#?}");
    assert_eq!((state_of(&next, &session), next.disk.read("a")), (vec![], String::new()));
}

/// Creates a session with an edit that moves text from the state to the disk.
async fn session_with_moved_text() -> (World, SessionHandle) {
    let (world, session) = World::trusting([
        calls(&[("change", edit("/state/plan", "sow"))]),
        calls(&[("change", edit("/state/plan", "dig"))]),
        says("Noted."),
        calls(&[("change", json!({"path": "/state/plan", "and": edit("plan", "dig")}))]),
        says("Moved."),
    ])
    .await;
    run(&session, "one").await;
    run(&session, "two").await;
    assert_eq!((state_of(&world, &session), world.disk.read("plan")), (vec![], "dig".to_owned()));
    (world, session)
}

fn is_removal(kind: &EventKind) -> bool {
    matches!(kind, EventKind::StateChanged { change: StateChange::File(StateFileChange { content: None, .. }) })
}

/// The daemon is killed after the state change is stored and before the result is stored.
#[tokio::test]
async fn interrupted_edit_of_disk_and_state_is_reverted_completely() {
    let original_state = || (vec!["plan: dig".to_owned()], String::new());
    let (world, session) = session_with_moved_text().await;
    let (next, session) = restart_after_kill(&world, &session, 1, is_removal, [undo(), says("I see.")]).await;
    run(&session, "three").await;
    assert_eq!(
        undo_results(&next, &session),
        [r#"= result of undo_patch: "Reverted.\nplan: is removed\n/state/plan: is restored" (Done)"#]
    );
    assert_eq!((state_of(&next, &session), next.disk.read("plan")), original_state());

    let (world, session) = session_with_moved_text().await;
    let (next, session) = restart_after_kill(&world, &session, 1, is_removal, []).await;
    let done = UndoOutcome::Done;
    let report = session.undo(last()).await.unwrap();
    assert_eq!(shown(&report), [(2, "plan", done), (2, "/state/plan", done)]);
    assert_eq!((state_of(&next, &session), next.disk.read("plan")), original_state());
    session.undo(redo()).await.unwrap();
    assert_eq!((state_of(&next, &session), next.disk.read("plan")), (vec![], "dig".to_owned()));
}

/// The daemon is killed after the tool has written to disk, before anything is stored. Only the disk half was
/// applied.
#[tokio::test]
async fn half_applied_edit_is_reverted_where_applied() {
    let (world, session) = session_with_moved_text().await;
    let (next, session) = restart_after_kill(&world, &session, 0, is_removal, []).await;
    assert_eq!(shown(&session.undo(last()).await.unwrap()), [(2, "plan", UndoOutcome::Done)]);
    assert_eq!((state_of(&next, &session), next.disk.read("plan")), (vec!["plan: dig".to_owned()], String::new()));
}

/// The daemon is killed after the disk half is reverted, before the state half is stored.
#[tokio::test]
async fn interrupted_undo_is_finished_by_next_undo() {
    let (world, session) = session_with_moved_text().await;
    let (next, session) = world.recovered(session.id(), [undo(), says("Back.")]).await;
    run(&session, "three").await;
    let is_dig_restored = |kind: &EventKind| match kind {
        EventKind::StateChanged { change: StateChange::File(change) } => change.content.as_deref() == Some("dig"),
        _ => false,
    };
    let events = next.store.events_of(session.id());
    let last_change = events.iter().rposition(|event| is_dig_restored(&event.kind)).unwrap();
    let store = next.store.copy_prefix(session.id(), last_change);
    let next = World::on_disk(store, Arc::clone(&world.disk), EngineConfig::default(), [undo(), says("Now it is.")]);
    let (next, session) = next.settled(session.id()).await;
    assert_eq!((state_of(&next, &session), next.disk.read("plan")), (vec![], String::new()), "half of the undo");
    run(&session, "four").await;
    assert_eq!((state_of(&next, &session), next.disk.read("plan")), (vec!["plan: dig".to_owned()], String::new()));
}

/// The model is informed regardless of who reverted the edit, and the next call applies to the previous edit.
#[tokio::test]
async fn reverted_edit_does_not_hide_previous_edit() {
    for by in ["the user", "a command", "another program"] {
        let (world, session) = World::trusting([
            calls(&[("change", edit("a", "1")), ("change", edit("/state/plan", "dig"))]),
            says("First."),
            calls(&[("change", edit("a", "2"))]),
            says("Second."),
            calls(&[if by == "a command" { ("launch", edit("a", "1")) } else { ("look", json!({})) }]),
            says("Third."),
            undo(),
            undo(),
            undo(),
            undo(),
            says("All of it."),
        ])
        .await;
        run(&session, "one").await;
        run(&session, "two").await;
        match by {
            "the user" => drop(session.undo(last()).await.unwrap()),
            "another program" => world.disk.write("a", "1"),
            _ => {}
        }
        run(&session, "three").await;
        run(&session, "four").await;
        let results = undo_results(&world, &session);
        assert!(
            results[0].contains("was already reverted") && results[0].contains("a: was already"),
            "{by}: {results:#?}"
        );
        assert!(results[1].contains("/state/plan: is removed"), "{by}: {results:#?}");
        assert!(results[2].contains("Reverted.\\na: is removed"), "{by}: {results:#?}");
        assert!(results[3].contains("there is no edit left"), "{by}: {results:#?}");
        assert_eq!((state_of(&world, &session), world.disk.read("a")), (vec![], String::new()), "{by}");
    }
}
