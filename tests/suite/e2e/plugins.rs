//! Plugins: added with consent, usable immediately, disabled if their files change, and removed completely.

use super::*;

const TAX: &str = "---\nname: tax\ndescription: Works out taxes\n---\nRun sh skills/tax/scripts/sum.sh.\n";
const COOK: &str = "---\nname: cook\ndescription: Cooks meals.\ntools: Read, Grep\n---\nYou cook.\n";

/// Creates a plugin with one part of each kind.
fn write_plugin(home: &TempHome, version: &str) -> String {
    let server = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/fake_server.py")).unwrap();
    home.write("kit/servers/fake.py", server);
    home.write("kit/plugin.json", json!({"name": "kit", "version": version, "description": "All of it"}).to_string());
    let servers = json!({"mcpServers": {"fake": {
        "type": "stdio", "command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/servers/fake.py", "plain"],
        "env": {"KIT_KEY": "${KIT_KEY:-none}"}}}});
    home.write("kit/mcp.json", servers.to_string());
    home.write("kit/skills/tax/SKILL.md", TAX);
    home.write("kit/skills/tax/scripts/sum.sh", "echo sum $(($1 + $2))\n");
    home.write("kit/agents/cook.md", COOK);
    home.write("kit/commands/ship.md", "---\ndescription: Ships it\n---\nShip $1, and see #~/private.txt.\n");
    home.write("kit/hooks/hooks.json", json!({"hooks": {"Stop": [{"command": "touch ~/hooked"}]}}).to_string());
    home.path().join("kit").display().to_string()
}

async fn plugin(world: &World, args: &[&str]) -> Output {
    world.agentctl(["plugin"].iter().chain(args)).await
}

async fn listed(world: &World) -> Vec<Value> {
    plugin(world, &["list", "--json"]).await.exits(0).json().as_array().unwrap().clone()
}

