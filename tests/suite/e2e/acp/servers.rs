//! MCP servers that an editor configures for its session.

use super::*;

fn fake(name: &str, mode: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/fake_server.py");
    json!({"name": name, "command": "python3", "args": [path, mode], "env": [{"name": "KEY", "value": "s3cret-key"}]})
}

impl Editor {
    /// Creates a session with these servers.
    async fn session_with(&mut self, world: &World, servers: &[Value]) -> String {
        let folder = world.path().join("shop");
        fs::create_dir_all(&folder).unwrap();
        let new = self.gives("session/new", json!({"cwd": folder, "mcpServers": servers})).await;
        new["sessionId"].as_str().unwrap().to_owned()
    }
}

/// Returns the name of the tool of the session's only working server.
async fn tool(world: &World, session: &str) -> String {
    let client = world.client().await;
    until("the server has a tool", async || {
        let servers = client.session_servers(session).await.unwrap();
        servers.iter().find_map(|server| server.tools.first().cloned())
    })
    .await
}

/// Makes the model call a tool once in each turn.
fn calls(world: &World, tool: String) {
    world.script_reply(Reply::tool_call(&tool, json!({"text": "now"})));
}

#[tokio::test]
async fn editor_server_is_used_and_stops_with_the_session() {
    let world = World::start().await;
    let mut editor = Editor::with(&world, json!({"session": {"notices": {}}})).await;
    let broken = json!({"type": "http", "name": "web", "url": "http://127.0.0.1:9/mcp", "headers": []});
    let session = editor.session_with(&world, &[fake("talks", "talks"), broken, fake("tools", "ok")]).await;
    for name in ["talks", "web"] {
        let notice = editor.update("notice").await["title"].as_str().unwrap().to_owned();
        assert!(notice.contains(&format!("{name} of the editor is not available")), "{notice}");
        assert!(!notice.contains("s3cret"), "{notice}");
    }
    calls(&world, tool(&world, &session).await);
    let id = editor.begin_prompt(&session, "Go").await;
    let asked = editor.answer_approval("approve").await;
    assert!(asked["toolCall"].to_string().contains("act"), "{asked:#}");
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(last_result(&world).contains("acted: now"), "{}", last_result(&world));
    let server: u32 = world.read("started").lines().last().unwrap().parse().unwrap();
    assert!(world.processes().contains(&server));
    assert!(editor.updates_of("notice").is_empty(), "no notice about a working server");

    editor.gives("session/close", json!({"sessionId": session})).await;
    until_true("the server has exited", || !world.processes().contains(&server)).await;
    assert_eq!(world.client().await.session_servers(&session).await.unwrap(), []);
    assert!(!world.log().contains("s3cret"), "{}", world.log());
}

#[tokio::test]
async fn broken_server_is_reported_in_the_first_turn_without_notices() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let session = editor.session_with(&world, &[fake("tools", "broken")]).await;
    world.model.reply(Reply::text("Hello."));
    editor.prompt(&session, "Hi").await;
    let answer = editor.words("agent_message_chunk");
    assert!(answer.contains("tools of the editor is not available") && answer.ends_with("Hello."), "{answer}");
}

#[tokio::test]
async fn session_servers_are_restored_after_a_daemon_kill() {
    let mut world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let session = editor.session_with(&world, &[fake("tools", "ok")]).await;
    calls(&world, tool(&world, &session).await);
    // The daemon is killed between prompts, and while an approval is pending.
    world.daemon.crash().await;
    let id = editor.begin_prompt(&session, "Go").await;
    let (question, _) = editor.question("session/request_permission").await;
    world.daemon.crash().await;
    let client = world.client().await;
    until("the servers are started again", || async {
        let servers = client.session_servers(&session).await.unwrap();
        servers.iter().any(|server| !server.tools.is_empty()).then_some(())
    })
    .await;
    editor.reply(question, json!({"outcome": {"outcome": "selected", "optionId": "approve"}})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    assert!(last_result(&world).contains("acted: now"), "{}", last_result(&world));
}

#[tokio::test]
async fn loading_replaces_session_servers_unless_the_list_is_empty() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let session = editor.session_with(&world, &[fake("first", "ok")]).await;
    let mut other = Editor::start(&world).await;
    let params =
        |servers: &[Value]| json!({"sessionId": session, "cwd": world.path().join("shop"), "mcpServers": servers});
    other.gives("session/resume", params(&[])).await;
    assert!(tool(&world, &session).await.starts_with("mcp_first-"));
    other.gives("session/load", params(&[fake("second", "ok")])).await;
    assert!(tool(&world, &session).await.starts_with("mcp_second-"));
    // Closing a session ends its servers.
    editor.gives("session/close", json!({"sessionId": session})).await;
    assert!(tool(&world, &session).await.starts_with("mcp_second-"));
    other.gives("session/delete", json!({"sessionId": session})).await;
    assert!(world.client().await.session_servers(&session).await.is_err());
}
