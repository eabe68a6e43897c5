//! Servers that ask the user a question during a call.

use super::*;

/// Starts a server whose calls run without approval, so that it is the only source of questions.
async fn world_with_granted_server(mode: &str) -> World {
    let mut fake = fake_server(mode);
    fake["tools"]["act"]["effect"] = json!("read");
    fake["call_timeout"] = json!("3s");
    world(json!({"fake": fake})).await
}

#[tokio::test]
async fn form_answer_is_validated_before_the_server_gets_it() {
    let world = world_with_granted_server("asks_once").await;
    world.model_calls("mcp_fake_act", json!({}));
    let running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "stream-json"]);
    let asked = world.asked().await;
    assert_eq!(asked["question"], "The MCP server fake asks: Who are you?", "{asked:#}");
    let context = asked["context"].as_str().unwrap();
    assert!(context.contains("- age (integer, required)") && context.contains("- name (string"), "{context}");
    let answer = async |id: &Value, text: &str| {
        world.ok(["answer", id.as_str().unwrap(), text]).await;
    };
    answer(&asked["id"], r#"{"name": "Ada", "age": "old"}"#).await;
    let again = world.asked().await;
    assert!(again["question"].as_str().unwrap().contains("question 2 of this call"), "{again:#}");
    assert!(again["context"].as_str().unwrap().contains("Invalid answer: `age`"), "{again:#}");
    answer(&again["id"], r#"{"name": "Ada", "age": 36}"#).await;
    running.output(Vec::new()).await.exits(0);
    let result = tool_texts(world.model.requests().last().unwrap());
    assert!(result.contains(r#"{"action": "accept", "content": {"#) && result.contains(r#""age": 36"#), "{result}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_that_asks_endlessly_is_stopped_after_eight_questions() {
    // There is no user, or the question remains unanswered.
    for (mode, on_interrupt) in [("asks", "deny"), ("asks_at_once", "wait")] {
        let world = world_with_granted_server(mode).await;
        world.model_calls("mcp_fake_act", json!({}));
        assert_eq!(world.ok(["run", "Go", "--on-interrupt", on_interrupt]).await.stdout.trim(), "over", "{mode}");
        let result = tool_texts(world.model.requests().last().unwrap());
        assert!(result.contains("asked the user more than 8 times"), "{mode}: {result}");
        assert_eq!(world.json(["interrupts"]).await, json!([]), "{mode}");
        world.assert_clean_end().await;
    }
}

#[tokio::test]
async fn question_is_withdrawn_when_its_call_is_lost() {
    let mut world = world_with_granted_server("asks_once").await;
    world.model_calls("mcp_fake_act", json!({}));
    let running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "stream-json"]);
    world.asked().await;
    // The daemon dies while the question is pending. The server can no longer receive the answer, so the question is
    // withdrawn.
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    assert_eq!(world.json(["interrupts"]).await, json!([]));
    assert_eq!(world.read("acted").lines().count(), 1, "the tool was called again");
    world.assert_clean_end().await;
}

/// The server has the same name, but runs a different program.
#[tokio::test]
async fn approved_call_does_not_run_on_a_reconfigured_server() {
    let mut world = world(json!({"fake": fake_server("ok")})).await;
    world.model_calls("mcp_fake_act", json!({}));
    let mut running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "stream-json"]);
    let (raised, _) = running.event("interrupt_raised").await;
    world.daemon.kill9().await;
    drop(running);
    let mut other = fake_server("ok");
    other["args"].as_array_mut().unwrap().push(json!("another"));
    world.write("config/mcp_servers.yaml", json!({"servers": {"fake": other}}).to_string());
    world.daemon.restart().await;
    let session = raised["interrupt"]["session_id"].as_str().unwrap();
    let interrupt = raised["interrupt"]["id"].as_str().unwrap();
    world.ok(["answer", interrupt, "approve"]).await;
    let attached = world.agentctl(["attach", session, "--after", "0", "--output", "stream-json"]).await;
    let log = attached.stdout;
    assert!(log.contains("changed_since_asked"), "{log}");
    has_all(
        &tool_texts(world.model.requests().last().unwrap()),
        &["the configuration of its MCP server has changed since the user was asked"],
    );
    assert!(!world.path().join("acted").exists(), "the tool was called");
    world.assert_clean_end().await;
}

#[tokio::test]
async fn question_of_a_finished_call_is_withdrawn() {
    let mut world = world_with_granted_server("asks_and_goes").await;
    world.model.respond_with(|request| {
        if request.last_user() == "are you there?" {
            Reply::text("still here")
        } else if tool_texts(request).is_empty() {
            Reply::tool_call("mcp_fake_act", json!({}))
        } else {
            Reply::never()
        }
    });
    let mut running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "stream-json"]);
    running.event("interrupt_raised").await;
    world.model.wait_until(|counts| counts.requests >= 2).await;
    // The turn continues, and the obsolete question is withdrawn.
    running.event("interrupt_resolved").await;
    assert_eq!(world.json(["interrupts"]).await, json!([]));
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    assert_eq!(world.json(["interrupts"]).await, json!([]));
    world.assert_clean_end().await;
}
