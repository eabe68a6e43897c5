//! Sessions: listing, loading, resuming, closing, deleting, and settings.

use agentd_core::session::SessionMode;

use super::*;

fn ids(listed: &Value) -> Vec<&str> {
    listed["sessions"].as_array().unwrap().iter().map(|session| session["sessionId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn sessions_are_listed_by_folder_and_by_page() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    world.model.default_reply(Reply::text("Hello."));
    editor.prompt(&session, "Greet me").await;
    let client = world.client().await;
    for number in 0..60 {
        let title = Some(format!("other {number}"));
        client.create_session(&agentd_proto::client::NewSession { title, ..Default::default() }).await.unwrap();
    }
    let listed = editor.gives("session/list", json!({"cwd": folder})).await;
    assert_eq!(
        (ids(&listed), &listed["sessions"][0]["title"]),
        (vec![session.as_str()], &json!("Greet me")),
        "{listed:#}"
    );
    assert_eq!((&listed["sessions"][0]["cwd"], listed.get("nextCursor")), (&json!(folder), None));
    assert_eq!(editor.gives("session/list", json!({"cwd": "/nowhere"})).await["sessions"], json!([]));

    let first = editor.gives("session/list", json!({})).await;
    let cursor = first["nextCursor"].as_str().unwrap();
    // A session that is used after the first page was listed does not appear on the second page.
    client.rename_session(ids(&first)[10], "renamed").await.unwrap();
    let second = editor.gives("session/list", json!({"cursor": cursor})).await;
    assert_eq!((ids(&first).len(), ids(&second).len(), second.get("nextCursor")), (50, 11, None));
    assert!(ids(&first).iter().all(|id| !ids(&second).contains(id)));
}

#[tokio::test]
async fn additional_directories_are_added_only_at_session_creation() {
    let world = World::start().await;
    let at = |name: &str| world.path().join(name).canonicalize().unwrap();
    world.write("shop/a.txt", "a");
    world.write("shop/inner/b.txt", "b");
    world.write("lib/c.txt", "old words");
    let mut editor = Editor::start(&world).await;
    let further = json!([at("lib"), at("shop/inner")]);
    let new = json!({"cwd": at("shop"), "mcpServers": [], "additionalDirectories": further});
    let session = editor.gives("session/new", new).await["sessionId"].as_str().unwrap().to_owned();
    let edit = json!({"path": "/folders/lib/c.txt", "old_string": "old", "new_string": "new"});
    world.model.reply(Reply::tool_call("edit_file", edit));
    world.model.reply(Reply::text("Done."));
    let id = editor.begin_prompt(&session, "Change it").await;
    let question = editor.answer_approval("approve").await;
    editor.ends(id).await;
    assert!(question.to_string().contains(&at("lib/c.txt").display().to_string()), "{question:#}");
    assert_eq!(world.read("lib/c.txt"), "new words");
    let listed = editor.gives("session/list", json!({"cwd": at("shop")})).await;
    assert_eq!(listed["sessions"][0]["additionalDirectories"], json!([at("lib")]), "{listed:#}");
    // Only the user decides which folders a session may access.
    world.write("other/d.txt", "d");
    let params =
        json!({"sessionId": session, "cwd": at("shop"), "mcpServers": [], "additionalDirectories": [at("other")]});
    editor.gives("session/resume", params).await;
    let settings = world.client().await.session(&session).await.unwrap().session.settings;
    assert_eq!(settings.folders.iter().map(|folder| folder.path.clone()).collect::<Vec<_>>(), [at("lib")]);
    // A missing folder is skipped. A folder at a hidden path is read-only.
    world.write("lib/.config/e.txt", "e");
    let further = json!(["lib", at("lib").join("gone"), at("lib/.config")]);
    let odd = json!({"cwd": at("shop"), "mcpServers": [], "additionalDirectories": further});
    let odd = editor.gives("session/new", odd).await["sessionId"].as_str().unwrap().to_owned();
    let folders = world.client().await.session(&odd).await.unwrap().session.settings.folders;
    let seen: Vec<_> = folders.iter().map(|folder| (folder.at.as_str(), folder.writable)).collect();
    assert_eq!(seen, [("/folders/config", false)]);
}

#[tokio::test]
async fn a_session_is_loaded_with_its_history_and_resumed_without_it() {
    let world = World::start().await;
    let mut editor = Editor::with(&world, json!({"_meta": {"terminal_output": true}})).await;
    let (session, folder) = editor.session(&world).await;
    let line = |number: usize| format!("{number}: this is one of many lines of a file that is long\n");
    fs::write(folder.join("long.txt"), (0..200).map(line).collect::<String>()).unwrap();
    let look = Reply::tool_call("read_file", json!({"path": "/project/long.txt"}));
    world.model.reply(look.and_call("run_bash_command", json!({"command": "touch /project/made"})));
    world.model.reply(Reply::text("It is long.").and_reasoning("I look."));
    let id = editor.begin_prompt(&session, "Show it").await;
    editor.answer_approval("approve").await;
    editor.ends(id).await;
    editor.close().await.exits(0);

    let mut editor = Editor::with(&world, json!({"_meta": {"terminal_output": true}})).await;
    let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
    let loaded = editor.gives("session/load", params.clone()).await;
    // All updates arrive before the response.
    assert_eq!(
        (editor.words("user_message_chunk"), editor.words("agent_message_chunk")),
        ("Show it".to_owned(), "It is long.".to_owned())
    );
    assert_eq!(editor.words("agent_thought_chunk"), "I look.");
    let calls = editor.updates_of("tool_call");
    let titles: Vec<&Value> = calls.iter().map(|call| &call["title"]).collect();
    assert_eq!(titles, ["read_file /project/long.txt", "`$ touch /project/made`"]);
    let done = editor.updates_of("tool_call_update");
    let text = done[0]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.len() < 5_000 && text.contains("199: this") && text.contains("bytes left out"), "{text}");
    let all = format!("{calls:?}{done:?}");
    assert!(!all.contains("terminal"), "a finished terminal is still referenced: {all}");
    assert_eq!(loaded["modes"]["currentModeId"], "ask");

    // The model receives the history of the loaded session.
    editor.prompt(&session, "Was it long?").await;
    assert!(world.model.requests().pop().unwrap().body.to_string().contains("It is long."));

    let mut other = Editor::start(&world).await;
    other.gives("session/resume", params).await;
    assert!(other.updates_of("agent_message_chunk").is_empty() && other.updates_of("tool_call").is_empty());
    assert_eq!(other.prompt(&session, "And again?").await, "end_turn");
}

#[tokio::test]
async fn mode_and_model_changes_sync_in_both_directions() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let folder = world.path().join("shop");
    fs::create_dir_all(&folder).unwrap();
    let new = editor.gives("session/new", json!({"cwd": folder, "mcpServers": []})).await;
    let session = new["sessionId"].as_str().unwrap().to_owned();
    let modes: Vec<&Value> =
        new["modes"]["availableModes"].as_array().unwrap().iter().map(|mode| &mode["id"]).collect();
    assert_eq!(modes, ["ask", "accept-edits", "plan", "auto"]);
    let options = &new["configOptions"];
    assert_eq!(
        (&options[0]["id"], &options[1]["category"], &options[1]["currentValue"]),
        (&json!("mode"), &json!("model"), &json!("default"))
    );

    editor.gives("session/set_mode", json!({"sessionId": session, "modeId": "accept-edits"})).await;
    assert_eq!(editor.update("config_option_update").await["configOptions"][0]["currentValue"], "accept-edits");
    let option = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let set = editor.gives("session/set_config_option", option("model", "base")).await;
    assert_eq!(
        (&set["configOptions"][1]["currentValue"], &set["configOptions"][0]["currentValue"]),
        (&json!("base"), &json!("accept-edits"))
    );
    let set = editor.gives("session/set_config_option", option("mode", "plan")).await;
    assert_eq!(set["configOptions"][0]["currentValue"], "plan");
    assert_eq!(editor.update("current_mode_update").await["currentModeId"], "plan");

    let client = world.client().await;
    let view = client.session(&session).await.unwrap();
    assert_eq!((view.session.settings.mode, view.session.settings.slot), (SessionMode::Plan, Some(Default::default())));
    client.set_mode(&session, SessionMode::Ask, "a chat").await.unwrap();
    assert_eq!(editor.update("current_mode_update").await["currentModeId"], "ask");
    client.rename_session(&session, "Another name").await.unwrap();
    assert_eq!(editor.update("session_info_update").await["title"], "Another name");
    let news: Vec<Value> = editor.updates_of("config_option_update");
    assert!(
        matches!(&news[..], [only] if only["configOptions"][0]["currentValue"] == "ask"),
        "the editor's own change is not reported back: {news:?}"
    );
    let (code, message) = editor.fails("session/set_config_option", option("model", "none")).await;
    assert!(code == -32602 && message.contains("model"), "{message}");
}

