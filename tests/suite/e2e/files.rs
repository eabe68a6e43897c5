//! The file tree that tools access: memories shared by all sessions, and files in a session's own state.

use super::*;

impl World {
    /// Calls a tool once, in a turn in a new session. Returns the result and the client's exit code.
    async fn call(&self, tool: &str, arguments: Value, on_interrupt: &str) -> (String, Option<i32>) {
        self.call_with(tool, arguments, &["--on-interrupt", on_interrupt]).await
    }

    /// Like [`call`](Self::call), with these options. By default, a question fails the run.
    async fn call_with(&self, tool: &str, arguments: Value, options: &[&str]) -> (String, Option<i32>) {
        self.script_reply(Reply::tool_call(tool, arguments));
        let output = self.daemon.agentctl(["run", "Do it"].iter().chain(options)).await;
        (self.last_result(), output.code)
    }
}

#[tokio::test]
async fn memories_are_shared_and_written_only_with_approval() {
    let world = World::configured("sessions:\n  confirm_write: false\n  confirm_exec: false\n").await;
    let memory = world.data().join("memories/people/ada.md");
    let write = json!({"path": "/memories/people/ada.md", "content": "Ada likes tea.\n"});
    let (result, code) = world.call("write_file", write.clone(), "deny").await;
    assert!(result.contains("remembered in all later sessions") && !memory.exists(), "{result}");
    assert_eq!(code, Some(5));
    // Other tools of this kind do not require approval here.
    let (result, code) = world.call("write_file", json!({"path": "outputs/a.md", "content": "x"}), "fail").await;
    assert!(result.contains("Created"), "{result}");
    assert_eq!(code, Some(0));

    world.call("write_file", write.clone(), "approve").await;
    assert_eq!(fs::read_to_string(&memory).unwrap(), "Ada likes tea.\n");
    world.ok(["undo"]).await;
    assert!(!memory.exists(), "a memory file of a turn can be undone");
    world.call("write_file", write, "approve").await;

    let (result, _) = world.call("read_file", json!({"path": "memories/people/ada.md"}), "fail").await;
    assert_eq!(result, "Ada likes tea.\n");
    let command = r#"cat "$MEMORIES/people/ada.md"; echo x > "$MEMORIES/x.md""#;
    let (result, _) = world.call("run_bash_command", json!({ "command": command }), "approve").await;
    assert!(result.contains("Ada likes tea.") && !result.starts_with("exit code 0"), "{result}");
    assert!(!world.data().join("memories/x.md").exists());
}

#[tokio::test]
async fn state_files_survive_a_kill_and_are_removed_by_a_reset() {
    let mut world = World::start().await;
    let options = ["--continue", "--on-interrupt", "fail"];
    // The tool needs no approval, because it only changes the session itself.
    let first = json!({"path": "/state/plan.md", "content": "dig\n"});
    let (result, code) = world.call("write_file", first, "fail").await;
    assert!(result.contains("Created /state/plan.md") && code == Some(0), "{result}");

    // The daemon is killed in the middle of a turn, after the model has received the result of the write.
    let edit = json!({"path": "/state/plan.md", "old_string": "dig", "new_string": "dig, then sow"});
    let steps = vec![
        (&["Edited"][..], Reply::tool_call("edit_file", edit)),
        (&["never"][..], Reply::tool_call("run_bash_command", json!({"command": "sleep 60", "timeout_s": 60}))),
    ];
    script_steps(&world.model, steps, Reply::text("?"));
    let running = world.spawn_agentctl(["run", "Go on", "--continue", "--on-interrupt", "approve"]);
    let is_reported = || async { tool_texts(world.model.requests().last()?).contains("Edited").then_some(()) };
    until("the edit is in the next request", is_reported).await;
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    let read = || json!({"path": "/state/plan.md"});
    let (result, _) = world.call_with("read_file", read(), &options).await;
    assert_eq!(result, "dig, then sow\n");

    // State files belong to one session, are not stored on the disk, and are removed by a reset.
    let (result, _) = world.call("read_file", read(), "fail").await;
    assert!(result.contains("does not exist"), "{result}");
    let sessions = world.json(["sessions", "list"]).await;
    let id = sessions[1]["session_id"].as_str().or(sessions[1]["id"].as_str()).unwrap().to_owned();
    let options = ["--session", id.as_str(), "--on-interrupt", "fail"];
    assert_eq!(world.call_with("read_file", read(), &options).await.0, "dig, then sow\n");
    let command = json!({"command": "ls -d state /state"});
    let (result, _) =
        world.call_with("run_bash_command", command, &["--session", &id, "--on-interrupt", "approve"]).await;
    assert!(!result.contains("exit code 0"), "{result}");
    world.ok(["sessions", "reset", &id]).await;
    world.daemon.crash().await;
    let (result, _) = world.call_with("read_file", read(), &options).await;
    assert!(result.contains("does not exist"), "{result}");
}

impl World {
    /// Creates a session, and returns its ID.
    async fn new_session(&self, options: &[&str]) -> String {
        self.model.reply(Reply::text("Hello."));
        let args = ["run", "Hello", "--output", "json"];
        self.ok(args.iter().chain(options)).await.session()
    }

    async fn files<const N: usize>(&self, args: [&str; N]) -> Output {
        self.daemon.agentctl(["files"].iter().chain(args.iter())).await
    }
}

