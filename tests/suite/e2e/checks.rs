//! Checks that fail: the call does not run, the model and the user are notified, and the daemon continues.

use super::*;

/// Settings that trust calls as much as possible.
const TRUSTING: &str = "sessions: {confirm_exec: false, confirm_write: false}\n";

async fn calls_in_audit(world: &World) -> Vec<Value> {
    let records = world.json(["audit", "-n", "1000"]).await;
    let records = records.as_array().unwrap().iter();
    records.filter(|record| record["kind"] == "call_decided").cloned().collect()
}

/// Starts a daemon with an additional check that panics.
async fn world_with_failing_check() -> World {
    let (model, home) = TempHome::with_server().await;
    home.write("config/agentd.yaml", TRUSTING);
    fs::create_dir(home.path().join("project")).unwrap();
    let command = home.command(program("examples/broken_check"));
    World { daemon: TempDaemon::start_with(home, command).await, model }
}

#[tokio::test]
async fn failing_check_denies_the_call_and_the_daemon_survives() {
    let world = world_with_failing_check().await;
    for rule in ["write_file", "run_bash_command: touch *"] {
        world.ok(["grants", "add", rule]).await;
    }
    world.write("project/brittle.txt", "brittle as it is\n");
    let project = world.mount();
    let calls = |name: &str| {
        vec![
            ("run_bash_command", json!({"command": format!("touch \"$PROJECT/{name}\"")})),
            ("write_file", json!({"path": format!("/project/{name}"), "content": "x"})),
            ("read_file", json!({"path": format!("/project/{name}.txt")})),
        ]
    };
    // Settings, grants and the run itself allow the call. A call that cannot be checked is still denied.
    let args = ["-C", &project, "--on-interrupt", "approve", "--output", "json"];
    let (results, output) = world.call_all(calls("brittle"), &args).await;
    for text in &results {
        assert!(text.starts_with("E_DENIED: a check failed on it"), "{text}");
    }
    let result = output.exits(5).json();
    assert_eq!(result["denials"].as_array().unwrap().len(), 3, "{result:#}");
    assert!(!world.path().join("project/brittle").exists());
    let log = world.log();
    assert!(log.contains("panic: bug in a check"), "the cause is missing in the log: {log}");
    let audited = calls_in_audit(&world).await;
    assert_eq!(audited.len(), 3);
    for call in &audited {
        holds(call, json!({"verdict": "deny", "layer": "checker"}));
        holds(call, json!({"allowed": false, "by": "rules"}));
        assert_eq!((&call["outcome"], &call["ended"]["ran"]), (&json!("refused"), &json!(false)), "{call:#}");
        assert!(call["reason"].as_str().unwrap().contains("a check failed on it"), "{call:#}");
    }

    // Users cannot edit the arguments into ones on which the check fails either.
    let edited = Reply::tool_call("run_bash_command", json!({"command": "sudo true"}));
    world.model.reply(edited).reply(Reply::text("I see."));
    let (running, interrupt) = world.run_until_question(&["Do it", "-C", &project]).await;
    let edit = json!({"command": "touch \"$PROJECT/brittle\""}).to_string();
    let id = interrupt["id"].as_str().unwrap();
    world.agentctl(["answer", id, "edit", "--args", &edit]).await.exits(2).says(&["a check failed on it", "hint:"]);
    world.ok(["answer", id, "reject"]).await;
    running.output(Vec::new()).await.exits(5);
    assert!(!world.path().join("project/brittle").exists());

    // The same daemon is still running, and other calls work.
    let (results, output) = world.call_all(calls("sound"), &args).await;
    output.exits(0);
    assert!(results[0].starts_with("exit code 0") && results[1].starts_with("Replaced"), "{results:#?}");
    world.ok(["audit", "verify"]).await;
    world.still_serves().await;
}

