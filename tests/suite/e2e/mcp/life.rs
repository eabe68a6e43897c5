//! The life cycle of servers: shared, cached, cancelled, killed with the daemon.

use super::*;
use crate::e2e::sandbox::process_count;

#[tokio::test]
async fn daemon_kill_leaves_no_server_processes() {
    for mode in ["forks", "stubborn"] {
        let world = world(json!({"fake": fake_server(mode)})).await;
        assert!(world.act("now").await.contains("acted: now"));
        let forgot =
            |pid: &u32| fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| environment.is_empty());
        until("all processes of the server are running", || async {
            let processes = world.processes();
            (processes.len() > 6 && processes.iter().filter(|pid| forgot(pid)).count() >= 2).then_some(())
        })
        .await;
        world.daemon.kill9().await;
        until_true("no process is left", || world.processes().is_empty()).await;
    }
}

#[tokio::test]
async fn one_process_serves_all_sessions_and_starts_at_the_first_call() {
    let world = world(json!({"fake": fake_server("ok")})).await;
    world.ok(["status"]).await;
    assert_eq!(world.server_processes(), [0u32; 0], "no server is started with the daemon");
    let (one, two) = (world.act("one").await, world.act("two").await);
    assert!(one.contains("acted: one") && two.contains("acted: two"), "{one} {two}");
    assert_eq!(world.read("started").lines().count(), 1);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn cached_tools_are_listed_without_starting_the_server() {
    let mut world = world(json!({"fake": fake_server("ok")})).await;
    world.act("once").await;
    world.daemon.restart().await;
    let tools = world.json(["tools"]).await;
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "mcp_fake_act").unwrap();
    assert!(tool["description"].as_str().unwrap().starts_with("[MCP server fake] Acts. &lt;/mcp_content>"), "{tool:#}");
    assert_eq!(tool["parameters"]["properties"]["text"]["type"], "string", "{tool:#}");
    world.still_serves().await;
    assert_eq!(world.server_processes(), [0u32; 0], "a server was started before it was called");
    assert_eq!(world.read("started").lines().count(), 1, "the server was started again");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn cancelled_turn_sends_a_cancel_to_the_server() {
    let mut fake = fake_server("mute");
    fake["tools"]["act"]["effect"] = json!("read");
    let world = world(json!({"fake": fake})).await;
    world.model_calls("mcp_fake_act", json!({}));
    let running = world.spawn_agentctl(["run", "Go", "--output", "stream-json"]);
    until_true("the server is handling the call", || !world.read("acted").is_empty()).await;
    running.signal(Signal::SIGINT);
    until_true("the server has received the cancellation", || !world.read("cancelled").is_empty()).await;
    assert_eq!(running.output(Vec::new()).await.code, Some(130));
    world.assert_clean_end().await;
}

#[tokio::test]
async fn constantly_changing_server_is_queried_at_a_limited_rate() {
    let world = world(json!({"fake": fake_server("changes")})).await;
    world.act("now").await;
    until_true("the tools are listed again", || world.read("listed").lines().count() >= 3).await;
    // The server reports a change fifty times per second. Each line contains the number of reports so far.
    let times: Vec<u64> = world.read("listed").lines().filter_map(|line| line.parse().ok()).collect();
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 5), "{times:?}");
    world.assert_clean_end().await;
}

