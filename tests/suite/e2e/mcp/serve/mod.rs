//! The daemon as an MCP server: `agentctl mcp serve`, and agents that use it.
//!
//! - [`asking`]: turns that need an answer, and who may give it. [`ending`]: calls that are cancelled, callers that
//!   disconnect, daemons that die. [`looking`]: documents and sessions. [`reach`]: visibility of sessions. This module:
//!   turns that end, and invalid requests.

mod asking;
mod ending;
mod looking;
mod reach;

use std::sync::Mutex;

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient, ServiceExt as _,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
        ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, Implementation, ProgressNotificationParam,
        ProtocolVersion, ServerResult,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService},
    transport::TokioChildProcess,
};

use super::*;

/// Messages other than responses that an agent received.
#[derive(Debug, Clone, Default)]
struct ReceivedMessages {
    progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
    questions: Arc<Mutex<Vec<String>>>,
}

/// An agent that uses the server.
#[derive(Debug, Clone, Default)]
struct Agent {
    heard: ReceivedMessages,
    /// The user's response to every form. If `None`, the agent does not support forms.
    person: Option<(ElicitationAction, Value)>,
}

impl ClientHandler for Agent {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.person {
            Some(_) => ClientCapabilities::builder().enable_elicitation().build(),
            None => ClientCapabilities::default(),
        };
        ClientConfig::new(capabilities, Implementation::new("tester\u{1b}[2J", "1"))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("no form", None));
        };
        self.heard.questions.lock().unwrap().push(message);
        let (action, content) = self.person.clone().unwrap();
        Ok(ElicitResult::new(action).with_content(content))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard.progress.lock().unwrap().push(progress);
    }
}

/// A server and an agent that uses it.
struct Caller {
    heard: ReceivedMessages,
    service: RunningService<RoleClient, Agent>,
}

impl Caller {
    async fn start(world: &World, args: &[&str]) -> Self {
        Self::with(world, args, Agent::default()).await
    }

    async fn with(world: &World, args: &[&str], agent: Agent) -> Self {
        Self::of(world, args, agent, ClientLifecycleMode::Initialize).await
    }

    /// Starts a server and an agent that uses the protocol's newer era.
    async fn newer(world: &World, args: &[&str], agent: Agent) -> Self {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        Self::of(world, args, agent, ClientLifecycleMode::Discover { preferred_versions }).await
    }

    async fn of(world: &World, args: &[&str], agent: Agent, era: ClientLifecycleMode) -> Self {
        let command = world.agentctl_command(["mcp", "serve"].iter().chain(args));
        let transport = TokioChildProcess::new(tokio::process::Command::from(command)).unwrap();
        let heard = agent.heard.clone();
        Self { heard, service: agent.serve_with_lifecycle(transport, era).await.unwrap() }
    }

    async fn begin(&self, tool: &'static str, arguments: Value) -> RequestHandle<RoleClient> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        self.service.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap()
    }

    /// Calls a tool. If the result asks the user, repeats the call with the answer.
    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        self.service.call_tool(params).await.unwrap()
    }

    /// Makes a call that must succeed, and returns its result.
    async fn gives(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{result:#?}");
        result.structured_content.unwrap()
    }

    /// Makes a call that must fail, and returns its error.
    async fn fails(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:#?}");
        result.content.iter().filter_map(|content| content.as_text()).map(|text| text.text.as_str()).collect()
    }
}

async fn result(handle: RequestHandle<RoleClient>) -> CallToolResult {
    match handle.await_response().await.unwrap() {
        ServerResult::CallToolResult(result) => result,
        other => panic!("expected a tool result: {other:?}"),
    }
}

/// Returns the metadata of a request in the newer era.
fn newer_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    })
}

/// A server that tests access directly, line by line.
struct Raw {
    running: Running,
}

impl Raw {
    async fn start(world: &World) -> Self {
        Self::with(world, &[]).await
    }

