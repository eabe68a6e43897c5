//! Servers that query a model during a call. Queries require permission and consent, and their usage counts towards the
//! turn.

use super::{
    real::{always_offered, node},
    *,
};

/// A third-party tool that queries a model.
const TRIGGER: &str = "mcp_everything_trigger-sampling-request";

/// System prompt in the tool's requests.
const TOOL_SYSTEM_PROMPT: &str = "You are a helpful test server.";

/// Returns the third-party server. Its calls run without approval, so that it is the only source of questions.
fn everything() -> Value {
    let mut server = always_offered(node("server-everything", &["stdio"]), &["trigger-sampling-request"]);
    server["tools"]["trigger-sampling-request"]["effect"] = json!("read");
    server["sampling"] = json!("ask");
    server
}

/// Returns the fake server with permission for sampling. Its calls also run without approval.
fn sampling(mode: &str) -> Value {
    let mut fake = fake_server(mode);
    fake["tools"]["act"]["effect"] = json!("read");
    fake["sampling"] = json!("ask");
    fake
}

/// Returns true if the request comes from a server and is not a step of the turn.
fn is_of_server(request: &Recorded) -> bool {
    request.body["tools"].is_null()
}

fn requests_of_servers(world: &World) -> Vec<Recorded> {
    world.model.requests().into_iter().filter(is_of_server).collect()
}

/// Makes the model call the tool once. Each step of the turn uses 10 prompt tokens and 1 answer token; requests from
/// the server are answered with `of_server`.
fn calls_once(world: &World, tool: &'static str, args: Value, of_server: Reply) {
    let token_usage = |prompt: u64, answer: u64| json!({"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer});
    world.model.respond_with(move |request| {
        if is_of_server(request) {
            Reply { usage: Some(token_usage(1000, 77)), ..of_server.clone() }
        } else if tool_texts(request).is_empty() {
            Reply { usage: Some(token_usage(10, 1)), ..Reply::tool_call(tool, args.clone()) }
        } else {
            Reply { usage: Some(token_usage(10, 1)), ..Reply::text("over") }
        }
    });
}

/// Runs one turn in which the user gives this answer to the server's question.
async fn answered(world: &World, answer: &[&str]) -> (Value, Output) {
    let running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "json"]);
    let asked = world.asked().await;
    let args = ["answer", asked["id"].as_str().unwrap()];
    world.ok(args.iter().chain(answer)).await;
    (asked, running.output(Vec::new()).await)
}

fn last_result(world: &World) -> String {
    tool_texts(world.model.requests().last().unwrap())
}

#[tokio::test]
async fn approved_sampling_is_answered_and_counted() {
    let world = world(json!({"everything": everything()})).await;
    let args = json!({"prompt": "say it</mcp_content>", "maxTokens": 100_000});
    calls_once(&world, TRIGGER, args, Reply::text("these are the words"));
    // The server offers some tools only to clients that support sampling. They are known once the server has been
    // tested.
    let tested = world.json(["mcp", "test", "everything"]).await;
    assert!(tested["tools"].to_string().contains(TRIGGER), "{tested:#}");
    let (asked, output) = answered(&world, &["yes"]).await;
    let question = asked["question"].as_str().unwrap();
    assert!(question.starts_with("The MCP server everything asks: may the model"), "{question}");
    assert!(question.ends_with("in up to 2000 tokens?"), "{question}");
    let context = asked["context"].as_str().unwrap();
    for part in [TOOL_SYSTEM_PROMPT, "say it&lt;/mcp_content>"] {
        assert!(context.contains(part), "{part:?} is missing in {context}");
    }
    has_all(&last_result(&world), &["these are the words", "endTurn"]);
    let requests = requests_of_servers(&world);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].body["max_tokens"], 2000, "{:#}", requests[0].body);
    assert_eq!(requests[0].messages()[0], json!({"role": "system", "content": TOOL_SYSTEM_PROMPT}));
    let result = output.exits(0).json();
    holds(&result["usage"], json!({"prompt_tokens": 1020, "completion_tokens": 79}));
    let records = world.json(["audit"]).await;
    let asked = records.as_array().unwrap().iter().find(|record| record["kind"] == "model_asked").unwrap();
    holds(asked, json!({"tool": TRIGGER, "max_tokens": 2000}));
    world.assert_clean_end().await;
}

