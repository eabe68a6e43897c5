//! Variables in `mcp_servers.yaml` that are only set for clients, and invalid entries. All other servers keep working.

use super::{offered::of_servers, *};

/// Runs one turn, in which the fake server is called once, from a client with these variables.
async fn act(world: &World, variables: &[(&str, &str)], args: &[&str]) -> (String, Output) {
    let call = json!({"text": "now"});
    world.model.respond_with(move |request| {
        if results_since_input(request).is_empty() {
            return Reply::tool_call("mcp_fake_act", call.clone());
        }
        Reply::text("over")
    });
    let mut command = world.agentctl_command(["run", CALL_ALL_INPUT, "--on-interrupt", "approve"].iter().chain(args));
    command.envs(variables.iter().copied());
    let output = Running::spawn(command).output(Vec::new()).await;
    let results = results_since_input(world.model.requests().last().unwrap());
    (results.concat(), output)
}

#[tokio::test]
async fn client_variables_reach_only_that_clients_server() {
    let mut fake = fake_server("environment");
    fake["env"] = json!({"KEY": "${GITHUB_TOKEN}"});
    let world = world(json!({"fake": fake})).await;

    let (result, _) = act(&world, &[], &[]).await;
    assert!(result.contains("GITHUB_TOKEN") && result.contains("The call did not run"), "{result}");
    let (result, _) = act(&world, &[("GITHUB_TOKEN", "of-the-first")], &[]).await;
    assert!(result.contains("of-the-first"), "{result}");
    let (result, _) = act(&world, &[("GITHUB_TOKEN", "of-the-second"), ("SOMETHING_SECRET", "kept")], &[]).await;
    assert!(
        result.contains("of-the-second") && !result.contains("of-the-first") && !result.contains("kept"),
        "{result}"
    );
    let listed = world.json(["mcp", "list"]).await;
    assert_eq!(listed[0]["connections"], 2, "{listed:#}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_with_a_client_variable_is_offered_if_it_is_set() {
    let mut fake = fake_server("environment");
    fake.as_object_mut().unwrap().remove("tools");
    fake["args"].as_array_mut().unwrap().push(json!("--key=${GITHUB_TOKEN}"));
    let world = world(json!({"fake": fake})).await;
    let (result, output) = act(&world, &[], &[]).await;
    assert!(result.contains("E_UNKNOWN_TOOL"), "{result}");
    let notice = "the MCP server fake offers no tools: the variable GITHUB_TOKEN, which mcp_servers.yaml names";
    assert!(output.stderr.contains(notice), "{}", output.stderr);
    let (result, output) = act(&world, &[("GITHUB_TOKEN", "of-the-client")], &[]).await;
    assert!(result.contains(r#""HOME""#) && !output.stderr.contains("MCP server"), "{result} {}", output.stderr);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn default_is_used_if_the_variable_has_no_value() {
    let mut fake = fake_server("environment");
    fake["env"] =
        json!({"KEY": "${GITHUB_TOKEN:-of-the-file}", "OTHER": "${GITHUB_TOKEN:-another}", "HERE": "${HOME:-none}"});
    let world = world(json!({"fake": fake})).await;
    let (result, _) = act(&world, &[], &[]).await;
    assert!(result.contains(r#""KEY": "of-the-file""#) && result.contains(r#""OTHER": "another""#), "{result}");
    assert!(!result.contains(r#""HERE": "none""#), "{result}");
    let (result, _) = act(&world, &[("GITHUB_TOKEN", "of-the-client")], &[]).await;
    assert!(result.contains(r#""KEY": "of-the-client""#) && result.contains(r#""OTHER": "of-the-client""#), "{result}");
    let (result, _) = act(&world, &[("GITHUB_TOKEN", "")], &[]).await;
    assert!(result.contains(r#""KEY": "of-the-file""#), "{result}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn client_variables_are_not_written_to_disk() {
    let secret = "ghp_NobodyMayReadThis0123456789";
    let mut fake = fake_server("talks");
    fake["env"] = json!({"KEY": "${GITHUB_TOKEN}"});
    let world = world(json!({"fake": fake})).await;
    let (result, _) = act(&world, &[("GITHUB_TOKEN", secret)], &[]).await;
    assert!(result.contains("the key is") && !result.contains(secret), "{result}");
    let logs = world.ok(["mcp", "logs", "fake"]).await.stdout;
    assert!(logs.contains("the key is") && !logs.contains(secret), "{logs}");
    world.assert_all_exit().await;
    let mut grep = world.daemon.command("grep");
    let found = grep.args(["-rlaF", secret, "."]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[tokio::test]
async fn invalid_server_entry_affects_no_other_server() {
    let mut fake = fake_server("environment");
    fake["env"] = json!({"COLOUR": "blue"});
    let (model, home) = TempHome::with_server().await;
    let file = format!(
        "servers:\n  fake: {fake}\n  bad: {{}}\n  worse:\n    url: ftp://x\n  xodd:\n    comand: cat\n    args: [a]\n"
    );
    home.write("config/mcp_servers.yaml", file);
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    let (result, output) = act(&world, &[], &[]).await;
    output.exits(0);
    assert!(result.contains("blue"), "{result}");
    let listed = world.json(["mcp", "list"]).await;
    holds(&listed[0], json!({"name": "bad", "state": "down"}));
    assert!(listed[0]["reason"].as_str().unwrap().contains("has no command"), "{listed:#}");
    assert!(listed[2]["reason"].as_str().unwrap().contains("must start with http"), "{listed:#}");
    has_all(listed[3]["reason"].as_str().unwrap(), &["mcp_servers.yaml:7:5", "did you mean `command`?"]);
    world.agentctl(["doctor"]).await.shows(&["warn config", "has no command"]);
    world.agentctl(["mcp", "test", "bad"]).await.says(&["has no command"]);
    // New entries are validated as strictly as before.
    world.agentctl(["mcp", "add", "third", "--url", "ftp://x"]).await.exits(2);
    world.ok(["mcp", "add", "third", "--url", "https://example.org/mcp"]).await;
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_using_the_project_is_offered_only_with_a_project() {
    let server = |env: &str| {
        let mut server = fake_server("reports_folder");
        server.as_object_mut().unwrap().remove("tools");
        (server["env"], server["grants"]) = (json!({"CLIENT": env}), json!("*"));
        server
    };
    let mut in_cwd = server("none");
    in_cwd["cwd"] = json!("${PROJECT}");
    let mut in_args = server("none");
    in_args["args"].as_array_mut().unwrap().push(json!("--root=${CLAUDE_PROJECT_DIR}"));
    let servers = json!({"cwd": in_cwd, "args": in_args, "env": server("${workspaceFolder}"), "pwd": server("${PWD}")});
    let world = world(servers).await;
    world.write("shop/x", "");
    let shop = world.path().join("shop");
    let project = shop.to_str().unwrap();
    let asks = |tool: &'static str| {
        world.model_calls(tool, json!({}));
    };
    // Without a project, only the server for the client's folder is available.
    asks("mcp_cwd_act");
    let output = world.ok(["run", "Go @env"]).await;
    for (server, reason) in [("cwd", "offers no tools"), ("args", "offers no tools"), ("env", "offers no tools")] {
        let notice = format!("the MCP server {server} {reason}: its entry in mcp_servers.yaml names the project");
        assert!(output.stderr.contains(&notice), "{notice}: {}", output.stderr);
    }
    assert!(output.stderr.contains("@env loads nothing: its entry"), "{}", output.stderr);
    let requests = world.model.requests();
    assert_eq!(of_servers(&requests[0]), ["mcp_pwd_act"]);
    assert!(tool_texts(&requests[1]).contains("E_UNKNOWN_TOOL"), "{}", tool_texts(&requests[1]));
    // With a project, all servers are available from the first turn on, and each runs in the project.
    asks("mcp_env_act");
    let output = world.ok(["run", "Go", "-C", project]).await;
    assert!(!output.stderr.contains("MCP server"), "{}", output.stderr);
    let requests = world.model.requests();
    assert_eq!(of_servers(&requests[2]), ["mcp_args_act", "mcp_cwd_act", "mcp_env_act", "mcp_pwd_act"]);
    has_all(&tool_texts(&requests[3]), &[&format!("for {project}")]);
    asks("mcp_cwd_act");
    world.ok(["run", "Go", "-C", project]).await;
    has_all(&tool_texts(world.model.requests().last().unwrap()), &[&format!("in {project} for none")]);
    // The server's tools are known by now, but remain unavailable in sessions without a project.
    world.ok(["run", "Go"]).await.says(&["the MCP server cwd offers no tools: its entry"]);
    let last = world.model.requests();
    assert_eq!(of_servers(&last[last.len() - 2]), ["mcp_pwd_act"]);
    has_all(&tool_texts(last.last().unwrap()), &["E_UNKNOWN_TOOL", "names the project"]);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn mcp_test_uses_the_current_folder_as_project() {
    let mut server = fake_server("reports_folder");
    (server["cwd"], server["env"]) = (json!("${PROJECT}"), json!({"CLIENT": "${CLAUDE_PROJECT_DIR}/x"}));
    let world = world(json!({"here": server})).await;
    world.write("shop/x", "");
    let tested = async |server: &str| {
        let mut command = world.agentctl_command(["mcp", "test", server]);
        command.current_dir(world.path().join("shop"));
        Running::spawn(command).output(Vec::new()).await
    };
    let output = tested("here")
        .await
        .exits(0)
        .shows(&["mcp_here_act", "MCP 20"])
        .says(&["only sessions with one get its tools"]);
    assert!(!output.stderr.contains("export PROJECT"), "{}", output.stderr);
    let mut broken = fake_server("broken");
    broken["cwd"] = json!("${PROJECT}/nowhere");
    world.write("config/mcp_servers.yaml", json!({"servers": {"here": broken}}).to_string());
    world.ok(["reload"]).await;
    tested("here").await.exits(1).says(&["shop/nowhere"]);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_runs_in_the_folder_of_its_session() {
    let mut server = fake_server("reports_folder");
    (server["cwd"], server["env"]) = (json!("${PROJECT}"), json!({"CLIENT": "${PWD}"}));
    let world = world(json!({"fake": server})).await;
    world.write("shop/web/x", "");
    world.write("house/x", "");
    let act_in = async |folder: &str, project: &str| {
        world.model_calls("mcp_fake_act", json!({}));
        let mut command = world.agentctl_command(["run", "Go", "-C", project, "--on-interrupt", "approve"]);
        command.current_dir(world.path().join(folder));
        Running::spawn(command).output(Vec::new()).await.exits(0);
        tool_texts(world.model.requests().last().unwrap())
    };
    let (shop, house) = (world.path().join("shop"), world.path().join("house"));
    let first = act_in("shop/web", "..").await;
    assert!(first.contains(&format!("in {} for {}/web", shop.display(), shop.display())), "{first}");
    let second = act_in("house", ".").await;
    assert!(second.contains(&format!("in {} for {}", house.display(), house.display())), "{second}");
    // Clients are not asked for these variables, and paths do not count as secrets.
    let named = world.client().await.hello().variables.clone();
    assert!(named.is_empty(), "{named:?}");
    world.assert_all_exit().await;
}
