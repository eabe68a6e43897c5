//! Model selection: by the subject of a turn, and as a fallback if a server does not respond.

use super::*;

/// Returns the model and the rule of each selection in the output lines of a run.
fn choices(lines: &[Value]) -> Vec<(String, String)> {
    let chosen = lines.iter().filter(|line| matches!(line["type"].as_str(), Some("turn_started" | "model_chosen")));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    chosen.map(|line| (text(&line["model"]), text(&line["rule"]))).collect()
}

fn of<'a>(lines: &'a [Value], kind: &str) -> &'a Value {
    lines.iter().find(|line| line["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {lines:#?}"))
}

fn slot(name: &str, server: &ModelServer, more: &str) -> String {
    format!("{name}: {{base_url: \"{}\", id: {name}-model{more}}}\n", server.base_url())
}

async fn run(daemon: &TempDaemon, args: &[&str]) -> (Vec<Value>, String) {
    let args = [&["run", "--output", "stream-json"], args].concat();
    let output = daemon.ok(args).await;
    (output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output.stderr)
}

#[tokio::test]
async fn turn_about_code_uses_the_code_model_and_reports_why() {
    let (base, code) = (ModelServer::start().await, ModelServer::start().await);
    base.default_reply(Reply::text("Base here."));
    code.default_reply(Reply::text("Code here."));
    let home = TempHome::new();
    home.write("config/models.yaml", slot("base", &base, "") + &slot("code", &code, ""));
    let daemon = TempDaemon::start_in(home).await;
    let (lines, _) = run(&daemon, &["fix the bug in src/main.rs"]).await;
    assert_eq!(choices(&lines), [("code-model".to_owned(), "code".to_owned())]);
    let intent = &of(&lines, "intent_classified")["intent"];
    assert_eq!(intent["kind"], "CODING_TASK");
    assert!(intent["confidence"].as_u64().unwrap() >= 60 && !intent["reason"].as_str().unwrap().is_empty());
    assert_eq!(of(&lines, "turn_started")["reason"], "it is about code");
    let session = of(&lines, "turn_started")["session_id"].as_str().unwrap().to_owned();
    let (lines, _) = run(&daemon, &["--session", &session, "sure?"]).await;
    assert_eq!(choices(&lines), [("code-model".to_owned(), "kept".to_owned())]);
    let (lines, _) = run(&daemon, &["--session", &session, "--model", "base", "fix src/main.rs"]).await;
    assert_eq!(choices(&lines), [("base-model".to_owned(), "client".to_owned())]);
}

#[tokio::test]
async fn fallback_model_continues_if_the_balance_is_exhausted() {
    let (base, spare) = (ModelServer::start().await, ModelServer::start().await);
    // The first reply is a call, so that the turn is running when its server breaks.
    base.reply(Reply::tool_call("list_dir", json!({"path": "."})));
    base.default_reply(Reply::refusal(402, "Insufficient balance"));
    spare.default_reply(Reply::text("Spare here."));
    let home = TempHome::new();
    let other = format!("others: {{spare: {{base_url: \"{}\", id: spare-model}}}}\n", spare.base_url());
    home.write("config/models.yaml", slot("base", &base, ", fallback: [spare]") + &other);
    let daemon = TempDaemon::start_in(home).await;
    let (lines, _) = run(&daemon, &["What is here?"]).await;
    let expected = [("base-model", "default"), ("spare-model", "fallback")];
    assert_eq!(choices(&lines), expected.map(|(model, rule)| (model.to_owned(), rule.to_owned())));
    let chosen = of(&lines, "model_chosen");
    assert!(chosen["reason"].as_str().unwrap().contains("Insufficient balance"), "{chosen}");
    let fallback_requests = spare.requests();
    assert!(
        fallback_requests[0].messages().iter().any(|message| message["role"] == "tool"),
        "the fallback continues after the last result"
    );
    assert_eq!(base.requests().len(), 2, "a model without balance was called again");
    let output = daemon.ok(["run", "And now?"]).await;
    assert_eq!(output.stdout.trim(), "Spare here.");
    assert!(output.stderr.contains("spare-model answers: base-model did not answer recently"), "{}", output.stderr);
    assert_eq!(base.requests().len(), 2, "the failing model was called during its cooldown");
}
