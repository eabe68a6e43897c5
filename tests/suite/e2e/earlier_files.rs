//! Configuration files from an earlier system: they load unchanged, and the names in them are translated.

use super::*;

const SERVER: &str = include_str!("fixtures/earlier/server.py");
const DOTENV: &str = include_str!("fixtures/earlier/dotenv");
const FILES: [(&str, &str); 6] = [
    ("models.yaml", include_str!("fixtures/earlier/models.yaml")),
    ("tools.yaml", include_str!("fixtures/earlier/tools.yaml")),
    ("skills.yaml", include_str!("fixtures/earlier/skills.yaml")),
    ("agents.yaml", include_str!("fixtures/earlier/agents.yaml")),
    ("mcp_servers.yaml", include_str!("fixtures/earlier/mcp_servers.yaml")),
    ("hitl_rules.yaml", include_str!("fixtures/earlier/hitl_rules.yaml")),
];

/// Creates a home with the files, and with programs under the names that the files start.
fn home(model: &ModelServer) -> TempHome {
    let mut home = TempHome::new();
    for (name, text) in FILES {
        home.write(&format!("config/{name}"), text);
    }
    let dotenv = home.write("config/.env", DOTENV.replace("{base_url}", &model.base_url()));
    fs::set_permissions(dotenv, std::fs::Permissions::from_mode(0o600)).unwrap();
    home.write(
        "config/tests/mcp_servers/test_stdio_server.py",
        SERVER.replace("sys.argv[1:]", r#"["echo", "add", "get_time"]"#),
    );
    let server = home.write("server.py", SERVER);
    let npx = format!(
        "#!/bin/sh\ncase \"$2\" in *github) set create_issue search_repositories ;; *) set read_file write_file \
         list_directory ;; esac\nexec python3 {} \"$@\"\n",
        server.display()
    );
    let npx = home.write("bin/npx", npx);
    fs::set_permissions(npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let python = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|path| path.exists()).unwrap();
    symlink(python, home.path().join("bin/python")).unwrap();
    let path = format!("{}:{path}", home.path().join("bin").display());
    home.set("PATH", path);
    home
}

fn offered_tools(request: &Recorded) -> Vec<String> {
    let tools = request.body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_config_files_load_unchanged_and_run_a_turn() {
    let model = ModelServer::start().await;
    let home = home(&model);
    let mut check = home.command(program("agentd"));
    check.arg("--check-config");
    let checked = Running::spawn(check).output(Vec::new()).await.exits(0);
    assert!(checked.stdout.contains("the configuration is valid") && checked.stderr.is_empty(), "{}", checked.stderr);
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    world.model.reply(Reply::text("Ready."));
    world.ok(["run", "Begin"]).await;
    until("the servers have listed their tools", || async {
        let listed = world.json(["mcp", "list"]).await;
        listed.as_array().unwrap().iter().all(|server| server["reached"] == true).then_some(())
    })
    .await;

    let calls = vec![
        ("fs_read", json!({"path": "a"})),
        ("mcp_echo", json!({"message": "Hello"})),
        ("gh_search_repos", json!({"query": "x"})),
        ("list_dir", json!({})),
        ("run_cmd", json!({"command": "rm -rf uploads"})),
        ("run_cmd", json!({"command": "echo two"})),
        ("write_file", json!({"path": "outputs/a.txt", "content": "DROP TABLE x"})),
    ];
    let before = world.model.requests().len();
    let (results, _) = world.call_all(calls, &["--on-interrupt", "approve"]).await;
    // The tool has not been mentioned, and its name is no longer an alias of a built-in tool.
    assert!(results[0].contains("E_UNKNOWN_TOOL: fs_read exists"), "{results:#?}");
    assert!(
        results[1].contains("echo {\"message\": \"Hello\"}") && results[2].contains("with its key"),
        "{results:#?}"
    );
    assert!(!results[3].contains("E_UNKNOWN_TOOL") && results[4].contains("E_UNKNOWN_TOOL"), "{results:#?}");
    let first = world.model.requests()[before].clone();
    let names = offered_tools(&first);
    for name in [
        "read_url",
        "mcp_echo",
        "mcp_add",
        "mcp_list_dir",
        "gh_create_issue",
        "transfer_to_simple",
        "transfer_to_general",
    ] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    for name in ["run_bash_command", "http_fetch", "fs_read", "web_search", "fetch_web", "extract_links"] {
        assert!(!names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    let read_url = first.body["tools"].as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "read_url");
    assert_eq!(read_url.unwrap()["function"]["description"], "Fetch a page and clean it");
    assert_eq!(first.body["model"], "deepseek-chat");
    assert_eq!(first.headers["authorization"], "Bearer sk-earlier-7d1f");

    // Mentioned tools can be called by the names in the files, and the rules for these names apply to the built-in
    // tools.
    let steps: Vec<(&str, Value)> = vec![
        ("fs_read", json!({"path": "a"})),
        ("run_bash_command", json!({"command": "rm -rf uploads"})),
        ("run_cmd", json!({"command": "echo two"})),
    ];
    world.model.respond_with(move |request| {
        let done = request
            .messages()
            .iter()
            .rev()
            .take_while(|message| message["role"] != "user")
            .filter(|message| message["role"] == "tool")
            .count();
        steps
            .get(done)
            .map_or_else(|| Reply::text("over"), |(tool, arguments)| Reply::tool_call(*tool, arguments.clone()))
    });
    world.agentctl(["run", "@run_bash_command @mcp_echo @fs_read", "--on-interrupt", "approve"]).await;
    let last = world.model.requests().last().unwrap().clone();
    assert!(["fs_read", "run_bash_command"].iter().all(|name| offered_tools(&last).contains(&(*name).to_owned())));
    let results: Vec<&str> = last
        .messages()
        .iter()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert!(results[0].contains("read_file {\"path\": \"a\"}"), "{results:#?}");
    assert!(results[1].contains("E_DENIED") && results[2].contains("two"), "{results:#?}");

    // Entries without an equivalent are reported once, and no key is in any log.
    let log = world.log();
    assert_eq!(log.matches("tools.yaml: unknown tool `extract_links`").count(), 1, "{log}");
    let shown = world.ok(["config", "show", "--all"]).await.stdout;
    has_none(&(log + &shown), &["sk-earlier-7d1f", "ghp_earlier_9c2e"]);
}

#[tokio::test]
async fn environment_overrides_the_env_file() {
    let (model, mut home) = TempHome::with_server().await;
    home.write(
        "config/.env",
        "MODEL_BASIC_BASE_URL=http://127.0.0.1:9/v1\nMODEL_BASIC_API_KEY=sk-of-the-file\nMODEL_BASIC_ID=file\n",
    );
    home.set("MODEL_BASIC_ID", "environment");
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    world.still_serves().await;
    let request = world.model.requests()[0].clone();
    assert_eq!(request.body["model"], "environment");
    assert_eq!(request.key(), "sk-of-the-file");
    // Other users can read the file, which is logged. The file is reloaded with the other files.
    assert!(world.log().contains("other users can read it"), "{}", world.log());
    world.write("config/.env", "MODEL_BASIC_API_KEY=sk-of-later\n");
    world.ok(["reload"]).await;
    world.still_serves().await;
    let request = world.model.requests().last().unwrap().clone();
    assert_eq!(request.key(), "sk-of-later");
    world.write("config/.env", "A=1\nsk-of-nobody\n");
    world.agentctl(["reload"]).await.exits(2).says(&[".env:2", "not a variable"]);
    assert!(!world.log().contains("sk-of"), "{}", world.log());
}
