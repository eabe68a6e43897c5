//! Prompts and the updates that editors receive during their turns.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::*;

#[tokio::test]
async fn text_reasoning_title_and_usage_are_streamed() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    let commands = editor.update("available_commands_update").await;
    assert_eq!(commands["availableCommands"][0]["name"], "compact", "{commands:#}");

    world.model.reply(Reply::deltas(["Good ", "morning."]).and_reasoning("They greet me."));
    assert_eq!(editor.prompt(&session, "Good morning").await, "end_turn");
    assert_eq!(editor.words("agent_message_chunk"), "Good morning.");
    assert_eq!(editor.words("agent_thought_chunk"), "They greet me.");
    let messages = editor.updates_of("agent_message_chunk");
    assert!(messages.iter().all(|chunk| chunk["messageId"] == messages[0]["messageId"]), "{messages:#?}");
    assert!(editor.updates_of("user_message_chunk").is_empty(), "the editor's own input is not echoed");
    assert_eq!(editor.update("session_info_update").await["title"], "Good morning");
    let usage = editor.update("usage_update").await;
    assert!(usage["used"].as_u64().unwrap() > 0 && usage["size"].as_u64() > usage["used"].as_u64(), "{usage:#}");

    let seen = world.model.requests().last().unwrap().body.to_string();
    assert!(seen.contains(folder.to_str().unwrap()), "the project folder is missing in the prompt: {seen}");
    assert_eq!(editor.close().await.exits(0).stderr, "");
}

#[tokio::test]
async fn response_to_a_prompt_has_the_tokens_of_its_turn() {
    let (world, mut editor, session, _) = world_with_editor().await;
    let counted = json!({
        "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 600}, "completion_tokens_details": {"reasoning_tokens": 20},
    });
    let reply = |reply: Reply| reply.with_usage(UsagePlace::Tail, counted.clone());
    world.model.reply(reply(Reply::tool_call("now", json!({})))).reply(reply(Reply::text("Noon.")));
    let id = editor.begin_prompt(&session, "What time is it?").await;
    let usage = editor.ends(id).await["usage"].clone();
    let both = json!({
        "totalTokens": 2100, "inputTokens": 800, "outputTokens": 100, "thoughtTokens": 40, "cachedReadTokens": 1200,
    });
    assert_eq!(usage, both);
    world.model.reply(reply(Reply::text("Noon.")));
    let id = editor.begin_prompt(&session, "And now?").await;
    assert_eq!(editor.ends(id).await["usage"]["totalTokens"], 1050, "of the last turn only");
    assert_eq!(editor.close().await.exits(0).stderr, "");
}

#[tokio::test]
async fn mentioned_files_are_attached_to_the_prompt() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    fs::write(folder.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    world.write("notes.txt", "remember the milk\n");
    world.model.default_reply(Reply::text("Done."));
    assert_eq!(
        editor.prompt(&session, "Explain #a.txt:2-3 of #a.txt, with #../notes.txt and `#a.txt:1`").await,
        "end_turn"
    );
    let seen = world.model.requests().last().unwrap().body.to_string();
    has_all(&seen, &["/project/a.txt, lines 2 to 3:", "two\\nthree", "#a.txt is /project/a.txt", "remember the milk"]);
    assert!(!seen.contains("one\\ntwo"), "{seen}");
    assert_eq!(editor.close().await.exits(0).stderr, "");
}

