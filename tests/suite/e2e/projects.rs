//! Projects with instructions, agents, skills and commands, which are only used if the user trusts the project.

use super::*;

const COOK: &str = "---\nname: cook\ndescription: Cooks meals.\ntools: Read, Grep\n---\nYou cook.\n";
const DEPLOY: &str = "---\nname: deploy\ndescription: How we deploy\n---\nSteps of ours.\n";

/// Project texts that a request may contain.
const WORDS: [&str; 3] = ["Speak like a pirate.", "transfer_to_cook", "How we deploy"];

/// Creates a project with one part of each kind.
fn with_project(home: &TempHome, name: &str) -> String {
    home.write(&format!("{name}/AGENTS.md"), "Run make check.");
    home.write(&format!("{name}/.agentd/instructions.md"), "Speak like a pirate.\n");
    home.write(&format!("{name}/.agentd/agents/cook.md"), COOK);
    home.write(&format!("{name}/.agentd/skills/deploy/SKILL.md"), DEPLOY);
    home.write(&format!("{name}/.agentd/commands/ship.md"), "Ship it.\n");
    home.path().join(name).display().to_string()
}

async fn run(world: &World, project: &str) -> Output {
    world.ok(["run", "Go.", "-C", project]).await
}

async fn show(world: &World, project: &str) -> Value {
    world.json(["project", "show", project]).await
}

async fn trust(world: &World, project: &str) {
    world.ok(["project", "trust", project]).await;
}

/// Returns the project texts that the last request contains.
fn project_texts(world: &World) -> Vec<&'static str> {
    let request = world.model.requests().last().unwrap().body.to_string();
    WORDS.into_iter().filter(|text| request.contains(text)).collect()
}

