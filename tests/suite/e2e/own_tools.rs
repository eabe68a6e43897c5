//! Tools that act on the conversation itself, with a real daemon: the user's rules apply to them.

use super::*;

const RULES: &str = "tools:
  todo_write:
    patterns: {high_risk: ['.*']}
    actions: {high_risk: deny}
  ask_human:
    patterns: {medium_risk: ['(?i)colour']}
  compact_context:
    patterns: {medium_risk: ['.*']}
";

async fn world() -> World {
    World::prepared(|home| drop(home.write("config/hitl_rules.yaml", RULES))).await
}

fn todos() -> (&'static str, Value) {
    ("todo_write", json!({"todos": [{"content": "paint", "status": "pending"}]}))
}

#[tokio::test]
async fn rules_apply_to_conversation_tools_and_are_audited() {
    let world = world().await;
    let question_call = ("ask_human", json!({"question": "Which colour?", "default": "green"}));
    let harmless = ("ask_human", json!({"question": "How many?", "default": "two"}));
    let calls = vec![todos(), ("todo_read", json!({})), question_call, harmless, ("compact_context", json!({}))];
    let (results, output) = world.call_all(calls, &["--on-interrupt", "deny", "--output", "json"]).await;
    let result = output.json();
    assert!(results[0].contains("E_DENIED") && results[0].contains("tools.todo_write"), "{results:#?}");
    assert!(results[1].contains("empty"), "{results:#?}");
    assert!(results[2].contains("E_DENIED") && results[2].contains("this run cannot ask"), "{results:#?}");
    assert_eq!(results[3], "two");
    assert!(results[4].contains("E_DENIED"), "{results:#?}");
    let denied = texts(&result["denials"], "tool");
    assert_eq!(denied, ["todo_write", "ask_human", "compact_context"], "{result:#}");

    let records = world.json(["audit"]).await;
    let decided: Vec<(&str, &str, &str)> = records
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["kind"] == "call_decided")
        .map(|record| {
            let text = |key: &str| record[key].as_str().unwrap();
            (text("tool"), text("verdict"), text("outcome"))
        })
        .collect();
    assert_eq!(
        decided,
        [
            ("todo_write", "deny", "refused"),
            ("todo_read", "allow", "done"),
            ("ask_human", "ask", "refused"),
            ("ask_human", "allow", "done"),
            ("compact_context", "ask", "refused"),
        ],
        "{records:#}"
    );
    let explain = ["policy", "explain", "--json", "todo_write", r#"{"todos": [{"content": "paint"}]}"#];
    let explanation = world.ok(explain).await.json();
    assert_eq!(explanation["explanation"]["verdict"], "deny", "{explanation:#}");
    world.still_serves().await;
}
