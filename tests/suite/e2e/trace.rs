//! A turn as a tree in the terminal, as JSON, and as an HTML page.

use super::{mcp::installed, *};

/// Text that would end an HTML script, and that a terminal would interpret.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{1b}]0;owned\u{7}\u{202e}";

fn counted(reply: Reply) -> Reply {
    reply.with_usage(UsagePlace::Tail, json!({"prompt_tokens": 1000, "completion_tokens": 20}))
}

fn answers(request: &Recorded) -> Reply {
    match (is_subagent(request), request.last_role()) {
        (true, _) => counted(Reply::text(format!("{HOSTILE} was looked at and found in order. ").repeat(5))),
        (false, "tool") => counted(Reply::text(format!("Done: {HOSTILE}"))),
        _ => counted(
            Reply::tool_call("delegate_task", json!({"task": format!("Look at {HOSTILE}")}))
                .and_call("read_file", json!({"path": format!("{HOSTILE}.txt")})),
        ),
    }
}

async fn world() -> World {
    let model = ModelServer::start().await;
    model.respond_with(answers);
    let daemon = TempDaemon::start(&model.base_url()).await;
    World { model, daemon }
}

/// Returns all spans in a JSON tree, including those of nested turns.
fn spans(of: &Value) -> Vec<&Value> {
    let mut all = Vec::new();
    for key in ["spans", "children", "turns"] {
        for below in of[key].as_array().into_iter().flatten() {
            all.push(below);
            all.extend(spans(below));
        }
    }
    all
}

#[tokio::test]
async fn trace_tree_has_all_calls_and_matches_the_result() {
    let world = world().await;
    let result = world.ok(["run", "Have it done", "--output", "json"]).await.json();
    world.ok(["run", "--continue", "Again"]).await;
    let trace = world.json(["trace", "--turn", "1"]).await;
    assert_eq!(trace["session_id"], result["session_id"]);
    let turn = &trace["turns"][0];
    assert_eq!((&turn["turn_id"], &turn["usage"]), (&result["turn_id"], &result["usage"]));
    let all = spans(turn);
    let of = |kind: &str| all.iter().filter(|span| span["kind"] == kind).count();
    assert_eq!((of("model_call"), of("tool"), of("subagent"), of("input")), (3, 2, 1, 2), "{turn:#}");
    let call = all.iter().find(|span| span["kind"] == "model_call").unwrap();
    assert_eq!(call["is_estimated"], false, "{call:#}");
    let tool = all.iter().find(|span| span["name"] == "read_file").unwrap();
    assert_eq!(tool["error"], "E_PATH");

    // The terminal output contains everything in lines without escapes.
    let shown = world.ok(["trace", "--all"]).await;
    has_all(&shown.stdout, &["turn 1", "turn 2", "step 1", "delegate_task", "E_PATH", "subagent", "1000>20"]);
    assert!(!shown.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{}", shown.stdout);
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 120), "{}", shown.stdout);
    let id = result["turn_id"].as_str().unwrap();
    let by_id = world.ok(["trace", "--turn", &id[id.len() - 8..]]).await;
    assert!(by_id.stdout.contains("turn 1") && !by_id.stdout.contains("turn 2"), "{}", by_id.stdout);
    world.agentctl(["trace", "--turn", "7"]).await.exits(2).says(&["no turn", "hint:", "2 turns"]);
}

#[tokio::test]
async fn trace_follows_a_running_turn_and_shows_interrupted_ones() {
    let mut world = world().await;
    world.agentctl(["trace", "--follow"]).await.exits(2).says(&["no session"]);
    world.model.respond_with(|request| match request.last_role() {
        "user" => counted(Reply::tool_call("ask_human", json!({"question": "Go on?"}))),
        _ => counted(Reply::text("Done.")),
    });
    let mut run = world.spawn_agentctl(["run", "Ask me", "--on-interrupt", "wait", "--output", "stream-json"]);
    run.event("interrupt_raised").await;
    let mut followed = world.spawn_agentctl(["trace", "--follow", "--json"]);
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|last| last != "model_call") {
        let line = followed.json_line().await.unwrap();
        assert_eq!(line["type"], "span");
        kinds.push(line["span"]["kind"].as_str().unwrap().to_owned());
    }
    let question = world.asked().await;
    world.ok(["answer", question["id"].as_str().unwrap(), "yes, do"]).await;
    while let Some(line) = followed.json_line().await {
        if line["type"] == "turn" {
            assert_eq!(line["turn"]["outcome"]["reason"], "completed");
            break;
        }
        kinds.push(line["span"]["kind"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["choice", "input", "model_call", "tool", "model_call"]);
    let trace = world.json(["trace"]).await;
    let all = spans(&trace["turns"][0]);
    let asked = all.iter().find(|span| span["kind"] == "interrupt").unwrap();
    assert_eq!((&asked["answer"]["text"], &asked["by"]["client"]), (&json!("yes, do"), &json!("agentctl")));

    // The daemon is killed during the model's response.
    world.model.respond_with(|_| Reply::text("never").delay_ms(600_000));
    let asked = world.model.requests().len();
    let mut run = world.spawn_agentctl(["run", "Hello", "--output", "stream-json"]);
    // The model is queried while the start is being stored. Only published events are certain to survive a kill.
    run.event("turn_started").await;
    let requests = || async { (world.model.requests().len() > asked).then_some(()) };
    until("the model is called", requests).await;
    world.daemon.crash().await;
    world.ok(["trace"]).await.shows(&["interrupted", "Hello"]);
}

/// Tests the page and all of its keys in a third-party DOM.
#[tokio::test]
async fn trace_page_escapes_text_and_finds_every_row() {
    let world = world().await;
    world.ok(["run", HOSTILE]).await;
    world.ok(["run", "--continue", "Again"]).await;
    let page = world.path().join("trace.html");
    let path = page.to_str().unwrap();
    world.ok(["trace", "--html", path]).await;
    world.agentctl(["trace", "--html", path]).await.exits(2).says(&["already exists", "--force"]);
    world.ok(["trace", "--html", path, "--force"]).await;
    let html = fs::read_to_string(&page).unwrap();
    assert_eq!((html.matches("</script>").count(), html.matches("<img").count()), (2, 0));
    assert!(html.contains("default-src 'none'"));
    let modules = installed("node_modules/jsdom").join("../..");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/page/check.mjs");
    let mut command = Command::new(installed("bin/node"));
    command.arg(script).arg(modules).arg(page).arg("<img src=x onerror=alert(1)>");
    let output = Running::spawn(command).output(Vec::new()).await.exits(0);
    assert!(output.stdout.contains("the page is sound"), "{}{}", output.stdout, output.stderr);
}
