//! Options that a script sets for a single turn, and files that its prompt mentions.

use super::*;

/// Returns all text in a request.
fn words(request: &Recorded) -> String {
    request.messages().iter().map(|message| message["content"].to_string()).collect()
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn agent_option_applies_from_its_turn_on() {
    let world = World::start().await;
    world.write(
        "config/agents.yaml",
        "agents:\n  poet: {description: Verse., prompt: You rhyme., tools: [read_file]}\n",
    );
    world.ok(["reload"]).await;
    world.model.default_reply(Reply::text("Roses."));
    let lines = world.ok(["run", "Write!", "--agent", "poet", "--output", "stream-json"]).await;
    let stacks: Vec<_> = lines.json_lines().into_iter().filter(|line| line["change"]["state"] == "agent").collect();
    assert_eq!(stacks[0]["change"]["stack"], json!(["poet"]));
    world.ok(["run", "And you?", "--continue", "--agent", "main"]).await;
    let requests = world.model.requests();
    assert!(
        words(&requests[0]).contains("You are the agent `poet`")
            && !tool_names(&requests[0]).contains(&"run_bash_command".to_owned())
    );
    assert!(
        !words(&requests[1]).contains("You are the agent `poet`")
            && tool_names(&requests[1]).contains(&"run_bash_command".to_owned())
    );
    world.agentctl(["run", "Write!", "--agent", "peot"]).await.exits(2).says(&[
        "no such agent",
        "peot",
        "agentctl agents",
    ]);
}

#[tokio::test]
async fn tools_and_system_options_apply_to_one_turn() {
    let world = World::with_reply("Done.").await;
    world.write("rules.md", "Answer in rhymes.");
    world.ok(["run", "Go!", "--tools", "read_file,grep", "--append-system", "@rules.md"]).await;
    world.ok(["run", "Go!", "--tools", "none", "--append-system", "Be brief."]).await;
    let requests = world.model.requests();
    assert_eq!(tool_names(&requests[0]), ["grep", "read_file"]);
    assert!(words(&requests[0]).contains("Answer in rhymes."));
    assert_eq!(tool_names(&requests[1]), Vec::<String>::new());
    assert!(words(&requests[1]).contains("Be brief."));
    world.agentctl(["run", "Go!", "--tools", "gerp"]).await.exits(2).says(&["gerp", "no such tool"]);
    world.agentctl(["run", "Go!", "--append-system", "@none.md"]).await.exits(2).says(&["none.md"]);
    assert_eq!(world.model.requests().len(), 2, "a model was called although the request was rejected");
}

#[tokio::test]
async fn timeout_stops_the_running_command_and_later_calls() {
    let world = World::start().await;
    let stubborn = "trap '' TERM INT HUP; echo begun; while :; do sleep 600; done";
    let calls = Reply::tool_call("run_bash_command", json!({"command": stubborn, "timeout_s": 600}))
        .and_call("write_file", json!({"path": "/project/late.txt", "content": "late"}));
    world.model.reply(calls).default_reply(Reply::text("Out of time."));
    let project = world.path().join("project");
    fs::create_dir(&project).unwrap();
    let mount = format!("{}:rw", project.display());
    let args = ["run", "Go!", "--timeout", "2", "-C", &mount, "--on-interrupt", "approve", "--output", "json"];
    let report = world.agentctl(args).await.exits(6).json();
    holds(&report, json!({"stop_reason": "time_limit", "text": "Out of time."}));
    let requests = world.model.requests();
    let results: Vec<&str> =
        requests[1].messages().iter().filter(|message| message["role"] == "tool").map(text).collect();
    assert!(results[0].starts_with("E_TIMEOUT") && results[0].contains("begun"), "{results:?}");
    assert!(results[1].starts_with("E_NOT_RUN"), "{results:?}");
    assert!(!project.join("late.txt").exists());
}

#[tokio::test]
async fn timeout_closes_a_question_beside_a_running_subagent() {
    let world = World::start().await;
    world.model.respond_with(|request| match text(&request.messages()[0]) {
        system if system.contains("You are a subagent") => Reply::never(),
        _ if request.last_role() == "tool" => Reply::text("Out of time."),
        _ => Reply::tool_call("delegate_task", json!({"task": "Never end"}))
            // A read-only call that runs in parallel with the other one. Approval is requested because of its pattern.
            .and_call("grep", json!({"pattern": "DROP TABLE x"})),
    });
    let args = ["run", "Go!", "--timeout", "2", "--on-interrupt", "wait", "--output", "json"];
    let report = world.agentctl(args).await.exits(6).json();
    assert_eq!(report["stop_reason"], "time_limit");
    assert_eq!(world.json(["interrupts"]).await, json!([]));
    let requests = world.model.requests();
    let last = requests.last().unwrap().messages();
    assert!(last.iter().any(|message| text(message).starts_with("E_NOT_RUN")), "{last:#?}");
}

#[tokio::test]
async fn lines_output_prints_each_complete_line_at_once() {
    let world = World::start().await;
    let first = "I look at the time.\n";
    world.model.reply(Reply::text(first).and_call("current_time", json!({})));
    world.model.reply(
        Reply::deltas(["one", " and two\nthr", "ee\u{1b}[31m\nfour ", "and what hangs"]).hang_after_text("four "),
    );
    let mut running = world.spawn_agentctl(["run", "Count!", "--output", "lines"]);
    let mut lines = Vec::new();
    while lines.len() < 3 {
        lines.extend(running.line().await);
    }
    // The response hangs, but complete lines have been printed.
    assert_eq!(lines, ["I look at the time.", "one and two", "three"]);
    running.signal(Signal::SIGINT);
    let output = running.output(Vec::new()).await;
    assert!(output.stdout.ends_with("four \n") || output.stdout.ends_with("four\n"), "{:?}", output.stdout);
}

#[tokio::test]
async fn mentioned_project_files_are_attached() {
    let world = World::with_reply("Done.").await;
    let write = |path: &str, text: &str| drop(world.write(path, text));
    write("app/src/a.rs", "fn one() {}\nfn two() {}\nfn three() {}\n");
    write("app/src/b.rs", "fn b() {}\n");
    write("notes.txt", "remember the milk\n");
    let run = |prompt: &'static str| world.agentctl(["run", prompt, "-C", "app"]);
    run("Explain #app/src/a.rs:2-3, and #app/src/, #app/**/*.rs.").await.exits(0);
    let sent = words(&world.model.requests()[0]);
    let all = ["/project/src/a.rs:2-3", "fn two() {}\\nfn three() {}", "the folder /project/src", "/project/src/b.rs"];
    has_all(&sent.replace("\\\\n", "\\n"), &all);
    assert!(!sent.contains("fn one"), "more than the selected lines was sent: {sent}");
    // A script's prompt cannot mention files outside the project, and unknown names are reported.
    let output = run("Show me #notes.txt and #none.txt").await.exits(0);
    output.says(&["#notes.txt is not a file of the project", "--file", "#none.txt is not a file"]);
    assert!(!words(&world.model.requests()[1]).contains("the milk"));
    // Mentions in piped text are not recognised.
    let piped = world.agentctl_with(["run", "Review!", "-C", "app"], "see #notes.txt").await.exits(0);
    assert!(!piped.stderr.contains("notes.txt"));
    assert!(!words(&world.model.requests()[2]).contains("the milk"));
}
