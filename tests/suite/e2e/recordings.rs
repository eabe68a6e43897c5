//! Recordings: created from sessions, replayed without a model, tools or network, and compared with expectations.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

/// Runs a turn that reads a file, edits it after approval, and runs a command. Returns the world and the recording.
async fn recorded() -> (World, PathBuf) {
    let world = World::start().await;
    world.write("project/notes.txt", "old words\n");
    world.write("project/AGENTS.md", "Be brief.\n");
    let edit = json!({"path": "/project/notes.txt", "old_string": "old", "new_string": "new"});
    let steps = vec![
        (&["old words"][..], Reply::tool_call("read_file", json!({"path": "/project/notes.txt"}))),
        (&["Edited"][..], Reply::tool_call("edit_file", edit)),
        (&["it ran"][..], Reply::tool_call("run_bash_command", json!({"command": "echo it ran; echo x > made"}))),
    ];
    script_steps(&world.model, steps, Reply::text("It is done."));
    let file = world.path().join("notes.jsonl");
    let args =
        ["run", "Change it", "-C", &world.mount(), "--on-interrupt", "approve", "--record", file.to_str().unwrap()];
    let output = world.ok(args).await;
    assert_eq!(output.stdout.trim(), "It is done.");
    (world, file)
}

fn facts(file: &PathBuf) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn project(world: &World) -> String {
    world.path().join("project").display().to_string()
}

#[tokio::test]
async fn replay_needs_no_model_and_changes_nothing() {
    let (world, file) = recorded().await;
    let kinds: Vec<String> = facts(&file).iter().map(|fact| fact["fact"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "answer").count(), 4);
    assert_eq!(kinds.iter().filter(|kind| *kind == "request").count(), 4);
    assert_eq!(kinds.iter().filter(|kind| *kind == "result").count(), 3);
    let request_count = world.model.requests().len();
    world.write("project/notes.txt", "old words\n");
    let sessions = world.ok(["sessions", "list", "--json"]).await.stdout;
    let usage = world.ok(["usage", "--json"]).await.stdout;

    let file = file.to_str().unwrap();
    let played = world.ok(["run", "--replay", file, "-C", &project(&world)]).await;
    assert_eq!(played.stdout.trim(), "It is done.", "{}", played.stderr);
    assert_eq!(world.model.requests().len(), request_count, "a model was called");
    assert_eq!(fs::read_to_string(world.path().join("project/notes.txt")).unwrap(), "old words\n");
    assert_eq!(world.ok(["sessions", "list", "--json"]).await.stdout, sessions);
    assert_eq!(world.ok(["usage", "--json"]).await.stdout, usage);
    let left = fs::read_dir(world.path().join("data/replays")).map_or(0, Iterator::count);
    assert!(left <= 1, "a folder of a replay is left");
}

#[tokio::test]
async fn replay_on_another_daemon_shows_a_changed_prompt() {
    let (_world, file) = recorded().await;
    // On another host, the model's URL is unreachable.
    let other = TempDaemon::start("http://127.0.0.1:9/v1").await;
    other.write("project/AGENTS.md", "Be brief.\n");
    let folder = other.path().join("project").display().to_string();
    let text = fs::read_to_string(&file).unwrap();
    let copy = other.write("notes.jsonl", &text).display().to_string();
    let played = other.ok(["run", "--replay", &copy, "-C", &folder]).await;
    assert_eq!(played.stdout.trim(), "It is done.", "{}", played.stderr);

    other.write("project/AGENTS.md", "Be verbose.\n");
    let output = other.agentctl(["run", "--replay", &copy, "-C", &folder]).await.exits(1);
    output.says(&["turn 1, answer 1: the request differs", "-Be brief.", "+Be verbose."]);
    other.ok(["run", "--replay", &copy, "-C", &folder, "--update"]).await;
    other.ok(["run", "--replay", &copy, "-C", &folder]).await;
    let updated = fs::read_to_string(&copy).unwrap();
    let changed = updated.lines().zip(text.lines()).filter(|(now, then)| now != then).count();
    assert_eq!((changed, updated.lines().count()), (1, text.lines().count()), "exactly one line is updated");
}