    async fn with(world: &World, args: &[&str]) -> Self {
        let mut raw = Self::silent(world, args);
        let client = json!({"name": "raw", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let greeting = raw.request(0, "initialize", params).await;
        assert_eq!(greeting["result"]["serverInfo"]["name"], "agentd", "{greeting:#}");
        raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
        raw
    }

    /// Starts a server without initialising it.
    fn silent(world: &World, args: &[&str]) -> Self {
        Self { running: Running::spawn(world.agentctl_command(["mcp", "serve"].iter().chain(args))) }
    }

    async fn send(&mut self, line: &str) {
        self.running.write(&format!("{line}\n")).await;
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    }

    /// Sends a request and returns its response. All other messages received must also be valid.
    async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.ask(id, method, params).await;
        loop {
            let line = self.running.json_line().await.unwrap();
            assert_eq!(line["jsonrpc"], "2.0", "{line:#}");
            if line["id"] == id {
                return line;
            }
        }
    }
}

#[tokio::test]
async fn caller_can_continue_its_session() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    world.model.reply(Reply::text("Blue\u{1b}[2J."));
    let first = caller.gives("ask", json!({"prompt": "Which colour has the sky?", "model": "base"})).await;
    holds(&first, json!({"status": "ended", "stop_reason": "completed"}));
    holds(&first, json!({"text": "Blue.", "interrupts": []}));

    world.model.reply(Reply::text("At night."));
    let second = caller.gives("ask", json!({"prompt": "And when not?", "session_id": first["session_id"]})).await;
    assert_eq!((&second["text"], &second["session_id"]), (&json!("At night."), &first["session_id"]), "{second:#}");
    has_all(&world.model.requests().last().unwrap().body.to_string(), &["Which colour has the sky?"]);

    let listed = caller.gives("list_sessions", json!({})).await;
    let session = &listed["sessions"][0];
    assert_eq!((&session["session_id"], &session["turns"]), (&first["session_id"], &json!(2)), "{listed:#}");
    // The caller's name is in the journal, without terminal escapes.
    let audit = world.read("data/audit.jsonl");
    assert!(!audit.contains("\\u001b"), "{audit}");
}

#[tokio::test]
async fn newer_protocol_callers_are_served() {
    let world = World::start().await;
    let caller = Caller::newer(&world, &[], Agent::default()).await;
    let info = caller.service.peer().peer_info().unwrap();
    assert_eq!(info.server_info.as_ref().unwrap().name, "agentd");
    assert!(info.instructions.as_ref().unwrap().contains("call `answer`"), "{info:#?}");
    assert_eq!(caller.service.list_all_tools().await.unwrap().len(), 4);
    world.model.reply(Reply::text("Blue."));
    let first = caller.gives("ask", json!({"prompt": "Which colour has the sky?"})).await;
    holds(&first, json!({"status": "ended", "text": "Blue."}));
    let listed = caller.gives("list_sessions", json!({})).await;
    assert_eq!(listed["sessions"][0]["session_id"], first["session_id"], "{listed:#}");
    let mut raw = Raw::silent(&world, &[]);
    let nothing = raw.request(1, "tools/list", json!({})).await;
    assert_eq!(nothing["error"]["code"], -32602, "{nothing:#}");
    let tools = raw.request(2, "tools/list", json!({"_meta": newer_meta()})).await;
    assert_eq!(tools["result"]["resultType"], "complete", "{tools:#}");
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 4, "{tools:#}");
}

#[tokio::test]
async fn progress_is_sent_to_callers_with_a_token() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    let deltas = (0..12).map(|number| format!("word{number} "));
    world.model.reply(Reply::deltas(deltas).delay_ms(60));
    let handle = caller.begin("ask", json!({"prompt": "Speak slowly"})).await;
    let token = handle.progress_token.clone();
    let content = result(handle).await.structured_content.unwrap();
    assert!(content["text"].as_str().unwrap().contains("word11"), "{content:#}");
    let progress = caller.heard.progress.lock().unwrap().clone();
    assert!(progress.iter().all(|progress| progress.progress_token == token), "{progress:#?}");
    assert!(progress.windows(2).all(|pair| pair[0].progress < pair[1].progress), "{progress:#?}");
    let is_reported =
        |text: &str| progress.iter().any(|progress| progress.message.as_deref().unwrap_or("").contains(text));
    assert!(is_reported("the turn starts") && is_reported("word0"), "{progress:#?}");
}

#[tokio::test]
async fn two_calls_run_concurrently() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    world.model.reply(Reply::never().when("never")).reply(Reply::text("quick").when("quickly"));
    let slow = caller.begin("ask", json!({"prompt": "Answer never"})).await;
    world.model.wait_until(|counts| counts.requests == 1).await;
    let quick = caller.gives("ask", json!({"prompt": "Answer quickly"})).await;
    assert_eq!(quick["text"], "quick");
    slow.cancel(None).await.unwrap();
    world.model.wait_until(|counts| counts.dropped == 1).await;
}

