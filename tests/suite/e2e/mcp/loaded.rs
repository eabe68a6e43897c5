//! Tools that were loaded by a mention or a search: they remain in the session, after all other tools, and the
//! session's subagents can use them too.

use super::{
    offered::{of_servers, offering},
    *,
};

/// Starts a daemon with one server that has too many tools to offer, and one server that is configured not to be
/// offered.
async fn world_of_two() -> World {
    let mut quiet = offering(1);
    quiet["always_available"] = json!(false);
    let world = world(json!({"lab": offering(40), "quiet": quiet})).await;
    world.still_serves().await;
    world.wait_for_tools(&["lab", "quiet"]).await;
    world
}

fn tools(request: &Recorded) -> Vec<Value> {
    request.body["tools"].as_array().unwrap().clone()
}

const QUIET: [&str; 2] = ["mcp_quiet_thing_00", "mcp_quiet_weather"];

#[tokio::test(flavor = "multi_thread")]
async fn mentioned_and_found_tools_stay_loaded_in_order() {
    let mut world = world_of_two().await;
    let allow = ["--on-interrupt", "approve"];
    let first = world.run_steps(Vec::new(), &["Go", allow[0], allow[1]]).await;
    assert_eq!(of_servers(&first[0]), [""; 0]);
    let session = world.last_session().await;
    let mut last = tools(&first[0]);
    // Each turn offers the tools of the previous turn unchanged, followed by the new tools.
    let go = async |world: &World, steps: Vec<Reply>, text: &str, last: &mut Vec<Value>| -> Vec<String> {
        let requests = world.run_steps(steps, &[text, "--session", &session, allow[0], allow[1]]).await;
        for request in &requests {
            let tools = tools(request);
            assert_eq!(tools[..last.len()], last[..], "{text}");
            *last = tools;
        }
        of_servers(requests.last().unwrap())
    };
    assert_eq!(go(&world, Vec::new(), "Go @quiet", &mut last).await, QUIET);
    assert_eq!(go(&world, vec![weather_of("quiet", "Bern")], "Go", &mut last).await, QUIET);
    assert_eq!(world.read("acted"), "Bern\n", "a previously loaded tool can still be called");
    let find = Reply::tool_call("find_tool", json!({"query": "thing_07"}));
    let found = go(&world, vec![find], "Go", &mut last).await;
    assert_eq!((&found[..2], found[2].as_str()), (&QUIET.map(str::to_owned)[..], "mcp_lab_thing_07"));
    let named = go(&world, Vec::new(), "Go @mcp_lab_weather and @quiet", &mut last).await;
    assert_eq!((&named[..found.len()], named.last().unwrap().as_str()), (&found[..], "mcp_lab_weather"));

    world.daemon.crash().await;
    assert_eq!(go(&world, Vec::new(), "Go", &mut last).await, named, "after a crash");
    world.ok(["compact", &session]).await;
    assert_eq!(go(&world, Vec::new(), "Go", &mut last).await, named, "after a compaction");
    let listed = world.json(["tools", "--session", &session]).await;
    let weather = listed.as_array().unwrap().iter().find(|tool| tool["name"] == "mcp_lab_weather").unwrap();
    holds(weather, json!({"visible": true, "why": "it was mentioned or found in this session"}));

    let fork = world.json(["sessions", "fork", &session]).await;
    let fork = fork["id"].as_str().or(fork["session_id"].as_str()).unwrap_or_else(|| panic!("{fork:#}")).to_owned();
    let requests = world.run_steps(Vec::new(), &["Go", "--session", &fork]).await;
    assert_eq!(tools(&requests[0]), last, "in a fork");
    let requests = world.run_steps(Vec::new(), &["Go"]).await;
    assert_eq!(of_servers(&requests[0]), [""; 0], "in another session");
    world.ok(["sessions", "reset", &session]).await;
    let requests = world.run_steps(Vec::new(), &["Go", "--session", &session]).await;
    assert_eq!(tool_names(&requests[0]), tool_names(&first[0]), "after a reset");
    world.assert_all_exit().await;
}

fn weather_of(server: &str, city: &str) -> Reply {
    Reply::tool_call(format!("mcp_{server}_weather"), json!({ "city": city }))
}

#[tokio::test]
async fn subagent_has_the_tools_mentioned_to_its_parent() {
    let world = world_of_two().await;
    let is_child =
        |request: &Recorded| request.messages().iter().any(|message| message["content"] == "Look at the sky.");
    let long = "It is sunny. ".repeat(30);
    world.model.respond_with(move |request| {
        let result = tool_texts(request);
        match (is_child(request), result.is_empty()) {
            (true, true) => weather_of("quiet", "Thun"),
            (true, false) => Reply::text(long.as_str()),
            (false, true) => Reply::tool_call("delegate_task", json!({"task": "Look at the sky."})),
            (false, false) => Reply::text("over"),
        }
    });
    world.ok(["run", "Go @quiet", "--on-interrupt", "approve"]).await;
    let requests = world.model.requests();
    let of_child: Vec<&Recorded> = requests.iter().filter(|request| is_child(request)).collect();
    assert_eq!(of_servers(of_child[0]), QUIET);
    assert!(tool_texts(of_child[1]).contains("acted: Thun"), "{}", tool_texts(of_child[1]));
    // Subagents of the next turn also get the tool, although that turn's input mentions nothing.
    let session = world.last_session().await;
    let before = world.model.requests().len();
    world.model.respond_with(move |request| {
        if is_child(request) {
            return Reply::text("It is sunny. ".repeat(30));
        }
        let calls = tool_texts(request).matches("It is sunny").count();
        if calls < 31 {
            Reply::tool_call("delegate_task", json!({"task": "Look at the sky."}))
        } else {
            Reply::text("over")
        }
    });
    world.ok(["run", "Again", "--session", &session, "--on-interrupt", "approve"]).await;
    let requests = world.model.requests().split_off(before);
    let child = requests.iter().find(|request| is_child(request)).unwrap();
    assert_eq!(of_servers(child), QUIET);
    world.assert_all_exit().await;
}
