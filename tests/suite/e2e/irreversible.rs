//! Changes that undo may not be able to revert: the record of a running command is preserved, changes that cannot be
//! recorded require approval, and losses are counted.

use futures_util::future::join_all;
use nix::{sys::signal::kill, unistd::Pid};

use super::*;

const SESSIONS: usize = 20;

fn run(command: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({ "command": command }))
}

fn paths(result: &Value) -> Vec<&str> {
    let files = result["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().map(|file| file["path"].as_str().unwrap()).collect()
}

impl World {
    /// Runs one turn with this command. Returns the result, and the text sent to the model.
    async fn commands(&self, command: &str, args: &[&str]) -> (Value, String) {
        self.script_reply(run(command));
        let project = self.mount();
        let own = ["run", "Do it", "-C", &project, "--output", "json"];
        let output = self.daemon.agentctl(own.iter().chain(args)).await;
        let output_text = self.model.requests().last().map(tool_texts).unwrap_or_default();
        (output.json(), output_text)
    }

    fn has_file(&self, path: &str) -> bool {
        self.daemon.path().join("project").join(path).exists()
    }
}

/// Each session has its own project, so that only undo in that session can restore its file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_sessions_undo_only_their_own_changes() {
    let world = World::start().await;
    let command = "touch made.txt; until [ -e go ]; do sleep 0.1; done; rm go thesis.txt";
    world.script_reply(run(command));
    let path = |number: usize, name: &str| format!("project-{number}/{name}");
    let exists = |number: usize, name: &str| world.path().join(path(number, name)).exists();
    for number in 0..SESSIONS {
        world.write(&path(number, "thesis.txt"), format!("thesis {number}"));
    }
    let turn = async |number: usize| {
        let project = format!("{}:rw", world.path().join(format!("project-{number}")).display());
        let args = ["run", "Do it", "-C", &project, "--on-interrupt", "approve", "--output", "json"];
        world.ok(args).await.json()
    };
    let go = async {
        let all_run = || (0..SESSIONS).all(|number| exists(number, "made.txt"));
        until_true("all commands are running", all_run).await;
        (0..SESSIONS).for_each(|number| drop(world.write(&path(number, "go"), "")));
    };
    let (results, ()) = tokio::join!(join_all((0..SESSIONS).map(turn)), go);
    let own = BTreeSet::from(["/project/made.txt", "/project/thesis.txt"]);
    for (number, result) in results.iter().enumerate() {
        assert_eq!(paths(result).into_iter().collect::<BTreeSet<_>>(), own, "of {number}: {result:#}");
        assert!(!exists(number, "thesis.txt"), "{number}: the file was restored before the undo in its session");
        // Undo exits with 0 and restores the file itself. No other undo has restored it before.
        let report = world.json(["undo", result["session_id"].as_str().unwrap()]).await;
        assert_eq!(texts(&report["files"], "path").into_iter().collect::<BTreeSet<_>>(), own, "{report:#}");
        assert_eq!(texts(&report["files"], "outcome"), ["done", "done"], "of {number}: {report:#}");
        assert_eq!(world.read(&path(number, "thesis.txt")), format!("thesis {number}"));
        assert!(!exists(number, "made.txt"), "{number}: the file created by the command still exists");
    }
}

/// All sessions share a project. Each session's record contains its own deletion, regardless of the other records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_deletions_in_one_project_are_all_recorded() {
    let world = World::start().await;
    world.model.respond_with(|request| {
        let Some(number) = request.last_user().strip_prefix("Number ") else { return Reply::text("over") };
        let number = number.trim();
        match request.last_role() {
            "tool" => Reply::text("over"),
            _ => run(&format!("touch begun-{number}; until [ -e go ]; do sleep 0.1; done; rm thesis-{number}.txt")),
        }
    });
    let project = world.mount();
    for number in 0..SESSIONS {
        world.write(&format!("project/thesis-{number}.txt"), format!("thesis {number}"));
    }
    let turn = async |number: usize| {
        let prompt = format!("Number {number}");
        let args = ["run", &prompt, "-C", &project, "--on-interrupt", "approve", "--output", "json"];
        world.ok(args).await.json()
    };
    let go = async {
        let all_run = || (0..SESSIONS).all(|number| world.has_file(&format!("begun-{number}")));
        until_true("all commands are running", all_run).await;
        world.write("project/go", "");
    };
    let (results, ()) = tokio::join!(join_all((0..SESSIONS).map(turn)), go);
    for (number, result) in results.iter().enumerate() {
        let own = format!("/project/thesis-{number}.txt");
        assert!(paths(result).contains(&own.as_str()) && !world.has_file(&own["/project/".len()..]), "{result:#}");
    }
}

