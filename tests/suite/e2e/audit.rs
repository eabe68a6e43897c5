//! The audit log with real processes: it records requests, decisions and actions, and detects tampering.

use agentd_core::ids::InterruptId;

use super::*;

fn command(line: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({ "command": line }))
}

async fn audit(world: &World, args: &[&str]) -> Vec<Value> {
    let output = world.ok(["audit", "--json"].iter().chain(args)).await;
    output.json().as_array().unwrap().clone()
}

fn calls(records: &[Value]) -> Vec<&Value> {
    records.iter().filter(|record| record["kind"] == "call_decided").collect()
}

/// Returns the path of the log file.
fn file(world: &World) -> PathBuf {
    world.data().join("audit.jsonl")
}

/// Runs a turn in which one command is approved, one is rejected, one is edited, and a file is written.
async fn audited_session() -> (World, String) {
    let world = World::start().await;
    let steps = vec![
        (&["first"][..], command("echo first; export API_TOKEN=s3cr3t-enough-to-hide")),
        (&["refused"][..], command("rm -r outputs")),
        (&["third"][..], command("touch outputs/second")),
        (
            &["notes.txt"][..],
            Reply::tool_call("write_file", json!({"path": "outputs/notes.txt", "content": "password: hunter2hunter2"})),
        ),
    ];
    script_steps(&world.model, steps, Reply::text("All done."));
    let client = world.client().await;
    let session = SessionChoice::New(NewSession::default());
    let mut events = client.turn(turn(session, "Work!")).await.unwrap();
    let answers = [
        Answer::Approve,
        Answer::Reject { reason: Some("leave them".to_owned()) },
        Answer::Edit { args: json!({"command": "touch outputs/third"}) },
        Answer::Approve,
    ];
    for answer in answers {
        let seen = events.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
        let EventKind::InterruptRaised { interrupt } = &seen.last().unwrap().kind else { unreachable!() };
        let id: InterruptId = interrupt.id;
        client.answer(id, &answer, "phone").await.unwrap();
    }
    let ended = events.to_the_end().await;
    (world, ended[0].session_id.to_string())
}

#[tokio::test]
async fn audit_log_records_call_decision_and_outcome() {
    let (world, session) = audited_session().await;
    let records = audit(&world, &[]).await;
    assert_eq!(records[0]["kind"], "daemon_started");
    assert_eq!(records[1]["kind"], "rules_read");
    assert_eq!(records[1]["sources"], json!(["built-in"]));
    assert_eq!(records[1]["sha256"].as_str().unwrap().len(), 64);

    let calls = calls(&records);
    let recorded: Vec<(&str, &str, bool, &str, &str)> = calls
        .iter()
        .map(|call| {
            let text = |key: &str| call[key].as_str().unwrap_or_default();
            assert_eq!(call["by"], json!({"client": "phone"}));
            assert_eq!(
                (call["session_id"].as_str().unwrap(), call["asked_by"]["agent"].as_str().unwrap()),
                (&*session, "main")
            );
            let answer = call["answer"]["answer"].as_str().unwrap();
            (text("tool"), text("verdict"), call["allowed"].as_bool().unwrap(), answer, text("outcome"))
        })
        .collect();
    assert_eq!(
        recorded,
        [
            ("run_bash_command", "ask", true, "approve", "done"),
            ("run_bash_command", "ask", false, "reject", "refused"),
            ("run_bash_command", "ask", true, "edit", "done"),
            ("write_file", "ask", true, "approve", "done"),
        ]
    );
    assert_eq!(calls[1]["answer"]["reason"], "leave them");
    assert_eq!(
        (&calls[2]["args"]["command"], &calls[2]["answer"]["args"]["command"]),
        (&json!("touch outputs/second"), &json!("touch outputs/third"))
    );
    assert_eq!(calls[0]["ended"]["exit_code"], 0);
    assert_eq!(calls[3]["ended"]["files"], json!([{"path": "outputs/notes.txt", "change": "created"}]));
    assert_eq!(calls[1]["ended"]["ran"], false);

    // Neither the output nor the log file contains a secret.
    let text = fs::read_to_string(file(&world)).unwrap();
    has_none(&format!("{text}{records:?}"), &["s3cr3t-enough-to-hide", "hunter2hunter2"]);
    assert!(calls[0]["args"]["command"].as_str().unwrap().contains("[redacted]"), "{}", calls[0]["args"]);

    let report = world.json(["audit", "verify"]).await;
    assert_eq!(keys(&report), ["files", "findings", "head", "holds", "lines", "more"]);
    holds(&report, json!({"holds": true, "findings": []}));
    world.ok(["audit", "verify", "--noted", report["head"]["hash"].as_str().unwrap()]).await;
    world.agentctl(["audit", "verify", "--noted", &"0".repeat(63)]).await.exits(1);
}

