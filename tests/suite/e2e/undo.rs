//! File changes made by turns can be undone, by the user or the model, immediately or after a restart.

use std::os::unix::fs::MetadataExt as _;

use super::*;

/// Runs a turn that edits a file, and runs a command that changes, creates, moves and removes files.
async fn changed_project() -> (World, Vec<u8>) {
    let world = World::start().await;
    let notes = b"one\r\ntwo \xff\r\n".to_vec();
    world.write("project/notes.txt", &notes);
    world.write("project/edited.txt", "old words\n");
    world.write("project/gone/deep.txt", "deep\n");
    let script = world.write("project/run.sh", "#!/bin/sh\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o751)).unwrap();
    let edit = json!({"path": "/project/edited.txt", "old_string": "old", "new_string": "new"});
    let command = r#"cd "$PROJECT"; printf three >> notes.txt; rm -r gone; chmod 600 run.sh; mkdir made
        echo x > made/x; mv edited.txt moved.txt; echo all changed"#;
    let steps = vec![
        (&["Edited"][..], Reply::tool_call("edit_file", edit)),
        (&["all changed"][..], Reply::tool_call("run_bash_command", json!({"command": command}))),
    ];
    script_steps(&world.model, steps, Reply::text("It is done."));
    let project = world.mount();
    let output = world.ok(["run", "Change it", "-C", &project, "--on-interrupt", "approve"]).await;
    assert_eq!(output.stdout.trim(), "It is done.");
    assert!(world.path().join("project/made/x").exists());
    (world, notes)
}

fn project(world: &World, name: &str) -> Vec<u8> {
    fs::read(world.path().join("project").join(name)).unwrap_or_default()
}

#[track_caller]
fn assert_unchanged(world: &World, notes: &[u8]) {
    assert_eq!(project(world, "notes.txt"), notes, "the content is unchanged");
    assert_eq!(project(world, "edited.txt"), b"old words\n");
    assert_eq!(project(world, "gone/deep.txt"), b"deep\n");
    let folder = world.path().join("project");
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
    let (mut world, notes) = changed_project().await;
    world.daemon.crash().await;

    let preview = world.ok(["undo", "--preview"]).await.stdout;
    has_all(
        &preview,
        &["/project/edited.txt: will be recreated", "+old words", "/project/moved.txt: will be removed", "turn 1: "],
    );
    assert!(world.path().join("project/made/x").exists(), "a preview changes nothing");

    let report = world.json(["undo"]).await;
    assert_eq!(keys(&report), ["files", "preview", "redo", "turn", "turn_id"]);
    holds(&report, json!({"turn": 1, "preview": false}));
    assert!(outcomes(&report).iter().all(|(_, outcome)| *outcome == "done"), "{report:#}");
    assert_unchanged(&world, &notes);
    world.agentctl(["undo"]).await.exits(2).says(&["no turn of this session changed files"]);

    world.ok(["undo", "--redo"]).await;
    assert_eq!(project(&world, "moved.txt"), b"new words\n");
    assert!(!world.path().join("project/gone").exists());
    world.ok(["undo", "--turn", "1"]).await;
    assert_unchanged(&world, &notes);

    // The model is notified of the undo.
    world.model.reply(Reply::text("I know.").when("And now?"));
    world.ok(["run", "--continue", "And now?", "-C", &world.mount()]).await;
    has_all(&format!("{:?}", world.model.requests().last().unwrap().messages()), &["undid the file changes of turn 1"]);
}

#[tokio::test]
async fn undo_leaves_externally_changed_files_alone() {
    let (world, _) = changed_project().await;
    world.write("project/notes.txt", "a person's words\n");
    let output = world.agentctl(["undo"]).await.exits(1);
    let parts = ["/project/notes.txt: left alone, it has been changed since", "+a person's words", "1 conflict"];
    has_all(&output.stdout, &parts);
    assert_eq!(project(&world, "notes.txt"), b"a person's words\n");
    assert_eq!(project(&world, "edited.txt"), b"old words\n", "the other files are restored");
}

/// Returns true if the daemon's heartbeat is newer than this file in the home.
pub(super) fn is_older_than_heartbeat(world: &World, name: &str) -> bool {
    let changed = |path: PathBuf| path.metadata().map(|metadata| (metadata.ctime(), metadata.ctime_nsec())).ok();
    let undo_files = fs::read_dir(world.data().join("undo")).into_iter().flatten().flatten();
    let sign = undo_files.filter_map(|session| changed(session.path().join("alive"))).max();
    changed(world.path().join(name)) < sign
}

#[tokio::test]
async fn changes_of_a_killed_command_can_be_undone() {
    let mut world = World::start().await;
    for name in ["a.txt", "c.txt", "d.txt"] {
        world.write(&format!("project/{name}"), "old\n");
    }
    let command = r#"cd "$PROJECT"; echo new > a.txt; echo new > c.txt; rm d.txt; echo made > b.txt; sleep 60"#;
    let call = Reply::tool_call("run_bash_command", json!({"command": command, "timeout_s": 60}));
    script_steps(&world.model, vec![(&["never"], call)], Reply::text("?"));
    let running = world.spawn_agentctl(["run", "Change it", "-C", &world.mount(), "--on-interrupt", "approve"]);
    until_true("the command has written the file", || project(&world, "b.txt") == b"made\n").await;
    until_true("a later heartbeat is on disk", || is_older_than_heartbeat(&world, "project/b.txt")).await;
    world.daemon.kill9().await;
    drop(running);
    // The user's changes before the next start are not attributed to the command, and undo skips them.
    world.write("project/mine.txt", "a person's file\n");
    world.write("project/a.txt", "a person's words\n");
    world.daemon.restart().await;
    let output = world.agentctl(["undo", "--preview"]).await.exits(1);
    output.shows(&["while agentd was not running", "+a person's words", "+a person's file"]);
    let report = world.agentctl(["undo", "--json"]).await.exits(1).json();
    let expected = [
        ("/project/a.txt", "conflict"),
        ("/project/b.txt", "done"),
        ("/project/c.txt", "done"),
        ("/project/d.txt", "done"),
        ("/project/mine.txt", "conflict"),
    ];
    assert_eq!(outcomes(&report), expected);
    let contents = ["a.txt", "b.txt", "c.txt", "d.txt", "mine.txt"].map(|name| project(&world, name));
    let expected = ["a person's words\n", "", "old\n", "old\n", "a person's file\n"];
    assert_eq!(contents, expected.map(|text| text.as_bytes().to_vec()));
}

#[tokio::test]
async fn model_can_undo_its_own_edit() {
    let world = World::start().await;
    let write = |content: &str| Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": content}));
    let steps = vec![
        (&["Created"][..], write("first\n")),
        (&["Replaced"][..], write("second\n")),
        (&["Reverted"][..], Reply::tool_call("undo_patch", json!({}))),
    ];
    script_steps(&world.model, steps, Reply::text("As it was."));
    let session = world.ok(["run", "Write", "--on-interrupt", "approve", "--output", "json"]).await.session();
    let written = format!("data/workspace/{session}/outputs/a.txt");
    assert_eq!(world.read(&written), "first\n");
    assert_eq!(outcomes(&world.json(["undo", &session]).await), [("outputs/a.txt", "done")]);
    assert_eq!(world.read(&written), "");

    // Undo data is deleted with its session. No tool can access the data.
    assert!(world.data().join("undo").join(&session).exists());
    world.ok(["sessions", "delete", &session, "--yes"]).await;
    assert!(!world.data().join("undo").join(&session).exists());
}

#[tokio::test]
async fn scripted_chat_gets_an_undo_preview_and_no_change() {
    let (world, _) = changed_project().await;
    // A script cannot confirm, so it gets a preview and nothing is changed.
    world
        .agentctl_with(["chat", "--continue", "-C", &world.mount()], b"/undo\n/quit\n".to_vec())
        .await
        .shows(&["/project/moved.txt: will be removed"])
        .says(&["nothing was undone"]);
    assert_eq!(project(&world, "moved.txt"), b"new words\n");
}

/// Returns all entries in the project with their permissions, and their content or link target.
fn project_entries(world: &World) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![world.path().join("project")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if metadata.is_file() {
                fs::read(&path).unwrap()
            } else {
                left.extend(metadata.is_dir().then(|| path.clone()));
                Vec::new()
            };
            found.insert(path, (metadata.permissions().mode(), content));
        }
    }
    found
}