#[tokio::test]
async fn live_tools_of_a_replay_need_their_own_approval() {
    let (world, file) = recorded().await;
    let file = file.to_str().unwrap();
    let folder = format!("{}:rw", project(&world));
    let notes = || fs::read_to_string(world.path().join("project/notes.txt")).unwrap();
    world.write("project/notes.txt", "old words\n");
    let denied = world.agentctl(["run", "--replay", file, "-C", &folder, "--live-tools"]).await;
    assert_eq!(notes(), "old words\n", "{}", denied.stderr);
    world.ok(["run", "--replay", file, "-C", &folder, "--live-tools", "--on-interrupt", "approve"]).await;
    assert_eq!(notes(), "new words\n");
}

#[tokio::test]
async fn live_model_gets_the_recorded_results() {
    let (world, file) = recorded().await;
    world.write("project/notes.txt", "gone\n");
    world.model.respond_with(|request| match tool_texts(request).contains("old words") {
        true => Reply::text("It says: old words."),
        false => Reply::tool_call("read_file", json!({"path": "/project/notes.txt"})),
    });
    let file = file.to_str().unwrap();
    let played = world.ok(["run", "--replay", file, "-C", &project(&world), "--live-model"]).await;
    assert_eq!(played.stdout.trim(), "It says: old words.", "{}", played.stderr);
}

#[tokio::test]
async fn test_folder_reports_passes_and_failures() {
    let (world, file) = recorded().await;
    let write = |name: &str, text: &str| world.write(&format!("tests/{name}"), text);
    write("a/notes.jsonl", &fs::read_to_string(&file).unwrap());
    let expect = "project: ../../project\nexpect:\n  end: completed\n  text: {contains: [done], excludes: [sorry]}\n  \
                  tools: {called: [edit_file], not_called: [write_file], at_most: 3, no_failures: true}\n";
    write("a/notes.yaml", expect);
    let folder = world.path().join("tests").display().to_string();
    let junit = world.path().join("out.xml").display().to_string();
    world.ok(["test", &folder, "--junit", &junit]).await.shows(&["1 passed, 0 failed"]);

    let fails = "recording: a/notes.jsonl\nproject: ../project\nexpect:\n  text: {equals: nothing, matches: '^x'}\n  \
                 tools: {called: [grep], not_called: [read_file], at_most: 1}\n  cost: {max_steps: 2}\n";
    write("fails.yaml", fails);
    let failed = world.agentctl(["test", &folder, "--junit", &junit]).await.exits(1);
    let stdout = &failed.stdout;
    has_all(
        stdout,
        &[
            "ok     a/notes",
            "FAILED fails",
            "expected a call to grep",
            "no call to read_file",
            "at most 1 calls",
            "at most 2 steps",
            "to match",
            "1 passed, 1 failed",
        ],
    );
    has_all(&fs::read_to_string(&junit).unwrap(), &["tests=\"2\" failures=\"1\"", "name=\"fails\""]);
    let report = world.json(["test", &folder, "notes"]).await;
    assert_eq!((&report["passed"], &report["tests"][0]["name"]), (&json!(1), &json!("a/notes")));
}

/// A test file may come from another author, so it declares the access it needs, and the command line permits it.
#[tokio::test]
async fn live_test_is_limited_by_the_command_line() {
    let (world, file) = recorded().await;
    world.write("project/notes.txt", "old words\n");
    world.write("tests/fixture/notes.txt", "old words\n");
    world.write("tests/a.jsonl", fs::read_to_string(&file).unwrap());
    let folder = world.path().join("tests");
    symlink(project(&world), folder.join("linked")).unwrap();
    let notes = |of: &str| world.read(&format!("{of}/notes.txt"));
    let test = async |project: &str, permitted: &[&str]| {
        let text = format!("mode: live-tools\nproject: {project}\nwritable: true\napprove: true\n");
        world.write("tests/a.yaml", text);
        let args = ["test", folder.to_str().unwrap(), "--live"].into_iter().chain(permitted.iter().copied());
        world.agentctl(args).await
    };
    for (project, permitted, phrase) in [
        ("fixture", &[][..], "requires --approve"),
        ("fixture", &["--approve"], "requires --writable"),
        ("fixture", &["--writable"], "requires --approve"),
        ("../project", &["--approve", "--writable"], "outside of the folder of tests"),
        ("linked", &["--approve", "--writable"], "outside of the folder of tests"),
        (&project(&world), &["--approve", "--writable"], "outside of the folder of tests"),
    ] {
        test(project, permitted).await.exits(2).says(&[phrase, "hint:"]);
    }
    assert_eq!((notes("project"), notes("tests/fixture")), ("old words\n".to_owned(), "old words\n".to_owned()));
    test("fixture", &["--approve", "--writable"]).await;
    assert_eq!(notes("tests/fixture"), "new words\n");
    // A recording must be inside the folder of its test, even if it is reached through links.
    symlink(&file, folder.join("far.jsonl")).unwrap();
    world.write("tests/far.yaml", "{}\n");
    let output = world.agentctl(["test", folder.to_str().unwrap()]).await.exits(2);
    output.says(&["`recording` is outside of the test's folder"]);
}