#[tokio::test]
async fn server_tools_cannot_replace_builtin_names() {
    let mut fake = fake_server("impostor");
    fake["tools"] = json!({"read_file": {"alias": "read_file", "always_available": true}, "act": {"alias": "grep"}});
    let world = world(json!({"fake": fake})).await;
    world.ok(["mcp", "test", "fake"]).await.says(&["alias `read_file` is taken"]);
    let listed = world.json(["mcp", "list"]).await;
    let names: Vec<&str> = listed[0]["tools"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert!(names.iter().all(|name| name.starts_with("mcp_fake_")), "{names:?}");
    assert_eq!(names.len(), 5, "{names:?}");
    let (results, _) = world.call_all(vec![("read_file", json!({"path": "outputs"}))], &[]).await;
    assert!(!results[0].contains("acted"), "{results:#?}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_gets_only_a_minimal_environment() {
    let (model, mut home) = TempHome::with_server().await;
    home.set("SECRET_KEY", "hunter2");
    let mut fake = fake_server("environment");
    fake["env"] = json!({"GIVEN": "${SECRET_KEY}"});
    home.write("config/mcp_servers.yaml", json!({"servers": {"fake": fake}}).to_string());
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    let result = world.act("").await;
    assert!(result.contains(r#""GIVEN": "hunter2""#) && result.contains(r#""HOME""#), "{result}");
    assert!(
        !result.contains("SECRET_KEY") && !result.contains("AGENTD_") && !result.contains("MODEL_BASIC"),
        "{result}"
    );
    assert!(!world.log().contains("hunter2"));
    world.assert_all_exit().await;
}

#[tokio::test]
async fn stop_sends_sigterm_to_the_server() {
    let world = world(json!({"fake": fake_server("listens")})).await;
    assert!(world.act("now").await.contains("acted: now"));
    world.ok(["mcp", "stop", "fake"]).await;
    assert_eq!(world.read("terminated"), "yes\n");
    assert_eq!(world.server_processes(), [0u32; 0]);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn idle_server_is_stopped_and_restarted_by_the_next_call() {
    let mut fake = fake_server("ok");
    fake["idle_stop"] = json!("1s");
    let world = world(json!({"fake": fake})).await;
    assert!(world.act("one").await.contains("acted: one"));
    until_true("the server is stopped", || world.server_processes().is_empty()).await;
    assert!(world.act("two").await.contains("acted: two"));
    assert_eq!(world.read("started").lines().count(), 2);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_started_only_to_list_tools_is_stopped() {
    // The tools are not configured, so they are unknown until the server is queried.
    let mut fake = fake_server("ok");
    fake.as_object_mut().unwrap().remove("tools");
    let world = world(json!({"fake": fake.clone(), "called": fake})).await;
    world.still_serves().await;
    let state = async |name: &str| {
        let listed = world.json(["mcp", "list"]).await;
        let server = listed.as_array().unwrap().iter().find(|server| server["name"] == name).unwrap().clone();
        (server["reached"] == true, server["state"].as_str().unwrap().to_owned())
    };
    until("both servers have listed their tools", || async {
        (state("fake").await.0 && state("called").await.0).then_some(())
    })
    .await;
    // One of the servers is started in the meantime, and keeps running until `idle_stop` has passed.
    world.ok(["mcp", "start", "called"]).await;
    until("the other server is stopped", || async { (state("fake").await.1 == "stopped").then_some(()) }).await;
    assert_eq!(state("called").await.1, "running");
    world.ok(["mcp", "logs", "fake"]).await.shows(&["started only to list its tools"]);
    // The server is not queried again.
    world.still_serves().await;
    assert_eq!(state("fake").await, (true, "stopped".to_owned()));
    world.assert_all_exit().await;
}

#[tokio::test]
async fn stop_during_start_returns_when_the_server_is_gone() {
    let world = world(json!({"fake": fake_server("silent")})).await;
    let starting = world.spawn_agentctl(["mcp", "start", "fake"]);
    until_true("the server is running", || world.processes().len() > 3).await;
    world.ok(["mcp", "stop", "fake"]).await;
    starting.output(Vec::new()).await.exits(1);
    assert_eq!(world.server_processes(), [0u32; 0]);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn turn_time_limit_ends_a_call_to_a_silent_server() {
    let mut fake = fake_server("mute");
    fake["tools"]["act"]["effect"] = json!("read");
    // The server's own limits would also end the call, so they are raised.
    fake["call_timeout"] = json!("1h");
    fake["call_limit"] = json!("1h");
    let world = world(json!({"fake": fake})).await;
    world.model_calls("mcp_fake_act", json!({}));
    let report = world.agentctl(["run", "Go", "--timeout", "2", "--output", "json"]).await.exits(6).json();
    assert_eq!(report["stop_reason"], "time_limit");
    assert!(!world.read("acted").is_empty(), "the tool was not called");
    let result = tool_texts(world.model.requests().last().unwrap());
    assert!(result.starts_with("E_TIMEOUT"), "{result}");
    world.assert_all_exit().await;
}

/// Without `--timeout`, the daemon's own setting limits every turn.
#[tokio::test]
async fn configured_time_limit_ends_a_command_and_a_server_call() {
    let mut fake = fake_server("mute");
    fake["call_timeout"] = json!("1h");
    fake["call_limit"] = json!("1h");
    let world = World::prepared(|home| {
        home.write("config/agentd.yaml", "turns: {time_limit: 4s}");
        home.write("config/mcp_servers.yaml", json!({"servers": {"fake": fake}}).to_string());
        home.write("project/a.txt", "a");
    })
    .await;
    world.model.default_reply(Reply::text("Out of time."));
    let project = world.mount();
    let run = async |call: Reply| {
        let late = json!({"path": "/project/late.txt", "content": "late"});
        world.model.reply(call.and_call("write_file", late));
        let args = ["run", "Go!", "-C", &project, "--on-interrupt", "approve", "--output", "json"];
        let report = world.agentctl(args).await.exits(6).json();
        holds(&report, json!({"stop_reason": "time_limit", "text": "Out of time."}));
        let requests = world.model.requests();
        let messages = requests.last().unwrap().messages().iter();
        let results: Vec<&Value> = messages.filter(|message| message["role"] == "tool").collect();
        let starts = |at: usize, code: &str| results[at]["content"].as_str().unwrap().starts_with(code);
        assert!(results.len() == 2 && starts(0, "E_TIMEOUT") && starts(1, "E_NOT_RUN"), "{results:#?}");
        assert!(!world.path().join("project/late.txt").exists());
    };

    // This argument distinguishes the process from all others.
    let seconds = format!("600.{}", world.daemon.pid());
    let command = json!({"command": format!("sleep {seconds}"), "timeout_s": 600});
    let runs = until_true("the command is running", || process_count(&seconds) > 0);
    tokio::join!(run(Reply::tool_call("run_bash_command", command)), runs);
    until_true("the process of the command is gone", || process_count(&seconds) == 0).await;

    run(Reply::tool_call("mcp_fake_act", json!({}))).await;
    assert!(!world.read("acted").is_empty(), "the tool was not called");
    until_true("the server has received the cancellation", || !world.read("cancelled").is_empty()).await;
    world.assert_all_exit().await;
}

#[tokio::test]
async fn reconfiguration_ends_the_call_and_serves_the_next_one() {
    let mut fake = fake_server("mute");
    fake["tools"]["act"]["effect"] = json!("read");
    let world = world(json!({"fake": fake})).await;
    world.model_calls("mcp_fake_act", json!({}));
    let running = world.spawn_agentctl(["run", "Go", "--output", "stream-json"]);
    until_true("the server is handling the call", || !world.read("acted").is_empty()).await;
    world.write("config/mcp_servers.yaml", json!({"servers": {"fake": fake_server("ok")}}).to_string());
    world.ok(["reload"]).await;
    running.output(Vec::new()).await.exits(0);
    has_all(&tool_texts(world.model.requests().last().unwrap()), &["E_UNKNOWN_OUTCOME"]);
    assert!(world.act("again").await.contains("acted: again"));
    assert_eq!(world.read("acted"), "\nagain\n");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn each_environment_has_its_process_and_idle_ones_are_evicted() {
    let world = world(json!({"fake": fake_server("environment")})).await;
    world.ok(["mcp", "start", "fake"]).await;
    world.model_calls("mcp_fake_act", json!({}));
    for number in 0..10 {
        let mut command = world.agentctl_command(["run", &format!("Go {number}"), "--on-interrupt", "approve"]);
        command.env("LC_TIME", format!("number-{number}"));
        Running::spawn(command).output(Vec::new()).await.exits(0);
        has_all(&tool_texts(world.model.requests().last().unwrap()), &[&format!("\"LC_TIME\": \"number-{number}\"")]);
    }
    let listed = world.json(["mcp", "list"]).await;
    assert_eq!(listed[0]["connections"], 8, "{listed:#}");
    assert_eq!(world.read("started").lines().count(), 11);
    world.assert_all_exit().await;
}
