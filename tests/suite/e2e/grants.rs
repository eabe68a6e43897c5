//! Grants with real daemons and clients: their scope, and actions that no grant can allow.

use agentd_core::error::ErrorKind;
use agentd_proto::client::ClientErrorKind;

use super::{
    Events as _,
    sandbox::{project, world},
    *,
};

/// Calls a command that requires approval, and that leaves a file behind when it runs.
fn touch(name: &str) -> Reply {
    command(&format!("touch {name}"))
}

fn command(command: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({ "command": command }))
}

async fn agentctl(world: &World, args: &[&str]) -> Output {
    world.agentctl(args).await
}

async fn answer(world: &World, interrupt: &Value, args: &[&str]) -> Output {
    world.agentctl(["answer", interrupt["id"].as_str().unwrap()].iter().chain(args)).await
}

async fn grants(world: &World, more: &[&str]) -> Vec<Value> {
    let listed = world.ok(["grants", "list", "--json"].iter().chain(more)).await.json();
    listed.as_array().unwrap().clone()
}

/// Runs a turn without a user, so that calls that require approval are denied.
async fn run_unattended(world: &World, more: &[&str]) -> Value {
    let args = ["run", "Do it", "--on-interrupt", "deny", "--output", "json"];
    world.agentctl(args.iter().chain(more)).await.json()
}

fn denials(result: &Value) -> usize {
    result["denials"].as_array().unwrap().len()
}

#[tokio::test]
async fn session_rule_applies_only_to_its_session_after_a_restart() {
    let mut world = World::start().await;
    world.model.reply(touch("a")).reply(Reply::text("Touched."));
    let (running, interrupt) = world.run_until_question(&["Do it"]).await;
    assert_eq!(interrupt["grants"], json!(["run_bash_command: touch a"]), "{interrupt:#}");
    assert_eq!((&interrupt["layer"], &interrupt["asked_by"]["client"]), (&json!("default"), &json!("agentctl")));
    let answered = answer(&world, &interrupt, &["always"]).await.exits(0);
    answered.says(&["kept for this session: run_bash_command: touch a"]);
    running.output(Vec::new()).await.exits(0);
    world.daemon.crash().await;

    let session = interrupt["session_id"].as_str().unwrap();
    world.model.reply(touch("a")).reply(Reply::text("Again."));
    assert_eq!(denials(&run_unattended(&world, &["--session", session]).await), 0);
    // The grant does not apply to any other command or session.
    world.model.reply(touch("b")).reply(Reply::text("No."));
    assert_eq!(denials(&run_unattended(&world, &["--session", session]).await), 1);
    world.model.reply(touch("a")).reply(Reply::text("No."));
    assert_eq!(denials(&run_unattended(&world, &[]).await), 1);

    let [stored] = grants(&world, &[]).await.try_into().unwrap();
    assert_eq!((&stored["scope"], &stored["session_id"]), (&json!("session"), &interrupt["session_id"]));
    holds(&stored, json!({"rule": "run_bash_command: touch a", "by": "agentctl"}));
    assert!(stored["at"].is_string(), "{stored}");
    assert_eq!(keys(&stored), ["at", "by", "n", "rule", "scope", "session_id"]);
}

#[tokio::test]
async fn permanent_rule_applies_everywhere_until_revoked() {
    let mut world = World::start().await;
    world.model.reply(touch("a")).reply(Reply::text("Touched."));
    let (running, interrupt) = world.run_until_question(&["Do it"]).await;
    let answered = answer(&world, &interrupt, &["always", "--for-good"]).await.exits(0);
    answered.says(&["kept for good, in every session: run_bash_command: [in /] touch a"]);
    running.output(Vec::new()).await.exits(0);
    world.daemon.crash().await;

    world.model.reply(touch("a")).reply(Reply::text("Again."));
    assert_eq!(denials(&run_unattended(&world, &[]).await), 0);
    agentctl(&world, &["grants", "list"]).await.exits(0).shows(&["permanent", "run_bash_command: [in /] touch a"]);
    agentctl(&world, &["grants", "revoke", "2"]).await.exits(2).says(&["1 rule", "hint:"]);
    agentctl(&world, &["grants", "revoke", "1"]).await.exits(0).says(&["run_bash_command: [in /] touch a"]);
    agentctl(&world, &["grants", "revoke", "run_bash_command: [in /] touch a"]).await.exits(2).says(&["hint:"]);
    assert!(grants(&world, &[]).await.is_empty());
    world.model.reply(touch("a")).reply(Reply::text("No."));
    assert_eq!(denials(&run_unattended(&world, &[]).await), 1);
}

