//! Calls that are cancelled, callers that disconnect, and daemons that die during a call.

use super::*;

/// Returns the stop reason of the last turn in the only session.
async fn last_stop(world: &World) -> Value {
    // The model notices the end of a turn before the journal records it.
    let listed = until("no turn is running", async || {
        let listed = world.json(["sessions", "list"]).await;
        (listed[0]["status"] != "running").then_some(listed)
    })
    .await;
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let lines = world.ok(["attach", &id, "--after", "0", "--output", "stream-json"]).await.json_lines();
    lines.last().unwrap()["stop_reason"].clone()
}

/// Waits until a call has reported progress, because a model may be queried before the turn is reported.
async fn wait_for_progress(caller: &Caller) {
    let has_progress = || async { (!caller.heard.progress.lock().unwrap().is_empty()).then_some(()) };
    until("progress is reported", has_progress).await;
}

#[tokio::test]
async fn cancelled_call_cancels_the_turn() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    world.model.reply(Reply::never());
    let handle = caller.begin("ask", json!({"prompt": "Answer never"})).await;
    world.model.wait_until(|counts| counts.requests == 1).await;
    handle.cancel(Some("too slow".to_owned())).await.unwrap();
    world.model.wait_until(|counts| counts.dropped == 1).await;
    assert_eq!(last_stop(&world).await, "cancelled");
    world.model.reply(Reply::text("Here."));
    assert_eq!(caller.gives("ask", json!({"prompt": "Still there?"})).await["text"], "Here.");
}

#[tokio::test]
async fn cancelled_wait_leaves_the_turn_waiting() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Which?"})));
    let waiting = caller.gives("ask", json!({"prompt": "Ask me"})).await;
    let id = waiting["interrupts"][0]["id"].clone();
    let wait = caller.begin("answer", json!({"interrupt_id": id, "decision": "wait", "wait_seconds": 600})).await;
    wait_for_progress(&caller).await;
    wait.cancel(None).await.unwrap();
    world.model.reply(Reply::text("Good."));
    let rest = caller.gives("answer", json!({"interrupt_id": id, "decision": "text", "text": "this"})).await;
    holds(&rest, json!({"stop_reason": "completed", "text": "Good."}));
}

#[tokio::test]
async fn caller_disconnect_cancels_its_turn_and_ends_the_process() {
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let world = World::start().await;
        let mut raw = Raw::start(&world).await;
        world.model.reply(Reply::never());
        raw.ask(1, "tools/call", json!({"name": "ask", "arguments": {"prompt": "Answer never"}})).await;
        world.model.wait_until(|counts| counts.requests == 1).await;
        match signal {
            None => raw.running.end_input(),
            Some(signal) => raw.running.signal(signal),
        }
        raw.running.output(Vec::new()).await.exits(0);
        world.model.wait_until(|counts| counts.dropped == 1).await;
        assert_eq!(last_stop(&world).await, "cancelled", "{signal:?}");
    }
}

#[tokio::test]
async fn waiting_turn_survives_its_caller() {
    let world = World::start().await;
    let mut raw = Raw::start(&world).await;
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Which?"})));
    let asked = raw.request(1, "tools/call", json!({"name": "ask", "arguments": {"prompt": "Ask me"}})).await;
    assert_eq!(asked["result"]["structuredContent"]["status"], "waiting", "{asked:#}");
    raw.running.end_input();
    raw.running.output(Vec::new()).await.exits(0);
    assert_eq!(world.json(["interrupts"]).await[0]["question"], "Which?");
}

#[tokio::test]
async fn empty_standard_input_exits_without_an_error() {
    let world = World::start().await;
    let ended = world.agentctl_with(["mcp", "serve"], "").await.exits(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let odd = world
        .daemon
        .agentctl_with(["mcp", "serve"], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let odd = odd.await.exits(2).says(&["does not start like an MCP client", "hint"]);
    assert_eq!(odd.stdout, "");
}

#[tokio::test]
async fn daemon_kill_ends_the_call_and_the_turn_can_be_continued() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    world.model.reply(Reply::never());
    let asking = caller.begin("ask", json!({"prompt": "Answer never"})).await;
    world.model.wait_until(|counts| counts.requests == 1).await;
    wait_for_progress(&caller).await;
    world.daemon.kill9().await;
    // Another call starts a daemon. The running call connects to it and receives the turn's end.
    let listed = caller.gives("list_sessions", json!({})).await;
    let session = listed["sessions"][0]["session_id"].clone();
    let ended = result(asking).await;
    assert_eq!(ended.is_error, Some(true));
    let ended = ended.structured_content.unwrap();
    assert_eq!((&ended["stop_reason"], &ended["session_id"]), (&json!("interrupted"), &session), "{ended:#}");
    assert!(ended["note"].as_str().unwrap().contains("no prompt"), "{ended:#}");
    world.model.reply(Reply::text("At last."));
    let rest = caller.gives("ask", json!({"session_id": session})).await;
    holds(&rest, json!({"stop_reason": "completed", "text": "At last."}));
}
