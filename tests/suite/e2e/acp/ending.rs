//! Cancellation, concurrent prompts, and restarted daemons.

use agentd_core::item::Item;

use crate::e2e::Events as _;

use super::*;

/// Command that runs until the file `go` exists.
const WAIT: &str = "while [ ! -e /project/go ]; do read -t 0.01 < /dev/zero; done";

/// Returns true for input that is added to a running turn.
fn is_added(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ItemStarted { item: Item { body: ItemBody::UserMessage { steered: true, .. }, .. } })
}

#[tokio::test]
async fn a_cancelled_prompt_is_answered_as_cancelled() {
    let (world, mut editor, session, _) = world_with_editor().await;
    for by_id in [false, true] {
        world.model.reply(Reply::text("I begin and never end").hang_after_text("begin"));
        let id = editor.begin_prompt(&session, "Go").await;
        editor.update("agent_message_chunk").await;
        let second = editor.begin_prompt(&session, "Go faster").await;
        let refused = editor.answer_to(second).await;
        assert!(refused["error"]["message"].as_str().unwrap().contains("already running"), "{refused:#}");
        if by_id {
            editor.notify("$/cancel_request", json!({"requestId": 999})).await;
            editor.notify("$/cancel_request", json!({"requestId": id})).await;
        } else {
            editor.notify("session/cancel", json!({"sessionId": session})).await;
        }
        assert_eq!(editor.ends(id).await["stopReason"], "cancelled", "by id: {by_id}");
        editor.updates.clear();
    }
    // Cancelling after the end has no effect, and neither does cancelling an unknown session.
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    editor.notify("session/cancel", json!({"sessionId": "nonsense"})).await;
    assert_eq!(editor.prompt(&session, "Are you there?").await, "end_turn");
}

