//! Turns that start before a server's tools are known.

use super::{
    offered::{of_servers, offering},
    *,
};

/// Starts a daemon with these servers, whose turns wait up to `wait` for unknown tools.
async fn world_with_wait(wait: &str, servers: Value) -> World {
    World::prepared(|home| {
        drop(home.write(
            "config/mcp_servers.yaml",
            json!({"global": {"listing_wait": wait}, "servers": servers}).to_string(),
        ))
    })
    .await
}

/// Returns a fake server that lists its tools once the file `go` exists in the home.
fn delayed_server() -> Value {
    json!({"command": "python3", "args": [fake(), "waits"], "grants": "*", "start_timeout": "1h"})
}

impl World {
    fn run(&self, args: &[&str]) -> Running {
        self.daemon.spawn_agentctl(["run", "Go"].iter().chain(args))
    }

    /// Waits until `count` turns are running.
    async fn wait_until_running(&self, count: usize) {
        until("both sessions are running", || async {
            let sessions = self.json(["sessions", "list"]).await;
            let running = sessions.as_array()?.iter().filter(|session| session["status"] == "running");
            (running.count() == count).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn first_turn_uses_new_servers_and_names_late_ones() {
    let (model, home) = TempHome::with_server().await;
    let servers = json!({"fast": offering(1), "slow": delayed_server(), "broken": fake_server("dies_listing")});
    home.write("config/mcp_servers.yaml", json!({"servers": servers}).to_string());
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    let steps = [
        Reply::tool_call("mcp_fast_weather", json!({"city": "Bern"})),
        Reply::tool_call("find_tool", json!({"query": "slow"})),
    ];
    let done = |request: &agentd_testkit::model_server::Recorded| tool_texts(request).matches("acted: ").count();
    world.model.respond_with(move |request| {
        let step = done(request) + usize::from(tool_texts(request).contains("E_UNKNOWN_TOOL"));
        steps.get(step).cloned().unwrap_or_else(|| Reply::text("over"))
    });
    let output = world.ok(["run", "Go", "--on-interrupt", "approve"]).await;
    let requests = world.model.requests();
    // The configuration names some tools of the broken server. They can be called, which starts the server.
    assert_eq!(of_servers(&requests[0]), ["mcp_broken_act", "mcp_fast_thing_00", "mcp_fast_weather"]);
    let result = tool_texts(requests.last().unwrap());
    assert!(result.contains("acted: Bern"), "{result}");
    assert!(result.contains("already shown; the tools of broken, slow are not known yet"), "{result}");
    has_all(requests[0].messages()[0]["content"].as_str().unwrap(), &["\n- slow (its tools are not known yet)"]);
    let notices = output.stderr;
    assert!(notices.contains("the MCP server slow offers no tools: it did not list its tools within 5 s"), "{notices}");
    assert!(notices.contains("the MCP server broken offers no tools:"), "{notices}");
    assert!(notices.contains("exit code 3") && notices.contains("something broke"), "{notices}");
    assert!(!notices.contains("MCP server fast"), "{notices}");
    let listed = fs::read_dir(world.data().join("mcp/catalogues")).unwrap();
    let modes: Vec<u32> = listed.map(|file| file.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect();
    assert_eq!(modes, [0o600], "the cached tool list is private");
    world.assert_all_exit().await;
}

/// A failure in one folder does not affect another folder: the next session does not wait a minute for the retry.
#[tokio::test]
async fn server_failed_without_a_project_is_retried_with_one() {
    let mut server = offering(0);
    server["cwd"] = json!("${PROJECT:-/nowhere}");
    let world = world_with_wait("5s", json!({"here": server})).await;
    world.model.respond_with(|_| Reply::text("over"));
    world.ok(["run", "Go"]).await.says(&["the MCP server here offers no tools: "]);
    let project = world.write("project/notes.txt", "x").parent().unwrap().display().to_string();
    let output = world.ok(["run", "Go", "-C", &project]).await;
    assert!(!output.stderr.contains("offers no tools"), "{}", output.stderr);
    assert_eq!(of_servers(world.model.requests().last().unwrap()), ["mcp_here_weather"]);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn tools_of_a_late_server_appear_in_later_steps() {
    let mut quiet = delayed_server();
    quiet["always_available"] = json!(false);
    let world = world_with_wait("0s", json!({"quiet": quiet, "late": delayed_server()})).await;
    world.model.respond_with(|request| match tool_texts(request) {
        result if result.contains("acted: ") => Reply::text("over"),
        result if result.is_empty() => Reply::tool_call("ask_human", json!({"question": "Go on?"})),
        _ => Reply::tool_call("mcp_quiet_act", json!({"text": "Bern"})),
    });
    let running = world.spawn_agentctl(["run", "Go @quiet @late", "--on-interrupt", "wait"]);
    let id = world.asked().await["id"].as_str().unwrap().to_owned();
    world.write("go", "");
    world.wait_for_tools(&["quiet", "late"]).await;
    world.ok(["answer", &id, "yes"]).await;
    running.output(Vec::new()).await.exits(0).says(&["the MCP server late offers no tools: it has not listed its \
                                                      tools yet"]);
    let requests = world.model.requests();
    let later = of_servers(&requests[1]);
    assert_eq!((of_servers(&requests[0]), later.len()), (Vec::new(), 2), "{later:?}");
    assert!(["mcp_late_act", "mcp_quiet_act"].iter().all(|tool| later.iter().any(|shown| shown == tool)), "{later:?}");
    assert!(tool_texts(requests.last().unwrap()).contains("acted: Bern"), "{requests:#?}");
    // Tools mentioned in the input stay available in the session.
    world.model.respond_with(|_| Reply::text("over"));
    let session = world.last_session().await;
    world.ok(["run", "And?", "--session", &session]).await;
    assert_eq!(of_servers(world.model.requests().last().unwrap()), later);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn only_affected_turns_wait_for_servers_and_cancel_ends_it() {
    // The limit is too long for any turn to reach.
    let mut world = world_with_wait("1h", json!({"late": delayed_server(), "broken": fake_server("broken")})).await;
    world.model.respond_with(|_| Reply::text("over"));
    // A turn that may not use any server tool does not wait.
    world.run(&["--tools", "read_file"]).output(Vec::new()).await.exits(0);
    let running = world.run(&[]);
    world.wait_until_running(1).await;
    let before = world.model.requests().len();
    running.signal(Signal::SIGINT);
    let output = running.output(Vec::new()).await;
    assert_eq!((output.code, world.model.requests().len()), (Some(130), before), "{}", output.stderr);
    // A turn that reaches its time limit asks the model for a final answer.
    world.run(&["--timeout", "1"]).output(Vec::new()).await.exits(6);
    // Two concurrent turns wait for one server.
    world.model_calls("mcp_late_act", json!({"text": "now"}));
    let (only, any) = (world.run(&["--tools", "mcp_late_act"]), world.run(&[]));
    world.wait_until_running(2).await;
    world.write("go", "");
    let (only, any) = (only.output(Vec::new()).await.exits(0), any.output(Vec::new()).await.exits(0));
    assert!(!only.stderr.contains("MCP server"), "{}", only.stderr);
    assert!(any.stderr.contains("the MCP server broken offers no tools:"), "{}", any.stderr);
    assert!(!any.stderr.contains("MCP server late"), "{}", any.stderr);
    assert_eq!(world.read("acted"), "now\nnow\n");
    // Turns do not wait for servers whose tools are known, even after a restart.
    fs::remove_file(world.path().join("go")).unwrap();
    world.daemon.restart().await;
    world.model.respond_with(|_| Reply::text("over"));
    world.run(&["--tools", "mcp_late_act"]).output(Vec::new()).await.exits(0);
    assert_eq!(of_servers(world.model.requests().last().unwrap()), ["mcp_late_act"]);
    world.assert_all_exit().await;
}
