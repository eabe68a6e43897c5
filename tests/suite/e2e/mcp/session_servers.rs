//! Servers that a client configures for one session: they are exclusive to the session, and removed with it.

use agentd_core::interrupt::REFUSAL_PREFIX;
use agentd_proto::{
    client::{McpServerState, McpServerView},
    v1::{ServerProgram, ServerUrl, SessionServer, SetSessionServersRequest, session_server::Address},
};

use crate::e2e::Events as _;

use super::{http::Server, *};

/// Returns the configuration of a fake server with this behaviour.
fn fake_server(name: &str, mode: &str) -> SessionServer {
    program(name, "python3", &[fake().to_str().unwrap(), mode], &[])
}

fn program(name: &str, command: &str, args: &[&str], env: &[(&str, &str)]) -> SessionServer {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let program = ServerProgram { command: command.to_owned(), args, env, cwd: String::new() };
    SessionServer { name: name.to_owned(), address: Some(Address::Program(program)) }
}

/// A session with the client that configures its servers.
struct Session {
    client: Client,
    id: String,
}

impl Session {
    async fn new(world: &World) -> Self {
        let client = world.client().await;
        let id = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
        Self { client, id }
    }

    /// Creates a session with a working server. Returns it with the name of the server's tool.
    async fn with_tool(world: &World) -> (Self, String) {
        let session = Self::new(world).await;
        session.configure_and_wait(&[fake_server("fake", "ok")]).await;
        let tool = session.tool().await;
        (session, tool)
    }

    fn servers_request(&self, servers: &[SessionServer]) -> SetSessionServersRequest {
        SetSessionServersRequest { session: self.id.clone(), servers: servers.to_vec(), ..Default::default() }
    }

    async fn configure(&self, servers: &[SessionServer]) {
        self.client.set_session_servers(self.servers_request(servers)).await.unwrap();
    }

    /// Configures servers, and waits until each has listed its tools or failed.
    async fn configure_and_wait(&self, servers: &[SessionServer]) -> Vec<McpServerView> {
        self.configure(servers).await;
        until("all servers have started", async || {
            let servers = self.client.session_servers(&self.id).await.unwrap();
            servers.iter().all(is_known).then_some(servers)
        })
        .await
    }

    /// Returns the name of the only server's tool, as models call it.
    async fn tool(&self) -> String {
        until("the server has listed its tools", async || {
            self.client.session_servers(&self.id).await.unwrap()[0].tools.first().cloned()
        })
        .await
    }

    /// Runs a turn in which the model calls this tool once. Returns the result.
    async fn call(&self, world: &World, tool: &str, on_interrupt: OnInterrupt) -> String {
        world.script_reply(Reply::tool_call(tool, json!({"text": "now"})));
        let mut request = turn(SessionChoice::Existing(self.id.clone()), "Go");
        request.start.on_interrupt = on_interrupt;
        let events = self.client.turn(request).await.unwrap().to_the_end().await;
        results(&events).pop().unwrap_or_default()
    }
}

/// Returns true if a server has listed its tools, or has failed to.
fn is_known(server: &McpServerView) -> bool {
    !server.tools.is_empty() || server.state == McpServerState::Down
}

