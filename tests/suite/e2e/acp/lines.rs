//! Invalid lines, and editors that violate the protocol.

use super::*;

#[tokio::test]
async fn initialize_starts_no_daemon_and_lists_capabilities() {
    let home = TempHome::new();
    let mut editor = Editor::silent(&home);
    let greeting = editor.gives("initialize", json!({"protocolVersion": 7, "clientCapabilities": {}})).await;
    assert_eq!(greeting["protocolVersion"], 1, "the supported protocol version");
    let can = &greeting["agentCapabilities"];
    assert_eq!((&can["loadSession"], &can["promptCapabilities"]["image"]), (&json!(true), &json!(true)), "{can:#}");
    assert!(can["promptCapabilities"]["audio"] != json!(true) && can["mcpCapabilities"]["http"] == json!(true));
    for method in ["list", "resume", "close", "delete", "additionalDirectories"] {
        assert!(can["sessionCapabilities"][method].is_object(), "{can:#}");
    }
    assert!(!greeting["authMethods"].as_array().unwrap().is_empty());
    assert!(home.processes().len() <= 1, "no daemon was started");
    editor.close().await.exits(0);
}

#[tokio::test]
async fn invalid_requests_get_the_matching_error_code() {
    let (_world, mut editor, session, folder) = world_with_editor().await;
    let id = "0193a5b2-7c1d-7000-8000-000000000001";
    let params = json!({"sessionId": id, "cwd": folder, "mcpServers": []});
    let mut check = async |method: &str, params: Value, code: i64, text: &str| {
        let (received, message) = editor.fails(method, params.clone()).await;
        assert!(received == code && message.contains(text), "{method} {params}: {received} {message}");
    };
    check("session/dance", json!({}), -32601, "session/dance").await;
    check("logout", json!({}), -32601, "logout").await;
    check("session/prompt", json!({}), -32602, "sessionId").await;
    check("session/prompt", json!({"sessionId": id, "prompt": []}), -32002, "Session not found").await;
    check("session/prompt", json!({"sessionId": session, "prompt": []}), -32602, "empty").await;
    check("session/load", params.clone(), -32002, "Session not found").await;
    check("session/resume", params, -32002, "Session not found").await;
    check("session/load", json!({"sessionId": "x", "cwd": folder, "mcpServers": []}), -32002, "Session not found")
        .await;
    check("session/close", json!({"sessionId": id}), -32002, "Session not found").await;
    check("session/new", json!({"cwd": "relative", "mcpServers": []}), -32602, "absolute").await;
    check("session/new", json!({"cwd": "/nowhere", "mcpServers": []}), -32602, "/nowhere").await;
    check("session/new", json!({"mcpServers": []}), -32602, "cwd").await;
    check("session/set_mode", json!({"sessionId": session, "modeId": "fly"}), -32602, "modes").await;
    let option = json!({"sessionId": session, "configId": "colour", "value": "red"});
    check("session/set_config_option", option, -32602, "mode and model").await;
    check("session/list", json!({"cursor": "nonsense"}), -32602, "cursor").await;
    check("session/list", json!({"cwd": "relative"}), -32602, "absolute").await;
    check("authenticate", json!({"methodId": "oauth"}), -32602, "local").await;
    assert_eq!(editor.gives("authenticate", json!({"methodId": "local"})).await, json!({}));
    assert_eq!(editor.gives("session/list", json!({"cwd": "/nowhere"})).await["sessions"], json!([]));
}

#[tokio::test]
async fn unparsable_response_defers_its_question() {
    let (world, mut editor, session, _) = world_with_editor().await;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "touch /project/made"})));
    let id = editor.begin_prompt(&session, "Make it").await;
    let (question, _) = editor.question("session/request_permission").await;
    editor.running.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{question},\"result\":{{\"outcome\":\n")).await;
    // The question is deferred: it stays open, and the turn waits.
    let update = editor.update("agent_message_chunk").await;
    assert!(update["content"]["text"].as_str().unwrap().contains("still open"), "{update:#}");
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "cancelled");
}

#[tokio::test]
async fn invalid_lines_get_errors_and_reading_continues() {
    let world = World::start().await;
    let mut editor = Editor::start(&world).await;
    let mut check = async |line: &[u8], id: Value, code: i64| {
        let line = String::from_utf8_lossy(line).into_owned();
        editor.running.write(&format!("{line}\n")).await;
        let answer = editor.answer_to(id).await;
        assert_eq!(answer["error"]["code"], code, "{answer:#}");
    };
    check(b"this is no JSON", Value::Null, -32700).await;
    check(b"[]", Value::Null, -32600).await;
    check(br#"{"jsonrpc":"2.0","id":"seven","method":"session/li"#, json!("seven"), -32700).await;
    check(br#"{"jsonrpc":"2.0","id":"eight","method":8}"#, json!("eight"), -32600).await;
    let long =
        format!(r#"{{"jsonrpc":"2.0","id":"nine","method":"session/prompt","params":"{}"}}"#, "x".repeat(50 << 20));
    check(long.as_bytes(), json!("nine"), -32600).await;
    editor.send(json!({"jsonrpc": "2.0", "id": "never asked", "result": 1})).await;
    editor.notify("$/progress", json!({})).await;
    editor.notify("session/nonsense", json!({})).await;
    editor.running.write("\n\r\n").await;
    let listed = editor.gives("session/list", json!({})).await;
    assert_eq!(listed["sessions"], json!([]));
}

#[tokio::test]
async fn invalid_utf8_and_truncated_lines_get_errors() {
    let home = TempHome::new();
    let mut input = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#.to_vec();
    input.extend_from_slice(b"\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"\xff\"}\n");
    input.extend_from_slice(br#"{"jsonrpc":"2.0","id":3,"method":"session/ne"#);
    let output = home.agentctl_with(["acp"], input).await.exits(0);
    let lines = output.json_lines();
    let of = |id: u64| lines.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(of(1)["result"]["protocolVersion"], 1, "{lines:#?}");
    assert_eq!((&of(2)["error"]["code"], &of(3)["error"]["code"]), (&json!(-32700), &json!(-32700)));
    assert_eq!((lines.len(), output.stderr.as_str()), (3, ""));
}

#[tokio::test]
async fn daemon_start_failure_is_returned_as_an_error() {
    let home = TempHome::new();
    home.write("config/agentd.yaml", "no: such: yaml");
    let mut editor = Editor::silent(&home);
    editor.gives("initialize", json!({"protocolVersion": 1})).await;
    let (code, message) = editor.fails("session/new", json!({"cwd": "/tmp", "mcpServers": []})).await;
    assert!(code == -32603 && message.contains("agentd.yaml"), "{code} {message}");
}