/// Returns the folders in which the daemon stores plugins.
fn copies(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.data().join("plugins")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn last_request(world: &World) -> String {
    world.model.requests().last().unwrap().body.to_string()
}

/// Waits until the fake server's tools are known.
async fn server_is_known(world: &World) {
    until("the plugin's server has listed its tools", || async {
        let servers = world.json(["mcp", "list"]).await;
        servers.as_array()?.iter().any(|server| server["name"] == "fake" && server["reached"] == true).then_some(())
    })
    .await;
}

/// Uses each part that is available to models, and checks the result.
async fn assert_parts_used(world: &World) {
    server_is_known(world).await;
    let calls = vec![
        ("read_file", json!({"path": "skills/tax/SKILL.md"})),
        ("run_bash_command", json!({"command": "sh skills/tax/scripts/sum.sh 2 3"})),
        ("mcp_fake_act", json!({"text": "now"})),
    ];
    let (results, output) = world.call_all(calls, &["--on-interrupt", "approve"]).await;
    output.exits(0);
    assert!(results[0].contains("Run sh skills/tax") && results[1].contains("sum 5"), "{results:#?}");
    assert!(results[2].contains("acted: now"), "{results:#?}");
    let request = last_request(world);
    has_all(&request, &["Works out taxes", "transfer_to_cook", "mcp_fake_act"]);
}

async fn assert_parts_unused(world: &World) {
    assert_no_part_sent(world).await;
    let servers = world.json(["mcp", "list"]).await;
    assert!(!servers.to_string().contains("fake.py"), "{servers}");
}

async fn assert_no_part_sent(world: &World) {
    world.model.respond_with(|_| Reply::text("Good."));
    world.ok(["run", "Go."]).await;
    let request = last_request(world);
    has_none(&request, &["Works out taxes", "transfer_to_cook", "mcp_fake_act"]);
}

async fn audited(world: &World) -> Vec<String> {
    let records = world.ok(["audit", "--json"]).await.stdout;
    let kinds = ["plugin_added", "plugin_removed"];
    let found = records.lines().filter_map(|line| kinds.into_iter().find(|kind| line.contains(&format!("\"{kind}\""))));
    found.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_works_at_once_after_restart_and_is_removed_completely() {
    let mut world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    // Without a terminal, the user cannot consent.
    let refused = plugin(&world, &["add", &folder]).await.exits(2);
    refused.says(&[
        "python3 ${PLUGIN_ROOT}/servers/fake.py plain",
        "$KIT_KEY",
        "skills/tax/scripts/sum.sh",
        "cook: Cooks meals. (read_file, grep)",
        "/ship",
        "hooks (not supported by agentd; never run)",
        "needs your consent",
        "--yes",
    ]);
    assert!(listed(&world).await.is_empty());
    assert_parts_unused(&world).await;

    let added = plugin(&world, &["add", &folder, "--yes"]).await.exits(0);
    added.says(&["added kit 1.0: 1 skill, 1 agent, 1 command, 1 server"]);
    assert_parts_used(&world).await;
    // The daemon uses its copy, not the original folder.
    fs::remove_dir_all(&folder).unwrap();
    world.daemon.crash().await;
    assert_parts_used(&world).await;
    let plugins = listed(&world).await;
    holds(&plugins[0], json!({"state": "installed", "source": folder}));
    assert_eq!(plugins[0]["problems"], json!([]));
    let skills = world.json(["skills", "show", "tax"]).await;
    holds(&skills, json!({"origin": "plugin", "plugin": "kit"}));

    let folder = write_plugin(&world.daemon, "1.0");
    plugin(&world, &["add", &folder]).await.exits(0).says(&["kit 1.0 is already installed, unchanged"]);
    assert_eq!(copies(&world).len(), 2, "expected one copy and the list: {:?}", copies(&world));
    plugin(&world, &["remove", "kit"]).await.exits(0).says(&["removed kit 1.0"]);
    assert_parts_unused(&world).await;
    assert_eq!(copies(&world), ["installed.json"]);
    assert!(!world.data().join("plugin_data/kit").exists());
    plugin(&world, &["remove", "kit"]).await.exits(0).says(&["no such plugin: kit"]);
    world.daemon.restart().await;
    assert_parts_unused(&world).await;
    assert_eq!(audited(&world).await, ["plugin_added", "plugin_removed"]);
    assert!(!world.path().join("hooked").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_plugin_is_not_used_until_approved() {
    let world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    plugin(&world, &["add", &folder, "--yes"]).await.exits(0);
    assert_parts_used(&world).await;
    world.ok(["mcp", "stop", "fake"]).await;
    let copy = copies(&world).into_iter().find(|name| name.starts_with("kit-")).unwrap();
    let server = world.data().join("plugins").join(copy).join("servers/fake.py");
    let text = fs::read_to_string(&server).unwrap();
    fs::write(&server, format!("{text}\n# edited\n")).unwrap();
    // The difference is detected even before `plugin list` has checked the files.
    world.agentctl(["mcp", "test", "fake"]).await.fails().says(&["differ from those that you approved"]);
    plugin(&world, &["list"]).await.exits(0).shows(&["changed, not used"]);
    assert_no_part_sent(&world).await;
    plugin(&world, &["show", "kit"]).await.exits(0).shows(&["~ servers/fake.py"]);
    plugin(&world, &["approve", "kit"]).await.exits(2).says(&["~ servers/fake.py", "needs your consent"]);
    plugin(&world, &["approve", "kit", "--yes"]).await.exits(0);
    assert_parts_used(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_version_replaces_the_plugin_and_shows_the_difference() {
    let world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    plugin(&world, &["add", &folder, "--yes"]).await.exits(0);
    world.write("kit/skills/tax/SKILL.md", TAX.replace("Works out taxes", "Works out all taxes"));
    world.write("kit/plugin.json", json!({"name": "kit", "version": "2.0"}).to_string());
    fs::remove_file(Path::new(&folder).join("commands/ship.md")).unwrap();
    let refused = plugin(&world, &["add", &folder]).await.exits(2);
    refused.says(&["replaces 1.0", "~ plugin.json", "~ skills/tax/SKILL.md", "- commands/ship.md"]);
    plugin(&world, &["add", &folder, "--yes"]).await.exits(0).says(&["added kit 2.0: 1 skill, 1 agent, 1 server"]);
    assert_eq!(copies(&world).len(), 2, "{:?}", copies(&world));
    world.model.respond_with(|_| Reply::text("Good."));
    world.ok(["run", "Go."]).await;
    assert!(last_request(&world).contains("Works out all taxes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consent_at_the_terminal_adds_the_plugins_commands() {
    let world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    let mut terminal =
        Terminal::around(&world.daemon, "\"$@\"; echo ended with $?", &["plugin", "add", folder.as_str()]);
    terminal.sees("Add kit 1.0 as shown? [y/N]");
    terminal.says_for("n", "ended with 130");
    assert!(listed(&world).await.is_empty());
    let mut terminal =
        Terminal::around(&world.daemon, "\"$@\"; echo ended with $?", &["plugin", "add", folder.as_str()]);
    terminal.sees("Add kit 1.0 as shown? [y/N]");
    terminal.says_for("y", "ended with 0");

    world.write("private.txt", "the walrus");
    world.model.default_reply(Reply::text("Shipped."));
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.hears("/help", "Ships it (a plugin's)");
    terminal.hears("/ship boats", "Shipped.");
    let input = last_request(&world);
    assert!(input.contains("This command of a plugin stands for") && input.contains("Ship boats"), "{input}");
    assert!(!input.contains("the walrus"), "only typed input attaches files: {input}");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_plugin_folders_are_refused_without_a_trace() {
    let world = World::start().await;
    let refused = async |name: &str, prepare: &dyn Fn(&Path), parts: &[&str]| {
        let folder = world.path().join(name);
        world.write(&format!("{name}/plugin.json"), json!({"name": name}).to_string());
        world.write(&format!("{name}/skills/tax/SKILL.md"), TAX);
        prepare(&folder);
        let output = plugin(&world, &["add", folder.to_str().unwrap(), "--yes"]).await;
        assert_ne!(output.code, Some(0), "{name}: {}", output.stderr);
        assert!(!output.stderr.contains('\u{1b}'), "{name}: {:?}", output.stderr);
        output.says(parts);
        assert!(copies(&world).iter().all(|copy| copy == "installed.json"), "{name}: {:?}", copies(&world));
        assert!(listed(&world).await.is_empty(), "{name}");
    };
    let outside = world.write("secret.txt", "the walrus");
    refused("link", &|folder| symlink(&outside, folder.join("skills/tax/x.txt")).unwrap(), &["leads out"]).await;
    refused("folder-link", &|folder| symlink("/etc", folder.join("skills/etc")).unwrap(), &["leads out"]).await;
    refused("climbs", &|folder| symlink("../../../etc/passwd", folder.join("x")).unwrap(), &["leads out"]).await;
    let manifest = |text: &'static str| move |folder: &Path| fs::write(folder.join("plugin.json"), text).unwrap();
    refused("path", &manifest(r#"{"name": "a", "skills": "../skills"}"#), &["leads out of the plugin"]).await;
    refused("root", &manifest(r#"{"name": "a", "agents": ["/etc"]}"#), &["leads out of the plugin"]).await;
    refused("json", &manifest("{name: a}"), &["invalid JSON"]).await;
    refused("list", &manifest("[]"), &["not a JSON object"]).await;
    refused("slash", &manifest(r#"{"name": "../../evil"}"#), &["is not a valid plugin name"]).await;
    refused("escape", &manifest("{\"name\": \"a\\u001b[31m\"}"), &["is not a valid plugin name"]).await;
    refused("number", &manifest(r#"{"name": 7}"#), &["must be a string"]).await;
    let sparse = |folder: &Path| fs::File::create(folder.join("large.bin")).unwrap().set_len(1 << 30).unwrap();
    refused("sparse", &sparse, &["the limit is 32.0 MB"]).await;
    let pipe = |folder: &Path| {
        let made = Command::new("mkfifo").arg(folder.join("skills/tax/pipe")).status().unwrap();
        assert!(made.success());
    };
    refused("pipe", &pipe, &["pipe, socket or device"]).await;
    let many = |folder: &Path| {
        fs::create_dir(folder.join("many")).unwrap();
        (0..5001).for_each(|number| fs::write(folder.join(format!("many/{number}")), "").unwrap());
    };
    refused("many", &many, &["more than 5000 files"]).await;
    let empty = |folder: &Path| fs::remove_dir_all(folder.join("skills")).unwrap();
    refused("empty", &empty, &["no usable skill, agent, command or MCP server"]).await;
    let several = |folder: &Path| {
        fs::remove_dir_all(folder.join("skills")).unwrap();
        fs::create_dir_all(folder.join("plugins/one/.claude-plugin")).unwrap();
        fs::write(folder.join("plugins/one/.claude-plugin/plugin.json"), "{}").unwrap();
    };
    refused("several", &several, &["contains several plugins", "plugins/one"]).await;
    plugin(&world, &["add", "/no/such/folder", "--yes"]).await.exits(2).says(&["/no/such/folder"]);
    world.model.default_reply(Reply::text("Good."));
    world.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_part_is_reported_and_the_rest_works() {
    let world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    let manifest = json!({"name": "kit", "version": "1.0", "colour": "blue", "author": {"name": "x"}});
    world.write("kit/plugin.json", manifest.to_string());
    world.write("kit/skills/mute/SKILL.md", "---\nname: mute\n---\nNothing.\n");
    world.write("kit/agents/odd.md", "---\ndescription: Odd\ntools: Read, Frobnicate\n---\nYou are odd.\n");
    world.write("kit/agents/empty.md", "---\ndescription: Empty\n---\n");
    let servers = json!({"mcpServers": {
        "fake": {"command": "python3", "args": ["./servers/fake.py", "plain"]},
        "climbs": {"command": "${CLAUDE_PLUGIN_ROOT}/../../bin/sh"},
        "asks": {"command": "x", "args": ["${input:key}"]},
        "allowed": {"command": "python3", "args": ["./servers/fake.py", "plain"], "grants": "*", "effect": "read"}}});
    world.write("kit/mcp.json", servers.to_string());
    plugin(&world, &["add", &folder, "--yes"]).await.exits(0);
    let shown = plugin(&world, &["show", "kit"]).await.exits(0).stdout;
    has_all(
        &shown,
        &[
            "unknown key \"colour\"; it is ignored",
            "skills/mute/SKILL.md: line 1: missing `description`",
            "the agent odd names an unknown tool \"Frobnicate\"",
            "agents/empty.md: the agent `empty`: it has no prompt",
            "\"climbs\" is skipped",
            "\"asks\" is skipped",
            "allowed: unknown key \"grants\"; it is ignored",
        ],
    );
    assert_parts_used(&world).await;
    // The plugin's own rating of its tools as harmless is ignored.
    let (results, _) =
        world.call_all(vec![("mcp_allowed_act", json!({"text": "now"}))], &["--on-interrupt", "deny"]).await;
    assert!(results[0].contains("E_DENIED"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_conflicts_are_reported_with_their_owner() {
    let world = World::prepared(|home| {
        home.write("config/skills/tax/SKILL.md", TAX.replace("Works out taxes", "My own taxes"));
        home.write("config/agents.yaml", "agents:\n  cook: {description: My own cook, prompt: You cook for me.}\n");
        home.write("config/mcp_servers.yaml", "servers:\n  fake: {url: 'http://127.0.0.1:9/mine'}\n");
    })
    .await;
    let folder = write_plugin(&world.daemon, "1.0");
    plugin(&world, &["add", &folder, "--yes"]).await.exits(0).says(&["3 parts not used"]);
    let shown = plugin(&world, &["list"]).await.exits(0);
    shown.says(&[
        "the agent cook is ignored: the name is already used by agents.yaml",
        "the server fake is ignored: the name is already used by mcp_servers.yaml",
        "the skill tax is ignored: the name is already used by your own skills",
    ]);
    world.model.default_reply(Reply::text("Good."));
    world.ok(["run", "Go."]).await;
    let request = last_request(&world);
    assert!(request.contains("My own taxes") && request.contains("My own cook"), "{request}");
    assert!(!request.contains("Works out taxes") && !request.contains("Cooks meals."), "{request}");
    let servers = world.json(["mcp", "list"]).await;
    assert!(servers.to_string().contains("127.0.0.1:9/mine") && !servers.to_string().contains("fake.py"), "{servers}");
    let skills = world.json(["skills", "list"]).await;
    let hidden = skills.as_array().unwrap().iter().find(|skill| skill["plugin"] == "kit").unwrap();
    assert_eq!(hidden["usable"], false, "{hidden}");
    assert!(hidden["problems"].to_string().contains("already has this name"), "{hidden}");

    // If two plugins use the same name, it belongs to the plugin that was added first.
    let other = world.path().join("apple").display().to_string();
    world.write("apple/plugin.json", json!({"name": "apple"}).to_string());
    world.write("apple/skills/pie/SKILL.md", "---\nname: pie\ndescription: Pies of the first\n---\nx\n");
    plugin(&world, &["add", &other, "--yes"]).await.exits(0);
    world.write("aaa/plugin.json", json!({"name": "aaa"}).to_string());
    world.write("aaa/skills/pie/SKILL.md", "---\nname: pie\ndescription: Pies of the second\n---\nx\n");
    let second = world.path().join("aaa").display().to_string();
    plugin(&world, &["add", &second, "--yes"]).await.exits(0);
    plugin(&world, &["list"])
        .await
        .exits(0)
        .says(&["aaa: the skill pie is ignored: the name is already used by the plugin apple"]);
    world.ok(["run", "Go."]).await;
    let request = last_request(&world);
    assert!(request.contains("Pies of the first") && !request.contains("Pies of the second"), "{request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_during_add_leaves_a_whole_plugin_or_none() {
    let mut world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    for number in 0..400 {
        world.write(&format!("kit/skills/tax/data/{number}.bin"), vec![7; 40_000]);
    }
    for _ in 0..6 {
        assert!(copies(&world).iter().all(|name| name == "installed.json"), "{:?}", copies(&world));
        let running = world.spawn_agentctl(["plugin", "add", &folder, "--yes"]);
        let is_seen = || async { copies(&world).iter().any(|name| name.contains("draft") || name.starts_with("kit-")) };
        until("copying has started", || async { is_seen().await.then_some(()) }).await;
        world.daemon.kill9().await;
        running.output(Vec::new()).await;
        world.daemon.restart().await;
        let plugins = listed(&world).await;
        match plugins.as_slice() {
            [] => {}
            [plugin] => {
                assert_eq!(plugin["state"], "installed", "{plugin}");
                world.ok(["plugin", "remove", "kit"]).await;
            }
            several => panic!("{several:?}"),
        }
    }
    plugin(&world, &["add", &folder, "--yes"]).await.exits(0);
    assert_eq!(copies(&world).len(), 2, "{:?}", copies(&world));
    assert_eq!(listed(&world).await[0]["state"], "installed");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_adds_leave_one_copy_of_each_plugin() {
    let world = World::start().await;
    let folder = write_plugin(&world.daemon, "1.0");
    world.write("other/plugin.json", json!({"name": "other"}).to_string());
    world.write("other/skills/pie/SKILL.md", "---\nname: pie\ndescription: Pies\n---\nx\n");
    let other = world.path().join("other").display().to_string();
    let adds = [&folder, &folder, &other, &folder, &other]
        .map(|folder| world.spawn_agentctl(["plugin", "add", folder, "--yes"]));
    for add in adds {
        add.output(Vec::new()).await.exits(0);
    }
    let states: Vec<Value> = listed(&world).await.iter().map(|plugin| plugin["state"].clone()).collect();
    assert_eq!(states, ["installed", "installed"]);
    assert_eq!(copies(&world).len(), 3, "{:?}", copies(&world));
    assert_parts_used(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_from_a_repository_is_fetched_with_git() {
    let world = World::start().await;
    write_plugin(&world.daemon, "1.0");
    let git = |args: &[&str]| {
        let made = world.daemon.command("git").current_dir(world.path().join("kit")).args(args).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "-m", "x"]);
    let address = format!("file://{}", world.path().join("kit").display());
    plugin(&world, &["add", &address, "--yes"]).await.exits(0).says(&["added kit 1.0"]);
    assert_eq!(listed(&world).await[0]["source"], json!(address));
    assert_parts_used(&world).await;
    plugin(&world, &["add", "file:///no/such/place", "--yes"]).await.exits(2).says(&["could not fetch"]);
}

/// The consent screen shows every setting that determines which program runs, in any form.
#[tokio::test(flavor = "multi_thread")]
async fn consent_shows_everything_that_selects_code_to_run() {
    let world = World::start().await;
    let environment = json!({
        "PATH": "${PLUGIN_ROOT}/bin:/usr/bin", "NODE_OPTIONS": "--require=x", "npm_config_registry": "https://e.example",
        "LD_PRELOAD": "x.so", "HELPER": "${CLAUDE_PLUGIN_ROOT}", "UNITS": "metric\u{202e}", "KEY": "${KIT_KEY:-none}",
    });
    let servers = json!({"mcpServers": {
        "weather": {"command": "weather-server", "args": ["--stdio"], "env": environment, "cwd": "srv"},
        "far": {"url": "https://far.example/mcp", "headers": {"X-Place": "here"}}}});
    world.write("kit/plugin.json", r#"{"name": "kit"}"#);
    world.write("kit/mcp.json", servers.to_string());
    let folder = world.path().join("kit").display().to_string();
    let shown = plugin(&world, &["add", &folder]).await.exits(2).says(&[
        "weather-server --stdio",
        "in       ${PLUGIN_ROOT}/srv",
        "load code from the folder in which they start",
        "sets     PATH=${PLUGIN_ROOT}/bin:/usr/bin",
        "sets     NODE_OPTIONS=--require=x",
        "sets     npm_config_registry=https://e.example",
        "sets     HELPER=${PLUGIN_ROOT}",
        "sets     UNITS=metric\\u{202e}",
        "sets     X-Place=here",
    ]);
    for name in ["PATH", "NODE_OPTIONS", "npm_config_registry", "LD_PRELOAD", "HELPER"] {
        assert!(shown.stderr.contains(&format!("beware   {name} may decide which code runs")), "{}", shown.stderr);
    }
    for name in ["UNITS", "KEY", "X-Place"] {
        assert!(!shown.stderr.contains(&format!("beware   {name}")), "{}", shown.stderr);
    }
}
