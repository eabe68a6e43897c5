//! Empty, truncated and interrupted responses, and calls written as text: how the turn ends in a complete daemon, and
//! the message shown.

use super::*;

fn empty_reply() -> Reply {
    Reply::deltas([""; 0])
}

async fn ask(world: &World, code: i32) -> Value {
    world.agentctl(["run", "Write it", "--output", "json", "--on-interrupt", "approve"]).await.exits(code).json()
}

#[tokio::test]
async fn empty_answers_end_the_turn_without_success() {
    let world = World::start().await;
    let write = || Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(empty_reply()).reply(write()).reply(empty_reply()).reply(Reply::text("Written."));
    let result = ask(&world, 0).await;
    holds(&result, json!({"stop_reason": "completed", "text": "Written."}));
    assert_eq!(result["files"][0]["path"], "outputs/a.txt", "{result:#}");

    world.model.default_reply(empty_reply());
    let result = ask(&world, 7).await;
    holds(&result, json!({"stop_reason": "no_answer", "text": "", "steps": 3}));
    world.agentctl(["run", "Hi"]).await.exits(7).says(&["the model gave no answer", "hint:"]);
}

#[tokio::test]
async fn broken_stream_is_retried_and_can_be_cancelled() {
    let world = World::start().await;
    world.model.reply(Reply::text("One two three").cut_after_text("two")).reply(Reply::text("All of it."));
    let lines = world.ok(["run", "Hi", "--output", "stream-json"]).await.json_lines();
    let result = lines.last().unwrap();
    assert_eq!(result["text"], "All of it.");
    assert!(lines.iter().any(|line| line["code"] == "model_retry"), "{lines:?}");
    let session = result["session_id"].as_str().unwrap();
    world.ok(["run", "More", "--session", session]).await;
    let sent = world.model.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("All of it.") && !sent.contains("One two"), "{sent}");

    world.model.default_reply(Reply::text("One two three").cut_after_text("two"));
    let mut running = world.spawn_agentctl(["run", "Again", "--output", "stream-json"]);
    running.event("warning").await;
    running.signal(Signal::SIGINT);
    let result = running.output(Vec::new()).await.exits(130).json_lines().pop().unwrap();
    assert_eq!(result["stop_reason"], "cancelled");
}

#[tokio::test]
async fn a_call_as_text_is_never_the_answer() {
    let world = World::start().await;
    world.model.default_reply(Reply::text("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
    let lines = world.agentctl(["run", "Hi", "--output", "stream-json"]).await.exits(7).json_lines();
    let result = lines.last().unwrap();
    holds(result, json!({"stop_reason": "no_answer", "text": ""}));
    let warning = lines.iter().find(|line| line["code"] == "call_as_text").unwrap();
    assert!(warning["message"].as_str().unwrap().contains("native_tools: false"), "{warning}");
}

#[tokio::test]
async fn calls_in_forms_of_model_families_run_in_text_mode_and_never_answer() {
    let in_text = World::with_files(&[("config/models.yaml", "base: {native_tools: false}\n")]).await;
    let native = World::start().await;
    for call in [
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{'name': 'now', 'arguments': {}}",
        "<tool_call>\n<function=now>\n</function>\n</tool_call>",
        "{\"name\": \"now\", \"parameters\": {}}",
        "<|python_tag|>now.call()",
        "[now()]",
        "[TOOL_CALLS]now[ARGS]{}",
        "<tool_call>now\n</tool_call>",
        "```tool_code\nnow()\n```",
        "Thought: I need the time.\nAction: now\nAction Input: {}",
        "assistantcommentary to=functions.now json{}",
        "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {}}]<|END_ACTION|>",
        "<start_function_call>call:now{}<end_function_call>",
        "<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
    ] {
        in_text.model.reply(Reply::deltas([call])).reply(Reply::text("It is noon."));
        let result = in_text.ok(["run", "What time is it?", "--output", "json"]).await.json();
        holds(&result, json!({"stop_reason": "completed", "text": "It is noon.", "steps": 2}));
        let sent = in_text.model.requests().pop().unwrap().body["messages"].to_string();
        assert!(sent.contains("<tool_result name=\\\"now\\\">"), "{call}: {sent}");

        native.model.reply(Reply::deltas([call])).reply(Reply::text("It is noon."));
        let result = native.ok(["run", "What time is it?", "--output", "json"]).await.json();
        holds(&result, json!({"stop_reason": "completed", "text": "It is noon.", "steps": 2}));
    }
}

#[tokio::test]
async fn tiny_window_holds_a_turn_with_a_tool() {
    let world = World::with_files(&[("config/models.yaml", "base: {context_window: 4096}\n")]).await;
    let read = Reply::tool_call("read_file", json!({"path": "/project/a.txt"}));
    world.model.reply(read).reply(Reply::text("It says: noon."));
    world.write("project/a.txt", "noon\n".repeat(200));
    let folder = world.path().join("project");
    let result = world.ok(["run", "-C", folder.to_str().unwrap(), "Read a.txt", "--output", "json"]).await.json();
    holds(&result, json!({"stop_reason": "completed", "text": "It says: noon.", "steps": 2}));
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2, "nothing was compacted");
    let tools = requests[1].body["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert!(names.contains(&"find_tool") && names.len() <= 7, "{names:?}");
}