#[tokio::test]
async fn denial_overrides_every_grant() {
    let mut world = World::start().await;
    for rule in ["run_bash_command: touch b", "run_bash_command: touch *"] {
        agentctl(&world, &["grants", "add", rule]).await.exits(0);
    }
    world.write("config/hitl_rules.yaml", "tools: {run_bash_command: {deny: [touch b]}}");
    world.daemon.crash().await;
    for on_interrupt in ["deny", "approve", "fail"] {
        world.model.reply(command("touch a && touch b")).reply(Reply::text("Then not."));
        let args = ["run", "Do it", "--on-interrupt", on_interrupt, "--output", "json"];
        // The turn continues, and both the list and the exit code report the denial.
        let result = agentctl(&world, &args).await.exits(5).json();
        assert_eq!((denials(&result), &result["text"]), (1, &json!("Then not.")), "{on_interrupt}: {result:#}");
        assert!(result["denials"][0]["reason"].as_str().unwrap().contains("on the deny list"), "{result:#}");
    }
    agentctl(&world, &["grants", "add", "run_bash_command: touch b"]).await.exits(2).says(&["deny", "hint:"]);
}

#[tokio::test]
async fn edit_of_a_call_to_a_denied_path_is_refused() {
    let section = "{patterns: {critical: ['^outputs/kept']}, actions: {critical: deny}}";
    let rules = format!("tools: {{write_file: {section}, apply_patch: {section}}}");
    let world = World::with_files(&[("config/hitl_rules.yaml", &rules)]).await;
    let write = |path: &str| json!({"path": path, "content": "words"});
    world.model.reply(Reply::tool_call("write_file", write("outputs/a"))).reply(Reply::text("Done."));
    let (running, interrupt) = world.run_until_question(&["Do it"]).await;
    let detours = ["outputs/kept", "outputs//./kept/a", "./outputs/kept", "/outputs/kept", "outputs/x/../kept"];
    for path in detours {
        let edited = write(path).to_string();
        answer(&world, &interrupt, &["edit", "--args", &edited]).await.exits(2).says(&["hint:"]);
    }
    answer(&world, &interrupt, &["edit", "--args", &write("outputs/b").to_string()]).await.exits(0);
    running.output(Vec::new()).await.exits(0);
    let outputs = format!("data/workspace/{}/outputs", interrupt["session_id"].as_str().unwrap());
    assert_eq!(world.read(&format!("{outputs}/b")), "words");
    assert_eq!(world.read(&format!("{outputs}/kept")), "");
    // The same applies to calls from a model, even if a user would approve them.
    for path in detours {
        let patch = json!({"patch": format!("*** Begin Patch\n*** Add File: {path}\n+words\n*** End Patch")});
        for call in [Reply::tool_call("write_file", write(path)), Reply::tool_call("apply_patch", patch)] {
            world.model.reply(call).reply(Reply::text("Then not."));
            let args = ["run", "Do it", "--on-interrupt", "approve", "--output", "json"];
            let result = agentctl(&world, &args).await.exits(5).json();
            assert_eq!((denials(&result), &result["files"]), (1, &json!([])), "{path}: {result:#}");
        }
    }
}

