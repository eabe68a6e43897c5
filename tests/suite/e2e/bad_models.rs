//! Models with bad responses: the turn ends with a clear reason, and the daemon serves the next turn.

use super::*;

/// Runs a turn and returns its result. The client must exit with this code.
async fn ask(world: &World, code: i32) -> Value {
    let output = world.agentctl(["run", "Hi", "--output", "json", "--on-interrupt", "approve"]).await;
    output.exits(code).json()
}

#[tokio::test]
async fn invalid_responses_fail_the_turn_with_a_hint() {
    let world = World::with_files(&[("config/models.yaml", "base: {retries: 0}")]).await;
    let bad = [
        Reply::garbage(),
        Reply::html(),
        Reply::half_event(),
        Reply::status(200, ""),
        Reply::status(200, "null"),
        Reply::events(["[]", "{\"choices\": 7}", "[DONE]"]),
        Reply::events(["{\"error\": {\"message\": \"out of memory\"}}"]),
        Reply::text("one two three").cut_after_text("two"),
        Reply::refusal(404, "no such model"),
    ];
    for reply in bad {
        world.model.default_reply(reply.clone());
        let result = ask(&world, 1).await;
        assert_eq!(result["stop_reason"], "failed");
        let error = &result["error"];
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{reply:?}: {error}");
        assert!(error["hint"].is_string(), "{reply:?}: {error}");
    }
    world.still_serves().await;
}

#[tokio::test]
async fn unreachable_model_fails_the_run_with_a_hint() {
    let world = World::start().await;
    let mut home = TempHome::with_model("http://127.0.0.1:9/v1");
    home.set("MODEL_CHAT_BASE_URL", world.model.base_url());
    let daemon = TempDaemon::start_in(home).await;
    daemon.agentctl(["run", "Hi"]).await.exits(1).says(&["127.0.0.1:9", "hint:"]);
    daemon.ok(["run", "Hi", "--model", "chat"]).await;
}

#[tokio::test]
async fn model_without_progress_times_out() {
    // A stuck server behind a proxy that keeps the connection alive.
    let comment = ": still here\n\n";
    let alive = Reply::status(200, comment.repeat(100_000)).header("content-type", "text/event-stream");
    for (silent, limit, answer) in [
        (Reply::never(), "300ms", ""),
        (Reply::text("one two three").hang_after_text("two"), "300ms", ""),
        (alive.bytes_per_write(comment.len()).delay_ms(10), "2s", "for 10s, only keep-alives"),
    ] {
        let timeouts = format!("base: {{retries: 0, timeouts: {{first_byte: {limit}, idle: {limit}}}}}");
        let world = World::with_files(&[("config/models.yaml", &timeouts)]).await;
        world.model.reply(silent);
        let result = ask(&world, 1).await;
        let error = &result["error"];
        assert_eq!(error["kind"], "timeout", "{result:#}");
        assert!(error["message"].as_str().unwrap().contains(answer), "{result:#}");
        assert!(answer.is_empty() || error.to_string().contains("timeouts.first_byte"), "{result:#}");
        // On a busy host, a response may take longer than the configured limit.
        world.write("config/models.yaml", "base: {retries: 0}");
        world.ok(["reload"]).await;
        world.still_serves().await;
    }
}

/// If a gateway only sends empty parts of a response, the next model is used.
#[tokio::test]
async fn gateway_sending_only_keepalives_triggers_the_fallback() {
    let (base, spare) = (ModelServer::start().await, ModelServer::start().await);
    let home = TempHome::with_model(&base.base_url());
    let other = format!("others: {{spare: {{base_url: \"{}\", id: spare}}}}\n", spare.base_url());
    home.write(
        "config/models.yaml",
        format!("base: {{retries: 0, fallback: [spare], timeouts: {{first_byte: 1s, idle: 1s}}}}\n{other}"),
    );
    let daemon = TempDaemon::start_in(home).await;
    let empty = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n";
    let alive = Reply::status(200, empty.repeat(3_000)).header("content-type", "text/event-stream");
    base.default_reply(alive.bytes_per_write(empty.len()).delay_ms(10));
    spare.default_reply(Reply::text("Spare here."));
    let output = daemon.ok(["run", "Hi"]).await;
    assert_eq!(output.stdout.trim(), "Spare here.");
    output.says(&["only keep-alives"]);
}

/// A response that arrives while the daemon is suspended for longer than its timeout waits in the socket. It has been
/// paid for, so it is used.
#[tokio::test]
async fn answer_received_while_the_daemon_was_stopped_is_used() {
    let World { model, daemon } = World::with_files(&[("config/models.yaml", "base: {timeouts: {idle: 2s}}")]).await;
    for _ in 0..3 {
        let before = model.counts();
        model.reply(Reply::text("one two three").hold_after_text("two"));
        let mut running = daemon.spawn_agentctl(["run", "Hi", "--output", "stream-json"]);
        running.event("item_delta").await;
        daemon.signal(Signal::SIGSTOP);
        let stopped = tokio::time::Instant::now();
        model.release_held_reply();
        model.wait_until(|counts| counts.finished > before.finished).await;
        // The test depends on the elapsed time itself, so it has to sleep.
        tokio::time::sleep_until(stopped + std::time::Duration::from_secs(3)).await;
        daemon.signal(Signal::SIGCONT);
        let lines = running.output(Vec::new()).await.exits(0).json_lines();
        assert_eq!(lines.last().unwrap()["text"], "one two three");
        assert!(lines.iter().all(|line| line["code"] != "model_retry"), "{lines:?}");
        assert_eq!(model.counts().requests, before.requests + 1);
    }
}

