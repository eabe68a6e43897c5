//! Rules with a real daemon: they are enforced, explained, reloaded, and can be tried before they are adopted.

use super::*;

/// The user's own rules: one command is denied, one requires approval, and one is allowed.
const RULES: &str = "tools:
  run_bash_command:
    deny: ['frobnicate', 'git push']
    patterns:
      high_risk: ['\\bdeploy\\b']
      low_risk: ['make (test|check)\\b']
";

async fn with_rules(rules: &str) -> World {
    World::prepared(|home| drop(home.write("config/hitl_rules.yaml", rules))).await
}

impl World {
    /// Makes the model run this command once, and returns the result.
    async fn result_of(&self, command: &str, extra: &[&str]) -> String {
        self.model.reply(Reply::tool_call("run_bash_command", json!({ "command": command })).when("Do it"));
        self.model.reply(Reply::text("I see."));
        let args = [&["run", "Do it"][..], extra].concat();
        let output = self.daemon.agentctl(args).await;
        assert_eq!(output.stdout.trim(), "I see.", "{}", output.stderr);
        tool_texts(self.model.requests().last().unwrap())
    }

    async fn explained(&self, command: &str) -> Value {
        self.ok(["policy", "explain", "--json", "--", command]).await.json()
    }
}

#[tokio::test]
async fn policy_explain_shows_verdict_layer_rule_and_parts() {
    let world = with_rules(RULES).await;
    let report = world.explained("ls && make test; deploy now | git -C x push").await;
    assert_eq!(keys(&report), ["call", "explanation"]);
    let explanation = &report["explanation"];
    assert_eq!(explanation["verdict"], "deny");
    assert_eq!(explanation["layer"], "tool");
    assert_eq!(explanation["rule"], "tools.run_bash_command.deny: git push");
    let parts: Vec<(&str, &str)> = explanation["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["text"].as_str().unwrap(), part["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(parts, [("ls", "allow"), ("make test", "allow"), ("deploy now", "ask"), ("git -C x push", "deny")]);

    let output = world.ok(["policy", "explain", "--", "git", "commit", "-m", "a; b"]).await;
    for phrase in ["git commit -m 'a; b'", "ask (medium)", "confirm_exec", "would add: run_bash_command: git commit"] {
        assert!(output.stdout.contains(phrase), "{phrase:?} is missing in:\n{}", output.stdout);
    }
    // The result is the same for a quoted command, as in the README, and for one after `--`.
    let quoted = world.ok(["policy", "explain", "rm -rf build"]).await;
    let output = world.ok(["policy", "explain", "--", "rm", "-rf", "build"]).await;
    assert!(quoted.stdout.starts_with("call     rm -rf build\n"), "{}", quoted.stdout);
    assert_eq!(quoted.stdout, output.stdout);
    let output = world.ok(["policy", "explain", "write_file", r#"{"path": ".git/config", "content": "x"}"#]).await;
    has_all(&output.stdout, &["ask (high)", "checker", "run or read by other programs", "cannot be granted"]);
    // A session's own settings apply.
    let session = &world.agentctl(["run", "Hi", "--output", "json"]).await.session();
    let args = ["policy", "explain", "--session", &session[..13], "--json", "--", "touch x"];
    assert_eq!(world.ok(args).await.json()["explanation"]["verdict"], "ask");
}

/// A model trained for other tools uses the argument names of those tools. Arguments are translated before they are
/// evaluated, shown, audited and used.
#[tokio::test]
async fn foreign_arguments_are_translated_before_they_are_judged() {
    let world = with_rules(RULES).await;
    let command = json!({"command": ["bash", "-lc", "git push"], "description": "Push", "workdir": "/outputs"});
    let hidden = json!({"filePath": "outputs/.envrc", "content": "x", "reason": "it is mine"});
    let shell = json!({"command": ["bash", "-lc", "echo a > outputs/b"], "description": "Write", "timeout": 120_000});
    let beyond = json!({"command": "touch c", "run_in_background": true});
    let calls = vec![
        ("run_bash_command", command),
        ("write_file", hidden.clone()),
        ("bash", shell.clone()),
        ("run_bash_command", beyond),
        ("read_file", json!({"filePath": "outputs/b", "explanation": "to see"})),
    ];
    let (results, output) = world.call_all(calls, &["--on-interrupt", "approve", "--output", "json"]).await;
    let session = output.session();
    assert!(results[0].contains("E_DENIED") && results[0].contains("git push"), "{results:#?}");
    assert!(results[2].starts_with("exit code 0"), "{results:#?}");
    let note = "[ignored: description; timeout 120000 was read as milliseconds]";
    assert!(results[2].ends_with(note), "{results:#?}");
    assert!(results[3].contains("E_INVALID_ARGS") && results[3].contains("\"run_in_background\""), "{results:#?}");
    assert_eq!(results[4], "a\n\n[ignored: explanation]", "{results:#?}");

    let records = world.json(["audit", "--session", &session]).await;
    let decided = records.as_array().unwrap().iter().filter(|record| record["kind"] == "call_decided");
    let args: Vec<Value> = decided.map(|record| record["args"].clone()).collect();
    assert_eq!(args[0], json!({"command": "git push", "directory": "/outputs"}));
    assert_eq!(args[1], json!({"path": "outputs/.envrc", "content": "x"}));
    assert_eq!(args[2], json!({"command": "echo a > outputs/b", "timeout_s": 120}));

    // The approval request shows the translated arguments, and the explanation is the same.
    world.model.reply(Reply::tool_call("write_file", hidden.clone())).reply(Reply::text("No."));
    let mut running = world.spawn_agentctl(["run", "Write it", "--on-interrupt", "wait", "--output", "stream-json"]);
    let (raised, _) = running.event("interrupt_raised").await;
    let interrupt = &raised["interrupt"];
    assert_eq!(
        (&interrupt["risk"], &interrupt["args"]["path"]),
        (&json!("high"), &json!("outputs/.envrc")),
        "{raised:#}"
    );
    assert!(interrupt["args"].get("filePath").is_none() && interrupt["preview"].is_string(), "{raised:#}");
    world.ok(["answer", interrupt["id"].as_str().unwrap(), "reject"]).await;
    running.output(Vec::new()).await.exits(5);
    let message = world.json(["policy", "explain", "write_file", &hidden.to_string()]).await;
    assert_eq!(message["explanation"]["layer"], "checker", "{message:#}");
}

#[tokio::test]
async fn invalid_policy_question_is_refused_with_a_hint() {
    let world = with_rules(RULES).await;
    let check = async |args: &[&str], parts: &[&str]| {
        world.agentctl([&["policy"][..], args].concat()).await.exits(2).says(parts);
    };
    check(&["explain", "no_such_tool"], &["no_such_tool", "hint:", "agentctl tools"]).await;
    check(&["explain", "write_file", "{"], &["as JSON", "hint:"]).await;
    check(&["explain", "write_file", "[1]"], &["not a JSON object"]).await;
    check(&["explain", "--session", "ffffffff", "--", "ls"], &["session"]).await;
    check(&["test", "no-such-file.yaml"], &["no-such-file.yaml"]).await;
    check(&["test", "x.yaml", "--since", "7y"], &["7y"]).await;
}

#[tokio::test]
async fn policy_test_compares_a_rules_file_without_adopting_it() {
    let world = with_rules(RULES).await;
    let tried = world.write(
        "new.yaml",
        "tools:\n  run_bash_command:\n    deny: [terraform]\n    patterns: {low_risk: ['cargo test']}\n",
    );
    let tried = tried.to_str().unwrap();
    let calls = ["cargo test", "git push", "terraform plan", "ls", r#"write_file {"path": "a", "content": "b"}"#];
    let output = world.ok([&["policy", "test", tried, "--json"][..], &calls].concat()).await;
    let report = output.json();
    assert_eq!(keys(&report), ["balance", "calls", "changed", "file"]);
    assert_eq!(
        verdicts(&report),
        [("ask", "allow"), ("deny", "ask"), ("ask", "deny"), ("allow", "allow"), ("ask", "ask")]
    );
    assert_eq!(report["changed"], 3);
    assert_eq!(report["balance"], json!({"allowed": 1, "asked": -1, "denied": 0}));

    let output = world.ok([&["policy", "test", tried][..], &calls].concat()).await;
    output.shows(&["tools.run_bash_command.deny: terraform", "3 of 5 calls would change", "1 more allowed"]);
    // The tried rules are not adopted.
    assert_eq!(world.explained("git push").await["explanation"]["verdict"], "deny");
    world.ok(["policy", "test", tried]).await.says(&[]);

    // An error is shown with its position.
    let check = async |text: &str, parts: &[&str]| {
        world.write("wrong.yaml", text);
        let path = world.path().join("wrong.yaml");
        world.agentctl(["policy", "test", path.to_str().unwrap(), "ls"]).await.exits(2).says(parts);
    };
    check("tools:\n  x:\n    patterns:\n      high_risk: ['a(']\n", &["wrong.yaml:4:20", "unclosed group", "hint:"])
        .await;
    check(
        "global:\n  risk_patterns:\n    high:\n      patterns: ['b(']\n",
        &["wrong.yaml:4:19", "unclosed group", "hint:"],
    )
    .await;
    check("global:\n  enable_aproval: true\n", &["wrong.yaml:2:", "enable_approval"]).await;
    check("global: [\n", &["wrong.yaml:"]).await;
}

#[tokio::test]
async fn policy_test_judges_earlier_calls_of_the_audit_log() {
    let world = with_rules(RULES).await;
    for command in ["git push --all", "git push origin x", "echo one", "deploy now"] {
        world.result_of(command, &["--on-interrupt", "deny"]).await;
    }
    let tried = world.write("new.yaml", "tools: {run_bash_command: {deny: [deploy], patterns: {high_risk: []}}}\n");
    let tried = tried.to_str().unwrap();
    // Trying rules does not create a folder for any session.
    let workspaces = world.data().join("workspace");
    for session in fs::read_dir(&workspaces).unwrap() {
        fs::remove_dir_all(session.unwrap().path()).unwrap();
    }
    let report = world.json(["policy", "test", tried, "--audit"]).await;
    assert_eq!(fs::read_dir(&workspaces).unwrap().count(), 0);
    assert_eq!(keys(&report), ["balance", "changed", "changes", "file", "judged", "skipped"]);
    holds(&report, json!({"judged": 4, "skipped": 0, "changed": 3}));
    assert_eq!(report["balance"], json!({"allowed": 0, "asked": 1, "denied": -1}));
    let changes: Vec<(u64, &str, &str)> = report["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let verdict = |when: &str| change["example"][when]["verdict"].as_str().unwrap();
            (change["count"].as_u64().unwrap(), verdict("now"), verdict("then"))
        })
        .collect();
    assert_eq!(changes, [(2, "deny", "ask"), (1, "ask", "deny")]);
    let output = world.ok(["policy", "test", tried, "--audit"]).await;
    output.shows(&["git push origin x", "3 of 4 calls would change: 1 more asked, 1 fewer denied"]);
    world
        .ok(["policy", "test", tried, "--audit", "--since", "2999-01-01T00:00:00Z"])
        .await
        .shows(&["0 calls: none would change"]);
}

#[tokio::test]
async fn broken_rules_file_stops_the_start_and_is_located() {
    let home = TempHome::with_model("http://127.0.0.1:9");
    home.write("config/hitl_rules.yaml", "tools:\n  run_bash_command:\n    deny: ['/bin/rm']\n");
    home.agentctl(["start"]).await.exits(2).says(&["hitl_rules.yaml:3:13", "write its name without a folder"]);
}

#[tokio::test]
async fn reloaded_rules_apply_and_broken_ones_are_rejected() {
    let world = with_rules(RULES).await;
    let verdict = async |command: &str| world.explained(command).await["explanation"]["verdict"].clone();
    assert_eq!(verdict("frobnicate").await, "deny");
    world.write("config/hitl_rules.yaml", "tools: {run_bash_command: {deny: [terraform]}}\n");
    assert_eq!(verdict("frobnicate").await, "deny", "the rules are not reloaded automatically");
    world.ok(["reload"]).await.says(&[]);
    assert_eq!((verdict("frobnicate").await, verdict("terraform").await), (json!("ask"), json!("deny")));

    world.write("config/hitl_rules.yaml", "tools:\n  run_bash_command:\n    deny: [')', 'a/b']\n");
    world.agentctl(["reload"]).await.fails().says(&["hitl_rules.yaml:3:", "a/b", "hint:"]);
    assert_eq!(verdict("terraform").await, "deny", "the previous rules stay in effect");
    world.still_serves().await;
}

/// The rules change between two calls in one turn, and the second call is evaluated with the new rules.
#[tokio::test]
async fn rules_changed_during_a_turn_apply_to_its_next_call() {
    let world = with_rules("tools: {run_bash_command: {deny: [frobnicate]}}\n").await;
    world.write("project/x", "");
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Go on?"})).when("Do both"));
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "terraform plan"})));
    let running = world.spawn_agentctl(["run", "Do both", "--on-interrupt", "wait", "--output", "json"]);
    let pending = until("a question is pending", || async {
        let pending = world.agentctl(["interrupts", "--json"]).await.json();
        pending.as_array().unwrap().first().map(|first| first["id"].as_str().unwrap().to_owned())
    });
    let pending = pending.await;
    world.write("config/hitl_rules.yaml", "tools: {run_bash_command: {deny: [terraform]}}\n");
    world.ok(["reload"]).await;
    world.ok(["answer", &pending, "yes"]).await;
    running.output(Vec::new()).await.exits(5);
    has_all(&tool_texts(world.model.requests().last().unwrap()), &["terraform is on the deny list"]);
}