#[tokio::test]
async fn cancel_closes_open_questions() {
    let (world, mut editor, session, _) = world_with_editor().await;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "touch /project/x"})));
    let id = editor.begin_prompt(&session, "Go").await;
    let (question, _) = editor.question("session/request_permission").await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    editor.reply(question, json!({"outcome": {"outcome": "cancelled"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
    assert_eq!(world.ok(["interrupts", "--json"]).await.json(), json!([]));
    assert_eq!(editor.updates_of("tool_call_update").pop().unwrap()["status"], "failed");
}

#[tokio::test]
async fn prompt_is_added_to_a_running_turn_of_another_client() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    world
        .model
        .reply(Reply::tool_call("run_bash_command", json!({"command": WAIT})))
        .reply(Reply::text("Both are done."));
    let other = world.spawn_agentctl(["run", "--session", &session, "First", "--on-interrupt", "approve"]);
    let client = world.client().await;
    until("the turn is running", || async { client.session(&session).await.unwrap().live_turn }).await;
    let id = editor.begin_prompt(&session, "And second").await;
    let mut events = client.subscribe(&session, 0, false).await.unwrap();
    events.stored_until(is_added).await;
    fs::write(folder.join("go"), "").unwrap();
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.words("agent_message_chunk"), "Both are done.");
    assert!(editor.updates_of("user_message_chunk").is_empty(), "the editor's own input is not echoed");
    other.output(Vec::new()).await.exits(0);
    assert_eq!(client.session(&session).await.unwrap().session.summary.turns, 1);
}

#[tokio::test]
async fn loaded_session_streams_a_running_turn_and_can_cancel_it() {
    let world = World::start().await;
    for (method, is_closed) in [("session/load", false), ("session/resume", true)] {
        let mut first = Editor::start(&world).await;
        let (session, folder) = first.session(&world).await;
        world
            .model
            .reply(Reply::deltas(["I begin ", "and never end"]).hold_after_text("begin").hang_after_text("never"));
        first.begin_prompt(&session, "Go").await;
        first.update("agent_message_chunk").await;
        drop(first);

        let mut editor = Editor::start(&world).await;
        editor.gives(method, json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await;
        assert_eq!(editor.updates_of("user_message_chunk").len(), usize::from(method == "session/load"));
        world.model.release_held_reply();
        while !editor.words("agent_message_chunk").contains("I begin and never") {
            editor.read().await.unwrap();
        }
        if is_closed {
            editor.gives("session/close", json!({"sessionId": session})).await;
        } else {
            editor.notify("session/cancel", json!({"sessionId": session})).await;
        }
        let client = world.client().await;
        let mut events = client.subscribe(&session, 0, false).await.unwrap();
        let events = events.to_the_end().await;
        let EventKind::TurnEnded { result } = &events.last().unwrap().kind else { panic!("{events:#?}") };
        assert_eq!(result.stop_reason, StopReason::Cancelled);
    }
}

#[tokio::test]
async fn cancel_reaches_a_turn_started_by_another_client() {
    let (world, mut editor, session, _) = world_with_editor().await;
    world.model.reply(Reply::never()).default_reply(Reply::text("Here."));
    let other = world.spawn_agentctl(["run", "--session", &session, "Go"]);
    world.model.wait_until(|counts| counts.requests == 1).await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    // The cancellation does not affect the next message.
    assert_eq!(editor.prompt(&session, "Are you there?").await, "end_turn");
    assert_eq!(editor.words("agent_message_chunk"), "Here.");
    other.output(Vec::new()).await.exits(130);
}

#[tokio::test]
async fn load_omits_withdrawn_messages() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": WAIT}))).reply(Reply::never());
    let other = world.spawn_agentctl(["run", "--session", &session, "First.", "--on-interrupt", "approve"]);
    let client = world.client().await;
    until("the turn is running", || async { client.session(&session).await.unwrap().live_turn }).await;
    let mut events = client.subscribe(&session, 0, false).await.unwrap();
    let id = editor.begin_prompt(&session, "Second.").await;
    events.stored_until(is_added).await;
    fs::write(folder.join("go"), "").unwrap();
    world.model.wait_until(|counts| counts.requests == 2).await;
    let mut late = Editor::start(&world).await;
    late.gives("session/resume", json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await;
    late.begin_prompt(&session, "Third.").await;
    events.stored_until(is_added).await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
    other.output(Vec::new()).await.exits(130);
    let mut loaded = Editor::start(&world).await;
    loaded.gives("session/load", json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await;
    assert_eq!(loaded.words("user_message_chunk"), "First.Second.");
}

#[tokio::test]
async fn prompt_after_load_follows_the_running_turn_without_repeats() {
    let (world, mut first, session, folder) = world_with_editor().await;
    world
        .model
        .reply(Reply::deltas(["I begin", " and end. "]).hold_after_text("begin"))
        .reply(Reply::text("Heard you."));
    first.begin_prompt(&session, "Go").await;
    first.update("agent_message_chunk").await;
    drop(first);
    let mut editor = Editor::start(&world).await;
    editor.gives("session/load", json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await;
    while !editor.words("agent_message_chunk").contains("I begin") {
        editor.read().await.unwrap();
    }
    let id = editor.begin_prompt(&session, "And this").await;
    let client = world.client().await;
    let mut events = client.subscribe(&session, 0, false).await.unwrap();
    events.stored_until(is_added).await;
    world.model.release_held_reply();
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.words("agent_message_chunk"), "I begin and end. Heard you.", "no text is repeated");
}

#[tokio::test]
async fn turn_continues_after_the_daemon_is_killed() {
    let (mut world, mut editor, session, _) = world_with_editor().await;
    world
        .model
        .reply(Reply::text("I begin and never end").hang_after_text("begin"))
        .default_reply(Reply::text("I went on."));
    let id = editor.begin_prompt(&session, "Go").await;
    editor.update("agent_message_chunk").await;
    world.daemon.crash().await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    let answer = editor.words("agent_message_chunk");
    assert!(answer.ends_with("*(Interrupted; starting over.)*\n\nI went on."), "{answer}");
}

#[tokio::test]
async fn next_prompt_restarts_a_stopped_daemon() {
    let (world, mut editor, session, _) = world_with_editor().await;
    world.model.default_reply(Reply::text("Here."));
    editor.prompt(&session, "One").await;
    assert_eq!(world.daemon.sigterm().await, Some(0));
    // The next prompt starts the daemon.
    assert_eq!(editor.prompt(&session, "Two").await, "end_turn");
    let (_, folder) = editor.session(&world).await;
    assert!(folder.exists());
}
