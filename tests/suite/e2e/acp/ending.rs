//! Cancels, prompts at once, daemons that are restarted.

use agentd_core::{
    event::EventKind,
    item::{Item, ItemBody},
};
use agentd_testkit::{daemon::until, model_server::Reply};
use serde_json::json;

use super::Editor;
use crate::e2e::{Events as _, World};

#[tokio::test]
async fn a_cancelled_prompt_is_answered_as_cancelled() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    world.model.reply(Reply::text("I begin and never end").hang_behind("begin"));
    let id = editor.begin_prompt(&session, "Go").await;
    editor.update("agent_message_chunk").await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
    // One that comes behind the end cancels nothing, and neither does one of a session that is not there.
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    editor.notify("session/cancel", json!({"sessionId": "nonsense"})).await;
    world.model.reply(Reply::text("Here."));
    assert_eq!(editor.prompt(&session, "Are you there?").await, "end_turn");
}

#[tokio::test]
async fn a_cancel_takes_questions_off_the_screen() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "touch /project/x"})));
    let id = editor.begin_prompt(&session, "Go").await;
    let (question, _) = editor.question("session/request_permission").await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    editor.reply(question, json!({"outcome": {"outcome": "cancelled"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
    let open = world.daemon.agentctl(["interrupts", "--json"]).await.exits(0);
    assert_eq!(open.json(), json!([]));
    assert_eq!(editor.came("tool_call_update").pop().unwrap()["status"], "failed");
}

#[tokio::test]
async fn a_request_can_be_cancelled_by_its_id() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    world.model.reply(Reply::text("I begin and never end").hang_behind("begin"));
    let id = editor.begin_prompt(&session, "Go").await;
    editor.update("agent_message_chunk").await;
    editor.notify("$/cancel_request", json!({"requestId": 999})).await;
    editor.notify("$/cancel_request", json!({"requestId": id})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_second_prompt_is_refused_while_the_first_runs() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    world.model.reply(Reply::text("I begin and never end").hang_behind("begin"));
    let id = editor.begin_prompt(&session, "Go").await;
    let second = editor.begin_prompt(&session, "Go faster").await;
    let refused = editor.answer_to(second).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("runs already"), "{refused:#}");
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
}

#[tokio::test]
async fn words_to_a_turn_of_somebody_else_are_added_to_it() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, folder) = editor.session(&world).await;
    let wait = "while [ ! -e /project/go ]; do read -t 0.01 < /dev/zero; done";
    world
        .model
        .reply(Reply::tool_call("run_bash_command", json!({"command": wait})))
        .reply(Reply::text("Both are done."));
    let other = world.daemon.spawn_agentctl(["run", "--session", &session, "First", "--on-interrupt", "approve"]);
    let client = world.client().await;
    until("it runs", || async { client.session(&session).await.unwrap().live_turn }).await;
    let id = editor.begin_prompt(&session, "And second").await;
    let mut events = client.subscribe(&session, 0, false).await.unwrap();
    let is_added = |kind: &EventKind| {
        matches!(kind, EventKind::ItemStarted { item: Item { body: ItemBody::UserMessage { steered: true, .. }, .. } })
    };
    events.stored_until(is_added).await;
    std::fs::write(folder.join("go"), "").unwrap();
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.words("agent_message_chunk"), "Both are done.");
    assert!(editor.came("user_message_chunk").is_empty(), "what was typed is on the screen");
    other.output(Vec::new()).await.exits(0);
    assert_eq!(client.session(&session).await.unwrap().session.summary.turns, 1);
}

#[tokio::test]
async fn a_daemon_that_is_killed_is_found_again_and_the_turn_goes_on() {
    let mut world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    world
        .model
        .reply(Reply::text("I begin and never end").hang_behind("begin"))
        .default_reply(Reply::text("I went on."));
    let id = editor.begin_prompt(&session, "Go").await;
    editor.update("agent_message_chunk").await;
    world.daemon.kill9().await;
    world.daemon.restart().await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    let words = editor.words("agent_message_chunk");
    assert!(words.ends_with("*(This broke off, and begins again.)*\n\nI went on."), "{words}");
}

#[tokio::test]
async fn a_question_outlives_the_daemon() {
    let mut world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, folder) = editor.session(&world).await;
    let call = Reply::tool_call("run_bash_command", json!({"command": "touch /project/x"}));
    world.model.reply(call).reply(Reply::text("Made."));
    let id = editor.begin_prompt(&session, "Go").await;
    let (question, _) = editor.question("session/request_permission").await;
    world.daemon.kill9().await;
    world.daemon.restart().await;
    editor.reply(question, json!({"outcome": {"outcome": "selected", "optionId": "approve"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(folder.join("x").exists());
}

#[tokio::test]
async fn between_prompts_a_daemon_may_come_and_go() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    world.model.default_reply(Reply::text("Here."));
    editor.prompt(&session, "One").await;
    assert_eq!(world.daemon.sigterm().await, Some(0));
    // It is started by whoever needs it.
    assert_eq!(editor.prompt(&session, "Two").await, "end_turn");
    let (_, folder) = editor.session(&world).await;
    assert!(folder.exists());
}