/// Returns the tool results in a list of events.
fn results(events: &[Event]) -> Vec<String> {
    let result = |event: &Event| match &event.kind {
        EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::ToolResult(result) => Some(result.text.clone()),
            _ => None,
        },
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

fn offers(request: &Recorded, tool: &str) -> bool {
    request.body["tools"].to_string().contains(&format!("\"{tool}\""))
}

#[tokio::test]
async fn each_session_has_its_own_server_process() {
    let world = World::start().await;
    let (one, other) = (Session::new(&world).await, Session::new(&world).await);
    let configured = one.configure_and_wait(&[fake_server("fake", "ok")]).await;
    assert_eq!(configured[0].state, McpServerState::Running, "{configured:?}");
    assert!(
        configured[0].tools[0].starts_with("mcp_fake-") && configured[0].tools[0].ends_with("_act"),
        "{configured:?}"
    );
    other.configure_and_wait(&[fake_server("fake", "ok")]).await;
    let tool = one.tool().await;
    assert_eq!(tool, other.tool().await, "both sessions see the same tool");
    let results = [
        one.call(&world, &tool, OnInterrupt::Approve).await,
        other.call(&world, &tool, OnInterrupt::Approve).await,
        one.call(&world, &tool, OnInterrupt::Approve).await,
    ];
    assert!(results.iter().all(|result| result.contains("acted: now")), "{results:#?}");
    assert!(results[0] == results[2] && results[0] != results[1], "each session has its own process: {results:#?}");

    let third = Session::new(&world).await;
    let result = third.call(&world, &tool, OnInterrupt::Approve).await;
    assert!(result.contains("is gone") && !result.contains("acted"), "{result}");
    assert!(!offers(&world.model.requests().pop().unwrap(), &tool));
    world.ok(["mcp", "list"]).await.says(&["no MCP servers"]);
    assert_eq!(world.daemon.sigterm().await, Some(0));
    until_true("no process is left", || world.processes().is_empty()).await;
}

#[tokio::test]
async fn session_server_tools_ask_despite_a_grant_of_that_name() {
    let world = World::start().await;
    let (session, tool) = Session::with_tool(&world).await;
    let result = session.call(&world, &tool, OnInterrupt::Deny).await;
    assert!(result.starts_with(REFUSAL_PREFIX), "{result}");
    assert_eq!(world.read("acted"), "");
    // A grant for a configured server with the same name does not apply to the session's server.
    world.agentctl(["grants", "add", "mcp_fake_*"]).await;
    session.call(&world, &tool, OnInterrupt::Deny).await;
    assert_eq!(world.read("acted"), "");
}

#[tokio::test]
async fn broken_servers_are_reported_and_the_others_work() {
    let world = World::start().await;
    let session = Session::new(&world).await;
    let nowhere = SessionServer {
        name: "nowhere".to_owned(),
        address: Some(Address::Url(ServerUrl { url: "http://127.0.0.1:9/".to_owned(), ..ServerUrl::default() })),
    };
    session
        .configure(&[
            fake_server("broken", "broken"),
            fake_server("silent", "silent"),
            fake_server("babbles", "babbles"),
            program("missing", "/nonexistent/server", &[], &[]),
            program("nonsense", " ", &[], &[]),
            nowhere,
            fake_server("fake", "ok"),
        ])
        .await;
    let configured = until("all but two servers have started or failed", async || {
        let servers = session.client.session_servers(&session.id).await.unwrap();
        let may_start = |name: &str| ["silent", "babbles"].iter().any(|slow| name.starts_with(slow));
        servers.iter().all(|server| is_known(server) || may_start(&server.name)).then_some(servers)
    })
    .await;
    let named = |name: &str| configured.iter().find(|server| server.name.starts_with(name)).unwrap();
    let check = |name: &str, state: McpServerState, text: &str| {
        let server = named(name);
        assert!(server.state == state && server.reason.contains(text), "{server:#?}");
    };
    check("broken", McpServerState::Down, "exit code 3");
    check("silent", McpServerState::Starting, "");
    assert_ne!(named("babbles").state, McpServerState::Running);
    check("missing", McpServerState::Down, "not found");
    check("nonsense", McpServerState::Down, "no command");
    check("nowhere", McpServerState::Down, "could not connect");
    has_all(&session.call(&world, &named("fake").tools[0], OnInterrupt::Approve).await, &["acted: now"]);

    let too_many = session.servers_request(&vec![fake_server("fake", "ok"); 17]);
    let refused = session.client.set_session_servers(too_many).await.unwrap_err();
    assert!(refused.to_string().contains("17 MCP servers"), "{refused}");
    assert_eq!(session.client.session_servers(&session.id).await.unwrap().len(), 7, "the servers are unchanged");
    world.still_serves().await;
}

#[tokio::test]
async fn secrets_of_servers_are_not_stored_or_shown() {
    let world = World::start().await;
    let session = Session::new(&world).await;
    let secret = "s3cret-of-the-client";
    let path = fake();
    let http = Server::start("ok").await;
    let headers = [("X-Key".to_owned(), format!("{secret}-header"))].into();
    let address = Address::Url(ServerUrl { url: http.url.clone(), headers, sse: false });
    let configured = session
        .configure_and_wait(&[
            program("talks", "python3", &[path.to_str().unwrap(), "talks"], &[("KEY", secret)]),
            SessionServer { name: "web".to_owned(), address: Some(address) },
        ])
        .await;
    assert!(configured[0].reason.contains("the key is [redacted]"), "{configured:#?}");
    assert!(http.read("asked").lines().all(|key| key == format!("{secret}-header")), "{}", http.read("asked"));
    has_all(&session.call(&world, &configured[1].tools[0], OnInterrupt::Approve).await, &["acted at last"]);
    assert_eq!(world.daemon.sigterm().await, Some(0));
    let shown = format!("{configured:?}{}", world.log());
    assert!(!shown.contains(secret), "{shown}");
    let found = Command::new("grep").args(["-rlaF", secret]).arg(world.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the secret is on disk");
}

#[tokio::test]
async fn server_gets_the_clients_variables_and_little_else() {
    let world = World::start().await;
    let session = Session::new(&world).await;
    let path = fake();
    let server = program("env", "python3", &[path.to_str().unwrap(), "environment"], &[("GIVEN", "${HOME} literally")]);
    let folder = world.path().join("here");
    fs::create_dir(&folder).unwrap();
    let environment = [("PWD", folder.to_str().unwrap()), ("TZ", "Mars/Base"), ("LD_PRELOAD", "evil.so")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let request = SetSessionServersRequest { environment, ..session.servers_request(&[server]) };
    session.client.set_session_servers(request).await.unwrap();
    let result = session.call(&world, &session.tool().await, OnInterrupt::Approve).await;
    assert!(result.contains(r#""GIVEN": "${HOME} literally""#) && result.contains("Mars/Base"), "{result}");
    assert!(result.contains(r#""HOME""#) && !result.contains("evil.so") && !result.contains("MODEL_BASIC"), "{result}");
}

#[tokio::test]
async fn server_stops_with_its_session() {
    let world = World::start().await;
    let session = Session::new(&world).await;
    session.configure_and_wait(&[fake_server("fake", "stubborn")]).await;
    has_all(&session.call(&world, &session.tool().await, OnInterrupt::Approve).await, &["acted: now"]);
    assert!(!world.server_processes().is_empty());
    session.client.delete_session(&session.id).await.unwrap();
    until_true("no server process is left", || world.server_processes().is_empty()).await;
    let request = session.servers_request(&[fake_server("fake", "ok")]);
    assert!(session.client.set_session_servers(request).await.is_err(), "the session is deleted");
    world.still_serves().await;
}

#[tokio::test]
async fn replaced_servers_stop_and_the_others_keep_running() {
    let world = World::start().await;
    let session = Session::new(&world).await;
    session.configure_and_wait(&[fake_server("fake", "ok"), fake_server("stays", "ok")]).await;
    let tools: Vec<String> =
        session.client.session_servers(&session.id).await.unwrap().iter().map(|view| view.tools[0].clone()).collect();
    let mut results = Vec::new();
    for tool in &tools {
        results.push(session.call(&world, tool, OnInterrupt::Approve).await);
    }
    session.configure_and_wait(&[fake_server("stays", "ok")]).await;
    has_all(
        &session.call(&world, &tools[0], OnInterrupt::Approve).await,
        &["is gone", "the client removed the server"],
    );
    assert_eq!(session.call(&world, &tools[1], OnInterrupt::Approve).await, results[1], "the server was restarted");
    session.configure(&[]).await;
    until_true("no server process is left", || world.server_processes().is_empty()).await;
}

#[tokio::test]
async fn approved_call_after_restart_fails_if_its_server_is_missing() {
    let mut world = World::start().await;
    let (session, tool) = Session::with_tool(&world).await;
    world.script_reply(Reply::tool_call(&tool, json!({"text": "now"})));
    // Both cases are tested: the client configures its servers again before the answer, or does not.
    for is_configured_again in [false, true] {
        let mut stream = session.client.turn(turn(SessionChoice::Existing(session.id.clone()), "Go")).await.unwrap();
        let asked = stream.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
        let Some(EventKind::InterruptRaised { interrupt }) = asked.last().map(|event| &event.kind) else { panic!() };
        world.daemon.kill9().await;
        until_true("no process is left", || world.processes().is_empty()).await;
        world.daemon.restart().await;
        let reconnected = Session { client: world.client().await, id: session.id.clone() };
        assert_eq!(reconnected.client.session_servers(&session.id).await.unwrap(), []);
        if is_configured_again {
            reconnected.configure_and_wait(&[fake_server("fake", "ok")]).await;
            assert_eq!(reconnected.tool().await, tool, "the tool name is unchanged");
        }
        let mut events = reconnected.client.subscribe(&session.id, asked.last().unwrap().seq, false).await.unwrap();
        reconnected.client.answer(interrupt.id, &Answer::Approve, "a test").await.unwrap();
        let result = results(&events.to_the_end().await).pop().unwrap();
        assert_eq!(result.contains("agentd restarted"), !is_configured_again, "{result}");
        assert_eq!(result.contains("acted: now"), is_configured_again, "{result}");
        if !is_configured_again {
            reconnected.configure_and_wait(&[fake_server("fake", "ok")]).await;
        }
    }
}

#[tokio::test]
async fn subagents_use_the_servers_of_the_parent_session() {
    let world = World::start().await;
    let (session, tool) = Session::with_tool(&world).await;
    world.delegates(json!({"task": "Do it"}), Reply::tool_call(&tool, json!({"text": "of the child"})));
    let mut request = turn(SessionChoice::Existing(session.id.clone()), "Go");
    request.start.on_interrupt = OnInterrupt::Approve;
    session.client.turn(request).await.unwrap().to_the_end().await;
    assert_eq!(world.read("acted"), "of the child\n");
    let child = world.model.requests().into_iter().rfind(is_subagent).unwrap();
    assert!(tool_texts(&child).contains("acted: of the child") && offers(&child, &tool));
}