/// Starts a daemon that cannot store any data for undo.
async fn world_without_undo() -> World {
    let world = World::with_files(&[("data/undo", "a file in the place of the folder")]).await;
    world.write("project/a.txt", "one\n");
    world
}

#[tokio::test]
async fn unrecordable_command_asks_before_it_runs() {
    let world = world_without_undo().await;
    let changes = "echo two > a.txt; echo changed";
    let (result, text) = world.commands(changes, &["--mode", "auto", "--on-interrupt", "deny"]).await;
    assert!(text.contains("its changes cannot be undone: could not record"), "{text}");
    assert_eq!((paths(&result), project(&world, "a.txt")), (vec![], "one\n".to_owned()), "the command did not run");
    let (result, _) = world.commands(changes, &["--mode", "auto", "--on-interrupt", "fail"]).await;
    assert_eq!((&result["stop_reason"], project(&world, "a.txt")), (&json!("denied"), "one\n".to_owned()));
    // A read-only command needs no record.
    let (_, text) = world.commands("cat a.txt", &["--mode", "auto", "--on-interrupt", "deny"]).await;
    assert!(text.contains("one"), "{text}");

    world.script_reply(run(changes));
    let args = ["run", "Do it", "-C", &world.mount(), "--mode", "auto", "--on-interrupt", "approve"];
    let output = world.agentctl(args.iter().chain(&["--output", "stream-json"])).await.exits(5);
    assert_eq!(project(&world, "a.txt"), "two\n", "the command ran");
    let denials = output.json_lines().pop().unwrap()["denials"].to_string();
    let text = world.model.requests().last().map(tool_texts).unwrap();
    let [not_recorded, unchecked] = ["not_recorded", "guarded_files"].map(|code| warnings(&output, code).concat());
    has_all(
        &not_recorded,
        &["the changes of run_bash_command are not recorded and cannot be undone: could not record"],
    );
    for report in [&unchecked, &denials, &text] {
        has_all(report, &["other programs run or load: its changes could not be checked: could not record"]);
    }
    has_all(&text, &["[not recorded and cannot be undone: could not record"]);
    world.write("project/a.txt", "one\n");

    world.script_reply(run(changes));
    world.ok(["run", "Do it", "-C", &world.mount(), "--mode", "auto", "--detach"]).await;
    let asked = world.first_question().await;
    for field in ["reason", "preview"] {
        assert!(asked[field].as_str().unwrap().contains("its changes cannot be undone: could not record"), "{asked:#}");
    }
    assert_eq!(asked["grants"].as_array().map_or(0, Vec::len), 0, "{asked:#}");
    world.ok(["answer", asked["id"].as_str().unwrap(), "approve"]).await;
    until_true("the command has run", || project(&world, "a.txt") == "two\n").await;
}

#[tokio::test]
async fn oversized_trees_and_files_ask_before_a_change() {
    let world = World::configured("undo: {max_files: 100}").await;
    for number in 0..130 {
        world.write(&format!("project/{number}"), "x");
    }
    let auto = ["--mode", "auto", "--on-interrupt", "deny"];
    let (_, text) = world.commands("rm 1", &auto).await;
    assert!(text.contains("because it has more than 100 files") && world.has_file("1"), "{text}");

    let world = World::start().await;
    world.write("project/large.bin", vec![1; 11 << 20]);
    world.write("project/small.txt", "x");
    let (_, text) = world.commands("rm large.bin", &auto).await;
    assert!(
        text.contains("the earlier content of /project/large.bin is not stored") && world.has_file("large.bin"),
        "{text}"
    );
    let (result, _) = world.commands("rm small.txt", &auto).await;
    assert_eq!(paths(&result), ["/project/small.txt"], "recorded changes need no approval");
}