/// Runs one turn in the session with this command. Returns the result and the session.
async fn run_command(world: &World, session: Option<&str>, command: &str) -> (String, String) {
    world.script_reply(Reply::tool_call("run_bash_command", json!({ "command": command })));
    let project = world.mount();
    let target = session.map_or(["-C", &project], |session| ["--session", session]);
    let args = ["run", "Do it", "--on-interrupt", "approve", "--output", "json", target[0], target[1]];
    let session = world.ok(args).await.session();
    (world.last_result(), session)
}

#[tokio::test]
async fn large_rearrangement_is_undone_and_redone() {
    let world = World::start().await;
    for number in 0..300_u32 {
        let bytes: Vec<u8> = (0..200_u32).map(|byte| u8::try_from((number * 31 + byte * 7) % 256).unwrap()).collect();
        world.write(&format!("project/many/{}/{number}.bin", number % 10), bytes);
    }
    world.write("project/large.bin", vec![1; 11 << 20]);
    let folder = world.path().join("project");
    fs::create_dir_all(folder.join("empty/inner")).unwrap();
    symlink("many/1", folder.join("link")).unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    let before = project_entries(&world);
    let (result, session) = run_command(
        &world,
        None,
        r#"cd "$PROJECT"; rm many/0/*; for f in many/1/*; do mv $f $f.moved; done; chmod -R 700 many/2
        for f in many/3/*; do head -c 300 /dev/urandom > $f; done; mv many/4 elsewhere; rm -r empty; mkdir -p new/empty
        ln -sfn many/5 link; rm dangling; echo file > dangling; rm -r many/6; echo file > many/6; mkfifo pipe
        printf x >> large.bin; echo "odd" > $'new/a\nb \xff'; echo turned"#,
    )
    .await;
    assert!(result.contains("turned") && result.contains("large.bin (larger than 10"), "{result}");
    let after = project_entries(&world);
    world.agentctl(["undo", &session, "--preview"]).await.exits(1);
    assert!(project_entries(&world) == after, "a preview changes nothing");
    let report = world.agentctl(["undo", &session, "--json"]).await.exits(1).json();
    let failed: Vec<_> = outcomes(&report).into_iter().filter(|(_, outcome)| *outcome != "done").collect();
    assert_eq!(failed, [("/project/large.bin", "failed")]);
    let without_unrecorded = |mut tree: BTreeMap<PathBuf, (u32, Vec<u8>)>| {
        tree.remove(&folder.join("large.bin"));
        tree.remove(&folder.join("pipe"));
        tree
    };
    let difference = |left: &BTreeMap<_, _>, right: &BTreeMap<_, _>| {
        let keys = left.keys().chain(right.keys()).filter(|key| left.get(*key) != right.get(*key));
        keys.cloned().collect::<Vec<PathBuf>>()
    };
    let undone = without_unrecorded(project_entries(&world));
    assert_eq!(difference(&undone, &without_unrecorded(before)), [""; 0].map(PathBuf::from));
    world.agentctl(["undo", &session, "--redo"]).await;
    let redone = without_unrecorded(project_entries(&world));
    assert_eq!(difference(&redone, &without_unrecorded(after)), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn undo_of_an_older_turn_skips_later_changes() {
    let world = World::start().await;
    world.write("project/a", "one\n");
    world.write("project/b", "one\n");
    let (_, session) = run_command(&world, None, r#"cd "$PROJECT"; echo two > a; echo two > b"#).await;
    run_command(&world, Some(&session), r#"cd "$PROJECT"; echo three > a"#).await;
    let report = world.agentctl(["undo", &session, "--turn", "1", "--json"]).await.exits(1).json();
    assert_eq!(outcomes(&report), [("/project/a", "conflict"), ("/project/b", "done")]);
    assert_eq!((project(&world, "a"), project(&world, "b")), (b"three\n".to_vec(), b"one\n".to_vec()));
    // Undoing the turns one by one, newest first, restores everything.
    world.ok(["undo", &session, "--turn", "2"]).await;
    world.ok(["undo", &session, "--turn", "1"]).await;
    assert_eq!((project(&world, "a"), project(&world, "b")), (b"one\n".to_vec(), b"one\n".to_vec()));
}

#[tokio::test]
async fn concurrent_undo_runs_once() {
    let world = World::start().await;
    world.write("project/a", "one\n");
    let (_, session) = run_command(&world, None, r#"cd "$PROJECT"; echo two > a; echo two > b"#).await;
    let undo = || world.agentctl(["undo", &session, "--turn", "1", "--json"]);
    let (first, second) = tokio::join!(undo(), undo());
    let done = |output: &Output| output.code == Some(0) && output.stdout.contains("\"done\"");
    assert!(done(&first) != done(&second), "{first:?}\n{second:?}");
    assert_eq!(project(&world, "a"), b"one\n");
    assert!(!world.path().join("project/b").exists());
}

#[tokio::test]
async fn unrecorded_call_runs_with_a_note_on_a_full_disk() {
    let Some(world) = World::on_disk("data/undo", "256k").await else { return };
    world.write("project/a", vec![b'a'; 600_000]);
    let (result, session) = run_command(&world, None, r#"cd "$PROJECT"; echo b > a; echo changed"#).await;
    assert!(result.contains("changed") && result.contains("not recorded and cannot be undone"), "{result}");
    world.agentctl(["undo", &session]).await.exits(2).says(&["no turn of this session changed files"]);
    world.still_serves().await;
}

#[tokio::test]
async fn full_disk_stops_an_undo_only_between_files() {
    let Some(world) = World::on_disk("project", "3m").await else { return };
    let fill = r#"cd "$PROJECT"; for f in a b; do head -c 800000 /dev/zero | tr '\0' $f > $f; done; echo one > c"#;
    let (_, session) = run_command(&world, None, fill).await;
    run_command(&world, Some(&session), r#"cd "$PROJECT"; rm a b; echo two > c"#).await;
    run_command(
        &world,
        Some(&session),
        r#"cd "$PROJECT"; head -c 2500000 /dev/zero > filler; cat /dev/zero > more; true"#,
    )
    .await;
    let report = world.agentctl(["undo", &session, "--turn", "2", "--json"]).await.exits(1).json();
    let failed = report["files"].as_array().unwrap().iter().filter(|file| file["outcome"] == "failed");
    let reasons: Vec<&str> = failed.map(|file| file["reason"].as_str().unwrap()).collect();
    assert!(reasons.len() >= 2 && reasons.iter().all(|reason| *reason == "the disk is full"), "{report:#}");
    let (result, _) = run_command(&world, Some(&session), r#"cd "$PROJECT"; ls -A; rm filler more; echo freed"#).await;
    let names: Vec<&str> = result.lines().filter(|line| line.len() < 10 && !line.contains(':')).collect();
    assert_eq!(names, ["c", "filler", "more", "freed"], "a file was partially restored: {result}");
    // The other files are restored once there is space on the disk.
    world.ok(["undo", &session, "--turn", "2"]).await;
    let (result, _) = run_command(&world, Some(&session), r#"cd "$PROJECT"; wc -c a b; cat c"#).await;
    assert!(result.contains("800000 a") && result.contains("800000 b") && result.contains("one"), "{result}");
}

#[tokio::test]
async fn undo_beyond_the_recorded_limit_keeps_all_data() {
    let world = World::configured("undo: {max_changes: 100}").await;
    for number in 0..80 {
        world.write(&format!("project/z/{number}"), format!("content {number}"));
    }
    let (result, session) = run_command(&world, None, r#"cd "$PROJECT"; mv z a; echo moved"#).await;
    assert!(result.contains("moved") && result.contains("62 files changed beyond the limit of 100"), "{result}");
    world.agentctl(["undo", &session]).await.exits(1).shows(&["was not recorded"]);
    for number in 0..80 {
        let content = project(&world, &format!("z/{number}"));
        assert_eq!(content, format!("content {number}").as_bytes(), "of {number}");
    }
    world.still_serves().await;
}

#[tokio::test]
async fn model_undo_after_restart_does_not_overwrite_user_changes() {
    let mut world = World::start().await;
    world.write("project/a.txt", "old\n");
    let edit = json!({"path": "/project/a.txt", "old_string": "old", "new_string": "new"});
    let edit = || Reply::tool_call("edit_file", edit.clone());
    script_steps(&world.model, vec![(&["Edited"], edit())], Reply::text("Edited."));
    let args = ["run", "Edit", "-C", &world.mount(), "--on-interrupt", "approve", "--output", "json"];
    let session = world.ok(args).await.session();
    assert_eq!(project(&world, "a.txt"), b"new\n");
    world.daemon.crash().await;
    let undo_run = ["run", "Take it back", "--session", &session, "--on-interrupt", "approve"];
    world.script_reply(Reply::tool_call("undo_patch", json!({})));
    world.write("project/a.txt", "a person's words\n");
    world.agentctl(undo_run).await;
    assert_eq!(project(&world, "a.txt"), b"a person's words\n");
    world.write("project/a.txt", "new\n");
    world.ok(undo_run).await;
    assert_eq!(project(&world, "a.txt"), b"old\n");
}

#[tokio::test]
async fn state_file_is_undone_and_redone_after_a_restart() {
    let mut world = World::start().await;
    let write = |content: &str| Reply::tool_call("write_file", json!({"path": "/state/plan.md", "content": content}));
    script_steps(&world.model, vec![(&["Created"][..], write("dig\n"))], Reply::text("Noted."));
    let session = world.ok(["run", "Note it", "--output", "json"]).await.session();
    script_steps(&world.model, vec![(&["Replaced"][..], write("sow\n"))], Reply::text("Noted."));
    world.ok(["run", "Note that", "--session", &session]).await;
    world.daemon.crash().await;
    let plan = async || world.agentctl(["files", "get", &session, "/state/plan.md"]).await;
    let undo = async |args: &[&str]| {
        let args = ["undo", &session].into_iter().chain(args.iter().copied());
        world.agentctl(args).await
    };
    let preview = undo(&["--preview"]).await.exits(0).stdout;
    has_all(&preview, &["/state/plan.md: will be restored", "-sow", "+dig"]);
    assert_eq!(plan().await.stdout, "sow\n", "a preview changes nothing");
    let report = undo(&["--json"]).await.exits(0).json();
    assert_eq!((outcomes(&report), &report["turn"]), (vec![("/state/plan.md", "done")], &json!(2)));
    assert_eq!(plan().await.stdout, "dig\n");
    undo(&[]).await.exits(0);
    assert_eq!(plan().await.code, Some(2), "the turn that created the file is undone as well");
    for expected in ["dig\n", "sow\n"] {
        undo(&["--redo"]).await.exits(0);
        assert_eq!(plan().await.stdout, expected);
    }
    undo(&["--redo"]).await.exits(2).says(&["nothing in this session is undone"]);
}
