//! Tests of `agentctl run`, including the behaviour that scripts rely on.

use super::{Events as _, *};

const RESULT_KEYS: [&str; 12] = [
    "denials",
    "duration_ms",
    "files",
    "session_id",
    "steps",
    "stop_reason",
    "text",
    "tool_used",
    "trace_id",
    "turn_id",
    "type",
    "usage",
];

/// Asserts the keys of a result. A failed result also has an error.
#[track_caller]
fn check_result(result: &Value, stop_reason: &str) {
    let mut found = keys(result);
    if stop_reason == "failed" {
        assert!(result["error"]["message"].is_string() && result["error"]["kind"].is_string(), "{result:#}");
    }
    found.retain(|key| *key != "error");
    assert_eq!(found, RESULT_KEYS, "{result:#}");
    assert_eq!(result["type"], "result");
    assert_eq!(result["stop_reason"], stop_reason, "{result:#}");
    assert!(result["text"].is_string() && result["tool_used"].is_boolean() && result["steps"].is_u64());
    assert!(result["denials"].is_array() && result["files"].is_array() && result["duration_ms"].is_u64());
    assert!(result["usage"]["prompt_tokens"].is_u64() && result["usage"]["completion_tokens"].is_u64());
}

#[tokio::test]
async fn only_the_answer_is_on_standard_output() {
    let world = World::with_reply("Four.").await;
    assert_eq!(world.ok(["run", "What is two and two?"]).await.stdout, "Four.\n");
    assert_eq!(world.model.requests()[0].last_user(), "What is two and two?");
    let output = world.ok(["run", "2+2?", "--output", "json"]).await;
    let result = output.json();
    check_result(&result, "completed");
    holds(&result, json!({"text": "Four.", "tool_used": false, "steps": 1}));
    assert_eq!(result["usage"]["prompt_tokens"], 10);
    for id in ["session_id", "turn_id", "trace_id"] {
        assert!(result[id].as_str().is_some_and(|id| id.len() >= 32), "{id} in {result:#}");
    }
}