#[tokio::test]
async fn uploads_before_a_kill_are_announced_once_in_the_next_turn() {
    let mut world = World::start().await;
    let id = world.new_session(&[]).await;
    world.client().await.upload(&id, "bill.pdf", &b"%PDF-1.4"[..]).await.unwrap();
    world.daemon.crash().await;
    // The daemon is killed again, after the model request and before the response.
    world.model.reply(Reply { delay_ms: 60_000, ..Reply::text("never") });
    let request_count = world.model.requests().len();
    let running = world.spawn_agentctl(["run", "Pay it", "--session", &id]);
    until_true("the model is called", || world.model.requests().len() > request_count).await;
    let names_upload = |request: usize| world.model.requests()[request].last_user().contains("uploads/bill.pdf");
    assert!(names_upload(request_count));
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    world.model.reply(Reply::text("Paid.")).reply(Reply::text("Yes."));
    for text in ["Did you?", "Really?"] {
        world.ok(["run", text, "--session", &id]).await;
    }
    assert!(names_upload(request_count + 1) && !names_upload(request_count + 2));
}

#[tokio::test]
async fn files_commands_list_get_and_put_session_files() {
    let mut world = World::start().await;
    world.write("project/src/main.rs", "fn main() {}\n");
    let project = format!("{}:ro", world.path().join("project").display());
    let id = world.new_session(&["-C", &project]).await;

    let listed = world.files(["ls", &id, "--json"]).await.exits(0).json();
    assert_eq!(keys(&listed), ["cut", "entries"]);
    let paths = texts(&listed["entries"], "path");
    let all = ["/memories", "/project", "/state", "conversation_history", "large_tool_results", "outputs", "skills"];
    assert_eq!(paths, [&all[..], &["temp", "uploads"]].concat());

    // The bytes are unchanged at every path that tools may write to without approval.
    let bytes: Vec<u8> = (0..2_500_000_u32).map(|number| (number % 251) as u8).collect();
    let put = world.agentctl_with(["files", "put", &id, "/outputs/deep/data.bin", "--json"], bytes.clone()).await;
    assert_eq!(put.exits(0).json(), json!({"path": "outputs/deep/data.bin"}));
    let copy = world.path().join("copy.bin");
    let got = world.files(["get", &id, "outputs/deep/data.bin", "-o", copy.to_str().unwrap(), "--json"]).await;
    assert_eq!(got.exits(0).json()["size"], 2_500_000);
    assert!(fs::read(&copy).unwrap() == bytes, "the content is unchanged");
    let file = world.write("plan.md", "dig\n").display().to_string();
    for path in ["/state/plan.md", "/memories/plan.md", "uploads/plan.md", "temp/plan.md"] {
        world.files(["put", &id, path, &file]).await.exits(0);
        assert_eq!(world.files(["get", &id, path]).await.exits(0).stdout, "dig\n", "{path}");
    }
    let listed = world.files(["ls", &id, "/state"]).await.exits(0).stdout;
    assert!(listed.contains("/state/plan.md") && listed.contains('4'), "{listed}");
    assert_eq!(world.files(["get", &id, "/project/src/main.rs"]).await.exits(0).stdout, "fn main() {}\n");
    let one = world.files(["ls", &id, "/project/src/main.rs", "--json"]).await.exits(0).json();
    holds(&one["entries"][0], json!({"kind": "file", "size": 13}));

    // The model finds the file, even after a crash.
    world.daemon.crash().await;
    let options = ["--session", id.as_str(), "--on-interrupt", "fail"];
    assert_eq!(world.call_with("read_file", json!({"path": "/state/plan.md"}), &options).await.0, "dig\n");

    for (args, parts) in [
        (["put", id.as_str(), "conversation_history/h.md", &file], &["cannot be written", "hint:"][..]),
        (["put", &id, "large_tool_results/x", &file], &["cannot be written"]),
        (["put", &id, "skills/x", &file], &["cannot be written"]),
        (["put", &id, "/project/x", &file], &["read-only"]),
        (["put", &id, "/state/a/../b", &file], &["`..`"]),
        (["put", &id, "/etc/passwd", &file], &["absolute path"]),
        (["put", &id, "outputs/x", "/not/there"], &["could not read", "hint:"]),
    ] {
        world.files(args).await.exits(2).says(parts);
    }
    world.files(["get", &id, "outputs/none"]).await.exits(2).says(&["does not exist", "hint:"]);
    world.files(["get", &id, "outputs"]).await.exits(2).says(&["is a folder"]);
    world.files(["ls", "ffffffff"]).await.exits(2).says(&["no such session"]);
    assert!(!world.path().join("project/x").exists());
    world.still_serves().await;
}

#[tokio::test]
async fn daemon_owned_files_are_read_only_for_commands() {
    let world = World::start().await;
    let id = world.new_session(&[]).await;
    world.files(["ls", &id]).await.exits(0);
    let path = world.data().join("workspace").join(&id).join("large_tool_results/call.txt");
    fs::write(&path, "a long result\n").unwrap();
    let options = ["--session", id.as_str(), "--on-interrupt", "approve"];
    let sh = async |command: &str| world.call_with("run_bash_command", json!({ "command": command }), &options).await.0;
    let read = sh("cat large_tool_results/call.txt").await;
    assert!(read.starts_with("exit code 0") && read.contains("a long result"), "{read}");
    for command in [
        "echo x >> large_tool_results/call.txt",
        "rm large_tool_results/call.txt",
        "mv large_tool_results elsewhere",
        "ln large_tool_results/call.txt outputs/call.txt && echo x >> outputs/call.txt",
        "echo x > conversation_history/new.md",
    ] {
        let result = sh(command).await;
        assert!(result.starts_with("exit code ") && !result.starts_with("exit code 0"), "{command}: {result}");
    }
    let write = json!({"path": "large_tool_results/call.txt", "content": "x"});
    assert!(world.call_with("write_file", write, &options).await.0.contains("cannot be written"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "a long result\n");
    world.ok(["sessions", "delete", &id, "--yes"]).await;
    assert!(!path.exists(), "the file is deleted with its session");
}