#[tokio::test]
async fn audit_prints_one_line_per_call_and_filters() {
    let (world, session) = audited_session().await;
    let shown = world.ok(["audit", "--session", &session[..13]]).await.stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 5, "{shown}");
    for (line, parts) in lines[1..].iter().zip([
        ["run_bash_command  echo first", "ask", "phone: approve", "done, exit 0"],
        ["run_bash_command  rm -r outputs", "ask", "phone: reject", "refused"],
        [
            "run_bash_command  (edited) touch outputs/third (was touch outputs/second)",
            "ask",
            "phone: edit",
            "done, exit 0",
        ],
        ["write_file        outputs/notes.txt", "ask", "phone: approve", "done, 1 file"],
    ]) {
        assert!(parts.iter().all(|word| line.contains(word)), "not all of {parts:?} are in {line:?}");
    }
    let turn = audit(&world, &["--tool", "write_file"]).await[0]["turn_id"].as_str().unwrap().to_owned();
    for (args, count) in [
        (&["--tool", "run_bash_command"][..], 3),
        (&["--refused"], 1),
        (&["--verdict", "ask"], 4),
        (&["--verdict", "deny"], 0),
        (&["--session", &session], 4),
        (&["--turn", &turn], 4),
        (&["--session", &session, "--since", "1h", "-n", "2"], 2),
        (&["--since", "2999-01-01"], 0),
    ] {
        assert_eq!(audit(&world, args).await.len(), count, "{args:?}");
    }
    world.agentctl(["audit", "--since", "soon"]).await.exits(2).says(&["30m, 2h, 7d"]);
    // The entries of a deleted session are retained.
    world.ok(["sessions", "delete", &session, "--yes"]).await;
    assert_eq!(audit(&world, &["--session", &session]).await.len(), 4);
}

#[tokio::test]
async fn command_interrupted_by_a_crash_has_unknown_outcome() {
    let mut world = World::start().await;
    script_steps(&world.model, vec![(&["taken effect"][..], command("sleep 300"))], Reply::text("Hm."));
    let project = world.path().join("project");
    fs::create_dir_all(&project).unwrap();
    let client = world.client().await;
    let _events = client.turn(turn(trusting_session(&project), "Sleep!")).await.unwrap();
    let record =
        until("the decision is recorded", || async { audit(&world, &["--tool", "run_bash_command"]).await.pop() })
            .await;
    assert_eq!(record["outcome"], "open");
    world.daemon.crash().await;
    let records = audit(&world, &[]).await;
    let [call] = calls(&records)[..] else { panic!("{records:#?}") };
    holds(call, json!({"allowed": true, "outcome": "unknown"}));
    let starts = records.iter().filter(|record| record["kind"] == "daemon_started").count();
    let stops = records.iter().filter(|record| record["kind"] == "daemon_stopped").count();
    assert_eq!((starts, stops), (2, 0));
    world.ok(["audit", "verify"]).await;
    world.daemon.restart().await;
    let records = audit(&world, &[]).await;
    assert!(records.iter().any(|record| record["kind"] == "daemon_stopped"));
}