#[tokio::test]
async fn link_labels_and_resource_texts_are_not_mentions() {
    let world = World::start().await;
    world.write("config/commands/review.md", "Review $1 well.\n");
    world.write("notes.txt", "remember the milk\n");
    let mut editor = Editor::start(&world).await;
    let (session, folder) = editor.session(&world).await;
    let strange = folder.join("x #..").join("notes.txt @grep");
    fs::create_dir_all(strange.parent().unwrap()).unwrap();
    fs::write(&strange, "strange").unwrap();
    let strange = format!("file://{}/x%20%23../notes.txt%20@grep", folder.display());
    world.model.default_reply(Reply::text("Done."));
    for (typed, named) in [("Explain", "Explain"), ("/review a.rs", "Review a.rs well.")] {
        let prompt = json!([
            {"type": "text", "text": typed},
            {"type": "resource_link", "name": "#../notes.txt @grep", "uri": "zed:///rules"},
            {"type": "resource_link", "name": "#../*.txt", "uri": "zed:///#../notes.txt"},
            {"type": "resource_link", "name": "notes", "uri": strange},
            {"type": "resource", "resource": {"uri": "x @grep", "text": "Use @grep on #../notes.txt"}},
        ]);
        let result = editor.gives("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
        assert_eq!(result["stopReason"], "end_turn");
        let seen = world.model.requests().last().unwrap().body.to_string();
        assert!(seen.contains(named) && seen.contains("/project/x #../notes.txt @grep"), "{seen}");
        assert!(!seen.contains("remember the milk"), "{seen}");
        assert!(!seen.contains("The user mentioned"), "{seen}");
        assert!(!world.path().join(format!("data/workspace/{session}/uploads/notes.txt")).exists());
    }
    // The same text is a mention when the user types it.
    editor.prompt(&session, "Use @grep on #../notes.txt").await;
    has_all(
        &world.model.requests().last().unwrap().body.to_string(),
        &["The user mentioned grep", "notes.txt is uploads/notes.txt"],
    );
}

#[tokio::test]
async fn edit_approval_shows_the_diff() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    let args = json!({"path": "/project/a.txt", "old_string": "two", "new_string": "2"});
    world.model.reply(Reply::tool_call("edit_file", args.clone())).reply(Reply::text("Done."));
    let id = editor.begin_prompt(&session, "Make it a number").await;

    let asked = editor.answer_approval("approve").await;
    let (call, diff) = (
        &asked["toolCall"],
        json!({"type": "diff", "path": folder.join("a.txt"), "oldText": "two\n", "newText": "2\n"}),
    );
    assert_eq!(
        (&call["title"], &call["kind"], &call["rawInput"]),
        (&json!("edit_file /project/a.txt"), &json!("edit"), &args)
    );
    assert!(call["content"].as_array().unwrap().contains(&diff), "{call:#}");
    assert_eq!(call["locations"], json!([{"path": folder.join("a.txt")}]));
    let kinds: Vec<&Value> = asked["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert_eq!((kinds[0], kinds.last()), (&json!("allow_once"), Some(&&json!("reject_once"))), "{asked:#}");

    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "one\n2\n");
    let update = editor.update("tool_call").await;
    assert_eq!(
        (&update["toolCallId"], &update["status"], &update["content"]),
        (&call["toolCallId"], &Value::Null, &json!([diff]))
    );
    let last = editor.updates_of("tool_call_update").pop().unwrap();
    assert_eq!((&last["status"], &last["rawOutput"]["files"]), (&json!("completed"), &json!(["/project/a.txt"])));
}

#[tokio::test]
async fn command_output_streams_to_a_terminal_if_supported() {
    let world = World::start().await;
    let mut editor = Editor::with(&world, json!({"_meta": {"terminal_output": true}})).await;
    let (session, folder) = editor.session(&world).await;
    // The command waits for a file that is created after its first output line has arrived.
    let command = "echo first; while [ ! -e /project/go ]; do read -t 0.01 < /dev/zero; done; echo last; exit 3";
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": command}))).reply(Reply::text("Over."));
    let id = editor.begin_prompt(&session, "Run it").await;
    let call = editor.update("tool_call").await;
    let terminal = &call["content"][0]["terminalId"];
    assert_eq!(
        (&call["content"][0]["type"], &call["_meta"]["terminal_info"]["terminal_id"]),
        (&json!("terminal"), terminal)
    );
    assert_eq!(editor.answer_approval("approve").await["toolCall"]["rawInput"]["command"], command);
    let mut data = String::new();
    while !data.contains("first") {
        let update = editor.update("tool_call_update").await;
        data.push_str(update["_meta"]["terminal_output"]["data"].as_str().unwrap_or_default());
    }
    fs::write(folder.join("go"), "").unwrap();
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    let last = editor.updates_of("tool_call_update").pop().unwrap();
    assert_eq!(
        (&last["status"], &last["_meta"]["terminal_exit"]["exit_code"]),
        (&json!("failed"), &json!(3)),
        "{last:#}"
    );
}

#[tokio::test]
async fn todos_are_sent_as_a_plan() {
    let (world, mut editor, session, _) = world_with_editor().await;
    let todos = json!([{"id": "1", "content": "Look", "status": "in_progress"}, {"id": "2", "content": "Mend", "status": "pending"}]);
    world
        .model
        .reply(Reply::tool_call("todo_write", json!({"todos": todos})))
        .default_reply(Reply::text("I have looked."));
    assert_eq!(editor.prompt(&session, "Do both").await, "end_turn");
    let plan = editor.update("plan").await;
    assert_eq!(
        (&plan["entries"][0]["status"], &plan["entries"][1]["content"]),
        (&json!("in_progress"), &json!("Mend"))
    );
}

#[tokio::test]
async fn pictures_resources_and_links_are_part_of_the_prompt() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    fs::write(folder.join("main.rs"), "fn main() {}\n").unwrap();
    let outside = world.write("notes/plan.txt", "the plan");
    let uri = |path: &Path| format!("file://{}", path.display());
    let prompt = json!([
        {"type": "text", "text": "Compare"},
        {"type": "image", "mimeType": "image/png", "data": STANDARD.encode(include_bytes!("../fixtures/red.png"))},
        {"type": "resource_link", "name": "main.rs", "uri": uri(&folder.join("main.rs"))},
        {"type": "resource_link", "name": "plan.txt", "uri": uri(&outside)},
        {"type": "resource_link", "name": "Rules", "uri": "zed:///agent/rules"},
        {"type": "resource", "resource": {"uri": uri(&folder.join("unsaved.rs")), "text": "fn unsaved() {}"}},
    ]);
    let result = editor.gives("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    assert_eq!(result["stopReason"], "end_turn");
    let request = world.model.requests().pop().unwrap();
    let seen = request.body.to_string();
    for phrase in [
        "Compare uploads/picture-2.png  /project/main.rs uploads/plan.txt Rules (zed:///agent/rules)",
        "/project/unsaved.rs",
        "fn unsaved() {}",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&seen).contains(&squeezed(phrase)), "{phrase} in {seen}");
    }
    assert_eq!(world.read(&format!("data/workspace/{session}/uploads/plan.txt")), "the plan");
}

