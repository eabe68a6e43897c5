//! Sessions that move from one daemon to another, completely or not at all.

use super::*;

/// Starts a daemon that imports sessions, with the same model.
async fn other_daemon(world: &World) -> TempDaemon {
    TempDaemon::start(&world.model.base_url()).await
}

fn writes(path: &str, content: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": content}))
}

async fn run(world: &World, prompt: &str, args: &[&str], replies: &[Reply]) -> String {
    for reply in replies {
        world.model.reply(reply.clone());
    }
    let all = ["run", prompt, "--output", "json", "--on-interrupt", "approve"];
    world.ok(all.iter().chain(args)).await.session()
}

/// Exports a session to a file in the daemon's home.
async fn export(daemon: &TempDaemon, session: &str, name: &str, args: &[&str]) -> PathBuf {
    let file = daemon.path().join(name);
    let all = ["sessions", "export", session, "-o", file.to_str().unwrap()];
    daemon.ok(all.iter().chain(args)).await;
    file
}

async fn import(daemon: &TempDaemon, file: &Path, args: &[&str]) -> Value {
    let all = ["sessions", "import", file.to_str().unwrap(), "--json"];
    daemon.ok(all.iter().chain(args)).await.json()
}

pub(super) async fn events_of(daemon: &TempDaemon, session: &str) -> Vec<Value> {
    daemon.ok(["sessions", "export", session, "--format", "json"]).await.json_lines()
}

/// Returns all workspace files, including folders of imports in progress.
fn workspaces(daemon: &TempDaemon) -> Vec<String> {
    let entries = fs::read_dir(daemon.data().join("workspace"));
    let mut names: Vec<String> =
        entries.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn imported_session_equals_the_original() {
    let world = World::start().await;
    let project = world.path().join("app");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("secret-of-the-project.txt"), "stays").unwrap();
    let view = format!("{}:rw", project.display());
    let large = "a line of a long output\n".repeat(20_000);
    let todo = json!({"todos": [{"content": "Paint the fence", "status": "pending"}]});
    let replies = [
        writes("outputs/plan.md", "dig\n"),
        writes("/project/code.txt", "x\n"),
        writes("/state/notes.md", "remember\n"),
        Reply::tool_call("todo_write", todo),
        Reply::tool_call(
            "run_bash_command",
            json!({"command": "for n in $(seq 60000); do echo a long output $n; done"}),
        ),
        Reply::text("Planned."),
    ];
    let id = run(&world, "Plan the garden", &["-C", &view], &replies).await;
    let upload = world.write("big.txt", &large);
    world.ok(["files", "put", &id, "uploads/deep/big.txt", upload.to_str().unwrap()]).await;
    run(&world, "And now?", &["--session", &id], &[Reply::text("Now we dig.")]).await;
    world.ok(["grants", "add", "write_file", "--session", &id]).await;

    let file = export(&world.daemon, &id, "work.tar.gz", &[]).await;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "only the owner can read the archive");
    let listed = Command::new("tar").arg("tzf").arg(&file).output().unwrap();
    let members = String::from_utf8(listed.stdout).unwrap();
    assert!(members.starts_with("manifest.json\n") && members.ends_with("SHA256SUMS\n"), "{members}");
    assert!(members.contains("files/uploads/deep/big.txt") && !members.contains("secret-of-the-project"), "{members}");
    let unpacked = Command::new("tar").arg("xzfO").arg(&file).output().unwrap();
    let content = String::from_utf8_lossy(&unpacked.stdout);
    assert!(
        !content.contains("\"grants\":[{") && !content.contains("\"environment\""),
        "the archive contains grants or variables"
    );

    let other = other_daemon(&world).await;
    let report = import(&other, &file, &[]).await;
    holds(&report, json!({"session_id": id, "turns": 2}));
    let fields = keys(&report);
    assert_eq!(fields, ["events", "files", "interrupted", "session_id", "subagents", "title", "turns"]);

    // The history, figures and usage are the same.
    assert_eq!(events_of(&world.daemon, &id).await, events_of(&other, &id).await);
    let (original, imported) =
        (world.json(["sessions", "show", &id]).await, other.json(["sessions", "show", &id]).await);
    for key in ["id", "title", "created_at", "turns", "last_seq", "status", "usage", "todos", "items", "interrupts"] {
        assert_eq!(original[key], imported[key], "{key}");
    }
    assert_eq!(imported["settings"]["grants"], Value::Null, "{imported:#}");
    assert_eq!(imported["settings"]["project"], Value::Null, "an imported session has no project");
    assert_eq!(imported["settings"]["former_project"], json!(project.canonicalize().unwrap()));
    other.ok(["sessions", "show", &id]).await.shows(&["none here; it was", "/app"]);
    // The bytes per token are learned from the server again, and the project is no longer in the instructions.
    let figures = async |daemon: &TempDaemon| {
        let view = daemon.json(["context", &id]).await;
        let segments = view["segments"].as_array().unwrap().clone().into_iter();
        let segments = segments.filter(|segment| segment["kind"] != "instructions");
        let sizes = segments.map(|segment| json!([segment["kind"], segment["bytes"], segment["count"]]));
        (view["window"].clone(), view["messages"].clone(), sizes.collect::<Vec<_>>())
    };
    assert_eq!(figures(&world.daemon).await, figures(&other).await);
    let usage = async |daemon: &TempDaemon| daemon.json(["usage", "--by", "session"]).await["groups"].clone();
    assert_eq!(usage(&world.daemon).await, usage(&other).await);
    for path in ["outputs/plan.md", "/state/notes.md", "uploads/deep/big.txt"] {
        let content = async |daemon: &TempDaemon| daemon.ok(["files", "get", &id, path]).await.stdout;
        assert_eq!(content(&world.daemon).await, content(&other).await, "{path}");
    }
    let files_of =
        async |daemon: &TempDaemon| daemon.json(["files", "ls", &id, "large_tool_results"]).await["entries"].clone();
    let (original, imported) = (files_of(&world.daemon).await, files_of(&other).await);
    assert_eq!(original.as_array().unwrap().len(), 1, "{original}");
    assert_eq!((&original[0]["path"], &original[0]["size"]), (&imported[0]["path"], &imported[0]["size"]));
    other.agentctl(["files", "get", &id, "/project/code.txt"]).await.exits(2);
    // The session is found by its text and can be continued, but changes on the other host cannot be undone here.
    assert_eq!(other.json(["sessions", "search", "we dig"]).await[0]["session_id"], json!(id));
    other.agentctl(["undo", &id, "--turn", "1"]).await;
    assert_eq!(fs::read_to_string(project.join("code.txt")).unwrap(), "x\n");
    other.ok(["run", "And then?", "--session", &id]).await;
    has_all(&world.model.requests().last().unwrap().body.to_string(), &["Plan the garden", "Now we dig."]);
}