#[tokio::test]
async fn invalid_tests_and_recordings_are_refused_with_the_reason() {
    let world = World::start().await;
    let folder = world.path().join("tests").display().to_string();
    let tried = async |name: &str, text: &str| {
        let path = world.write(&format!("tests/{name}"), text);
        world.agentctl(["test", path.to_str().unwrap()]).await
    };
    world.write("tests/.hidden.jsonl", "x");
    world.agentctl(["test", &folder]).await.exits(2).says(&["no tests in"]);
    tried("bad.yaml", "expct: {}\n").await.exits(2).says(&["expct"]);
    let recordings = [
        ("empty.jsonl", "", "the recording is empty"),
        ("newer.jsonl", "{\"fact\":\"recording\",\"version\":99}\n", "has version 99"),
        ("other.jsonl", "{\"type\":\"x\"}\n", "not a recording"),
        (
            "edited.jsonl",
            "{\"fact\":\"recording\",\"version\":1,\"agentd\":\"x\",\"began\":\"2026-11-25T10:00:00Z\",\"models\":[]}\n{\"fact\":\"message\",\"message\":{}}\n",
            "line 2 of the recording",
        ),
    ];
    for (name, text, phrase) in recordings {
        let failed = tried(name, text).await.exits(1);
        assert!(failed.stdout.contains(phrase), "{name}: {}", failed.stdout);
    }
    world.still_serves().await;
}

#[tokio::test]
async fn session_with_subagents_can_be_recorded_and_replayed() {
    let mut world = World::start().await;
    let report = format!("The report. {}", "Each thing was looked at and found in order. ".repeat(6));
    world.model.respond_with(move |request| {
        let is_subagent = is_subagent(request);
        let all = request.messages().iter().map(ToString::to_string).collect::<String>();
        match (is_subagent, request.last_role()) {
            // The subagent's report is too short, so it is asked for more detail.
            (true, _) if all.contains("second part") && !all.contains("Short.") => Reply::text("Short."),
            (true, _) => Reply::text(report.clone()),
            (false, "tool") => Reply::text("All parts are done."),
            (false, _) => Reply::default()
                .and_call("delegate_task", json!({"task": "Look at the first part."}))
                .and_call("delegate_task", json!({"task": "Look at the second part."})),
        }
    });
    world.ok(["run", "Look at all parts", "-C", "none"]).await;
    world.daemon.crash().await;
    let file = world.path().join("parts.jsonl");
    let path = file.to_str().unwrap();
    world.ok(["sessions", "record", "last", "-o", path]).await;
    let subagent_count = facts(&file).iter().filter(|fact| fact["fact"] == "subagent").count();
    assert_eq!(subagent_count, 2);
    let request_count = world.model.requests().len();
    for _ in 0..3 {
        let played = world.ok(["run", "--replay", path]).await;
        assert_eq!(played.stdout.trim(), "All parts are done.", "{}", played.stderr);
    }
    assert_eq!(world.model.requests().len(), request_count);
    world.agentctl(["sessions", "record", "last", "-o", path]).await.exits(2).says(&["--force replaces it"]);
}