#[tokio::test]
async fn deletions_in_ignored_folders_ask_and_are_counted() {
    let world = World::start().await;
    world.write("project/.gitignore", "data/\nnode_modules/\n");
    for name in ["data/a.csv", "data/deep/b.csv", "node_modules/x/index.js", "kept.txt"] {
        world.write(&format!("project/{name}"), "x");
    }
    let auto = ["--mode", "auto", "--on-interrupt", "deny"];
    let (_, text) = world.commands("rm data/a.csv", &auto).await;
    let irreversible = "its changes cannot be undone: the earlier content of /project/data/ is not stored";
    assert!(text.contains(irreversible) && !text.contains("node_modules"), "{text}");
    assert!(world.has_file("data/a.csv"), "the command ran");

    // The approval request shows the user the same reason.
    world.script_reply(run("rm data/a.csv"));
    world.ok(["run", "Do it", "-C", &world.mount(), "--mode", "auto", "--detach"]).await;
    let asked = world.first_question().await;
    for field in ["reason", "preview"] {
        let shown = asked[field].as_str().unwrap();
        assert!(shown.contains(irreversible) && !shown.contains("node_modules"), "{field}: {asked:#}");
    }
    world.ok(["answer", asked["id"].as_str().unwrap(), "reject"]).await;
    until("the turn has ended", || async {
        let sessions = world.json(["sessions", "list"]).await;
        sessions.as_array().unwrap().iter().all(|session| session["status"] == "idle").then_some(())
    })
    .await;
    assert!(world.has_file("data/a.csv"), "the command ran");

    let approve = ["--on-interrupt", "approve"];
    // The command deletes a folder in a form that no rule can recognise.
    let (result, text) = world.commands("d=da; rm -r ${d}ta; touch made.txt", &approve).await;
    has_all(&text, &["cannot be undone: deleted files that git ignores: 2 files in /project/data/"]);
    assert_eq!(paths(&result), ["/project/data/", "/project/made.txt"]);
    let session = result["session_id"].as_str().unwrap();
    let undone = world.agentctl(["undo", session, "--json"]).await.exits(1).json();
    let failed = undone["files"].as_array().unwrap().iter().find(|file| file["outcome"] == "failed").unwrap();
    assert_eq!(failed["path"], "/project/data/", "{undone:#}");
    assert!(!world.has_file("made.txt"));

    let (result, text) = world.commands("rm node_modules/x/*; mkdir node_modules/y", &approve).await;
    assert!(text.contains("1 file in /project/node_modules/") && paths(&result).is_empty(), "{text}\n{result:#}");
    let (_, text) = world.commands("touch node_modules/z; echo quiet", &approve).await;
    assert!(!text.contains("undone"), "{text}");
}

#[tokio::test]
async fn deletions_beyond_the_scan_limit_are_counted_as_at_least() {
    let world = World::start().await;
    world.write("project/.gitignore", "data/\n");
    let folder = world.path().join("project/data");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..20_000 {
        fs::write(folder.join(number.to_string()), "").unwrap();
    }
    world.write("project/data/deep/er.txt", "x");
    let approve = ["--on-interrupt", "approve"];
    let (_, text) = world.commands("d=da; rm ${d}ta/17", &approve).await;
    assert!(text.contains(": 1 file in /project/data/"), "{text}");
    let (result, text) = world.commands("d=da; rm -r ${d}ta", &approve).await;
    assert!(text.contains(": at least 19999 files in /project/data/"), "{text}");
    assert_eq!(paths(&result), ["/project/data/"]);
}

fn project(world: &World, name: &str) -> String {
    fs::read_to_string(world.path().join("project").join(name)).unwrap_or_default()
}

#[tokio::test]
async fn command_with_a_killed_sandbox_has_unknown_outcome() {
    let world = World::start().await;
    world.write("project/a.txt", "one\n");
    world.script_reply(run("echo printed; rm a.txt; touch begun; sleep 600"));
    let args = ["run", "Do it", "-C", &world.mount(), "--on-interrupt", "approve", "--output", "json"];
    let running = world.spawn_agentctl(args);
    until_true("the command is running", || world.has_file("begun")).await;
    let is_helper = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some("sandbox-exec")
    };
    let helpers = world.processes().into_iter().filter(is_helper);
    for helper in helpers.map(|pid| Pid::from_raw(pid.cast_signed())) {
        // The other processes end when the first one ends.
        let _ = kill(helper, Signal::SIGKILL);
    }
    let result = running.output(Vec::new()).await.exits(0).json();
    let text = world.model.requests().last().map(tool_texts).unwrap();
    assert!(text.contains("the outcome is unknown") && text.contains("printed"), "{text}");
    assert!(!text.contains("never ran") && text.contains("E_UNKNOWN_OUTCOME"), "{text}");
    assert!(paths(&result).contains(&"/project/a.txt"), "{result:#}");
    world.ok(["undo"]).await;
    assert_eq!(project(&world, "a.txt"), "one\n");
}

#[tokio::test]
async fn calls_not_started_at_a_cancel_are_reported_as_not_run() {
    let world = World::start().await;
    world.model.reply(run("touch outputs/one").and_call("run_bash_command", json!({"command": "touch outputs/two"})));
    let mut running = world.spawn_agentctl(["run", "Ask!", "--on-interrupt", "wait", "--output", "stream-json"]);
    running.event("interrupt_raised").await;
    running.signal(Signal::SIGINT);
    let output = running.output(Vec::new()).await.exits(130);
    let result = output.json_lines().pop().unwrap();
    let session = result["session_id"].as_str().unwrap();
    world.ok(["run", "And now?", "--session", session]).await;
    let text = world.model.requests().last().map(tool_texts).unwrap();
    assert_eq!(text.matches("E_NOT_RUN: the turn ended before the call ran: it never ran").count(), 2, "{text}");
    assert!(!text.contains("E_UNKNOWN_OUTCOME"), "{text}");
}