#[tokio::test]
async fn existing_session_is_refused_unless_imported_as_new() {
    let world = World::start().await;
    let id = run(&world, "Hello", &[], &[writes("outputs/a.txt", "a\n"), Reply::text("Hi.")]).await;
    let file = export(&world.daemon, &id, "a.tar.gz", &[]).await;
    let path = file.to_str().unwrap();
    let refused = world.agentctl(["sessions", "import", path]).await;
    refused.exits(1).says(&[&id, "already exists", "hint:", "--as-new"]);
    let before = world.json(["usage"]).await["total"].clone();
    let report = import(&world.daemon, &file, &["--as-new"]).await;
    let new = report["session_id"].as_str().unwrap();
    assert_eq!(report["former_id"], json!(id));
    assert_ne!(new, id);
    assert_eq!(world.json(["usage"]).await["total"], before, "usage of an imported copy is not counted again");
    assert_eq!(world.ok(["files", "get", new, "outputs/a.txt"]).await.stdout, "a\n");
    // Deleting one copy does not affect the other.
    world.ok(["sessions", "delete", &id, "--yes"]).await;
    assert_eq!(world.json(["sessions", "show", new]).await["turns"], json!(1));
    import(&world.daemon, &file, &[]).await;
    assert_eq!(world.json(["sessions", "list"]).await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn open_turn_of_an_exported_session_is_interrupted_on_import() {
    let world = World::start().await;
    let id = run(&world, "Hello", &[], &[Reply::text("Hello.")]).await;
    world.model.reply(writes("outputs/a.txt", "a\n"));
    let waiting = world.spawn_agentctl(["run", "Write it", "--session", &id, "--on-interrupt", "wait"]);
    world.first_question().await;
    let file = export(&world.daemon, &id, "open.tar.gz", &[]).await;
    let other = other_daemon(&world).await;
    let requests = world.model.requests().len();
    let report = import(&other, &file, &[]).await;
    assert_eq!(report["interrupted"], json!(true), "{report:#}");
    assert_eq!(other.json(["interrupts"]).await, json!([]), "imported questions are not pending");
    let shown = other.json(["sessions", "show", &id]).await;
    holds(&shown, json!({"status": "interrupted", "interrupts": []}));
    let events = events_of(&other, &id).await;
    let end = events.iter().rev().find(|event| event["type"] == "turn_ended").unwrap();
    assert_eq!(end["result"]["stop_reason"], "interrupted");
    let exported_events = events_of(&world.daemon, &id).await;
    assert_eq!(
        exported_events[..],
        events[..exported_events.len()],
        "the exported events are a prefix of the imported ones"
    );
    assert_eq!(world.model.requests().len(), requests, "an imported session started a turn");
    let listed = other.ok(["files", "ls", &id, "outputs"]).await.stdout;
    assert!(!listed.contains("a.txt"), "{listed}");
    // An imported turn does not continue after a restart either, but the user can continue the session.
    let mut other = other;
    other.crash().await;
    assert_eq!(other.json(["interrupts"]).await, json!([]));
    assert_eq!(world.model.requests().len(), requests);
    other.ok(["run", "Was it written?", "--session", &id]).await;
    drop(waiting);
    world.daemon.kill9().await;
}

#[tokio::test]
async fn subagents_are_exported_with_their_session() {
    let world = World::start().await;
    world.model.respond_with(|request| match (is_subagent(request), request.last_role()) {
        (true, _) => Reply::text(format!("Seven words. {}", "Every one of them was looked at. ".repeat(10))),
        (false, "tool") => Reply::text("Seven."),
        (false, _) => Reply::tool_call("delegate_task", json!({"task": "Count the words"})),
    });
    let id = run(&world, "How many?", &[], &[]).await;
    let all = world.json(["sessions", "list", "--all"]).await;
    let child = all.as_array().unwrap().iter().find(|session| session["parent"] == json!(id));
    let child = child.unwrap_or_else(|| panic!("{all:#}"))["id"].as_str().unwrap().to_owned();
    let refused = world.agentctl(["sessions", "export", &child, "-o", "x.tar.gz"]).await;
    refused.exits(2).says(&["is a subagent", "hint:", &id]);
    let file = export(&world.daemon, &id, "family.tar.gz", &[]).await;
    let other = other_daemon(&world).await;
    assert_eq!(import(&other, &file, &[]).await["subagents"], json!(1));
    assert_eq!(other.json(["sessions", "list", "--all"]).await[1]["id"], json!(child));
    assert_eq!(events_of(&world.daemon, &id).await, events_of(&other, &id).await);
    let usage = async |daemon: &TempDaemon| daemon.json(["usage", "--by", "session"]).await["groups"].clone();
    assert_eq!(usage(&world.daemon).await, usage(&other).await);
    // When imported as new sessions, both have new IDs and are still linked.
    let new = import(&other, &file, &["--as-new"]).await["session_id"].as_str().unwrap().to_owned();
    let listed = other.json(["sessions", "list", "--all"]).await;
    let new_child = listed.as_array().unwrap().iter().find(|session| session["parent"] == json!(new)).unwrap();
    assert_ne!(new_child["id"], json!(child));
    let imported = serde_json::to_string(&events_of(&other, &new).await).unwrap();
    assert!(!imported.contains(&child) && !imported.contains(&id), "{imported}");
}

#[tokio::test]
async fn redact_option_masks_secrets_in_every_format() {
    let world = World::start().await;
    let secret = "ghp_0123456789abcdefABCDEF0123456789abcd";
    let replies = [
        writes("outputs/env.txt", &format!("GH_TOKEN={secret}\nplain\n")),
        Reply::tool_call(
            "run_bash_command",
            json!({"command": format!("echo password={secret}; head -c 9 /dev/zero > outputs/bin")}),
        ),
        Reply::text(format!("Your key is {secret}, I am afraid.")),
    ];
    let id = run(&world, &format!("My key is {secret}"), &[], &replies).await;
    for format in ["json", "markdown", "atif"] {
        assert!(world.ok(["sessions", "export", &id, "--format", format]).await.stdout.contains(secret), "{format}");
        let masked = ["sessions", "export", &id, "--format", format, "--redact"];
        let masked = world.ok(masked).await.stdout;
        assert!(!masked.contains(secret) && masked.contains("[redacted]") && masked.contains("afraid"), "{masked}");
    }
    let file = export(&world.daemon, &id, "masked.tar.gz", &["--redact"]).await;
    let all = Command::new("tar").arg("xzfO").arg(&file).output().unwrap().stdout;
    assert!(!String::from_utf8_lossy(&all).contains(secret));
    let other = other_daemon(&world).await;
    let report = import(&other, &file, &[]).await;
    assert_eq!(report["files"]["files"], json!(1), "the binary file is not counted: {report:#}");
    assert_eq!(other.ok(["files", "get", &id, "outputs/env.txt"]).await.stdout, "GH_TOKEN=[redacted]\nplain\n");
}

#[tokio::test]
async fn invalid_archive_leaves_nothing_behind() {
    let world = World::start().await;
    let id = run(&world, "Hello", &[], &[Reply::text("Hi.")]).await;
    let noise = world.write("noise.bin", (0..200_000).map(|_| fastrand::u8(..)).collect::<Vec<_>>());
    world.ok(["files", "put", &id, "outputs/noise.bin", noise.to_str().unwrap()]).await;
    let file = export(&world.daemon, &id, "whole.tar.gz", &[]).await;
    let other = other_daemon(&world).await;
    let whole = fs::read(&file).unwrap();
    let cut = other.write("cut.tar.gz", &whole[..whole.len() - 100]);
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    let changed = other.write("changed.tar.gz", &bytes);
    let text = other.write("text.txt", "hello");
    for (file, phrase) in [(&cut, "archive"), (&changed, "archive"), (&text, "not a session archive")] {
        let refused = other.agentctl(["sessions", "import", file.to_str().unwrap()]).await;
        refused.exits(2).says(&[phrase, "hint:"]);
    }
    other.agentctl(["sessions", "import", "missing.tar.gz"]).await.exits(2).says(&["could not read", "hint:"]);
    other.agentctl(["sessions", "import", text.to_str().unwrap(), "--from", "codex"]).await.exits(2).says(&["hint:"]);
    other.agentctl(["sessions", "import", text.to_str().unwrap(), "--from", "emacs"]).await.exits(2);
    assert_eq!(other.json(["sessions", "list"]).await, json!([]));
    let left = workspaces(&other);
    assert!(left.is_empty(), "{left:?}");
    import(&other, &file, &[]).await;
    assert_eq!(workspaces(&other), [id]);
}

#[tokio::test]
async fn killed_import_leaves_nothing_behind() {
    let world = World::start().await;
    let id = run(&world, "Hello", &[], &[Reply::text("Hi.")]).await;
    let upload = world.write("noise.bin", (0..8_000_000).map(|_| fastrand::u8(..)).collect::<Vec<_>>());
    world.ok(["files", "put", &id, "uploads/noise.bin", upload.to_str().unwrap()]).await;
    let file = export(&world.daemon, &id, "large.tar.gz", &[]).await;
    let mut other = other_daemon(&world).await;
    let whole = fs::read(&file).unwrap();
    // Most of the archive has arrived, and the rest is never sent.
    let mut command = other.agentctl_command(["sessions", "import", "-"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut client = command.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &whole[..whole.len() - 1000]).unwrap();
    let staged = async || workspaces(&other).iter().any(|name| name.starts_with(".import-")).then_some(());
    until("files are being imported", staged).await;
    assert_eq!(other.json(["sessions", "list"]).await, json!([]), "a partial import is listed");
    other.kill9().await;
    let _ = client.kill();
    let _ = client.wait();
    other.restart().await;
    let left = workspaces(&other);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(other.json(["sessions", "list"]).await, json!([]));
    let is_overwritten = async || {
        let storage = other.json(["storage"]).await;
        (storage["removed_sessions"] == json!(0)).then_some(())
    };
    until("the session's events are overwritten", is_overwritten).await;
    import(&other, &file, &[]).await;
    assert_eq!(workspaces(&other), [id]);
}

#[tokio::test]
async fn import_on_a_full_disk_leaves_nothing_behind() {
    let (model, home) = TempHome::with_server().await;
    let Some(command) = on_small_disk(&home, "data", "32m") else { return };
    let small = TempDaemon::start_with(home, command).await;
    let world = World { daemon: TempDaemon::start(&model.base_url()).await, model };
    let id = run(&world, "Hello", &[], &[Reply::text("Hi.")]).await;
    let upload = world.write("noise.bin", (0..40_000_000).map(|_| fastrand::u8(..)).collect::<Vec<_>>());
    world.ok(["files", "put", &id, "uploads/noise.bin", upload.to_str().unwrap()]).await;
    let file = export(&world.daemon, &id, "large.tar.gz", &[]).await;
    small.agentctl(["sessions", "import", file.to_str().unwrap()]).await.fails().says(&["full", "hint:"]);
    let data = PathBuf::from(format!("/proc/{}/root{}", small.pid(), small.data().display()));
    let left: Vec<_> = fs::read_dir(data.join("workspace")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(small.json(["sessions", "list"]).await, json!([]));
    // A smaller session still fits on the disk.
    let id = run(&world, "Again", &[], &[Reply::text("Hi.")]).await;
    let file = export(&world.daemon, &id, "small.tar.gz", &[]).await;
    import(&small, &file, &[]).await;
}

#[tokio::test]
async fn json_markdown_and_atif_exports_are_valid() {
    let world = World::start().await;
    let replies = [
        Reply::text("I look.")
            .and_reasoning("Hm.")
            .and_call("write_file", json!({"path": "outputs/a.md", "content": "```x"})),
        Reply::text("Done: \u{1b}[2J see ```` there."),
    ];
    let id = run(&world, "Write it", &[], &replies).await;
    let lines = events_of(&world.daemon, &id).await;
    super::stream_schema::check_lines(&lines);
    assert!(lines.iter().zip(1..).all(|(line, seq)| line["seq"] == json!(seq)), "each event once, in order");
    let text = world.ok(["sessions", "export", &id, "--format", "markdown"]).await.stdout;
    has_all(&text, &["# Write it", "### You\n\nWrite it", "> **Thought**\n> Hm.", "**Call to `write_file`**", "Done:"]);
    assert!(!text.contains('\u{1b}'));
    let trajectory = world.ok(["sessions", "export", &id, "--format", "atif"]).await.json();
    assert_eq!(trajectory["session_id"], json!(id));
    assert!(trajectory["schema_version"].as_str().unwrap().starts_with("ATIF-v1."));
    let steps = trajectory["steps"].as_array().unwrap();
    let agent: Vec<&Value> = steps.iter().filter(|step| step["source"] == "agent").collect();
    assert_eq!(
        steps.iter().map(|step| &step["step_id"]).collect::<Vec<_>>(),
        (1..=steps.len()).map(|n| json!(n)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
    holds(agent[0], json!({"message": "I look.", "reasoning_content": "Hm."}));
    let call = &agent[0]["tool_calls"][0];
    assert_eq!((&call["function_name"], &call["arguments"]["path"]), (&json!("write_file"), &json!("outputs/a.md")));
    assert_eq!(agent[0]["observation"]["results"][0]["source_call_id"], call["tool_call_id"]);
    assert!(agent.iter().all(|step| step["metrics"]["prompt_tokens"].as_u64().unwrap() > 0), "{agent:#?}");
    assert_eq!(trajectory["final_metrics"]["total_steps"], json!(steps.len()));
}

#[tokio::test]
async fn history_of_claude_code_can_be_imported() {
    let world = World::start().await;
    let line = |role: &str, content: Value| {
        json!({"type": role, "sessionId": "5c1f0000-0000-4000-8000-000000000001", "cwd": "/home/them/app",
            "timestamp": "2026-01-31T12:00:00Z", "message": {"role": role, "model": "claude-x", "content": content}})
    };
    let text = [
        line("user", json!("Where is the door?")),
        line("assistant", json!([{"type": "tool_use", "id": "t", "name": "Grep", "input": {"pattern": "door"}}])),
        line("user", json!([{"type": "tool_result", "tool_use_id": "t", "content": "hall.rs:7"}])),
        line("assistant", json!([{"type": "text", "text": "In the hall."}])),
        json!({"type": "unheard-of"}),
    ];
    let text: String = text.iter().map(|line| format!("{line}\n")).collect();
    let file = world.write("history.jsonl", text);
    let report = import(&world.daemon, &file, &["--from", "claude-code"]).await;
    assert_eq!(report["left_out"], json!(["1 × unheard-of"]));
    let id = report["session_id"].as_str().unwrap();
    let shown = world.ok(["sessions", "show", id]).await.stdout;
    for part in ["Where is the door?", "Grep {\"pattern\":\"door\"}", "hall.rs:7", "In the hall.", "/home/them/app"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    super::stream_schema::check_lines(&events_of(&world.daemon, id).await);
    let again = world.agentctl(["sessions", "import", file.to_str().unwrap(), "--from", "claude-code"]).await;
    again.exits(1).says(&["already exists", "--as-new"]);
    assert_eq!(world.json(["usage"]).await["total"]["prompt_tokens"], json!(0));
    world.ok(["run", "And then?", "--session", id]).await;
    has_all(&world.model.requests().last().unwrap().body.to_string(), &["Where is the door?", "hall.rs:7"]);
}
