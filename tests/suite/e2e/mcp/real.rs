//! MCP servers by other authors.

use super::*;

pub(super) fn node(server: &str, args: &[&str]) -> Value {
    let script = installed(&format!("node_modules/@modelcontextprotocol/{server}/dist/index.js"));
    let mut all = vec![script.display().to_string()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    json!({"command": installed("bin/node"), "args": all})
}

fn python(module: &str, args: &[&str]) -> Value {
    let args: Vec<&str> = ["-m", module].iter().chain(args).copied().collect();
    json!({"command": "python3", "args": args, "env": {"PYTHONPATH": installed("python")}})
}

/// Approves these calls, and returns their results.
async fn tool_results(world: &World, calls: Vec<(&'static str, Value)>) -> Vec<String> {
    world.call_all(calls, &["--on-interrupt", "approve"]).await.0
}

/// Configures the server so that these tools are always offered.
pub(super) fn always_offered(mut server: Value, tools: &[&str]) -> Value {
    let shown: serde_json::Map<String, Value> =
        tools.iter().map(|tool| ((*tool).to_owned(), json!({"always_available": true}))).collect();
    server["tools"] = shown.into();
    server
}

#[tokio::test]
async fn server_everything_returns_text_pictures_and_progress() {
    let tools = ["echo", "get-sum", "get-tiny-image", "trigger-long-running-operation", "get-structured-content"];
    let world = world(json!({"everything": always_offered(node("server-everything", &["stdio"]), &tools)})).await;
    let tested = world.json(["mcp", "test", "everything"]).await;
    let names = tested["tools"].to_string();
    has_all(&names, &["mcp_everything_echo", "mcp_everything_read_resource", "mcp_everything_get_prompt"]);
    let calls = vec![
        ("mcp_everything_echo", json!({"message": "hello there"})),
        ("mcp_everything_get-sum", json!({"a": 2, "b": 40})),
        ("mcp_everything_get-sum", json!({"a": "two"})),
        ("mcp_everything_get-tiny-image", json!({})),
        ("mcp_everything_trigger-long-running-operation", json!({"duration": 1, "steps": 4})),
        ("mcp_everything_get-structured-content", json!({"location": "New York"})),
    ];
    let results = tool_results(&world, calls).await;
    assert!(
        results[0].contains("<mcp_content from=\"everything/echo\">\nEcho: hello there\n</mcp_content>"),
        "{results:#?}"
    );
    assert!(results[1].contains("42"), "{results:#?}");
    assert!(results[2].contains("E_"), "{results:#?}");
    assert!(results[3].contains(".png"), "{results:#?}");
    assert!(results[4].contains("completed"), "{results:#?}");
    assert!(results[5].contains("temperature"), "{results:#?}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn resource_from_a_template_can_be_read() {
    let tools = ["list_resources", "read_resource"];
    let world = world(json!({"everything": always_offered(node("server-everything", &["stdio"]), &tools)})).await;
    world.ok(["mcp", "test", "everything"]).await;
    let calls = vec![
        ("mcp_everything_list_resources", json!({})),
        ("mcp_everything_read_resource", json!({"uri": "demo://resource/dynamic/text/7"})),
        ("mcp_everything_read_resource", json!({"uri": "demo://resource/nowhere/7"})),
    ];
    let results = tool_results(&world, calls).await;
    let Some((resources, templates)) = results[0].split_once("with values for the braces") else {
        panic!("{results:#?}")
    };
    assert!(resources.contains("demo://resource/static/"), "{results:#?}");
    assert!(templates.contains("- demo://resource/dynamic/text/{resourceId} ("), "{results:#?}");
    assert!(results[1].contains("demo://resource/dynamic/text/7") && results[1].contains("Resource 7"), "{results:#?}");
    assert!(results[2].contains("E_"), "{results:#?}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn filesystem_git_and_time_servers_work() {
    let home = agentd_testkit::daemon::TempHome::new();
    let folder = home.write("papers/a.txt", "the first paper\n").parent().unwrap().to_owned();
    let git = |args: &[&str]| {
        let done = Command::new("git").arg("-C").arg(&folder).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "the beginning",
    ]);
    let folder = folder.to_str().unwrap();
    let world = world(json!({
        "files": always_offered(node("server-filesystem", &[folder]), &["read_text_file", "write_file"]),
        "git": always_offered(python("mcp_server_git", &["--repository", folder]), &["git_log"]),
        "time": always_offered(python("mcp_server_time", &[]), &["convert_time"]),
    }))
    .await;
    let calls = vec![
        ("mcp_files_read_text_file", json!({"path": format!("{folder}/a.txt")})),
        ("mcp_files_write_file", json!({"path": format!("{folder}/b.txt"), "content": "written"})),
        ("mcp_files_read_text_file", json!({"path": "/etc/passwd"})),
        ("mcp_git_git_log", json!({"repo_path": folder})),
        ("mcp_time_convert_time", json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})),
    ];
    let results = tool_results(&world, calls).await;
    assert!(results[0].contains("the first paper"), "{results:#?}");
    assert_eq!(home.read("papers/b.txt"), "written");
    assert!(results[2].contains("E_TOOL") && results[2].contains("denied"), "{results:#?}");
    assert!(results[3].contains("the beginning"), "{results:#?}");
    assert!(results[4].contains("21:00"), "{results:#?}");
    world.assert_all_exit().await;
}

/// Starts the server on a local port, and returns both.
async fn listening_server(mode: &str) -> (Running, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let mut command = Command::new(installed("bin/node"));
    command.arg(script).arg(mode).env("PORT", port.to_string());
    let running = Running::spawn(command);
    until("the server is listening", || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok() }).await;
    (running, port)
}

#[tokio::test]
async fn remote_servers_work_over_http_and_sse() {
    for (behavior, path, mode) in [("streamableHttp", "mcp", "http"), ("sse", "sse", "sse")] {
        let (server, port) = listening_server(behavior).await;
        let url = format!("http://127.0.0.1:{port}/{path}");
        let far = always_offered(json!({"url": url, "connection_mode": mode}), &["echo"]);
        let world = world(json!({"far": far})).await;
        let calls = vec![("mcp_far_echo", json!({"message": "hello"})); 2];
        let results = tool_results(&world, calls).await;
        assert!(
            results.iter().all(|result| result.contains("Echo: hello")),
            "{behavior}: {results:#?}\n{}",
            world.log()
        );
        // The server stops, which is reported at the next call.
        drop(server);
        let results = tool_results(&world, vec![("mcp_far_echo", json!({"message": "hello"}))]).await;
        assert!(results[0].contains("E_"), "{behavior}: {results:#?}");
        world.assert_clean_end().await;
    }
}
