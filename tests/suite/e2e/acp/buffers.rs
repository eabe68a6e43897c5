//! Project files that are open in an editor: unsaved text is read, and changes go to the editor.

use super::*;

/// An editor with a file of two lines, whose second line has an unsaved change.
async fn dirty() -> (World, Editor, String, PathBuf) {
    dirty_in(json!({"fs": {"readTextFile": true, "writeTextFile": true}})).await
}

/// Like [`dirty`], with these capabilities of the editor.
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
async fn an_edit_is_approved_against_the_buffer_and_lands_in_it() {
    let (world, mut editor, session, file) = dirty().await;
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"})));
    world.model.reply(edit("unsaved", "edited")).reply(Reply::text("Done."));
    let id = editor.begin_prompt(&session, "Edit it").await;
    let asked = editor.decides("approve").await;
    assert!(told(&world).contains("unsaved"), "{}", told(&world));
    has_all(&asked["toolCall"]["content"].to_string(), &["-unsaved", "+edited"]);
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert_eq!(editor.files.texts[&file], "one\nedited\n");
    assert_eq!(on_disk(&file), "one\nedited\n");
    let writes = editor.files.asked.iter().filter(|(what, _)| what == "write").count();
    assert_eq!(writes, 1, "{:?}", editor.files.asked);
    // Undo restores the user's unsaved text.
    world.ok(["undo", &session]).await;
    assert_eq!(on_disk(&file), "one\nunsaved\n");
}

#[tokio::test]
async fn a_patch_changes_files_in_the_editor_and_on_the_disk() {
    let (world, mut editor, session, file) = dirty().await;
    let closed = file.with_file_name("b.txt");
    fs::write(&closed, "closed\n").unwrap();
    let patch = "*** Begin Patch\n*** Update File: /project/a.txt\n@@\n one\n-unsaved\n+patched\n\
                 *** Update File: /project/b.txt\n@@\n-closed\n+patched\n*** End Patch";
    world.model.reply(Reply::tool_call("apply_patch", json!({"patch": patch}))).reply(Reply::text("Done."));
    editor.decided(&session, "Patch both", "approve").await;
    assert_eq!((editor.files.texts[&file].as_str(), on_disk(&closed).as_str()), ("one\npatched\n", "patched\n"));
    // A file that is not open is written to the disk.
    assert!(!editor.files.texts.contains_key(&closed));
}

#[tokio::test]
async fn a_buffer_that_changes_while_the_question_waits_is_not_overwritten() {
    let (world, mut editor, session, file) = dirty().await;
    world.model.reply(edit("one", "1")).reply(Reply::text("I look again."));
    let id = editor.begin_prompt(&session, "Edit it").await;
    let (question, _) = editor.question("session/request_permission").await;
    editor.files.texts.insert(file.clone(), "one\ntyped meanwhile\n".to_owned());
    editor.reply(question, json!({"outcome": {"outcome": "selected", "optionId": "approve"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(told(&world).contains("changed since"), "{}", told(&world));
    assert_eq!(editor.files.texts[&file], "one\ntyped meanwhile\n");
}

#[tokio::test]
async fn an_editor_that_does_not_save_is_told_of_to_the_model() {
    let (world, mut editor, session, file) = dirty().await;
    editor.files.saves = false;
    world.model.reply(edit("unsaved", "edited")).reply(Reply::text("Done."));
    editor.decided(&session, "Edit it", "approve").await;
    assert!(told(&world).contains("not saved"), "{}", told(&world));
    assert_eq!((editor.files.texts[&file].as_str(), on_disk(&file).as_str()), ("one\nedited\n", "one\nsaved\n"));
}

#[tokio::test]
async fn an_editor_that_gives_and_takes_nothing_keeps_what_is_not_saved() {
    let (world, mut editor, session, file) = dirty_in(json!({"fs": {"readTextFile": true}})).await;
    world.model.reply(edit("unsaved", "edited")).reply(Reply::text("It is not saved."));
    assert_eq!(editor.prompt(&session, "Edit it").await, "end_turn");
    assert!(told(&world).contains("unsaved changes"), "{}", told(&world));
    // Once saved, it is edited on the disk.
    editor.files.texts.insert(file.clone(), "one\nsaved\n".to_owned());
    world.model.reply(edit("saved", "edited")).reply(Reply::text("Done."));
    editor.decided(&session, "Edit it now", "approve").await;
    assert_eq!(on_disk(&file), "one\nedited\n");
    assert!(editor.files.asked.iter().all(|(what, _)| what == "read"), "{:?}", editor.files.asked);
}

#[tokio::test]
async fn an_editor_that_dies_leaves_the_files_to_the_disk() {
    let (world, mut editor, session, file) = dirty().await;
    editor.files.is_silent = true;
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"}))).reply(Reply::text("Read."));
    editor.begin_prompt(&session, "Read it").await;
    editor.question("fs/read_text_file").await;
    drop(editor);
    idle(&world, &session).await;
    assert!(told(&world).contains("saved"), "{}", told(&world));
    assert_eq!(on_disk(&file), "one\nsaved\n");
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_an_editor_that_says_nothing() {
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
    assert!(editor.told.iter().any(|told| told["params"]["requestId"] == question), "{:#?}", editor.told);
}

#[tokio::test]
async fn nothing_outside_of_the_project_is_asked_about() {
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
async fn what_an_editor_answers_is_not_trusted() {
    let (world, mut editor, session, file) = dirty().await;
    for text in ["zero \0 byte".to_owned(), "x".repeat(11 << 20)] {
        editor.files.texts.insert(file.clone(), text);
        world.model.reply(edit("saved", "edited")).reply(Reply::text("It did not work."));
        assert_eq!(editor.prompt(&session, "Edit it").await, "end_turn");
        assert_eq!(on_disk(&file), "one\nsaved\n");
        assert!(!editor.files.asked.iter().any(|(what, _)| what == "write"));
    }
}

#[tokio::test]
async fn subagents_work_on_the_files_of_the_editor() {
    let (world, mut editor, session, file) = dirty().await;
    world.delegates(json!({"task": "Edit the file"}), edit("unsaved", "edited"));
    editor.decided(&session, "Have it edited", "approve").await;
    assert_eq!(editor.files.texts[&file], "one\nedited\n");
}

#[tokio::test]
async fn a_turn_that_the_editor_joins_uses_its_files_too() {
    let (world, mut editor, session, _) = dirty().await;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "touch /project/made"})));
    world.model.reply(Reply::tool_call("read_file", json!({"path": "a.txt"}))).reply(Reply::text("Read."));
    world.ok(["run", "Work", "--session", &session, "--detach"]).await;
    editor.decided(&session, "And read", "approve").await;
    assert!(told(&world).contains("unsaved"), "{}", told(&world));
}
