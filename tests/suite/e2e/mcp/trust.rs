//! Ownership of tool names and answers, and protection of secrets.

use super::*;

#[tokio::test]
async fn reassigned_alias_does_not_run_on_another_server() {
    let servers = |owner: &str| {
        let mut servers = json!({"one": fake_server("ok"), "two": fake_server("ok")});
        servers[owner]["tools"]["act"]["alias"] = json!("it");
        json!({"servers": servers}).to_string()
    };
    let world = world(json!({})).await;
    world.write("config/mcp_servers.yaml", servers("one"));
    world.ok(["reload"]).await;
    world.model_calls("it", json!({"text": "hello"}));
    let running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "stream-json"]);
    let asked = world.asked().await;
    // The name is assigned to the other server before the user answers.
    world.write("config/mcp_servers.yaml", servers("two"));
    world.ok(["reload"]).await;
    world.ok(["answer", asked["id"].as_str().unwrap(), "approve"]).await;
    running.output(Vec::new()).await.exits(0);
    has_all(&tool_texts(world.model.requests().last().unwrap()), &["now belongs to another tool"]);
    assert_eq!(world.read("acted"), "", "no tool was called");
    // In the next turn, the name refers to the other server's tool.
    let results = world.call_all(vec![("it", json!({"text": "hello"}))], &["--on-interrupt", "approve"]).await.0;
    assert!(results[0].contains("from=\"two/act\""), "{results:#?}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn keys_are_redacted_in_all_output() {
    let (model, mut home) = TempHome::with_server().await;
    home.set("THING", "sup3rsecretvalue");
    let mut talks = fake_server("talks");
    talks["env"] = json!({"KEY": "${THING}"});
    talks["args"].as_array_mut().unwrap().push(json!("--header=Authorization: Bearer ${THING}"));
    home.write("config/mcp_servers.yaml", json!({"servers": {"fake": talks}}).to_string());
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    let result = world.act("").await;
    assert!(result.contains("the key is [redacted]"), "{result}");
    let list = world.ok(["mcp", "list"]).await;
    let json = world.ok(["mcp", "list", "--json"]).await;
    let logs = world.ok(["mcp", "logs", "fake"]).await.shows(&["the key is [redacted]"]);
    assert!(json.stdout.contains("Bearer ${THING}"), "{}", json.stdout);
    for shown in [&result, &list.stdout, &json.stdout, &logs.stdout, &world.daemon.log()] {
        assert!(!shown.contains("sup3rsecret"), "{shown}");
    }
    world.assert_all_exit().await;
}

/// A tool with a grant runs, because undo could not revert its effects anyway. A command is denied.
#[tokio::test]
async fn granted_tool_runs_without_approval_if_undo_cannot_store() {
    let mut fake = fake_server("ok");
    fake["grants"] = json!("*");
    let servers = json!({"servers": {"fake": fake}}).to_string();
    let undo = ("data/undo", "a file in the place of the folder");
    let world = World::with_files(&[("config/mcp_servers.yaml", servers.as_str()), undo]).await;
    let command = json!({"command": "touch outputs/a.txt"});
    let calls = vec![("mcp_fake_act", json!({"text": "now"})), ("run_bash_command", command)];
    let args = ["--mode", "auto", "--on-interrupt", "deny", "--output", "json"];
    let (results, output) = world.call_all(calls, &args).await;
    has_all(&results[0], &["acted: now", "[not recorded and cannot be undone: could not record"]);
    has_all(&results[1], &["E_DENIED", "its changes cannot be undone: could not record"]);
    let denials = output.exits(5).json()["denials"].clone();
    assert_eq!(texts(&denials, "tool"), ["run_bash_command"]);
    assert_eq!(world.read("acted"), "now\n");
    world.assert_all_exit().await;
}
