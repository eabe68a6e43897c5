//! The tools of the conversation itself, through the real daemon: what a person's rules say of them holds.

use agentd_testkit::{
    daemon::{TempDaemon, TempHome},
    model_server::{ModelServer, Reply},
};
use serde_json::{Value, json};

use super::{World, tool_texts};

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
    let model = ModelServer::start().await;
    let home = TempHome::with_model(&model.base_url());
    home.write("config/hitl_rules.yaml", RULES);
    World { model, daemon: TempDaemon::start_in(home).await }
}

fn todos() -> (&'static str, Value) {
    ("todo_write", json!({"todos": [{"content": "paint", "status": "pending"}]}))
}

#[tokio::test]
async fn rules_about_them_are_obeyed_and_audited() {
    let world = world().await;
    let asked = ("ask_human", json!({"question": "Which colour?", "default": "green"}));
    let harmless = ("ask_human", json!({"question": "How many?", "default": "two"}));
    let calls = vec![todos(), ("todo_read", json!({})), asked, harmless, ("compact_context", json!({}))];
    let (told, output) = world.call_all(calls, &["--on-interrupt", "deny", "--output", "json"]).await;
    let result = output.json();
    assert!(told[0].contains("E_DENIED") && told[0].contains("tools.todo_write"), "{told:#?}");
    assert!(told[1].contains("empty"), "{told:#?}");
    assert!(told[2].contains("E_DENIED") && told[2].contains("this run cannot ask"), "{told:#?}");
    assert_eq!(told[3], "two");
    assert!(told[4].contains("E_DENIED"), "{told:#?}");
    let denied: Vec<&str> =
        result["denials"].as_array().unwrap().iter().map(|denial| denial["tool"].as_str().unwrap()).collect();
    assert_eq!(denied, ["todo_write", "ask_human", "compact_context"], "{result:#}");

    let records = world.daemon.agentctl(["audit", "--json"]).await.exits(0).json();
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
    let said = world.daemon.agentctl(explain).await.exits(0).json();
    assert_eq!(said["explanation"]["verdict"], "deny", "{said:#}");
    world.still_serves().await;
}

#[tokio::test]
async fn a_question_is_approved_and_then_answered() {
    let world = world().await;
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Which colour?"})));
    world.model.reply(Reply::text("Green it is."));
    let args = ["run", "Paint it", "--on-interrupt", "wait", "--output", "stream-json"];
    let mut running = world.daemon.spawn_agentctl(args);
    for (kind, words) in [("approval", "approve"), ("question", "green")] {
        let (raised, _) = running.event("interrupt_raised").await;
        assert_eq!(raised["interrupt"]["kind"], kind, "{raised:#}");
        let id = raised["interrupt"]["id"].as_str().unwrap();
        world.daemon.agentctl(["answer", id, words]).await.exits(0);
    }
    let output = running.output(Vec::new()).await;
    assert_eq!(output.json_lines().pop().unwrap()["text"], "Green it is.", "{}", output.stderr);
    assert_eq!(tool_texts(world.model.requests().last().unwrap()), "green");
    // The log has both, for programs and for people.
    let records = world.daemon.agentctl(["audit", "--tool", "ask_human", "--json"]).await.exits(0).json();
    assert_eq!(records[0]["reply"], json!({"answer": "text", "text": "green"}), "{records:#}");
    let table = world.daemon.agentctl(["audit", "--tool", "ask_human"]).await.exits(0).stdout;
    assert!(table.contains(r#": approve, answer "green""#), "{table}");
}