#[tokio::test]
async fn verify_detects_changed_and_missing_lines() {
    let (mut world, _) = audited_session().await;
    let path = file(&world);
    let change = |from: &str, to: &str| {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    change("rm -r outputs", "ls -r outputs");
    let output = world.agentctl(["audit", "verify"]).await.exits(1).shows(&["audit.jsonl:5: changed: "]);
    assert!(output.stdout.contains("the log is not intact"), "{}", output.stdout);
    let report = world.agentctl(["audit", "verify", "--json"]).await.exits(1).json();
    assert_eq!(report["holds"], false);
    holds(&report["findings"][0], json!({"file": "audit.jsonl", "line": 5}));
    change("ls -r outputs", "rm -r outputs");
    world.ok(["audit", "verify"]).await;

    // Lines that were cut off while the daemon was stopped are detected at the next start and by all later checks.
    world.daemon.sigterm().await;
    let text = fs::read_to_string(&path).unwrap();
    let last_line_end = text.trim_end().rfind('\n').unwrap();
    fs::write(&path, &text[..=last_line_end]).unwrap();
    world.daemon.restart().await;
    world.agentctl(["audit", "verify"]).await.exits(1).shows(&["missing"]);
}

#[tokio::test]
async fn unwritable_log_blocks_commands_and_is_reported() {
    let world = World::start().await;
    let steps = vec![
        (&["audit log"][..], command("touch /project/made")),
        (&["notes say"][..], Reply::tool_call("read_file", json!({"path": "/project/notes.txt"}))),
    ];
    script_steps(&world.model, steps, Reply::text("I could only look."));
    world.write("project/notes.txt", "the notes say so\n");
    let project = world.mount();
    // A folder at the log's path makes writing fail, even for root.
    let path = file(&world);
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let run = ["run", "Make it", "-C", &project, "--on-interrupt", "approve", "--output", "json"];
    let output = world.agentctl(run).await.exits(5);
    assert_eq!(output.json()["text"], "I could only look.");
    assert_eq!(output.json()["denials"][0]["tool"], "run_bash_command");
    assert!(!world.path().join("project/made").exists());
    let output = world.agentctl(["run", "Again", "-C", &project, "--on-interrupt", "approve"]).await.exits(5);
    output.says(&["did not run: could not write the audit log"]);
    let consequence = "calls that change anything are refused";
    let doctor = world.agentctl(["doctor"]).await.exits(2).stdout;
    let problem = format!("cannot write to {}", path.display());
    assert!(doctor.contains(&problem) && doctor.contains(consequence), "{doctor}");
    assert!(doctor.contains("make it a writable file that you own"), "{doctor}");
    let status = world.ok(["status"]).await.stdout;
    assert!(status.contains(&problem) && status.contains(consequence), "{status}");
    let problems = world.json(["status"]).await["problems"].clone();
    assert_eq!(problems[0]["subject"], "audit", "{problems}");

    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    world.model.respond_with(|request| {
        if tool_texts(request).contains("exit code") { Reply::text("Made.") } else { command("touch made; echo ok") }
    });
    let output = world.agentctl(["run", "Now", "-C", &project, "--on-interrupt", "approve", "--output", "json"]);
    assert_eq!(output.await.exits(0).json()["text"], "Made.");
    world.ok(["audit", "verify"]).await;
    let doctor = world.ok(["doctor"]).await.stdout;
    assert!(!doctor.contains(consequence), "{doctor}");
}

#[tokio::test]
async fn a_daemon_that_cannot_open_the_log_does_not_start() {
    let home = TempHome::with_model("http://127.0.0.1:9");
    fs::create_dir_all(home.data().join("audit.jsonl")).unwrap();
    home.agentctl(["start"])
        .await
        .fails()
        .says(&["could not open the audit log", "hint: audit.jsonl and audit.head must be regular files that you own"]);
}

#[tokio::test]
async fn full_log_file_is_rotated_and_the_chain_continues() {
    let mut world = World::configured("audit: {max_file_bytes: 4096}").await;
    world.model.respond_with(|request| {
        let count = tool_texts(request).lines().filter(|line| line.contains("20")).count();
        if count < 12 { super::unique_call(request) } else { Reply::text("It is late.") }
    });
    world.ok(["run", "What time is it?"]).await;
    world.daemon.crash().await;
    let report = world.json(["audit", "verify"]).await;
    assert!(report["files"].as_array().unwrap().len() > 2, "{report}");
    let records = audit(&world, &["-n", "1000"]).await;
    let calls = calls(&records);
    assert!(calls.len() >= 12, "{records:#?}");
    assert!(calls.iter().all(|call| call["outcome"] == "done"), "{records:#?}");
    // Deleting the oldest file is detected.
    let oldest = report["files"][0].as_str().unwrap();
    fs::remove_file(world.data().join(oldest)).unwrap();
    world.agentctl(["audit", "verify"]).await.exits(1).shows(&["beginning_missing"]);
}