#[tokio::test]
async fn user_commands_expand_to_their_prompts() {
    let world = World::start().await;
    world.write(
        "config/commands/review.md",
        "---\ndescription: Reviews a file\nargument-hint: file\n---\nReview $1 well.\n",
    );
    let mut editor = Editor::start(&world).await;
    let (session, _) = editor.session(&world).await;
    let commands = editor.update("available_commands_update").await;
    let review = commands["availableCommands"].as_array().unwrap().iter().find(|command| command["name"] == "review");
    assert_eq!(review.unwrap()["input"]["hint"], "file", "{commands:#}");
    editor.prompt(&session, "/review a.rs").await;
    assert_eq!(world.model.requests().last().unwrap().last_user(), "Review a.rs well.");
    // Text that only looks like a command is sent to the model.
    editor.prompt(&session, "/etc/passwd is what?").await;
    assert_eq!(world.model.requests().last().unwrap().last_user(), "/etc/passwd is what?");
    world.model.reply(Reply::text("The summary of it all."));
    assert_eq!(editor.prompt(&session, "/compact").await, "end_turn");
    let (code, message) = {
        let prompt = json!([{"type": "text", "text": "/plan"}]);
        editor.fails("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    };
    assert!(code == -32602 && message.contains("task"), "{message}");
}

#[tokio::test]
async fn failed_turn_returns_the_error_with_a_hint() {
    let (world, mut editor, session, _) = world_with_editor().await;
    world.model.reply(Reply::status(401, "{\"error\": {\"message\": \"bad key\"}}"));
    let prompt = json!([{"type": "text", "text": "Hi"}]);
    let (code, message) = editor.fails("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    assert!(code == -32603 && message.contains("hint:"), "{code} {message}");
    // The session is still usable.
    assert_eq!(editor.prompt(&session, "Hi again").await, "end_turn");
}