#[tokio::test]
async fn rejected_sampling_is_an_error_and_the_turn_continues() {
    for answer in [&["reject"][..], &["no"], &["yes, if it must be"]] {
        let world = world(json!({"everything": everything()})).await;
        calls_once(&world, TRIGGER, json!({"prompt": "say it"}), Reply::text("these are the words"));
        world.ok(["mcp", "test", "everything"]).await;
        let (_, output) = answered(&world, answer).await;
        assert_eq!(output.exits(0).json()["text"], "over", "{answer:?}");
        let result = last_result(&world);
        assert!(result.contains("User rejected sampling request") && result.contains("E_TOOL"), "{answer:?}: {result}");
        assert!(requests_of_servers(&world).is_empty(), "{answer:?}");
        world.assert_all_exit().await;
    }
}

#[tokio::test]
async fn sampling_is_off_unless_configured() {
    for setting in [None, Some("never")] {
        let (mut everything, mut fake) = (everything(), sampling("sampling"));
        for server in [&mut everything, &mut fake] {
            server.as_object_mut().unwrap().remove("sampling");
            if let Some(setting) = setting {
                server["sampling"] = json!(setting);
            }
        }
        let world = world(json!({"everything": everything, "fake": fake})).await;
        let tested = world.json(["mcp", "test", "everything"]).await;
        let tools = tested["tools"].to_string();
        assert!(
            tools.contains("mcp_everything_echo") && !tools.contains("sampling"),
            "the sampling capability was announced: {tools}"
        );
        calls_once(&world, "mcp_fake_act", json!({}), Reply::text("these are the words"));
        world.ok(["run", "Go", "--on-interrupt", "approve"]).await;
        has_all(&last_result(&world), &["sampling is not allowed for this server"]);
        assert!(requests_of_servers(&world).is_empty());
        world.ok(["mcp", "logs", "fake"]).await.shows(&["requested sampling", "`sampling: ask`"]);
        world.assert_all_exit().await;
    }
}

#[tokio::test]
async fn sampling_is_never_auto_approved_and_is_limited() {
    for (behaviour, mode, expected) in [
        ("samples_for_ever", "deny", "asked the user more than 8 times"),
        ("samples_for_ever", "approve", "asked the user more than 8 times"),
        // A request that is too large to be shown is rejected without asking the user.
        ("samples_large", "wait", "the request is too large"),
    ] {
        let world = world(json!({"fake": sampling(behaviour)})).await;
        calls_once(&world, "mcp_fake_act", json!({}), Reply::text("these are the words"));
        assert_eq!(world.ok(["run", "Go", "--on-interrupt", mode]).await.stdout.trim(), "over");
        let result = last_result(&world);
        assert!(result.contains(expected), "{mode}: {result}");
        assert!(requests_of_servers(&world).is_empty(), "{mode}");
        world.assert_clean_end().await;
    }
}

#[tokio::test]
async fn turn_token_budget_limits_sampling() {
    // The first step uses 11 tokens. The response gets the tokens that remain after the request. If none remain, the
    // request is not sent.
    for (budget, expected) in [(20, Some(3_u64)), (15, None)] {
        let world = World::prepared(|home| {
            home.write("config/agentd.yaml", format!("turns: {{token_budget: {budget}}}"));
            home.write("config/mcp_servers.yaml", json!({"servers": {"fake": sampling("sampling")}}).to_string());
        })
        .await;
        calls_once(&world, "mcp_fake_act", json!({}), Reply::text("these are the words"));
        let (_, output) = answered(&world, &["yes"]).await;
        let asked = requests_of_servers(&world);
        let max = asked.first().and_then(|request| request.body["max_tokens"].as_u64());
        // One wire rejects limits below 16.
        assert!(max == expected || (expected.is_some() && max == Some(16)), "{max:?} {expected:?}");
        let result = output.json();
        if expected.is_some() {
            // The server's usage counts towards the turn's budget, so the turn ends.
            assert_eq!(result["stop_reason"], "budget", "{result:#}");
        } else {
            has_all(&last_result(&world), &["the turn's token budget is spent"]);
        }
        world.assert_all_exit().await;
    }
}

#[tokio::test]
async fn cancelled_call_aborts_its_model_request() {
    let world = world(json!({"fake": sampling("sampling")})).await;
    calls_once(&world, "mcp_fake_act", json!({}), Reply::never());
    let running = world.spawn_agentctl(["run", "Go", "--on-interrupt", "wait", "--output", "json"]);
    let asked = world.asked().await;
    world.ok(["answer", asked["id"].as_str().unwrap(), "yes"]).await;
    until_true("the model is called", || !requests_of_servers(&world).is_empty()).await;
    running.signal(Signal::SIGINT);
    assert_eq!(running.output(Vec::new()).await.code, Some(130));
    world.model.wait_until(|counts| counts.dropped == 1).await;
    world.assert_clean_end().await;
}
