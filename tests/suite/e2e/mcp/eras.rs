//! Servers that use the protocol's newer era: the era is detected and cached, and probed again if the cached value is
//! wrong.

use super::*;

/// Returns a server that uses the newer era, unless its home contains the file `old`.
fn newer(mode: &str) -> Value {
    let program = fake().with_file_name("fake_newer.py");
    json!({"command": "python3", "args": [program, mode], "tools": {"act": {"always_available": true}}})
}

/// Starts a daemon with this server.
async fn daemon(mode: &str) -> World {
    world(json!({"fake": newer(mode)})).await
}

/// Starts a daemon with this server and a model that calls it once. The server's calls run without approval, so that it
/// is the only source of questions.
async fn calls_once(mode: &str) -> World {
    let mut fake = newer(mode);
    fake["tools"]["act"]["effect"] = json!("read");
    let world = world(json!({"fake": fake})).await;
    world.model_calls("mcp_fake_act", json!({}));
    world
}

/// Returns the protocol versions with which the server was started.
fn started(world: &World) -> Vec<String> {
    world.read("started").lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn server_era_is_detected_once() {
    let mut world = daemon("ok").await;
    assert!(world.act("now").await.contains("acted: "));
    assert_eq!(started(&world), ["new", "new"], "the server is restarted with the detected protocol");
    let listed = world.json(["mcp", "list"]).await;
    holds(&listed[0], json!({"protocol": "2026-07-28", "says_it_is": "fake 2"}));
    world.assert_servers_exit().await;
    assert!(world.act("again").await.contains("acted: "));
    world.daemon.restart().await;
    assert!(world.act("and again").await.contains("acted: "));
    assert_eq!(started(&world).len(), 4, "the protocol is remembered across a restart of the daemon");
    let greetings = world.read("asked").lines().filter(|method| *method == "initialize").count();
    assert_eq!(greetings, 1);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn wrong_cached_era_is_corrected() {
    let world = daemon("ok").await;
    assert!(world.act("now").await.contains("acted: "));
    world.assert_servers_exit().await;
    world.write("old", "");
    assert!(world.act("now").await.contains("acted: "), "the other protocol is tried at once");
    world.assert_servers_exit().await;
    assert!(world.act("now").await.contains("acted: "));
    assert_eq!(started(&world)[2..], ["old", "old", "old"], "the newly detected protocol is remembered");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn wrong_cached_era_of_a_silent_server_causes_one_extra_start() {
    let mut fake = newer("silent");
    fake["start_timeout"] = json!("8s");
    let world = world(json!({"fake": fake})).await;
    assert!(world.act("now").await.contains("acted: "));
    world.assert_servers_exit().await;
    world.write("old", "");
    has_all(&world.act("now").await, &["no answer within 8 s"]);
    assert!(world.act("now").await.contains("acted: "));
    world.assert_all_exit().await;
}

#[tokio::test]
async fn refusal_reason_of_the_server_is_reported() {
    let world = daemon("refuses").await;
    let result = world.act("now").await;
    assert!(result.contains("the key is missing") && !result.contains("no such version"), "{result}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn question_during_a_call_is_answered_by_the_user() {
    let world = calls_once("asks").await;
    let running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "stream-json"]);
    let asked = world.asked().await;
    assert_eq!(asked["question"], "The MCP server fake asks: Who are you?", "{asked:#}");
    world.ok(["answer", asked["id"].as_str().unwrap(), "Ada"]).await;
    running.output(Vec::new()).await.exits(0);
    let result = tool_texts(world.model.requests().last().unwrap());
    assert!(result.contains(r#"[{"who": {"action": "accept", "content": {"name": "Ada"}}}, "1"]"#), "{result}");
    assert_eq!(world.read("acted").lines().count(), 2);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_that_asks_endlessly_fails_only_its_call() {
    for (mode, expected) in [
        ("asks_for_ever", "asked the user more than 8 times"),
        ("asks_at_once", "500 questions at once"),
        ("never_done", "after 10 rounds"),
        ("samples", "sampling is not allowed for this server"),
    ] {
        let world = calls_once(mode).await;
        world.ok(["run", "Go", "--on-interrupt", "deny"]).await;
        let result = tool_texts(world.model.requests().last().unwrap());
        assert!(result.contains(expected), "{mode}: {result}");
        let acted = world.read("acted").lines().count();
        assert!(acted <= 11, "{mode}: the tool was called {acted} times");
        world.assert_clean_end().await;
    }
}

#[tokio::test]
async fn change_notices_are_followed_at_a_limited_rate() {
    let world = daemon("changes").await;
    world.act("now").await;
    until_true("the tools are listed again", || world.read("listed").lines().count() >= 3).await;
    assert!(world.read("asked").lines().filter(|method| *method == "subscriptions/listen").count() <= 3);
    world.assert_clean_end().await;
}
