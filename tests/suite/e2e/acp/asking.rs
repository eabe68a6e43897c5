//! Approvals and questions that are answered in the editor, in another client, or never.

use super::*;

/// A command that requires approval.
const COMMAND: &str = "touch /project/made";

fn asks(world: &World, last: &str) {
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": COMMAND}))).reply(Reply::text(last));
}

fn id_of(interrupt: &Value) -> String {
    interrupt["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn rejection_fails_the_call_and_always_skips_later_questions() {
    let (world, mut editor, session, _) = world_with_editor().await;
    asks(&world, "Then not.");
    let id = editor.begin_prompt(&session, "Make it").await;
    let asked = editor.answer_approval("reject").await;
    assert_eq!((&asked["toolCall"]["title"], &asked["sessionId"]), (&json!(format!("`$ {COMMAND}`")), &json!(session)));
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.updates_of("tool_call_update").last().unwrap()["status"], "failed");

    asks(&world, "Made.");
    editor.prompt_with_decision(&session, "Do make it", "always").await;
    asks(&world, "Made again.");
    assert_eq!(editor.prompt(&session, "Again").await, "end_turn");
    assert!(editor.asked.is_empty(), "{:#?}", editor.asked);
}

#[tokio::test]
async fn deferred_question_can_be_answered_by_agentctl() {
    let (world, mut editor, session, _) = world_with_editor().await;
    asks(&world, "Made.");
    let id = editor.begin_prompt(&session, "Make it").await;
    let (question, _) = editor.question("session/request_permission").await;
    editor.reply(question, json!({"outcome": {"outcome": "cancelled"}})).await;
    let update = editor.update("agent_message_chunk").await;
    assert!(update["content"]["text"].as_str().unwrap().contains("agentctl answer"), "{update:#}");
    let open = world.questions().await;
    world.ok(["answer", &id_of(&open[0]), "approve"]).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
}

#[tokio::test]
async fn question_answered_elsewhere_is_withdrawn_from_the_editor() {
    let (world, mut editor, session, _) = world_with_editor().await;
    asks(&world, "Made.");
    let id = editor.begin_prompt(&session, "Make it").await;
    let (question, _) = editor.question("session/request_permission").await;
    let open = world.questions().await;
    world.ok(["answer", &id_of(&open[0]), "approve"]).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.notifications[0]["params"]["requestId"], question, "{:#?}", editor.notifications);
    // A late answer has no effect.
    editor.reply(question, json!({"outcome": {"outcome": "selected", "optionId": "reject"}})).await;
    assert_eq!(editor.prompt(&session, "Are you there?").await, "end_turn");
}

