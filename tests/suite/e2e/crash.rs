//! Kills the daemon at every stored event of a turn with tools, and checks that the turn can be continued.

use futures_util::{StreamExt as _, stream};

use super::*;

/// Starts a careful model, which reads, runs a command once, and does not repeat a command that may have had effects.
async fn model() -> ModelServer {
    let model = ModelServer::start().await;
    model.respond_with(|request| {
        let result = tool_texts(request);
        if !result.contains("the notes say so") {
            let read = Reply::tool_call("read_file", json!({"path": "/project/notes.txt"}));
            return Reply { text: "I look at the notes.".to_owned(), delay_ms: 2, ..read };
        }
        if !result.contains("appended") && !result.contains("may not have taken effect") {
            let command = r#"echo line >> "$PROJECT/log.txt"; sleep 0.05; echo appended"#;
            return Reply { delay_ms: 2, ..Reply::tool_call("run_bash_command", json!({"command": command})) };
        }
        Reply { delay_ms: 2, ..Reply::text("All is done.") }
    });
    model
}

async fn daemon(model: &ModelServer) -> TempDaemon {
    let daemon = TempDaemon::start(&model.base_url()).await;
    daemon.write("project/notes.txt", "the notes say so\n");
    daemon
}

/// Runs the turn, kills the daemon at the event with that number, and returns the events received so far.
async fn killed_at(daemon: &TempDaemon, number: usize) -> Vec<Event> {
    let client = Client::connect(&daemon.socket()).await.unwrap();
    let mut start = turn(trusting_session(&daemon.path().join("project")), "Do it");
    // The target of the turn's command is only known at run time, so the command is approved in advance.
    start.start.on_interrupt = OnInterrupt::Approve;
    let mut events = client.turn(start).await.unwrap();
    let mut seen = Vec::new();
    while let Ok(Some(event)) = events.next().await {
        if !event.kind.is_stored() {
            continue;
        }
        seen.push(event);
        if seen.len() == number {
            daemon.signal(Signal::SIGKILL);
        }
    }
    seen
}

fn log_lines(daemon: &TempDaemon) -> usize {
    daemon.read("project/log.txt").lines().count()
}

#[tokio::test]
async fn kill_at_each_event_neither_loses_nor_repeats_work() {
    let model = model().await;
    let whole = killed_at(&daemon(&model).await, usize::MAX).await;
    assert!(matches!(whole.last().unwrap().kind, EventKind::TurnEnded { .. }), "{whole:#?}");
    assert!(whole.len() > 15, "{whole:#?}");
    stream::iter(1..=whole.len()).for_each_concurrent(4, |number| kill_and_resume(&model, number)).await;
}

async fn kill_and_resume(model: &ModelServer, number: usize) {
    let mut daemon = daemon(model).await;
    let seen = killed_at(&daemon, number).await;
    daemon.ended().await;
    assert!(seen.len() >= number);
    let command_finished = seen.iter().any(|event| is_result_of(event, "run_bash_command"));
    let lines_before = log_lines(&daemon);
    daemon.restart().await;

    // The received events are stored with the same numbers, and the turn has ended with an accurate reason.
    let session = seen[0].session_id.to_string();
    let stored = stored_events(&daemon, &session).await;
    for (event, stored) in seen.iter().zip(&stored) {
        assert_eq!(&serde_json::to_value(event).unwrap(), stored, "killed at {number}");
    }
    let seqs: Vec<u64> = stored.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "killed at {number}");
    check_pairs(&stored, number);
    let ended = stored.last().unwrap();
    assert_eq!(ended["type"], "turn_ended", "killed at {number}: {stored:#?}");
    assert_eq!(log_lines(&daemon), lines_before, "a call ran before the model requested it");
    daemon.ok(["audit", "verify"]).await;
    if lines_before > 0 {
        let records = daemon.json(["audit", "--tool", "run_bash_command"]).await;
        assert_eq!(records[0]["allowed"], true, "killed at {number}: a call is missing in the audit log");
    }

    if ended["result"]["stop_reason"] == "completed" {
        assert_eq!(log_lines(&daemon), 1, "killed at {number}");
        return;
    }
    assert_eq!(ended["result"]["stop_reason"], "interrupted", "killed at {number}");
    check_report(&daemon, &stored).await;

    // The turn continues where the daemon was killed.
    let args = ["run", "--session", &session, "--on-interrupt", "approve", "--output", "json"];
    let result = daemon.ok(args).await.json();
    assert_eq!(result["text"], "All is done.", "killed at {number}");
    let unknown = stored.iter().any(|event| event["item"]["error"] == "E_UNKNOWN_OUTCOME");
    match log_lines(&daemon) {
        0 => assert!(unknown, "killed at {number}: the command never ran"),
        1 => {}
        lines => panic!("killed at {number}: the command ran {lines} times (finished before: {command_finished})"),
    }
}