#[tokio::test]
async fn first_of_two_answers_wins_and_the_second_gets_a_conflict() {
    let world = World::start().await;
    world.model.reply(touch("a")).reply(Reply::text("Touched."));
    let (one, other) = (world.client().await, world.client().await);
    let mut stream = one.turn(turn(SessionChoice::New(NewSession::default()), "Do it")).await.unwrap();
    let events = stream.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    let EventKind::InterruptRaised { interrupt } = &events.last().unwrap().kind else { panic!() };
    let reject = Answer::Reject { reason: None };
    // Both requests are sent at the same time, and exactly one of them is accepted.
    let both =
        tokio::join!(one.answer(interrupt.id, &Answer::Approve, "one"), other.answer(interrupt.id, &reject, "other"));
    let refused = match both {
        (Ok(()), Err(error)) | (Err(error), Ok(())) => error,
        both => panic!("expected exactly one accepted answer: {both:?}"),
    };
    assert_eq!(refused.kind, ClientErrorKind::Answered(ErrorKind::Conflict), "{refused:?}");
    assert!(refused.to_string().contains("already answered"), "{refused}");
    stream.to_the_end().await;
    answer(&world, &json!({"id": interrupt.id}), &["approve"]).await.exits(1).says(&["already answered", "hint:"]);
}

#[tokio::test]
async fn invalid_rules_are_refused_with_a_hint() {
    let world = World::start().await;
    for (rule, text) in [
        ("run_bash_command: *", "every command"),
        ("run_bash_command", "name a command"),
        ("no_such_tool", "agentctl tools"),
        ("run_bash_command: rm -rf /", "critical"),
        ("run_bash_command: make && make install", "one rule for each"),
        ("write_file *.md", "`write_file`"),
    ] {
        agentctl(&world, &["grants", "add", rule]).await.exits(2).says(&[text, "hint:"]);
    }
    agentctl(&world, &["grants", "add", "write_file", "--session", "ffff"]).await.exits(2).says(&["hint:"]);
    assert!(grants(&world, &[]).await.is_empty());
    agentctl(&world, &["grants", "list"]).await.exits(0).says(&["no grants"]);
    world.still_serves().await;
}

/// Creates a session with a project and this grant.
async fn in_project(rule: &str) -> (World, String) {
    let world = world("").await;
    let began = agentctl(&world, &["run", "Hello", "-C", &world.mount(), "--output", "json"]).await.exits(0).json();
    agentctl(&world, &["grants", "add", rule]).await.exits(0);
    (world, began["session_id"].as_str().unwrap().to_owned())
}

/// Counts the denials of a command in a turn without a user.
async fn denial_count(world: &World, session: &str, arguments: Value) -> usize {
    world.model.reply(Reply::tool_call("run_bash_command", arguments)).reply(Reply::text("Done."));
    denials(&run_unattended(world, &["--session", session]).await)
}

#[tokio::test]
async fn project_rule_applies_in_no_other_folder() {
    let (world, session) = in_project("run_bash_command: touch a").await;
    let root = world.path().join("data/workspace").join(&session);
    let skill = root.join("skills/report");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: report\ndescription: Makes a report\n---\n").unwrap();
    let run = async |arguments: Value| denial_count(&world, &session, arguments).await;
    let mount = project(&world).display().to_string();
    for command in ["touch a", format!("cd {mount} && touch a").as_str(), "touch a && ls skills/other"] {
        assert_eq!(run(json!({ "command": command })).await, 0, "{command}");
        fs::remove_file(project(&world).join("a")).unwrap();
    }
    let elsewhere = root.display();
    for moves in [
        format!("cd {elsewhere} && touch a"),
        "cd /outputs && touch a".to_owned(),
        "touch a; ls skills/report".to_owned(),
    ] {
        assert_eq!(run(json!({ "command": moves })).await, 1, "{moves}");
    }
    agentctl(&world, &["grants", "add", "run_bash_command: [in /outputs] touch a"]).await.exits(0);
    assert_eq!(run(json!({"command": "cd /project && touch a", "directory": "/outputs"})).await, 1);
    assert!(!project(&world).join("a").exists() && !root.join("a").exists() && !root.join("outputs/a").exists());
    let stays = format!("cd {elsewhere}/outputs && touch a");
    assert_eq!(run(json!({"command": stays, "directory": "/outputs"})).await, 0);
    assert!(root.join("outputs/a").exists());
    // A rule offered for a skill's command applies to that command.
    world.model.reply(command("touch outputs/b; ls skills/report")).reply(Reply::text("Touched."));
    let (running, interrupt) = world.run_until_question(&["Do it", "--session", &session]).await;
    assert_eq!(interrupt["grants"], json!(["run_bash_command: [in /] touch outputs/b"]), "{interrupt:#}");
    answer(&world, &interrupt, &["always"]).await.exits(0);
    running.output(Vec::new()).await.exits(0);
    assert!(root.join("outputs/b").exists());
    assert_eq!(run(json!({"command": "touch outputs/b; ls skills/report"})).await, 0);
    assert_eq!(run(json!({"command": "touch outputs/b"})).await, 1);
}