#[tokio::test]
async fn editor_disconnect_leaves_its_question_open() {
    let (world, mut editor, session, _) = world_with_editor().await;
    asks(&world, "Made.");
    editor.begin_prompt(&session, "Make it").await;
    editor.question("session/request_permission").await;
    drop(editor);
    let open = world.questions().await;
    assert_eq!((open.len(), open[0]["session_id"].as_str()), (1, Some(session.as_str())), "{open:#?}");

    // Another editor gets the question immediately, and again when a message continues the turn.
    let mut editor = Editor::start(&world).await;
    let folder = world.path().join("shop");
    editor.gives("session/resume", json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await;
    editor.question("session/request_permission").await;
    let id = editor.begin_prompt(&session, "Go on").await;
    let asked = editor.answer_approval("approve").await;
    assert_eq!(asked["toolCall"]["title"], format!("`$ {COMMAND}`"));
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(folder.join("made").exists());
}

fn asks_human(world: &World) {
    let args = json!({"question": "Which colour?", "choices": ["red", "green"]});
    world.model.reply(Reply::tool_call("ask_human", args)).reply(Reply::text("Painted."));
}

#[tokio::test]
async fn ask_human_uses_a_form_if_the_editor_supports_forms() {
    let world = World::start().await;
    let mut editor = Editor::with(&world, json!({"elicitation": {"form": {}}})).await;
    let (session, _) = editor.session(&world).await;
    asks_human(&world);
    let id = editor.begin_prompt(&session, "Paint it").await;
    let (question, form) = editor.question("elicitation/create").await;
    holds(&form, json!({"mode": "form", "message": "Which colour?"}));
    assert_eq!(form["requestedSchema"]["properties"]["choice"]["enum"], json!(["red", "green"]));
    editor.reply(question, json!({"action": "accept", "content": {"choice": "green"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(last_result(&world).contains("green"), "{}", last_result(&world));
}

#[tokio::test]
async fn without_forms_the_next_message_answers_the_question() {
    let (world, mut editor, session, _) = world_with_editor().await;
    asks_human(&world);
    assert_eq!(editor.prompt(&session, "Paint it").await, "end_turn");
    let text = editor.words("agent_message_chunk");
    assert!(text.contains("**Which colour?**") && text.contains("2  green"), "{text}");
    assert_eq!(editor.prompt(&session, "2").await, "end_turn");
    assert!(last_result(&world).contains("green"), "{}", last_result(&world));
    assert!(editor.words("agent_message_chunk").ends_with("Painted."));
    // The answer in the message did not start another turn.
    let shown = world.client().await.session(&session).await.unwrap();
    assert_eq!(shown.session.summary.turns, 1);
}

#[tokio::test]
async fn turn_resumed_elsewhere_is_shown_once_with_the_next_prompt() {
    let (world, mut editor, session, _) = world_with_editor().await;
    asks_human(&world);
    assert_eq!(editor.prompt(&session, "Paint it").await, "end_turn");
    let open = world.questions().await;
    world.ok(["answer", &id_of(&open[0]), "red"]).await;
    wait_until_idle(&world, &session).await;
    world.model.reply(Reply::text("Anything else?"));
    assert_eq!(editor.prompt(&session, "Thanks").await, "end_turn");
    let answer = editor.words("agent_message_chunk");
    assert!(answer.ends_with("Painted.Anything else?"), "{answer}");
    // The call has ended, and its end is reported only once.
    let ends =
        editor.updates_of("tool_call_update").into_iter().filter(|update| update["status"] == "completed").count();
    assert_eq!((ends, answer.matches("Painted.").count()), (1, 1));
}

#[tokio::test]
async fn question_raised_between_prompts_is_shown_once() {
    let (world, mut editor, session, _) = world_with_editor().await;
    for question in ["Which door?", "Which colour?"] {
        world.model.reply(Reply::tool_call("ask_human", json!({"question": question})));
    }
    world.model.reply(Reply::text("Painted."));
    assert_eq!(editor.prompt(&session, "Paint it").await, "end_turn");
    let first = world.questions().await;
    world.ok(["answer", &id_of(&first[0]), "the left one"]).await;
    until("the second question is pending", || async {
        world.questions().await.pop().filter(|open| open["id"] != first[0]["id"])
    })
    .await;
    // The text is added to the turn, which then repeats the question.
    assert_eq!(editor.prompt(&session, "Are you there?").await, "end_turn");
    assert!(editor.words("agent_message_chunk").contains("Which colour?"));
    assert_eq!(editor.prompt(&session, "red").await, "end_turn");
    let answer = editor.words("agent_message_chunk");
    assert!(answer.ends_with("Painted.") && answer.matches("Which colour?").count() == 1, "{answer}");
    assert!(last_result(&world).contains("red"), "{}", last_result(&world));
}

#[tokio::test]
async fn subagent_approval_is_asked_in_the_parent_session() {
    let (world, mut editor, session, _) = world_with_editor().await;
    let call = Reply::tool_call("run_bash_command", json!({"command": COMMAND}));
    world.delegates(json!({"task": "Make the file"}), call);
    let id = editor.begin_prompt(&session, "Have it made").await;
    let asked = editor.answer_approval("approve").await;
    assert_eq!((&asked["sessionId"], &asked["toolCall"]["title"]), (&json!(session), &json!(format!("`$ {COMMAND}`"))));
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    let calls = editor.updates_of("tool_call");
    let child = calls.iter().find(|call| call["toolCallId"] == asked["toolCall"]["toolCallId"]);
    assert!(child.unwrap()["title"].as_str().unwrap().starts_with("⤷ subagent: `$ touch"), "{calls:#?}");
    assert!(editor.updates.iter().all(|update| update["sessionId"] == session.as_str()));
    assert_eq!(editor.words("agent_message_chunk"), "All is done.");
}

#[tokio::test]
async fn edit_with_hidden_characters_is_shown_escaped_for_approval() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\u{2066}\n*** End Patch\n";
    for (tool, args, sign) in [
        ("edit_file", json!({"path": "a.txt", "old_string": "two", "new_string": "2\u{202e}"}), '\u{202e}'),
        ("write_file", json!({"path": "b\u{200b}.txt", "content": "new\n"}), '\u{200b}'),
        ("write_file", json!({"path": "a.txt", "content": "two\u{8}\n"}), '\u{8}'),
        ("apply_patch", json!({"patch": patch}), '\u{2066}'),
    ] {
        world.model.reply(Reply::tool_call(tool, args)).reply(Reply::text("Left as it is."));
        let asked = editor.prompt_with_decision(&session, "Make it a number", "reject").await;
        let content = asked["toolCall"]["content"].as_array().unwrap();
        assert!(content.iter().all(|content| content["type"] == "content"), "{content:#?}");
        let first = content[0]["content"]["text"].as_str().unwrap();
        // In a path, the escape that models read is shown literally.
        let written = sign.escape_unicode().to_string();
        let of_path = written.replace('\\', "\\u{5c}");
        let is_shown = first.contains(&written) || first.contains(&of_path);
        assert!(is_shown && first.starts_with("```"), "{first}");
        for shown in [asked, editor.updates_of("tool_call").pop().unwrap()] {
            let (raw, escaped) = (sign.to_string(), json!(sign.to_string()).to_string());
            let shown = shown.to_string();
            assert!(!shown.contains(&raw) && !shown.contains(escaped.trim_matches('"')), "{shown}");
        }
    }
}