#[tokio::test]
async fn invalid_calls_are_refused_without_a_model_request() {
    let world = World::start().await;
    let caller = Caller::start(&world, &[]).await;
    for (tool, arguments, said) in [
        ("ask", json!({}), "missing prompt"),
        ("ask", json!({"prompt": "  "}), "missing prompt"),
        ("ask", json!({"prompt": ["x"]}), "expected a string"),
        ("ask", json!({"prompt": "x", "promt": "y"}), "unknown field `promt`"),
        ("ask", json!({"prompt": "x", "on_interrupt": "approve"}), "unknown variant `approve`"),
        ("ask", json!({"prompt": "x", "session_id": "ffff"}), "no session of this caller"),
        ("ask", json!({"prompt": "x", "session_id": " "}), "the session_id is empty"),
        ("ask", json!({"prompt": "x", "folder": "/"}), "started without a folder"),
        ("ask", json!({"prompt": "x".repeat(9 << 20)}), "the limit of a turn is 8 MiB"),
        ("answer", json!({"interrupt_id": "ffff", "decision": "approve"}), "no pending interrupt"),
        ("answer", json!({"interrupt_id": unused_id(), "decision": "wait"}), "no pending interrupt"),
        ("search_documents", json!({"session_id": "ffff", "query": "x"}), "no session of this caller"),
        ("list_sessions", json!({"limit": "many"}), "invalid type"),
    ] {
        let error = caller.fails(tool, arguments).await;
        assert!(error.contains(said), "{tool}: {said:?} is missing in {error:?}");
    }
    assert_eq!(world.model.counts().requests, 0);
    world.model.reply(Reply::text("still here"));
    assert_eq!(caller.gives("ask", json!({"prompt": "Are you there?"})).await["text"], "still here");
}

/// Returns an ID that refers to nothing.
fn unused_id() -> String {
    agentd_core::ids::InterruptId::generate().to_string()
}

#[tokio::test]
async fn invalid_lines_are_skipped() {
    let world = World::start().await;
    let mut raw = Raw::start(&world).await;
    for line in ["garbage", "{\"jsonrpc\": \"2.0\"", "[1, 2]", "\u{0}\u{1}", "{}"] {
        raw.send(line).await;
    }
    let unknown = raw.request(1, "tools/call", json!({"name": "delete\u{1b}", "arguments": {}})).await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("unknown tool"), "{unknown:#}");
    let nothing = raw.request(2, "nothing/of/it", json!({})).await;
    assert_eq!(nothing["error"]["code"], -32601, "{nothing:#}");
    world.model.reply(Reply::text("still here"));
    let asked = raw.request(3, "tools/call", json!({"name": "ask", "arguments": {"prompt": "x"}})).await;
    assert_eq!(asked["result"]["structuredContent"]["text"], "still here", "{asked:#}");
    let text = asked["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), asked["result"]["structuredContent"]);
    raw.running.end_input();
    raw.running.output(Vec::new()).await.exits(0);
}

#[tokio::test]
async fn the_daemon_starts_with_the_first_call_that_needs_it() {
    let model = agentd_testkit::model_server::ModelServer::start().await;
    let home = agentd_testkit::daemon::TempHome::with_model(&model.base_url());
    let command = home.agentctl_command(["mcp", "serve"]);
    let agent = Agent::default();
    let service = agent.clone().serve(TokioChildProcess::new(tokio::process::Command::from(command)).unwrap()).await;
    let caller = Caller { heard: agent.heard, service: service.unwrap() };
    let tools = caller.service.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 4);
    assert!(!home.socket().exists());
    model.reply(Reply::text("Awake."));
    assert_eq!(caller.gives("ask", json!({"prompt": "Good morning"})).await["text"], "Awake.");
    assert!(home.socket().exists());
}

#[tokio::test]
async fn python_sdk_client_gets_results_that_match_their_schemas() {
    let world = World::start().await;
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "x"})));
    world.model.respond_with(|request| {
        Reply::text(if tool_texts(request).is_empty() { "no call" } else { "It was refused." })
    });
    let mut command = world.daemon.command("python3");
    command
        .arg(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/sdk_client.py"))
        .arg(agentd_testkit::daemon::program("agentctl"))
        .env("PYTHONPATH", installed("python"));
    let mut running = Running::spawn(command);
    running.end_input();
    let report = running.output(Vec::new()).await.exits(0).json();
    assert_eq!(report["tools"], json!(["ask", "answer", "search_documents", "list_sessions"]));
    assert_eq!(report["waiting"]["interrupts"][0]["tool"], "write_file", "{report:#}");
    assert_eq!(report["rejected"]["text"], "It was refused.", "{report:#}");
    assert_eq!(report["rejected"]["denials"][0]["tool"], "write_file", "{report:#}");
    assert_eq!(report["sessions"], 1);
}
