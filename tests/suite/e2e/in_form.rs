//! Structured answers: `run --schema`, for scripts that process the answer.

use super::*;

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": { "count": { "type": "integer" }, "unit": { "type": "string" } },
  "required": ["count", "unit"],
  "additionalProperties": false
}"#;

const GOOD: &str = r#"{"count": 7, "unit": "files"}"#;

impl World {
    /// Runs a turn whose answer must match the schema.
    async fn in_form(&self, prompt: &str, args: &[&str]) -> Output {
        self.daemon.write("schema.json", SCHEMA);
        self.daemon.agentctl(["run", prompt, "--schema", "schema.json"].iter().chain(args)).await
    }
}

fn has_field(request: &Recorded) -> bool {
    let sent = request.sent();
    let schemas = [&sent["response_format"], &sent["output_config"]["format"], &sent["text"]["format"]];
    schemas.into_iter().any(|schema| !schema.is_null())
}

#[tokio::test]
async fn structured_answer_is_only_the_document_and_tools_still_work() {
    let world = World::start().await;
    world.write("project/a.txt", "one\ntwo\n");
    world.model.respond_with(|request| match tool_texts(request).contains("two") {
        true => Reply::text(format!("I counted:\n```json\n{GOOD}\n```")),
        false => Reply::tool_call("read_file", json!({"path": "/project/a.txt"})),
    });
    let output = world.in_form("How many?", &["-C", "project"]).await.exits(0);
    assert_eq!(output.stdout, format!("{GOOD}\n"));
    let requests = world.model.requests();
    assert!(requests.iter().all(|request| request.body["tools"].is_array()), "a request has no tools");
    has_all(&requests[0].body["messages"].to_string(), &["matches the JSON Schema below", "additionalProperties"]);

    let result = world.in_form("And again?", &["--output", "json", "-C", "project"]).await.exits(0).json();
    holds(&result, json!({"text": GOOD, "stop_reason": "completed"}));
    let lines = world.in_form("Once more?", &["--output", "stream-json", "-C", "project"]).await.exits(0).json_lines();
    assert_eq!(lines.last().unwrap()["text"], GOOD);
}

#[tokio::test]
async fn invalid_answer_is_retried_once_then_exits_with_7() {
    let world = World::start().await;
    world.model.reply(Reply::text("Seven files."));
    world.model.reply(Reply::text(GOOD));
    let output = world.in_form("How many?", &[]).await.exits(0).says(&["does not match the schema", "asking again"]);
    assert_eq!(output.stdout, format!("{GOOD}\n"));
    let requests = world.model.requests();
    has_all(&requests[1].body["messages"].to_string(), &["does not match the JSON Schema", "not a JSON document"]);
    // The server can enforce the schema if there are no tools to call.
    assert!(has_field(&requests[1]), "{:#}", requests[1].body);

    world.model.reply(Reply::text("Seven files."));
    world.model.reply(Reply::text(r#"{"count": "seven"}"#));
    let output = world.in_form("How many?", &[]).await.exits(7);
    assert_eq!(output.stdout, "", "standard output is empty on failure");
    output.says(&["the answer does not match the schema", "/count", "unit", "hint:"]);
    world.model.reply(Reply::text("Seven files."));
    world.model.reply(Reply::text("Seven."));
    let result = world.in_form("How many?", &["--output", "json"]).await.exits(7).json();
    assert_eq!((&result["stop_reason"], &result["error"]["kind"]), (&json!("wrong_form"), &json!("protocol")));
    assert!(result["error"]["message"].as_str().unwrap().contains("not a JSON document"), "{result:#}");
    world.still_serves().await;
}

#[tokio::test]
async fn invalid_schema_is_refused_before_any_request() {
    let world = World::start().await;
    let refused = async |content: Option<&[u8]>, parts: &[&str]| {
        let path = "bad.json";
        match content {
            Some(content) => drop(world.write(path, content)),
            None => drop(fs::remove_file(world.path().join(path))),
        }
        let output = world.agentctl(["run", "Hi", "--schema", path]).await.exits(2);
        assert_eq!(output.stdout, "");
        output.says(&[parts, &["hint:"]].concat());
    };
    refused(None, &["bad.json", "could not read the schema"]).await;
    refused(Some(b""), &["not valid JSON"]).await;
    refused(Some(b"{\"type\": "), &["not valid JSON"]).await;
    refused(Some(b"[]"), &["not a JSON object"]).await;
    refused(Some(b"\xff\xfe{}"), &["not UTF-8"]).await;
    refused(Some(br#"{"type": "objekt"}"#), &["invalid JSON Schema", "/type"]).await;
    refused(Some(br#"{"$ref": "https://example.com/a.json"}"#), &["https://example.com/a.json", "not fetched"]).await;
    refused(Some(format!(r#"{{"title": "{}"}}"#, "x".repeat(65_536)).as_bytes()), &["65536"]).await;
    world.agentctl(["run", "Hi", "--schema", "."]).await.exits(2).says(&["is a folder", "hint:"]);
    assert!(world.model.requests().is_empty());
    assert_eq!(world.json(["sessions", "list"]).await, json!([]), "a session was created");
}

#[tokio::test]
async fn schema_is_enforced_after_a_restart_at_a_question() {
    let mut world = World::start().await;
    world.model.respond_with(|request| {
        let all = request.body["messages"].to_string();
        match (request.last_role(), all.contains("does not match the JSON Schema")) {
            ("user", false) if !all.contains("was here") => {
                Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "it was here"}))
            }
            (_, false) => Reply::text("Seven."),
            (_, true) => Reply::text(GOOD),
        }
    });
    world.write("schema.json", SCHEMA);
    let args = ["run", "Write it, then count", "--schema", "schema.json", "--on-interrupt", "wait", "--detach"];
    let session = world.ok(args).await.stdout.trim().to_owned();
    let question = world.first_question().await;
    world.daemon.crash().await;
    world.ok(["answer", question["id"].as_str().unwrap(), "approve"]).await;
    let ended = async || {
        let shown = world.json(["sessions", "show", &session]).await;
        (shown["status"] == "idle").then_some(shown)
    };
    until("the turn has ended", ended).await;
    let last = world.model.requests().pop().unwrap();
    assert!(has_field(&last) && last.body["messages"].to_string().contains("does not match"), "{:#}", last.body);
    let next: Value = world.ok(["run", "Hi", "--session", &session, "--output", "json"]).await.json();
    assert_eq!(next["stop_reason"], "completed");
}
