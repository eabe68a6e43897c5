//! Tests of the `agentctl mcp` subcommands.

use super::*;

#[tokio::test]
async fn servers_can_be_listed_started_stopped_and_logged() {
    let world = world(json!({"fake": fake_server("flood"), "off": {"command": "x", "enabled": false}})).await;
    let state = async || {
        let listed = world.json(["mcp", "list"]).await;
        let state = |at: usize| listed[at]["state"].as_str().unwrap().to_owned();
        (state(0), state(1))
    };
    assert_eq!(state().await, ("stopped".to_owned(), "disabled".to_owned()));
    world.ok(["mcp", "test", "fake"]).await.shows(&["fake started in ", "mcp_fake_act"]);
    assert_eq!(state().await.0, "running");
    world.act("now").await;
    let logs = world.ok(["mcp", "logs", "fake"]).await.stdout;
    assert!(logs.contains("the last words") && !logs.contains('\u{1b}'), "{logs}");
    world.ok(["mcp", "stop", "fake"]).await;
    assert_eq!(world.server_processes(), [0u32; 0], "the server is still running after the command");
    assert_eq!(state().await.0, "stopped");
    world.agentctl(["mcp", "start", "fkae"]).await.exits(2).says(&["did you mean `fake`?"]);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn import_takes_valid_servers_and_locates_invalid_ones() {
    let world = world(json!({})).await;
    world.write("config/mcp_servers.yaml", "# mine\n");
    let imported_config = "{\n  // mine\n  \"mcpServers\": {\n    \"bad\": {\n      \"url\": \"ftp://example.org\"\n    },\n    \
                  \"good one\": {\"command\": \"cat\"},\n    \"worse\": {\"command\": \"x\", \"env\": {\"A=B\": \"c\"}}\n  }\n}\n";
    let file = world.write("theirs.json", imported_config);
    let file = file.to_str().unwrap();
    let imported = world.json(["mcp", "import", file]).await;
    assert_eq!(imported["taken"], json!(["good-one"]), "{imported:#}");
    let left: std::collections::BTreeMap<&str, &str> = imported["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| (left["what"].as_str().unwrap(), left["why"].as_str().unwrap()))
        .collect();
    assert!(
        left["bad"].starts_with(&format!("{file}:5:7: ")) && left["bad"].contains("must start with http"),
        "{left:#?}"
    );
    assert!(left["worse"].starts_with(&format!("{file}:8:")), "{left:#?}");
    let listed = world.json(["mcp", "list"]).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!("good-one")), "{listed:#}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn failing_server_reports_why_and_is_always_retried() {
    let world = world(json!({"fake": fake_server("broken"), "gone": {"command": "no-such-program"}})).await;
    for _ in 0..4 {
        let output = world.agentctl(["mcp", "start", "fake"]).await.exits(1);
        output.says(&["exit code 3", "no such key: SECRET_THING", "agentctl mcp logs fake"]);
    }
    world.agentctl(["mcp", "test", "gone"]).await.exits(1).says(&["could not start `no-such-program`"]);
    let calls = vec![("mcp_fake_act", json!({})); 4];
    let (results, _) = world.call_all(calls, &["--on-interrupt", "approve"]).await;
    assert!(results.iter().all(|result| result.contains("The call did not run")), "{results:#?}");
    assert!(results[3].contains("next retry in"), "{results:#?}");
    world.assert_clean_end().await;
}

#[tokio::test]
async fn add_and_import_keep_the_users_file_content() {
    let world = world(json!({})).await;
    let path = world.config().join("mcp_servers.yaml");
    let mine = "# mine\nservers: # all of them\n  # the first\n  old: {command: cat, enabled: false} # why\n";
    world.write("config/mcp_servers.yaml", mine);
    let fake = fake();
    let add = ["mcp", "add", "new", "--env", "A=b", "--", "python3", fake.to_str().unwrap(), "ok"];
    world.ok(add).await.says(&["added new"]);
    let text = fs::read_to_string(&path).unwrap();
    for part in ["# mine\n", "# all of them\n", "  # the first\n", "  old: {command: cat, enabled: false} # why\n"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let tested = world.json(["mcp", "test", "new"]).await;
    assert_eq!(tested["tools"], json!(["mcp_new_act"]), "{tested:#}");
    // Adding a duplicate, an invalid name or invalid values changes nothing.
    world.agentctl(add).await.exits(2).says(&["a server `new` already exists"]);
    world.agentctl(["mcp", "add", "a b", "--", "x"]).await.exits(2).says(&["invalid MCP server name"]);
    world.agentctl(["mcp", "add", "web", "--url", "ftp://x"]).await.exits(2).says(&["must start with http"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    let imported_config = json!({"mcpServers": {
        "new": {"command": "x"},
        "More Files": {"command": installed("bin/node"), "args": ["x.js", "${HOME}"]},
        "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
    }});
    let file = world.write("theirs.json", imported_config.to_string());
    let file = file.to_str().unwrap();
    world.ok(["mcp", "import", file, "--dry-run"]).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let imported = world.json(["mcp", "import", file]).await;
    assert_eq!(imported["taken"], json!(["More-Files"]), "{imported:#}");
    let mut left: Vec<&str> =
        imported["left"].as_array().unwrap().iter().map(|left| left["what"].as_str().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, ["asks", "new", "the name `More Files`"], "{imported:#}");
    let listed = world.ok(["mcp", "list"]).await.stdout;
    assert!(["More-Files", "new", "old"].iter().all(|name| listed.contains(name)), "{listed}");
    world.assert_all_exit().await;
}