fn is_result_of(event: &Event, tool: &str) -> bool {
    let event = serde_json::to_value(event).unwrap();
    event["type"] == "item_completed" && event["item"]["kind"] == "tool_result" && event["item"]["name"] == tool
}

async fn stored_events(daemon: &TempDaemon, session: &str) -> Vec<Value> {
    let output = daemon.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await;
    let events = output.json_lines();
    events.into_iter().filter(|line| line["type"] != "item_delta" && line["type"] != "result").collect()
}

/// Checks that every started item has an end.
#[track_caller]
fn check_pairs(stored: &[Value], number: usize) {
    let ids = |name: &str| {
        let mut ids: Vec<&str> = stored
            .iter()
            .filter(|event| event["type"] == name)
            .filter_map(|event| event["item"]["id"].as_str())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids("item_started"), ids("item_completed"), "killed at {number}");
}

/// Checks that the daemon's report agrees with the journal.
async fn check_report(daemon: &TempDaemon, stored: &[Value]) {
    let status = daemon.json(["status"]).await;
    let recovered = &status["recovered"][0];
    let results = |error: Option<&str>| {
        let results = stored.iter().filter(|event| {
            let item = &event["item"];
            event["type"] == "item_completed" && item["kind"] == "tool_result" && item["error"].as_str() == error
        });
        results.map(|event| event["item"]["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(recovered["finished"], Value::from(results(None)), "{recovered:#}");
    assert_eq!(recovered["never_ran"], Value::from(results(Some("E_NOT_RUN"))), "{recovered:#}");
    assert_eq!(recovered["unknown"], Value::from(results(Some("E_UNKNOWN_OUTCOME"))), "{recovered:#}");
    assert_eq!(recovered["goes_on"], false);
}

/// A daemon that is killed repeatedly during start-up still starts.
#[tokio::test]
async fn repeated_kills_during_start_do_no_harm() {
    let model = model().await;
    let mut daemon = daemon(&model).await;
    let seen = killed_at(&daemon, 8).await;
    daemon.ended().await;
    for _ in 0..5 {
        let mut child = daemon.command(agentd_testkit::daemon::program("agentd")).spawn().unwrap();
        let journal: &Path = &daemon.data().join("agentd.db");
        assert!(journal.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    daemon.restart().await;
    let stored = stored_events(&daemon, &seen[0].session_id.to_string()).await;
    assert_eq!(serde_json::to_value(&seen).unwrap().as_array().unwrap()[..], stored[..seen.len()]);
}

/// The kernel kills the daemon in the middle of a write when a file becomes too large.
#[tokio::test]
async fn kill_during_a_write_leaves_no_temporary_file() {
    let World { model, mut daemon } = World::configured("undo: {max_file_bytes: 1024}\n").await;
    let edit = json!({"path": "/project/large.txt", "old_string": "first", "new_string": "1st"});
    model.respond_with(move |request| match request.last_role() {
        "tool" => Reply::text("Over."),
        _ => Reply::tool_call("edit_file", edit.clone()),
    });
    let large = format!("first\n{}", format!("{}\n", "x".repeat(99)).repeat(60_000));
    let of_person = format!(".agentd-{}.tmp", "a".repeat(32));
    daemon.write("project/large.txt", &large);
    daemon.write(&format!("project/{of_person}"), "mine");
    let limited = Command::new("prlimit").args([&format!("--pid={}", daemon.pid()), "--fsize=4000000"]).status();
    assert!(limited.unwrap().success());
    killed_at(&daemon, usize::MAX).await;
    daemon.ended().await;
    let drafts = || {
        let entries = fs::read_dir(daemon.path().join("project")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".agentd-")).collect::<Vec<_>>()
    };
    assert_eq!(drafts().len(), 2, "{}", daemon.log());
    daemon.restart().await;
    let left = fs::read_dir(daemon.path().join("project")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name != "large.txt");
    assert_eq!(left.collect::<Vec<_>>(), [of_person]);
    assert!(daemon.read("project/large.txt") == large);
}