#[tokio::test]
async fn unreadable_command_asks_despite_a_grant() {
    let world = World::configured(TRUSTING).await;
    fs::create_dir(world.path().join("project")).unwrap();
    for rule in ["touch *", "echo *", "sh *", "true *"] {
        world.ok(["grants", "add", &format!("run_bash_command: {rule}")]).await;
    }
    let touch = "touch \"$PROJECT/ran\"";
    let nested = |times: usize| (0..times).fold(touch.to_owned(), |inner, _| format!("( {inner} )"));
    let substituted = |times: usize| (0..times).fold(touch.to_owned(), |inner, _| format!("echo $({inner})"));
    let cases = [
        (json!({"command": format!("{touch} # {}", words(70_000))}), "it is longer than 64 KiB"),
        (json!({"command": nested(11)}), "it nests too deeply"),
        (json!({"command": substituted(9)}), "too many nested commands to review"),
        (json!({"command": format!("{touch}; echo {}", "$(true) ".repeat(300))}), "nests too deeply"),
        (
            json!({"command": format!("{touch}; echo a\"{}\"", "$(true)".repeat(13))}),
            "too many nested commands to review",
        ),
        (json!({"command": format!("{touch}{}", "; true".repeat(300))}), "too many commands to review"),
        (json!({"command": format!("{touch}; echo 'open")}), "quotes do not match"),
        (json!({"command": format!("{touch}; fi")}), "an unclosed block"),
        (json!({"command": format!("{touch}\u{a0}x")}), "invisible characters"),
        (json!({"command": format!("{touch} \u{202e}x")}), "invisible characters"),
        (json!({"command": format!("{touch}\u{0}")}), "invisible characters"),
        (json!({"command": [touch, 1]}), "it has no command"),
        (json!({"command": {"text": touch}}), "it has no command"),
        (json!({}), "it has no command"),
        (json!(format!("{{\"command\": {}", json!(touch))), "its arguments are not a JSON object"),
        (json!(format!("[{{\"command\": {}}}]", json!(touch))), "its arguments are not a JSON object"),
        (
            json!(format!("{{\"command\": {}, \"more\": {}{}}}", json!(touch), "[".repeat(70), "]".repeat(70))),
            "its arguments are not a JSON object",
        ),
    ];
    let (arguments, expected): (Vec<Value>, Vec<&str>) = cases.into_iter().unzip();
    let calls = arguments.into_iter().map(|arguments| ("run_bash_command", arguments)).collect();
    let project = world.mount();
    let (results, output) = world.call_all(calls, &["-C", &project, "--on-interrupt", "deny"]).await;
    output.exits(5);
    for (result, text) in results.iter().zip(&expected) {
        assert!(
            result.starts_with("E_DENIED: refused: this run cannot ask") && result.contains(text),
            "{text}: {result}"
        );
    }
    assert!(!world.path().join("project/ran").exists());
    let audited = calls_in_audit(&world).await;
    assert_eq!(audited.len(), expected.len());
    for call in &audited {
        holds(call, json!({"verdict": "ask", "layer": "checker", "risk": "high"}));
        assert_eq!((&call["allowed"], &call["ended"]["ran"]), (&json!(false), &json!(false)), "{call:#}");
    }
    world.still_serves().await;
}

/// Returns text without repetitions, as from a model that has lost its way.
fn words(bytes: usize) -> String {
    let numbers = (0..).map(|number: u32| format!("{number} "));
    numbers
        .scan(0, |length, word| {
            *length += word.len();
            (*length < bytes).then_some(word)
        })
        .collect()
}

#[tokio::test]
async fn unreadable_rules_keep_the_previous_rules() {
    let mut world = World::configured(TRUSTING).await;
    fs::create_dir(world.path().join("project")).unwrap();
    let rules = world.write("config/hitl_rules.yaml", "tools: {run_bash_command: {deny: [frobnicate]}}\n");
    world.ok(["reload"]).await;
    let calls = || vec![("run_bash_command", json!({"command": "touch ran; frobnicate"}))];
    let denied = "E_DENIED: frobnicate is on the deny list";
    type Break = fn(&Path);
    let cases: [(&str, Break); 5] = [
        ("no YAML", |path| fs::write(path, "tools: [").unwrap()),
        ("an unknown key", |path| fs::write(path, "tools: {run_bash_command: {denny: []}}\n").unwrap()),
        ("an invalid pattern", |path| {
            fs::write(path, "global: {risk_patterns: {high: {patterns: ['(']}}}\n").unwrap();
        }),
        ("no text", |path| fs::write(path, b"tools: \xff\xfe\n").unwrap()),
        ("a folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    for (label, damage) in &cases {
        damage(&rules);
        world.agentctl(["reload"]).await.exits(2).says(&["hitl_rules.yaml"]);
        // The call is refused regardless of how it is requested.
        let results = world.call_all(calls(), &["--on-interrupt", "approve"]).await.0;
        assert!(results[0].starts_with(denied), "{label}: {results:?}");
        let lines = world.log().matches("could not reload the configuration").count();
        world.daemon.signal(Signal::SIGHUP);
        until_true("the rejected reload is logged", || {
            world.log().matches("could not reload the configuration").count() > lines
        })
        .await;
        let results = world.call_all(calls(), &["--on-interrupt", "approve"]).await.0;
        assert!(results[0].starts_with(denied), "{label}: {results:?}");
    }
    let records = world.json(["audit", "-n", "1000"]).await;
    let refused = records
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["kind"] == "rules_read" && !record["problem"].is_null());
    assert_eq!(refused.count(), 2 * cases.len(), "every rejected configuration is logged");
    // Without previously loaded rules, the daemon does not start.
    world.daemon.sigterm().await;
    world.agentctl(["run", "Do it"]).await.exits(2).says(&["hitl_rules.yaml", "hint:"]);
    fs::remove_dir(&rules).unwrap();
    world.daemon.restart().await;
    world.still_serves().await;
}
