//! Every line that scripts read matches the schema in the documentation.

use jsonschema::Validator;

use super::*;

fn validator() -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/stream-json.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// Validates a client's output lines against the schema.
#[track_caller]
pub(super) fn check_lines(lines: &[Value]) {
    check(&validator(), lines);
}

#[track_caller]
fn check(validator: &Validator, lines: &[Value]) {
    for line in lines {
        let problems: Vec<String> = validator.iter_errors(line).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{line:#}\n{problems:?}");
    }
}

#[tokio::test]
async fn every_line_of_stream_json_matches_the_schema() {
    let world = World::start().await;
    let validator = validator();
    let bash = |command: &str| Reply::tool_call("run_bash_command", json!({ "command": command }));
    let todos = json!({"todos": [{"id": "1", "content": "Look", "status": "in_progress", "priority": "high"}]});
    world.model.reply(Reply::text("I look.").and_reasoning("Hm.").and_call("todo_write", todos));
    world.model.reply(bash("echo out; echo err >&2; exit 3"));
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "x\n"})));
    world.model.reply(Reply::tool_call("no_such_tool", json!({})));
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Tea?", "default": "yes"})));
    world.model.default_reply(Reply::text("Done."));
    let file = world.write("notes.txt", "a needle");
    let args =
        ["run", "Do it", "--output", "stream-json", "--on-interrupt", "approve", "--file", file.to_str().unwrap()];
    let lines = world.ok(args).await.json_lines();
    assert!(lines.len() > 20, "{}", lines.len());
    check(&validator, &lines);
    let session = lines[0]["session_id"].as_str().unwrap().to_owned();
    // A compaction, a detached turn, and a turn that never started.
    world.ok(["compact", &session, "--json"]).await;
    let args = ["run", "More", "--session", &session, "--output", "stream-json", "--detach"];
    check(&validator, &world.daemon.ok(args).await.json_lines());
    let args = ["run", "More", "--session", "ffffffff", "--output", "stream-json"];
    let refused = world.agentctl(args).await.json_lines();
    assert_eq!(refused[0]["type"], "result");
    check(&validator, &refused);
    // The schema does not accept arbitrary lines.
    for bad in [json!({}), json!({"type": "item_delta", "seq": 1}), json!({"type": "result", "text": 7})] {
        assert!(!validator.is_valid(&bad), "{bad}");
    }
}
