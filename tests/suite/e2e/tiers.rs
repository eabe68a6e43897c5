//! The tools that a turn offers. Calls to all other tools are rejected.

use super::*;

const TOOLS: &str = "optional:
  web_search: {enabled: false, category: network}
  run_bash_command: {enabled: never}
core:
  grep: {description: 'Looks into files.'}
";

async fn world() -> World {
    World::prepared(|home| {
        home.write("config/tools.yaml", TOOLS);
        home.write("config/web.yaml", "search: {provider: searxng, base_url: 'http://127.0.0.1:9'}\n");
    })
    .await
}

/// Returns the entry of one tool.
fn tool_entry<'a>(tools: &'a Value, name: &str) -> &'a Value {
    tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test]
async fn turn_offers_enabled_tools_and_rejects_others() {
    let world = world().await;
    let calls = vec![
        ("run_bash_command", json!({"command": "echo ran > outputs/ran"})),
        ("bash", json!({"command": "echo ran > outputs/ran"})),
        ("web_search", json!({"query": "x"})),
        ("find_files", json!({"pattern": "*"})),
    ];
    let (results, output) = world.call_all(calls, &["--on-interrupt", "approve", "--output", "json"]).await;
    let session = output.exits(0).session();
    for hidden in &results[..3] {
        assert!(hidden.contains("E_UNKNOWN_TOOL"), "{results:#?}");
    }
    assert!(!results[3].contains("E_"), "{results:#?}");
    assert!(!world.path().join("data/workspace").join(&session).join("outputs/ran").exists());
    let names = tool_names(&world.model.requests()[0]);
    assert!(names.is_sorted(), "{names:?}");
    assert!(names.contains(&"grep".to_owned()) && names.contains(&"read_url".to_owned()), "{names:?}");
    assert!(!names.contains(&"web_search".to_owned()) && !names.contains(&"run_bash_command".to_owned()), "{names:?}");

    for args in [&["tools", "--json"][..], &["tools", "--json", "--session", &session]] {
        let tools = world.ok(args).await.json();
        let search = tool_entry(&tools, "web_search");
        holds(search, json!({"tier": "discovered", "visible": false}));
        assert!(search["why"].as_str().unwrap().contains("@web_search"), "{search}");
        let shell = tool_entry(&tools, "run_bash_command");
        holds(shell, json!({"tier": "off", "visible": false}));
        let grep = tool_entry(&tools, "grep");
        holds(grep, json!({"tier": "core", "visible": true, "category": "search"}));
        assert_eq!(grep["description"], "Looks into files.");
        assert_eq!(tool_entry(&tools, "todo_write")["origin"], "conversation");
        let visible = tools.as_array().unwrap().iter().filter(|tool| tool["visible"] == true);
        let visible: Vec<&str> = visible.map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(visible, names);
    }
    world.ok(["tools"]).await.shows(&["CATEGORY", "not shown: @web_search"]);
    world.agentctl(["tools", "--session", "nobody"]).await.exits(2);
    world.still_serves().await;
}

#[tokio::test]
async fn reloaded_tools_yaml_applies_from_the_next_turn() {
    let world = world().await;
    world.still_serves().await;
    let before = world.model.requests()[0].body["tools"].clone();
    world.still_serves().await;
    assert_eq!(world.model.requests()[1].body["tools"], before, "the tool definitions are byte-identical");
    world.write("config/tools.yaml", "optional: {web_search: {enabled: true}}\n");
    world.client().await.reload().await.unwrap();
    world.still_serves().await;
    let names = tool_names(world.model.requests().last().unwrap());
    assert!(names.contains(&"web_search".to_owned()) && names.contains(&"run_bash_command".to_owned()), "{names:?}");
    world.write("config/tools.yaml", "optional: {web_search: {enabled: perhaps}}\n");
    has_all(&world.client().await.reload().await.unwrap_err().to_string(), &["tools.yaml:1:", "never"]);
    world.still_serves().await;
    assert_eq!(tool_names(world.model.requests().last().unwrap()), names);
}

#[tokio::test]
async fn tool_limits_apply_and_unknown_ones_are_reported() {
    let world = World::with_files(&[
        ("config/agentd.yaml", "tools: {command_timeout: 5s}\n"),
        (
            "config/tools.yaml",
            "optional: {run_bash_command: {limits: {max_seconds: 7, max_secnds: 9}}}\ncore: {grep: {limits: {max_seconds: 0}}}\n",
        ),
    ])
    .await;
    world.still_serves().await;
    has_all(&world.model.requests()[0].body["tools"].to_string(), &["(default 5, at most 7)"]);
    let log = world.log();
    has_all(&log, &["`run_bash_command` has no limit `max_secnds`", "`grep` has no limit `max_seconds`"]);
}