#[tokio::test]
async fn exhausted_quota_ends_the_turn_and_names_the_reset_time() {
    let world = World::start().await;
    let soon = agentd_core::Timestamp::now().as_second() + 7200;
    let limit = |more: Value| {
        let mut error = json!({"type": "usage_limit_reached", "message": "The usage limit has been reached"});
        error.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Reply::status(429, json!({ "error": error }).to_string())
    };
    let cases = [
        (Reply::refusal(402, "Insufficient balance"), 6, "quota_exceeded"),
        (limit(json!({})), 6, "quota_exceeded"),
        (limit(json!({ "resets_at": soon })), 75, "rate_limited"),
    ];
    for (reply, code, kind) in cases {
        world.model.default_reply(reply);
        let before = world.model.requests().len();
        let result = ask(&world, code).await;
        assert_eq!((&result["stop_reason"], &result["error"]["kind"]), (&json!("failed"), &json!(kind)), "{result:#}");
        assert_eq!(result["error"]["hint"].as_str().unwrap().contains(" UTC"), code == 75, "{result:#}");
        assert_eq!(world.model.requests().len(), before + 1, "{result:#}");
    }
}

#[tokio::test]
async fn invalid_calls_are_reported_to_the_model() {
    let world = World::start().await;
    let check = async |call: Reply, code: &str| {
        world.model.reply(call).reply(Reply::text("I see."));
        let result = ask(&world, 0).await;
        assert_eq!(result["text"], "I see.");
        let request = world.model.requests().pop().unwrap();
        let text = tool_texts(&request);
        assert!(text.contains(code), "{code} is missing in {text:?}");
    };
    check(Reply::tool_call("read_file", json!("{\"path\": \"a")), "E_INVALID_ARGS").await;
    check(Reply::tool_call("read_file", json!("no JSON at all")), "E_INVALID_ARGS").await;
    check(Reply::tool_call("read_file", json!({"pth": "a"})), "E_INVALID_ARGS").await;
    check(Reply::tool_call("read_fil", json!({"path": "a"})), "E_UNKNOWN_TOOL").await;
    check(Reply::tool_call("", json!({})), "E_UNKNOWN_TOOL").await;
    check(Reply::tool_call("read_file", json!({"path": "/etc/passwd"})), "E_PATH").await;
    check(Reply::tool_call("read_file", json!({"path": "../../agentd.db"})), "E_PATH").await;
    check(Reply::tool_call("run_bash_command", json!({"command": "sleep 60", "timeout_s": 1})), "E_TIMEOUT").await;
    let nested = "[".repeat(900);
    check(Reply::tool_call("read_file", json!(format!("{{\"path\": {nested}"))), "E_INVALID_ARGS").await;
    world.still_serves().await;
}

#[tokio::test]
async fn oversized_answer_is_truncated_and_can_be_read_again() {
    let world = World::start().await;
    let long_text: String = (0..3_000_000).map(|number| format!("{number} ")).collect();
    let pieces = long_text.as_bytes().chunks(1 << 20).map(|piece| String::from_utf8_lossy(piece).into_owned());
    world.model.reply(Reply::deltas(pieces)).default_reply(Reply::text("Enough."));
    let output = world.agentctl(["run", "Hi", "--output", "stream-json"]).await.exits(7);
    let lines = output.json_lines();
    let warning = lines.iter().find(|line| line["type"] == "warning").unwrap();
    assert!(warning.to_string().contains("exceeded 4 MiB"), "{warning}");
    let result = lines.last().unwrap();
    let text = result["text"].as_str().unwrap();
    assert!(text.len() > 3 << 20 && long_text.starts_with(text), "{} bytes", text.len());
    // The answer can be read later, and the session can be continued.
    let session = result["session_id"].as_str().unwrap();
    let replayed = world.ok(["attach", session, "--after", "0", "--output", "stream-json"]).await;
    assert!(replayed.stdout.contains("2999 3000 3001"));
    world.ok(["run", "And now?", "--session", session]).await;
    world.still_serves().await;
}

#[tokio::test]
async fn runaway_answer_is_truncated_with_a_warning() {
    let world = World::start().await;
    for phrase in ["ha ", "I will do it now. ", "[", "="] {
        world.model.reply(Reply::deltas(vec![phrase; 50_000]));
        let output = world.agentctl(["run", "Hi", "--output", "stream-json"]).await;
        let lines = output.json_lines();
        assert!(lines.iter().any(|line| line["type"] == "warning"), "{phrase:?}: no warning");
        let result = lines.last().unwrap();
        assert!(result["text"].as_str().unwrap().len() < 100_000, "{phrase:?}: the answer is not truncated");
    }
    world.still_serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_output_cannot_control_the_terminal() {
    let world = World::start().await;
    let hostile = "Hi \u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}]52;c;ZXZpbA==\u{7} there\u{202e}, friend.";
    world.model.default_reply(Reply::text(hostile));
    let mut command = world.agentctl_command(["run", "Hi"]);
    command.env("TERM", "xterm-256color");
    let mut terminal = rexpect::session::spawn_command(command, Some(60_000)).unwrap();
    let shown = terminal.exp_eof().unwrap();
    assert!(shown.contains("friend"), "{shown:?}");
    for sequence in ["\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{e2}\u{80}\u{ae}"] {
        assert!(!shown.contains(sequence), "{sequence:?} is in {shown:?}");
    }
    // Scripts get the original text, escaped by JSON.
    assert_eq!(ask(&world, 0).await["text"], hostile);
}
