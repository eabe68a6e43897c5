//! What turns do to files is taken back, by whoever wants it, today or after a restart.

use std::{fs, os::unix::fs::PermissionsExt as _};

use agentd_testkit::{daemon::until, model_server::Reply};
use serde_json::{Value, json};

use super::{World, keys, works_through};

/// What a turn does here: a file is edited, and a command changes, makes, moves and removes some.
async fn changed() -> (World, Vec<u8>) {
    let world = World::start().await;
    let notes = b"one\r\ntwo \xff\r\n".to_vec();
    world.daemon.write("project/notes.txt", &notes);
    world.daemon.write("project/edited.txt", "old words\n");
    world.daemon.write("project/gone/deep.txt", "deep\n");
    let script = world.daemon.write("project/run.sh", "#!/bin/sh\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o751)).unwrap();
    let edit = json!({"path": "/project/edited.txt", "old_string": "old", "new_string": "new"});
    let command = r#"cd "$PROJECT"; printf three >> notes.txt; rm -r gone; chmod 600 run.sh; mkdir made
        echo x > made/x; mv edited.txt moved.txt; echo all changed"#;
    let steps = vec![
        (&["Edited"][..], Reply::tool_call("edit_file", edit)),
        (&["all changed"][..], Reply::tool_call("run_bash_command", json!({"command": command}))),
    ];
    works_through(&world.model, steps, Reply::text("It is done."));
    let project = format!("{}:rw", world.daemon.path().join("project").display());
    let args = ["run", "Change it", "-C", &project, "--on-interrupt", "approve"];
    let output = world.daemon.agentctl(args).await.exits(0);
    assert_eq!(output.stdout.trim(), "It is done.");
    assert!(world.daemon.path().join("project/made/x").exists());
    (world, notes)
}

fn project(world: &World, name: &str) -> Vec<u8> {
    fs::read(world.daemon.path().join("project").join(name)).unwrap_or_default()
}

#[track_caller]
fn is_as_it_was(world: &World, notes: &[u8]) {
    assert_eq!(project(world, "notes.txt"), notes, "byte for byte");
    assert_eq!(project(world, "edited.txt"), b"old words\n");
    assert_eq!(project(world, "gone/deep.txt"), b"deep\n");
    let folder = world.daemon.path().join("project");
    assert_eq!(folder.join("run.sh").metadata().unwrap().permissions().mode() & 0o777, 0o751);
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["edited.txt", "gone", "notes.txt", "run.sh"]);
}

fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let files = report["files"].as_array().unwrap().iter();
    files.map(|file| (file["path"].as_str().unwrap(), file["outcome"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_turn_is_undone_byte_for_byte_after_a_restart() {
    let (mut world, notes) = changed().await;
    world.daemon.kill9().await;
    world.daemon.restart().await;

    let preview = world.daemon.agentctl(["undo", "--preview"]).await.exits(0).stdout;
    for words in ["/project/edited.txt: comes back", "+old words", "/project/moved.txt: is removed", "turn 1: "] {
        assert!(preview.contains(words), "{words:?} is missing in:\n{preview}");
    }
    assert!(world.daemon.path().join("project/made/x").exists(), "a preview changes nothing");

    let report = world.daemon.agentctl(["undo", "--json"]).await.exits(0).json();
    assert_eq!(keys(&report), ["files", "preview", "redo", "turn", "turn_id"]);
    assert_eq!((&report["turn"], &report["preview"]), (&json!(1), &json!(false)));
    assert!(outcomes(&report).iter().all(|(_, outcome)| *outcome == "done"), "{report:#}");
    is_as_it_was(&world, &notes);
    world.daemon.agentctl(["undo"]).await.exits(2).says(&["no turn of this session changed files"]);

    world.daemon.agentctl(["undo", "--redo"]).await.exits(0);
    assert_eq!(project(&world, "moved.txt"), b"new words\n");
    assert!(!world.daemon.path().join("project/gone").exists());
    world.daemon.agentctl(["undo", "--turn", "1"]).await.exits(0);
    is_as_it_was(&world, &notes);

    // The model is told.
    world.model.reply(Reply::text("I know.").when("And now?"));
    world.daemon.agentctl(["run", "--continue", "And now?"]).await.exits(0);
    let request = format!("{:?}", world.model.requests().last().unwrap().messages());
    assert!(request.contains("took back what turn 1 had done"), "{request}");
}

#[tokio::test]
async fn what_somebody_else_changed_since_is_shown_and_left_alone() {
    let (world, _) = changed().await;
    world.daemon.write("project/notes.txt", "a person's words\n");
    let output = world.daemon.agentctl(["undo"]).await.exits(1);
    for words in ["/project/notes.txt: left alone, it has been changed since", "+a person's words", "1 conflict"] {
        assert!(output.stdout.contains(words), "{words:?} is missing in:\n{}", output.stdout);
    }
    assert_eq!(project(&world, "notes.txt"), b"a person's words\n");
    assert_eq!(project(&world, "edited.txt"), b"old words\n", "the others are restored");
    world.daemon.agentctl(["undo", "--turn", "7"]).await.exits(2).says(&["this session has no turn 7"]);
    world.daemon.agentctl(["undo", "--turn", "last"]).await.exits(2);
    world.still_serves().await;
}

#[tokio::test]
async fn what_a_command_changed_before_a_kill_can_be_undone() {
    let mut world = World::start().await;
    world.daemon.write("project/a.txt", "old\n");
    let command = r#"echo new > "$PROJECT/a.txt"; echo made > "$PROJECT/b.txt"; sleep 60"#;
    let call = Reply::tool_call("run_bash_command", json!({"command": command, "timeout_s": 60}));
    works_through(&world.model, vec![(&["never"], call)], Reply::text("?"));
    let project_argument = format!("{}:rw", world.daemon.path().join("project").display());
    let args = ["run", "Change it", "-C", &project_argument, "--on-interrupt", "approve"];
    let running = world.daemon.spawn_agentctl(args);
    until("the command to have written", || async { (project(&world, "b.txt") == b"made\n").then_some(()) }).await;
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    let report = world.daemon.agentctl(["undo", "--json"]).await.exits(0).json();
    assert_eq!(outcomes(&report), [("/project/a.txt", "done"), ("/project/b.txt", "done")]);
    assert_eq!((project(&world, "a.txt"), project(&world, "b.txt")), (b"old\n".to_vec(), Vec::new()));
}

#[tokio::test]
async fn the_model_can_take_its_own_edit_back() {
    let world = World::start().await;
    let write = |content: &str| Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": content}));
    let steps = vec![
        (&["Created"][..], write("first\n")),
        (&["Replaced"][..], write("second\n")),
        (&["Taken back"][..], Reply::tool_call("undo_patch", json!({}))),
    ];
    works_through(&world.model, steps, Reply::text("As it was."));
    let args = ["run", "Write", "--on-interrupt", "approve", "--output", "json"];
    let result = world.daemon.agentctl(args).await.exits(0).json();
    let session = result["session_id"].as_str().unwrap().to_owned();
    let written = format!("data/workspace/{session}/outputs/a.txt");
    assert_eq!(world.daemon.read(&written), "first\n");
    let report = world.daemon.agentctl(["undo", &session, "--json"]).await.exits(0).json();
    assert_eq!(outcomes(&report), [("outputs/a.txt", "done")]);
    assert_eq!(world.daemon.read(&written), "");

    // What is kept goes with its session, and no tool could have reached it.
    assert!(world.daemon.data().join("undo").join(&session).exists());
    world.daemon.agentctl(["sessions", "delete", &session, "--yes"]).await.exits(0);
    assert!(!world.daemon.data().join("undo").join(&session).exists());
}

#[tokio::test]
async fn the_chat_shows_and_asks_first() {
    let (world, _) = changed().await;
    // Nobody sits before a script: it is shown what would be done, and nothing is.
    let output = world.daemon.agentctl_with(["chat", "--continue"], b"/undo\n/quit\n".to_vec()).await;
    assert!(output.stdout.contains("/project/moved.txt: is removed"), "{}", output.stdout);
    assert!(output.stderr.contains("nothing was undone"), "{}", output.stderr);
    assert_eq!(project(&world, "moved.txt"), b"new words\n");
}