/// Checks a whole stream, and returns the types of its lines.
#[track_caller]
fn check_stream(output: &Output, stop_reason: &str) -> Vec<String> {
    let mut lines = output.json_lines();
    let result = lines.pop().expect("the last line is the result");
    check_result(&result, stop_reason);
    let mut stored = 0;
    for line in &lines {
        for key in ["type", "session_id", "turn_id", "seq", "at"] {
            assert!(!line[key].is_null(), "{key} is missing in {line}");
        }
        if line["type"] != "item_delta" {
            stored += 1;
        }
        assert_eq!(line["seq"], stored, "stored events are numbered without a gap: {line}");
        assert_eq!(line["session_id"], result["session_id"]);
    }
    let ids = |name: &str| {
        let of_name = lines.iter().filter(|line| line["type"] == name);
        let mut ids: Vec<&str> = of_name.filter_map(|line| line["item"]["id"].as_str()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids("item_started"), ids("item_completed"), "every started item is completed once");
    let types = lines.iter().map(|line| line["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(types.first().map(String::as_str), Some("turn_started"));
    assert_eq!(types.last().map(String::as_str), Some("turn_ended"));
    types
}

#[tokio::test]
async fn stream_json_ends_with_the_result() {
    let world = World::start().await;
    world.model.reply(Reply::tool_call("now", json!({}))).reply(Reply::text("It is late already."));
    let output = world.ok(["run", "Time?", "--output", "stream-json"]).await;
    let types = check_stream(&output, "completed");
    for name in ["item_started", "item_delta", "item_completed", "usage_updated"] {
        assert!(types.iter().any(|found| found == name), "{name} is missing in {types:?}");
    }
    assert_eq!(output.json_lines().last().unwrap()["tool_used"], true);
}

#[tokio::test]
async fn failed_turn_still_prints_a_result() {
    let world = World::start().await;
    world.model.default_reply(Reply::refusal(400, "no such model"));
    let output = world.agentctl(["run", "Hi", "--output", "stream-json"]).await.exits(1);
    check_stream(&output, "failed");
    check_result(&world.daemon.agentctl(["run", "Hi", "--output", "json"]).await.exits(1).json(), "failed");
    // A turn that could not be started also has a result.
    let output = world.agentctl(["run", "Hi", "--session", "ffff", "--output", "stream-json"]).await.exits(2);
    let lines = output.json_lines();
    assert_eq!(lines.len(), 1);
    check_result(&lines[0], "failed");
}

#[tokio::test]
async fn piped_input_is_appended_to_the_prompt() {
    let world = World::start().await;
    world.agentctl_with(["run", "Sort these:"], "b\na\n").await.exits(0);
    world.agentctl_with(["run", "-"], "all of it").await.exits(0);
    world.agentctl_with(["run"], "all of it, too").await.exits(0);
    let inputs: Vec<String> =
        world.model.requests().iter().map(|request| request.last_user().trim_end().to_owned()).collect();
    assert_eq!(inputs, ["Sort these:\n\nb\na", "all of it", "all of it, too"]);
    world.agentctl(["run"]).await.exits(2).says(&["missing prompt", "hint:"]);
}

#[tokio::test]
async fn project_folder_is_changed_only_if_writable() {
    let world = World::start().await;
    let project = world.write("project/a.txt", "before").parent().unwrap().display().to_string();
    let write = || Reply::tool_call("write_file", json!({"path": "/project/a.txt", "content": "after"}));
    let run = async |folder: String| {
        world.model.reply(write()).reply(Reply::text("Done."));
        let args = ["run", "Change it", "-C", &folder, "--on-interrupt", "approve", "--output", "json"];
        world.ok(args).await.json()
    };
    for folder in [project.clone(), format!("{project}:ro")] {
        assert_eq!(run(folder).await["files"], json!([]));
        assert_eq!(world.read("project/a.txt"), "before");
    }
    assert_eq!(run(format!("{project}:rw")).await["files"], json!([{"path": "/project/a.txt", "change": "modified"}]));
    assert_eq!(world.read("project/a.txt"), "after");
    world.agentctl(["run", "Hi", "-C", "/no/such/folder"]).await.exits(2).says(&["/no/such/folder", "hint:"]);
}

#[tokio::test]
async fn wrong_usage_exits_with_2() {
    let world = World::start().await;
    world.agentctl(["run", "Hi", "--model", "huge"]).await.exits(2).says(&["huge", "base", "chat"]);
    world.agentctl(["run", "Hi", "--max-steps", "0"]).await.exits(2).says(&["--max-steps"]);
    world.agentctl(["run", "two", "words"]).await.exits(2).says(&["more than one prompt", "'two words'"]);
    world.agentctl(["run", "Hi", "--file", "/none"]).await.exits(2).says(&["/none", "hint:"]);
    world.agentctl(["run", "Hi", "--on-interrupt", "ask"]).await.exits(2).says(&["terminal", "hint:"]);
    world.agentctl(["run", "Hi", "--session", "ffff"]).await.exits(2).says(&["ffff", "hint:"]);
    // With `--output json`, these errors are in the result.
    for wrong in [["--model", "huge"], ["--max-steps", "0"], ["--session", "ffff"]] {
        let output = world.agentctl([&["run", "Hi", "--output", "json"][..], &wrong].concat()).await.exits(2);
        let result = output.json();
        holds(&result, json!({"type": "result", "stop_reason": "failed"}));
        assert!(result["error"]["hint"].is_string(), "{result:#}");
        let mut found = keys(&result);
        found.retain(|key| *key != "error");
        assert_eq!(found, RESULT_KEYS, "{result:#}");
    }
    assert!(world.model.requests().is_empty());
}

#[tokio::test]
async fn missing_daemon_exits_with_3() {
    let home = TempHome::new();
    home.agentctl(["status"]).await.exits(3);
    assert_eq!(home.agentctl(["status", "--json"]).await.exits(3).json()["running"], false);
    let client_copy = home.path().join("agentctl");
    fs::copy(program("agentctl"), &client_copy).unwrap();
    let mut command = home.command(&client_copy);
    command.args(["run", "Hi"]).env("PATH", "/nowhere");
    let output = Running::spawn(command).output(Vec::new()).await;
    output.exits(3).says(&["agentd", "hint:"]);
}

#[tokio::test]
async fn refused_key_exits_with_4() {
    let world = World::start().await;
    world.model.default_reply(Reply::refusal(401, "wrong key"));
    world.agentctl(["run", "Hi"]).await.exits(4).says(&["wrong key", "the api_key of this model: it has none"]);
}

#[tokio::test]
async fn missing_approval_exits_with_5() {
    let world = World::start().await;
    let write = || Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(write());
    let failed = world.agentctl(["run", "Write", "--on-interrupt", "fail", "--output", "json"]).await.exits(5).json();
    check_result(&failed, "denied");
    assert_eq!(failed["denials"][0]["tool"], "write_file");
    // Without a user to ask, the call is denied, and the model is notified.
    world.model.reply(write()).reply(Reply::text("Then not."));
    let denied = world.agentctl(["run", "Write", "--output", "json"]).await.exits(5).json();
    check_result(&denied, "completed");
    assert_eq!((&denied["text"], &denied["denials"][0]["tool"]), (&json!("Then not."), &json!("write_file")));
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("refused"));
    // If approved in advance, the call runs.
    world.model.reply(write()).reply(Reply::text("Written."));
    let approved = world.ok(["run", "Write", "--on-interrupt", "approve", "--output", "json"]).await.json();
    assert_eq!(approved["files"], json!([{"path": "outputs/a.txt", "change": "created"}]));
}

#[tokio::test]
async fn exhausted_steps_exit_with_6() {
    let world = World::start().await;
    world.model.default_reply(Reply::tool_call("now", json!({})));
    let result = world.agentctl(["run", "Time?", "--max-steps", "2", "--output", "json"]).await.exits(6).json();
    check_result(&result, "max_steps");
}

#[tokio::test]
async fn rate_limit_exits_with_75() {
    let world = World::start().await;
    world.model.default_reply(Reply::rate_limited(3600.0));
    world.agentctl(["run", "Hi"]).await.exits(75).says(&["hint:"]);
    world.model.default_reply(Reply::rate_limited(0.0));
    let output = world.agentctl(["run", "Hi", "--output", "stream-json"]).await.exits(75);
    let retries: Vec<Value> = output.json_lines().into_iter().filter(|line| line["code"] == "model_retry").collect();
    assert!(!retries.is_empty(), "every retry is an event: {}", output.stdout);
    let first = retries[0]["message"].as_str().unwrap();
    assert!(first.starts_with("retrying in ") && first.contains("(2 of 4): "), "{first}");
}

#[tokio::test]
async fn cancelled_run_exits_with_130() {
    let world = World::start().await;
    world.model.default_reply(Reply::text("One two three four five").hang_after_text("two"));
    let mut running = world.spawn_agentctl(["run", "Count", "--output", "stream-json"]);
    let (_, before) = running.event("item_delta").await;
    running.signal(Signal::SIGINT);
    let mut output = running.output(Vec::new()).await.exits(130);
    let before: String = before.iter().map(|line| format!("{line}\n")).collect();
    output.stdout.insert_str(0, &before);
    let lines = output.json_lines();
    check_result(lines.last().unwrap(), "cancelled");
    assert_eq!(lines[lines.len() - 2]["type"], "turn_ended");
    // The daemon closes the connection, so that the model does not continue generating.
    world.model.wait_until(|counts| counts.dropped == 1).await;
    world.still_serves().await;
}

#[tokio::test]
async fn closed_output_pipe_is_not_an_error() {
    let world = World::start().await;
    world.model.default_reply(Reply::fast(20_000));
    let mut shell = world.daemon.command("/bin/sh");
    shell.arg("-c").arg(r#""$0" run Hi </dev/null | head -c 100 >/dev/null"#).arg(program("agentctl"));
    let output = Running::spawn(shell).output(Vec::new()).await.exits(0);
    assert!(!output.stderr.contains("error") && !output.stderr.contains("panicked"), "{}", output.stderr);
    until("the turn ends without the client", || async {
        let status = world.json(["status"]).await;
        (status["running_turns"] == 0).then_some(())
    })
    .await;
}

/// Tests `--if-busy` while a turn in the session waits for an answer. Returns the outputs of that turn and of the other
/// turn.
async fn run_while_busy(argument: &str, is_there: impl Fn(&EventKind) -> bool) -> (Output, Output) {
    let world = World::start().await;
    let which = Reply::tool_call("ask_human", json!({"question": "Which one?"}));
    script_steps(&world.model, vec![(&["that one"], which)], Reply::text("All is said."));
    let mut first = world.spawn_agentctl(["run", "the first", "--on-interrupt", "wait", "--output", "stream-json"]);
    let (raised, _) = first.event("interrupt_raised").await;
    let session = raised["session_id"].as_str().unwrap();

    let refused = world.agentctl(["run", "the second", "--session", session]).await;
    refused.exits(75).says(&["waits for an answer", "hint:"]);
    let args = ["run", "the second", "--session", session, "--if-busy", argument, "--output", "json"];
    let second = world.spawn_agentctl(args);
    let mut events = world.client().await.subscribe(session, 0, true).await.unwrap();
    events.stored_until(is_there).await;

    let id = raised["interrupt"]["id"].as_str().unwrap();
    world.ok(["answer", id, "that one"]).await;
    (first.output(Vec::new()).await, second.output(Vec::new()).await)
}

#[tokio::test]
async fn queue_option_waits_for_the_running_turn() {
    let queued =
        |kind: &EventKind| matches!(kind, EventKind::StateChanged { change: StateChange::Queue { length: 1, .. } });
    let (first, second) = run_while_busy("queue", queued).await;
    let (first, second) = (first.exits(0).json_lines().pop().unwrap(), second.exits(0).json());
    assert_ne!(first["turn_id"], second["turn_id"]);
    assert_eq!((&first["text"], &second["text"]), (&json!("All is said."), &json!("All is said.")));
}

#[tokio::test]
async fn steer_option_joins_the_running_turn() {
    let joined = |kind: &EventKind| match kind {
        EventKind::ItemStarted { item } => {
            matches!(&item.body, ItemBody::UserMessage { text, .. } if text == "the second")
        }
        _ => false,
    };
    let (first, second) = run_while_busy("steer", joined).await;
    let (first, second) = (first.exits(0).json_lines().pop().unwrap(), second.exits(0).json());
    assert_eq!((&first["turn_id"], &first["text"]), (&second["turn_id"], &second["text"]));
}

#[tokio::test]
async fn failed_command_is_shown_as_failed_everywhere() {
    let world = World::start().await;
    let run = |command: &str| Reply::tool_call("run_bash_command", json!({ "command": command }));
    let failing = "seq 1 9; echo first of it >&2; echo last of it >&2; exit 3";
    world.model.reply(run(failing)).reply(run("seq 1 3")).reply(run("kill -9 $$")).reply(Reply::text("So."));
    let args = ["run", "Run them", "--on-interrupt", "approve", "--output", "stream-json"];
    let lines = world.ok(args).await.json_lines();
    let codes: Vec<i64> = lines
        .iter()
        .filter(|line| line["type"] == "item_completed")
        .filter_map(|line| find(&line["item"], "exit_code")?.as_i64())
        .collect();
    assert_eq!(codes, [3, 0, 137]);
    let session = lines[0]["session_id"].as_str().unwrap();
    let attached = world.ok(["attach", session, "--after", "0"]).await.stderr;
    let shown = world.ok(["sessions", "show", session]).await.stdout;
    for (output, call) in [(&attached, "✗ $ "), (&shown, "✗ run_bash_command")] {
        has_all(output, &[call, "exit 3 ·", "first of it", "last of it", "3 lines", "ended by signal 9"]);
        assert!(!output.contains("exit 0"), "{output}");
    }
}

/// Finds the value under this key at any depth.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(key).or_else(|| fields.values().find_map(|inner| find(inner, key))),
        _ => None,
    }
}

#[tokio::test]
async fn wait_returns_the_result_of_a_detached_run() {
    let mut world = World::configured("service: {log_level: debug}").await;
    world.agentctl(["wait", "nowhere"]).await.exits(2);
    world.model.reply(Reply::deltas(["One. ", "Two."]).delay_ms(300)).reply(Reply::text("Three."));
    let session = world.ok(["run", "Count", "--detach"]).await.stdout.trim().to_owned();
    world.ok(["run", "More", "--session", &session, "--if-busy", "queue", "--detach"]).await;
    let waited = world.ok(["wait", &session]).await;
    assert_eq!(waited.stdout, "Three.\n", "{}", waited.stderr);
    // The result of a completed run can be read later, even after a restart of the daemon.
    world.daemon.crash().await;
    let result = world.json(["wait", "last"]).await;
    holds(&result, json!({"text": "Three.", "session_id": session}));

    world.model.reply(Reply::text("It hangs").hang_after_text("hangs"));
    world.ok(["run", "Hang", "--session", &session, "--detach"]).await;
    let before = world.followers();
    let waiting = world.spawn_agentctl(["wait", &session]);
    // A client that is not yet subscribed when the daemon stops would only report that the daemon has stopped.
    until_true("the client is subscribed", || world.followers() > before).await;
    world.model.wait_until(|counts| counts.requests == 3).await;
    world.agentctl(["wait", &session, "--timeout", "0"]).await.exits(124).says(&["still running"]);
    world.ok(["stop", "--within", "0"]).await;
    let ended = waiting.output(Vec::new()).await;
    assert_eq!(ended.code, Some(75), "{}\n{}", ended.stdout, ended.stderr);
}

#[tokio::test]
async fn title_is_set_and_ephemeral_session_is_removed() {
    let world = World::start().await;
    let sessions = async || world.json(["sessions", "list"]).await;
    world.ok(["run", "Hello", "--title", "The first"]).await;
    assert_eq!(sessions().await[0]["title"], "The first");
    // An ephemeral session is removed even if its turn fails.
    for reply in [Reply::text("Gone."), Reply::refusal(400, "no")] {
        world.model.reply(reply);
        world.agentctl(["run", "Hello", "--ephemeral"]).await;
        assert_eq!(sessions().await.as_array().unwrap().len(), 1);
    }
    world.agentctl(["run", "Hello", "--ephemeral", "--session", "last"]).await.exits(2);
}