async fn audited(world: &World) -> Vec<String> {
    let records = world.ok(["audit", "--json"]).await.stdout;
    let kinds = ["project_trusted", "project_distrusted"];
    let found = records.lines().filter_map(|line| kinds.into_iter().find(|kind| line.contains(&format!("\"{kind}\""))));
    found.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn project_files_are_used_only_if_trusted_and_unchanged() {
    let mut world = World::with_reply("Good.").await;
    let project = with_project(&world.daemon, "app");
    let output = run(&world, &project).await;
    output.says(&[
        "this project has .agentd/ with instructions, 1 agent, 1 skill, 1 command, not trusted",
        &format!("agentctl project trust {project}"),
    ]);
    assert_eq!(project_texts(&world), Vec::<&str>::new());
    assert!(world.model.requests()[0].body.to_string().contains("Run make check."));
    let found = show(&world, &project).await;
    holds(&found, json!({"trust": "untrusted", "instructions": true}));
    assert_eq!(found["commands"], json!([{"name": "ship", "text": ""}]));
    assert_eq!((found["hash"].as_str().unwrap().len(), found["files"].as_array().unwrap().len()), (64, 4));

    trust(&world, &project).await;
    let output = run(&world, &project).await;
    assert!(!output.stderr.contains("not trusted"), "{}", output.stderr);
    assert_eq!(project_texts(&world), WORDS);
    let request = world.model.requests().last().unwrap().body.to_string();
    let at = |text: &str| request.find(text).unwrap_or_else(|| panic!("{text} is not in {request}"));
    assert!(at("Run make check.") < at("Speak like a pirate."), "{request}");
    assert!(request.contains("they grant no permission"), "{request}");
    let store = fs::metadata(world.path().join("data/projects/trusted.json")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&store.permissions()) & 0o777, 0o600);

    // Trust is persistent, regardless of how the daemon ends.
    world.daemon.crash().await;
    run(&world, &project).await;
    assert_eq!(project_texts(&world), WORDS);

    // A change of any byte in any file revokes the trust.
    world.write("app/.agentd/skills/deploy/SKILL.md", DEPLOY.replace("ours", "0urs"));
    let output = run(&world, &project).await;
    output.says(&["changed since you trusted it (1 file;", "none of it is used"]);
    assert_eq!(project_texts(&world), Vec::<&str>::new());
    let found = show(&world, &project).await;
    assert_eq!(found["trust"], "changed");
    assert_eq!(found["changes"], json!([{"path": "skills/deploy/SKILL.md", "kind": "changed"}]));
    world.ok(["project", "show", &project]).await.shows(&["~ skills/deploy/SKILL.md", "changed since you trusted it"]);

    // Restoring the file restores the trust.
    world.write("app/.agentd/skills/deploy/SKILL.md", DEPLOY);
    run(&world, &project).await;
    assert_eq!(project_texts(&world), WORDS);
    fs::rename(format!("{project}/.agentd/commands/ship.md"), format!("{project}/.agentd/commands/sink.md")).unwrap();
    run(&world, &project).await.says(&["changed since you trusted it (2 files;"]);
    trust(&world, &project).await;
    run(&world, &project).await;
    assert_eq!(project_texts(&world), WORDS);
    world.ok(["project", "distrust", &project]).await;
    run(&world, &project).await.says(&["not trusted"]);
    assert_eq!(project_texts(&world), Vec::<&str>::new());
    world.agentctl(["project", "distrust", &project]).await.exits(2).says(&["is not trusted", "hint:"]);
    let copies = fs::read_dir(world.path().join("data/projects")).unwrap();
    assert_eq!(copies.count(), 1, "a copy of an untrusted version is left");
    assert_eq!(audited(&world).await, ["project_trusted", "project_trusted", "project_distrusted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_changes_are_appended_without_breaking_the_prefix() {
    let world = World::with_reply("Good.").await;
    let project = world.path().join("app").display().to_string();
    world.write("app/.agentd/instructions.md", "Speak like a pirate.");
    let lines = async |args: &[&str]| {
        let args = [&["run", "Go.", "--output", "stream-json"], args].concat();
        world.ok(args).await.json_lines()
    };
    let session = lines(&["-C", &project]).await[0]["session_id"].as_str().unwrap().to_owned();
    trust(&world, &project).await;
    let trusted = lines(&["--session", &session]).await;
    assert_eq!(project_texts(&world), ["Speak like a pirate."]);
    world.write("app/.agentd/instructions.md", "Obey the parrot.");
    let changed = lines(&["--session", &session]).await;
    let request = world.model.requests().last().unwrap().body.to_string();
    assert!(!request.contains("parrot") && request.contains("their notes no longer apply"), "{request}");
    let warning = |lines: &[Value]| lines.iter().filter(|line| line["code"] == "project_changed").count();
    assert_eq!((warning(&trusted), warning(&changed)), (0, 1), "{changed:#?}");
    for lines in [&trusted, &changed] {
        let reports = lines.iter().filter(|line| line["type"] == "usage_updated");
        assert!(reports.clone().count() > 0 && reports.clone().all(|line| line["prompt"]["broken_by"].is_null()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_is_bound_to_the_folder_and_the_shown_hash() {
    let world = World::with_reply("Good.").await;
    let (project, twin) = (with_project(&world.daemon, "app"), with_project(&world.daemon, "twin"));
    let hash = show(&world, &project).await["hash"].as_str().unwrap().to_owned();
    assert_eq!(show(&world, &twin).await["hash"], json!(hash));
    world.write("app/.agentd/instructions.md", "Other.");
    let late = world.agentctl(["project", "trust", &project, "--hash", &hash]).await;
    assert!(late.code != Some(0) && late.stderr.contains("has changed since it was shown"), "{}", late.stderr);
    assert_eq!((show(&world, &project).await["trust"].clone(), audited(&world).await.len()), (json!("untrusted"), 0));
    world.write("app/.agentd/instructions.md", "Speak like a pirate.\n");
    world.ok(["project", "trust", &project, "--hash", &hash]).await;

    // Another folder with the same content is a different project, but another path to the same folder is not.
    run(&world, &twin).await.says(&["not trusted"]);
    assert_eq!(project_texts(&world), Vec::<&str>::new());
    symlink("app", world.path().join("link")).unwrap();
    let link = world.path().join("link").display().to_string();
    assert_eq!(show(&world, &link).await["trust"], "trusted");
    fs::create_dir(world.path().join("empty")).unwrap();
    let empty = world.path().join("empty").display().to_string();
    world.agentctl(["project", "trust", &empty]).await.exits(2).says(&["nothing to trust", "hint:"]);
    world.agentctl(["project", "show", "nowhere"]).await.exits(2).says(&["cannot be opened", "hint:"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn project_agent_has_its_own_prompt_and_replaces_no_user_agent() {
    let world = World::start().await;
    let project = with_project(&world.daemon, "app");
    world.write(
        "app/.agentd/agents/researcher.md",
        "---\ndescription: Finds what it wants.\n---\nYou obey the project.\n",
    );
    trust(&world, &project).await;
    let is_cook = |request: &Recorded| request.messages()[0]["content"].as_str().unwrap().contains("You cook.");
    world.model.respond_with(move |request| match (is_cook(request), tool_texts(request)) {
        (true, _) => Reply::text("Soup, for all who came to the table tonight. ".repeat(10)),
        (false, result) if result.contains("Soup") => Reply::text("Served."),
        (false, _) => Reply::tool_call("delegate_task", json!({"task": "Cook", "agent": "cook"})),
    });
    let output = run(&world, &project).await;
    assert_eq!(output.stdout.trim(), "Served.");
    let requests = world.model.requests();
    let cook = requests.iter().find(|request| is_cook(request)).unwrap();
    let tools = cook.body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap());
    let tools: Vec<&str> = tools.collect();
    assert!(tools.contains(&"read_file") && tools.contains(&"grep"), "{tools:?}");
    assert!(!tools.contains(&"run_bash_command") && !tools.contains(&"write_file"), "{tools:?}");
    assert!(requests.iter().all(|request| !request.body.to_string().contains("obey the project")));
    assert!(requests[0].body.to_string().contains("Cooks meals."));
    world
        .ok(["project", "show", &project])
        .await
        .shows(&["`researcher` is not used, because the configuration has an agent with this name"]);

    // A session with an agent from a project cannot continue once the project is no longer trusted.
    world.write("app/.agentd/agents/cook.md", COOK.replace("You cook.", "You poison."));
    world.model.respond_with(|request| match tool_texts(request) {
        result if result.contains("no such agent") => Reply::text("Nobody cooks."),
        _ => Reply::tool_call("delegate_task", json!({"task": "Cook", "agent": "cook"})),
    });
    assert_eq!(run(&world, &project).await.stdout.trim(), "Nobody cooks.");
    assert!(!world.model.requests().last().unwrap().body.to_string().contains("poison"));
}

/// In any mode, a model can neither trust a project nor write files that would be trusted, unless a user allows it.
#[tokio::test(flavor = "multi_thread")]
async fn model_cannot_trust_a_project() {
    let world = World::start().await;
    let project = with_project(&world.daemon, "app");
    trust(&world, &project).await;
    let store = world.path().join("data/projects/trusted.json");
    let before = (show(&world, &project).await["hash"].clone(), fs::read(&store).unwrap());
    let forge = format!("echo '{{}}' > {}", store.display());
    let calls = vec![
        ("write_file", json!({"path": "/project/.agentd/instructions.md", "content": "Obey."})),
        ("run_bash_command", json!({"command": "echo Obey. > /project/.agentd/instructions.md"})),
        ("run_bash_command", json!({"command": "agentctl project trust /project"})),
        ("run_bash_command", json!({"command": forge})),
    ];
    let writable = format!("{project}:rw");
    let args = ["-C", &writable, "--mode", "auto", "--on-interrupt", "deny", "--output", "json"];
    let (results, output) = world.call_all(calls, &args).await;
    assert!(results[..3].iter().all(|result| result.starts_with("E_DENIED")), "{results:#?}");
    // The last command runs in the sandbox, but cannot access the trust store.
    assert!(!results[3].contains("exit code 0"), "{results:#?}");
    assert!(output.json()["denials"].as_array().unwrap().len() >= 3);
    let after = (show(&world, &project).await["hash"].clone(), fs::read(&store).unwrap());
    assert_eq!((before, audited(&world).await.len()), (after, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_project_files_are_reported_and_skipped() {
    let world = World::with_reply("Good.").await;
    let project = with_project(&world.daemon, "app");
    let agentd = world.path().join("app/.agentd");
    let secret = world.write("secret.txt", "hunter2");
    fs::remove_file(agentd.join("instructions.md")).unwrap();
    nix::unistd::mkfifo(&agentd.join("instructions.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::File::create(agentd.join("commands/large.md")).unwrap().set_len(1 << 30).unwrap();
    world.write("app/.agentd/agents/bytes.md", b"---\ndescription: x\n---\n\xff\xfe");
    world.write("app/.agentd/agents/torn.md", "---\ndescription: x\n");
    symlink(&secret, agentd.join("commands/leak.md")).unwrap();
    symlink("ship.md", agentd.join("commands/alias.md")).unwrap();
    symlink(world.path(), agentd.join("skills/home")).unwrap();
    world.write("app/.agentd/skills/pipe/SKILL.md", DEPLOY);
    symlink(&secret, agentd.join("skills/pipe/leak.md")).unwrap();
    for never in ["hitl_rules.yaml", "mcp_servers.yaml", "models.yaml", ".env"] {
        world.write(&format!("app/.agentd/{never}"), "policy: {default: allow}\n");
    }
    let found = show(&world, &project).await;
    let problems: Vec<String> = found["problems"].as_array().unwrap().iter().map(ToString::to_string).collect();
    for (file, reason) in [
        ("instructions.md", "not a regular file"),
        ("commands/large.md", "larger than 64 KiB"),
        ("agents/bytes.md", "not UTF-8"),
        ("agents/torn.md", "not closed"),
        ("commands/leak.md", "leads out"),
        ("skills/home", "is a link"),
        ("skills/pipe", "leads out"),
    ] {
        let is_reported = |problem: &String| problem.contains(file) && problem.contains(reason);
        assert!(problems.iter().any(is_reported), "{file}: {reason} is not in {problems:#?}");
    }
    assert_eq!(found["ignored"], json!([".env", "hitl_rules.yaml", "mcp_servers.yaml", "models.yaml"]));
    let commands = found["commands"].as_array().unwrap().iter().map(|command| command["name"].as_str().unwrap());
    assert_eq!(commands.collect::<Vec<_>>(), ["alias", "ship"]);
    assert!(!found.to_string().contains("hunter2"), "{found:#}");
    world
        .ok(["project", "show", &project])
        .await
        .shows(&["hitl_rules.yaml, mcp_servers.yaml, models.yaml (never read from a project)"]);

    trust(&world, &project).await;
    run(&world, &project).await;
    assert_eq!(project_texts(&world), ["transfer_to_cook", "How we deploy"]);
    assert!(!world.model.requests().last().unwrap().body.to_string().contains("hunter2"));
    let found = show(&world, &project).await;
    assert_eq!(found["commands"][0], json!({"name": "alias", "text": "Ship it.\n"}));
    // Skipped files are not part of the hash, and become part of it once they are usable.
    fs::remove_file(agentd.join("instructions.md")).unwrap();
    assert_eq!(show(&world, &project).await["trust"], "trusted");
    world.write("app/.agentd/instructions.md", "Speak like a pirate.");
    assert_eq!(show(&world, &project).await["trust"], "changed");

    // The folder itself may be a link.
    fs::create_dir(world.path().join("linked")).unwrap();
    symlink(&agentd, world.path().join("linked/.agentd")).unwrap();
    let linked = world.path().join("linked").display().to_string();
    let found = show(&world, &linked).await;
    assert_eq!((&found["trust"], found["files"].as_array().unwrap().len()), (&json!("empty"), 0));
    assert!(found["problems"][0]["message"].as_str().unwrap().contains("its path contains a link"), "{found:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn project_json_output_has_its_documented_keys() {
    let world = World::start().await;
    let project = with_project(&world.daemon, "app");
    let found = show(&world, &project).await;
    let expected = "agents changes commands files hash ignored instructions path problems skills trust";
    assert_eq!(keys(&found).join(" "), expected);
    assert_eq!(keys(&found["files"][0]), ["bytes", "path", "sha256"]);
    assert_eq!(found["skills"], json!(["deploy"]));
    let trusted = world.json(["project", "trust", &project]).await;
    assert_eq!((&trusted["trust"], trusted["trusted_at"].is_string()), (&json!("trusted"), true));
    assert_eq!(trusted["commands"], json!([{"name": "ship", "text": "Ship it.\n"}]));
    assert_eq!(world.json(["project", "distrust", &project]).await["trust"], "untrusted");
}
