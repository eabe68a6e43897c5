//! Project files that are open in an editor: the agent reads unsaved text, and sends its changes to the editor.

use super::*;

/// Starts an editor with a file of two lines, whose second line has an unsaved change.
async fn dirty() -> (World, Editor, String, PathBuf) {
    dirty_in(json!({"fs": {"readTextFile": true, "writeTextFile": true}})).await
}

/// Like [`dirty`], but with these editor capabilities.
async fn dirty_in(capabilities: Value) -> (World, Editor, String, PathBuf) {
    let world = World::start().await;
    let mut editor = Editor::with(&world, capabilities).await;
    let (session, folder) = editor.session(&world).await;
    let file = folder.join("a.txt");
    fs::write(&file, "one\nsaved\n").unwrap();
    editor.files.texts.insert(file.clone(), "one\nunsaved\n".to_owned());
    editor.files.saves = true;
    (world, editor, session, file)
}

fn edit(old: &str, new: &str) -> Reply {
    Reply::tool_call("edit_file", json!({"path": "/project/a.txt", "old_string": old, "new_string": new}))
}

fn on_disk(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

#[tokio::test]
async fn edit_is_diffed_against_the_buffer_and_written_to_it() {
    let (world, mut editor, session, file) = dirty().await;
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"})));
    world.model.reply(edit("unsaved", "edited")).reply(Reply::text("Done."));
    let id = editor.begin_prompt(&session, "Edit it").await;
    let asked = editor.answer_approval("approve").await;
    assert!(last_result(&world).contains("unsaved"), "{}", last_result(&world));
    has_all(&asked["toolCall"]["content"].to_string(), &["-unsaved", "+edited"]);
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.files.texts[&file], "one\nedited\n");
    assert_eq!(on_disk(&file), "one\nedited\n");
    let writes = editor.files.asked.iter().filter(|(method, _)| method == "write").count();
    assert_eq!(writes, 1, "{:?}", editor.files.asked);
    // Undo restores the user's unsaved text.
    world.ok(["undo", &session]).await;
    assert_eq!(on_disk(&file), "one\nunsaved\n");
}

#[tokio::test]
async fn patch_writes_open_files_to_the_editor_and_others_to_disk() {
    let (world, mut editor, session, file) = dirty().await;
    let closed = file.with_file_name("b.txt");
    fs::write(&closed, "closed\n").unwrap();
    let patch = "*** Begin Patch\n*** Update File: /project/a.txt\n@@\n one\n-unsaved\n+patched\n\
                 *** Update File: /project/b.txt\n@@\n-closed\n+patched\n*** End Patch";
    world.model.reply(Reply::tool_call("apply_patch", json!({"patch": patch}))).reply(Reply::text("Done."));
    editor.prompt_with_decision(&session, "Patch both", "approve").await;
    assert_eq!((editor.files.texts[&file].as_str(), on_disk(&closed).as_str()), ("one\npatched\n", "patched\n"));
    // A file that is not open is written to the disk.
    assert!(!editor.files.texts.contains_key(&closed));
}