#[tokio::test]
async fn compacted_session_can_be_replayed_later() {
    let model = ModelServer::start().await;
    let (home, address) = (TempHome::with_model(&model.base_url()), model.base_url());
    let scribe = format!("reasoning: {{base_url: '{address}', id: scribe, retries: 0}}");
    home.write("config/models.yaml", format!("base: {{context_window: 16384, retries: 0}}\n{scribe}\n"));
    home.write("config/agentd.yaml", "turns: {summary_slot: reasoning}\n");
    let world = World { daemon: TempDaemon::start_in(home).await, model };
    world.model.respond_with(|request| {
        let reply = match request.text.contains("<history>") {
            true => Reply::text("## Decisions and reasons\n- the harbour is built of oak\n"),
            false => Reply::text("Noted. ".repeat(200)),
        };
        let prompt = request.body.to_string().len() / 4;
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": 350, "total_tokens": prompt + 350});
        Reply { usage: Some(usage), ..reply }
    });
    let first = world.agentctl(["run", "We build chapter 0.", "-C", "none", "--output", "json"]).await;
    let session = first.exits(0).session();
    let is_summarised = || world.model.requests().iter().any(|request| request.text.contains("<history>"));
    for chapter in 1..40 {
        if is_summarised() {
            break;
        }
        let text = format!("We build chapter {chapter}. {}", "The wall is long. ".repeat(200));
        world.ok(["run", &text, "--session", &session]).await;
    }
    let context = world.agentctl(["context", &session]).await;
    assert!(is_summarised(), "{context:?}");
    let file = world.path().join("long.jsonl");
    let path = file.to_str().unwrap();
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    world.ok(["sessions", "record", &session, "-o", path]).await;
    let recorded = second();
    until_true("the next second has started", || second() > recorded).await;
    world.ok(["run", "--replay", path]).await.shows(&["Noted."]);
}

/// The examples in the documentation pass with a daemon that has no model.
#[tokio::test]
async fn documentation_examples_pass() {
    let daemon = TempDaemon::start("http://127.0.0.1:9/v1").await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testing");
    let skipped = daemon.ok(["test", folder]).await;
    assert!(skipped.stdout.contains("1 passed") && skipped.stderr.contains("live is live"), "{}", skipped.stderr);
    daemon.ok(["test", folder, "--live", "--approve"]).await.shows(&["2 passed, 0 failed"]);
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testing.md")).unwrap();
    for example in ["summary", "live"] {
        assert!(fs::exists(format!("{folder}/{example}.yaml")).unwrap());
    }
    assert!(page.contains("agentctl test docs/testing"));
}

/// A recording may come from an untrusted source, so its changes to files are not applied.
#[tokio::test]
async fn replayed_undo_changes_no_file() {
    let world = World::start().await;
    world.write("project/AGENTS.md", "Be brief.\n");
    let write = || Reply::tool_call("write_file", json!({"path": "/project/a.txt", "content": "x\n"}));
    let steps = vec![
        (&["a.txt"][..], write()),
        (&["took back", "removed", "undone"][..], Reply::tool_call("undo_patch", json!({}))),
    ];
    script_steps(&world.model, steps, Reply::text("It is done."));
    let folder = format!("{}:rw", project(&world));
    let file = world.path().join("undo.jsonl");
    let args = ["run", "Write it", "-C", &folder, "--on-interrupt", "approve", "--max-steps", "5"];
    world.agentctl(args.iter().copied().chain(["--record", file.to_str().unwrap()])).await;
    world.write("project/a.txt", "x\n");
    world.agentctl(["run", "--replay", file.to_str().unwrap(), "-C", &folder]).await;
    assert_eq!(fs::read_to_string(world.path().join("project/a.txt")).unwrap(), "x\n");
}

#[tokio::test]
async fn recordings_contain_no_secrets() {
    let world = World::start().await;
    world.model.reply(Reply::text("The key is sk-abcdefghijklmnop123456."));
    let file = world.path().join("key.jsonl");
    world.ok(["run", "My password=hunter22222 and go", "-C", "none", "--record", file.to_str().unwrap()]).await;
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter22222") && !text.contains("sk-abcdefgh"), "{text}");
    world.ok(["run", "--replay", file.to_str().unwrap()]).await.shows(&["[redacted]"]);
}