#[tokio::test]
async fn rapid_option_changes_send_no_outdated_updates() {
    let (world, mut editor, session, _) = world_with_editor().await;
    for value in ["base", "default"].iter().cycle().take(40) {
        let set = json!({"sessionId": session, "configId": "model", "value": value});
        editor.begin("session/set_config_option", set).await;
    }
    while !editor.open.is_empty() {
        editor.read().await.expect("every request is answered");
    }
    // All earlier updates have arrived before this one.
    world.client().await.rename_session(&session, "All of it").await.unwrap();
    assert_eq!(editor.update("session_info_update").await["title"], "All of it");
    assert_eq!(editor.updates_of("config_option_update"), Vec::<Value>::new());
}

#[tokio::test]
async fn a_closed_session_can_be_resumed_and_a_deleted_one_is_gone() {
    let (world, mut editor, session, folder) = world_with_editor().await;
    world.model.reply(Reply::text("I begin and never end").hang_after_text("begin"));
    let id = editor.begin_prompt(&session, "Go").await;
    editor.update("agent_message_chunk").await;
    editor.gives("session/close", json!({"sessionId": session})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]});
    assert_eq!(editor.fails("session/prompt", prompt).await.0, -32002);
    let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
    editor.gives("session/resume", params.clone()).await;
    editor.gives("session/delete", json!({"sessionId": session})).await;
    assert_eq!(editor.fails("session/load", params).await.0, -32002);
    // Deleting the session again succeeds.
    editor.gives("session/delete", json!({"sessionId": session})).await;
    assert_eq!(editor.gives("session/list", json!({})).await["sessions"], json!([]));
}

#[tokio::test]
async fn home_folder_is_not_used_as_project() {
    let world = World::start().await;
    let mut editor = Editor::with(&world, json!({"session": {"notices": {}}})).await;
    let new = editor.gives("session/new", json!({"cwd": world.path(), "mcpServers": []})).await;
    assert!(editor.update("notice").await["title"].as_str().unwrap().contains("not a project folder"));
    let view = world.client().await.session(new["sessionId"].as_str().unwrap()).await.unwrap();
    assert_eq!(view.session.settings.project, None);
}