#[tokio::test]
async fn buffer_changed_during_the_question_is_not_overwritten() {
    let (world, mut editor, session, file) = dirty().await;
    world.model.reply(edit("one", "1")).reply(Reply::text("I look again."));
    let id = editor.begin_prompt(&session, "Edit it").await;
    let (question, _) = editor.question("session/request_permission").await;
    editor.files.texts.insert(file.clone(), "one\ntyped meanwhile\n".to_owned());
    editor.reply(question, json!({"outcome": {"outcome": "selected", "optionId": "approve"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(last_result(&world).contains("changed since"), "{}", last_result(&world));
    assert_eq!(editor.files.texts[&file], "one\ntyped meanwhile\n");
}

#[tokio::test]
async fn model_is_informed_if_the_editor_does_not_save() {
    let (world, mut editor, session, file) = dirty().await;
    editor.files.saves = false;
    world.model.reply(edit("unsaved", "edited")).reply(Reply::text("Done."));
    editor.prompt_with_decision(&session, "Edit it", "approve").await;
    assert!(last_result(&world).contains("not saved"), "{}", last_result(&world));
    assert_eq!((editor.files.texts[&file].as_str(), on_disk(&file).as_str()), ("one\nedited\n", "one\nsaved\n"));
}

#[tokio::test]
async fn read_only_editor_keeps_its_unsaved_text() {
    let (world, mut editor, session, file) = dirty_in(json!({"fs": {"readTextFile": true}})).await;
    world.model.reply(edit("unsaved", "edited")).reply(Reply::text("It is not saved."));
    assert_eq!(editor.prompt(&session, "Edit it").await, "end_turn");
    assert!(last_result(&world).contains("unsaved changes"), "{}", last_result(&world));
    // Once saved, the file is edited on the disk.
    editor.files.texts.insert(file.clone(), "one\nsaved\n".to_owned());
    world.model.reply(edit("saved", "edited")).reply(Reply::text("Done."));
    editor.prompt_with_decision(&session, "Edit it now", "approve").await;
    assert_eq!(on_disk(&file), "one\nedited\n");
    assert!(editor.files.asked.iter().all(|(method, _)| method == "read"), "{:?}", editor.files.asked);
}

#[tokio::test]
async fn editor_exit_during_a_read_falls_back_to_the_disk() {
    let (world, mut editor, session, file) = dirty().await;
    editor.files.is_silent = true;
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"}))).reply(Reply::text("Read."));
    editor.begin_prompt(&session, "Read it").await;
    editor.question("fs/read_text_file").await;
    drop(editor);
    wait_until_idle(&world, &session).await;
    assert!(last_result(&world).contains("saved"), "{}", last_result(&world));
    assert_eq!(on_disk(&file), "one\nsaved\n");
}

#[tokio::test]
async fn cancel_does_not_wait_for_an_unresponsive_editor() {
    let (world, mut editor, session, _) = dirty().await;
    editor.files.is_silent = true;
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"})));
    let id = editor.begin_prompt(&session, "Read it").await;
    let (question, _) = editor.question("fs/read_text_file").await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
    // The request is cancelled, and a late response has no effect.
    editor.reply(question.clone(), json!({"content": "late"})).await;
    editor.files.is_silent = false;
    assert_eq!(editor.prompt(&session, "Are you there?").await, "end_turn");
    assert!(
        editor.notifications.iter().any(|notification| notification["params"]["requestId"] == question),
        "{:#?}",
        editor.notifications
    );
}

#[tokio::test]
async fn paths_outside_the_project_are_not_requested_from_the_editor() {
    let (world, mut editor, session, file) = dirty().await;
    let outside = world.write("secret.txt", "outside");
    symlink(&outside, file.with_file_name("link.txt")).unwrap();
    for path in ["/project/link.txt", "/project/../secret.txt", "outputs/none.txt"] {
        world.model.reply(Reply::tool_call("read_file", json!({"path": path})));
    }
    assert_eq!(editor.prompt(&session, "Read them").await, "end_turn");
    assert!(editor.files.asked.is_empty(), "{:?}", editor.files.asked);
}

#[tokio::test]
async fn invalid_buffer_text_from_the_editor_is_rejected() {
    let (world, mut editor, session, file) = dirty().await;
    for text in ["zero \0 byte".to_owned(), "x".repeat(11 << 20)] {
        editor.files.texts.insert(file.clone(), text);
        world.model.reply(edit("saved", "edited")).reply(Reply::text("It did not work."));
        assert_eq!(editor.prompt(&session, "Edit it").await, "end_turn");
        assert_eq!(on_disk(&file), "one\nsaved\n");
        assert!(!editor.files.asked.iter().any(|(method, _)| method == "write"));
    }
}

#[tokio::test]
async fn subagents_edit_the_editors_buffers() {
    let (world, mut editor, session, file) = dirty().await;
    world.delegates(json!({"task": "Edit the file"}), edit("unsaved", "edited"));
    editor.prompt_with_decision(&session, "Have it edited", "approve").await;
    assert_eq!(editor.files.texts[&file], "one\nedited\n");
}

#[tokio::test]
async fn turn_joined_by_an_editor_uses_its_buffers() {
    let (world, mut editor, session, _) = dirty().await;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "touch /project/made"})));
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"}))).reply(Reply::text("Read."));
    world.ok(["run", "Work", "--session", &session, "--detach"]).await;
    editor.prompt_with_decision(&session, "And read", "approve").await;
    assert!(last_result(&world).contains("unsaved"), "{}", last_result(&world));
}