#[tokio::test]
async fn permanent_rule_is_bound_to_its_folder() {
    let world = world("").await;
    let root = fs::canonicalize(project(&world)).unwrap();
    let ask = async |line: &str, more: &[&str], expected: &str| {
        world.model.reply(command(line)).reply(Reply::text("Done."));
        let (running, interrupt) = world.run_until_question(&[&["Do it"], more].concat()).await;
        let session = interrupt["session_id"].as_str().unwrap().to_owned();
        answer(&world, &interrupt, &["always", "--for-good"]).await.exits(0);
        running.output(Vec::new()).await.exits(0);
        let stored = grants(&world, &[]).await;
        assert_eq!(stored.last().unwrap()["rule"], expected, "{stored:#?}");
        session
    };
    let rule = format!("run_bash_command: [at {}] touch a", root.display());
    let seeing = ask("touch a", &["-C", &world.mount()], &rule).await;
    // The workspace is a different folder, which the user was never asked about, so the grant does not cover it.
    let workspace_session = ask("touch b", &[], "run_bash_command: [in /] touch b").await;
    let run = async |session: &str, line: &str| denial_count(&world, session, json!({ "command": line })).await;
    assert_eq!((run(&seeing, "touch a").await, run(&seeing, "touch b").await), (0, 1));
    assert_eq!((run(&workspace_session, "touch a").await, run(&workspace_session, "touch b").await), (1, 0));
    let named = json!({"command": "touch b", "directory": "/"});
    assert_eq!(denial_count(&world, &seeing, named).await, 0);
}

#[tokio::test]
async fn repository_programs_do_not_run_beside_a_granted_command() {
    let (world, session) = in_project("run_bash_command: touch a").await;
    let ran = project(&world).join("ran");
    let spy = world.write("project/spy.sh", format!("#!/bin/sh\necho ran >> '{}'\n", ran.display()));
    fs::set_permissions(&spy, fs::Permissions::from_mode(0o755)).unwrap();
    let set_up = "git init -q && echo 1 > b && git add b && git config diff.external ./spy.sh && \
        git config core.fsmonitor ./spy.sh && echo 2 > b";
    let done = Command::new("sh").args(["-c", set_up]).current_dir(project(&world)).status();
    assert!(done.unwrap().success());
    fs::remove_file(&ran).unwrap_or_default();
    for command in ["git diff; touch a", "touch a && git status"] {
        assert_eq!(denial_count(&world, &session, json!({ "command": command })).await, 1, "{command}");
    }
    assert!(!project(&world).join("a").exists());
    // Git commands without other commands are kept read-only, so they run. Next to a granted command, parts that cannot
    // be made to run other programs still run.
    assert_eq!(denial_count(&world, &session, json!({"command": "git diff; git status"})).await, 0);
    assert_eq!(denial_count(&world, &session, json!({"command": "touch a && cat b | head -3"})).await, 0);
    assert!(project(&world).join("a").exists() && !ran.exists());
}

#[tokio::test]
async fn reading_a_secrets_folder_asks_despite_a_grant() {
    let (world, session) = in_project("run_bash_command: touch a").await;
    world.write("project/.aws/config", "the launch code is 0000");
    world.write("project/sub/config", "nothing");
    symlink(".aws", project(&world).join("cloud")).unwrap();
    for (folder, refused) in [("/project/.aws", 1), (".aws", 1), ("cloud", 1), ("sub", 0)] {
        let arguments = json!({"command": "cat config", "directory": folder});
        assert_eq!(denial_count(&world, &session, arguments).await, refused, "{folder}");
    }
    assert!(!tool_texts(world.model.requests().last().unwrap()).contains("launch code"));
}
