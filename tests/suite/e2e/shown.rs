//! A call that requires approval is shown completely and with every character, even after an edit, and to every client.

use super::*;

/// Starts a turn that waits for approval. Returns its client and the interrupt.
async fn waiting(world: &World) -> (Running, Value) {
    let mut running = world.spawn_agentctl(["run", "Do it", "--on-interrupt", "wait", "--output", "stream-json"]);
    let (raised, _) = running.event("interrupt_raised").await;
    (running, raised["interrupt"].clone())
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

/// Returns true for characters that a terminal would interpret, or that are invisible.
fn is_hidden(letter: char) -> bool {
    letter != '\n' && agentd_core::visible::is_hidden(letter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_can_show_the_complete_call() {
    let mut world = World::prepared(|home| drop(home.write("config/web.yaml", "fetch: {allow: [127.0.0.1]}\n"))).await;
    let long: String = (1..=900).map(|number| format!("line {number}\n")).collect::<String>() + "rm -rf ~/hidden\n";
    let write = Reply::tool_call("write_file", json!({"path": "outputs/a.sh", "content": long}));
    let heredoc = format!("cat > outputs/b.sh <<'END'\n{long}END");
    world.model.reply(write.clone()).reply(says("Then not."));
    let (running, interrupt) = waiting(&world).await;
    assert!(interrupt["preview"].as_str().unwrap().ends_with("+line 900\n+rm -rf ~/hidden\n"));
    let shown = world.ok(["interrupts", id(&interrupt)]).await.stdout;
    assert!(shown.contains("+line 1\n") && shown.contains("+line 900\n"), "{}", shown.len());
    assert!(shown.contains("+rm -rf ~/hidden\n"), "{}", shown.len());
    world.ok(["answer", id(&interrupt), "reject"]).await;
    running.output(Vec::new()).await;

    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": heredoc}))).reply(Reply::text("No."));
    let (running, interrupt) = waiting(&world).await;
    let shown = world.ok(["interrupts", id(&interrupt)]).await.stdout;
    assert!(shown.contains("rm -rf ~/hidden\n          END\n"), "{}", shown.len());
    world.ok(["answer", id(&interrupt), "reject"]).await;
    running.output(Vec::new()).await;

    let body = (1..=5_000).map(|number| format!("{number} ")).collect::<String>() + "and a tail";
    let post = json!({"url": "http://127.0.0.1:9/", "method": "POST", "body": body});
    world.model.reply(Reply::tool_call("http_fetch", post)).reply(says("Not sent."));
    let (running, interrupt) = waiting(&world).await;
    let shown = world.ok(["interrupts", id(&interrupt)]).await.stdout;
    assert!(shown.contains(&format!("          {body}\n")), "{}", shown.len());
    world.ok(["answer", id(&interrupt), "reject"]).await;
    running.output(Vec::new()).await;

    // In the chat, the question counts the lines that do not fit, and `v` shows them.
    world.daemon.set("PAGER", "cat");
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(write).reply(says("It is written."));
    terminal.says("Write it");
    let question = terminal.sees("view all");
    let counted = question.split_once(" more lines").unwrap().0.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap();
    let rows = question.matches("+line ").count();
    // Three lines precede the lines of the file.
    assert_eq!(counted + rows, 901, "{question}");
    terminal.presses("v");
    terminal.sees_all(&["+line 900", "+rm -rf ~/hidden", "view all"]);
    terminal.presses_for("n", "reason");
    terminal.presses_last("\r", "It is written.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edited_call_is_shown_before_it_runs_and_in_all_reports() {
    let mut world = World::start().await;
    let edited = world.write("edited.sh", "echo edited > outputs/a\n");
    world.daemon.set("EDITOR", format!("cp '{}'", edited.display()));
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let command = Reply::tool_call("run_bash_command", json!({"command": "touch outputs/of-the-model"}));
    world.model.reply(command.clone()).reply(says("It is done."));
    terminal.says_for("Do it", "edit");
    terminal.presses("e");
    let again = terminal.sees("this would run now");
    assert!(!again.contains("echo edited"), "{again}");
    terminal.sees_all(&["$ echo edited > outputs/a", "yes, once"]);
    terminal.presses_for("y", "$ (edited) echo edited > outputs/a");
    terminal.sees_last("It is done.");
    terminal.leaves();

    let session = &world.last_session().await;
    let edited = "(edited) echo edited > outputs/a (was touch";
    world.ok(["attach", session, "--after", "0"]).await.says(&[edited]);
    world.ok(["audit", "--session", session]).await.shows(&[edited, "agentctl: edit"]);
    let shown = world.ok(["sessions", "show", session]).await.stdout;
    assert!(shown.contains(r#"{"command":"echo edited > outputs/a"} (edited)"#), "{shown}");

    // `answer` in another client shows the same text. With `--preview`, only the text is shown.
    world.model.reply(command).reply(says("It is done."));
    let (running, interrupt) = waiting(&world).await;
    let edit = ["edit", "--args", r#"{"command": "echo again\u001b[2J > outputs/b"}"#];
    let answer = |more: &'static [&'static str]| {
        world.agentctl(["answer", id(&interrupt)].iter().chain(&edit).chain(more).copied().collect::<Vec<_>>())
    };
    answer(&["--preview"]).await.exits(0).says(&[r"$ echo again\u{1b}[2J > outputs/b", "risk"]);
    let denied = ["answer", id(&interrupt), "edit", "--args", r#"{"command": "shutdown now"}"#];
    world.agentctl(denied).await.exits(2).says(&["denied", "hint:"]);
    answer(&[]).await.exits(0).says(&[r"$ echo again\u{1b}[2J > outputs/b", "answered"]);
    let lines = running.output(Vec::new()).await.exits(0).json_lines();
    let result = |kind: &str| {
        let is_result = |line: &&Value| line["type"] == kind && line["item"]["kind"] == "tool_result";
        lines.iter().find(is_result).unwrap()["item"]["ran_with"].clone()
    };
    let ran_with: Value = serde_json::from_str(result("item_started").as_str().unwrap()).unwrap();
    assert_eq!(ran_with, json!({"command": "echo again\u{1b}[2J > outputs/b"}));
    assert_eq!(result("item_completed"), result("item_started"));
}

#[tokio::test]
async fn hidden_characters_of_a_command_are_shown_everywhere() {
    let world = World::start().await;
    let command = "echo \"building\u{90}\"; touch outputs/pwned #\u{9c} \u{1b}]0;x\u{7}done\u{202e}\u{200b}\u{a0}\u{e0041}\"\r\techo  ";
    let all = r#"echo "building\u{90}"; touch outputs/pwned #\u{9c} \u{1b}]0;x\u{7}done\u{202e}\u{200b}\u{a0}\u{e0041}"\u{d}⇥echo␣␣"#;
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": command}))).reply(Reply::text("No."));
    let (running, interrupt) = waiting(&world).await;
    let attached = world.spawn_agentctl(["attach", interrupt["session_id"].as_str().unwrap(), "--after", "0"]);
    let shown = world.ok(["interrupts", id(&interrupt)]).await.stdout;
    assert!(shown.contains(&format!("would do  $ {all}\n")), "{shown}");
    assert!(!shown.contains(is_hidden), "{shown:?}");
    let listed = world.ok(["interrupts"]).await.stdout;
    assert!(listed.contains(r"building\u{90}") && !listed.contains(is_hidden), "{listed:?}");
    let json = world.ok(["interrupts", "--json"]).await;
    assert!(!json.stdout.contains(is_hidden), "{:?}", json.stdout);
    assert_eq!(json.json()[0]["args"]["command"], command);
    world.ok(["answer", id(&interrupt), "reject"]).await;
    let streamed = running.output(Vec::new()).await.stdout;
    assert!(!streamed.contains(is_hidden), "{streamed:?}");
    let attached = attached.output(Vec::new()).await.stderr;
    assert!(attached.contains(r#"building\u{90}"; touch"#) && !attached.contains(is_hidden), "{attached:?}");
    let audit = world.ok(["audit"]).await.stdout;
    assert!(audit.contains(r"building\u{90}") && !audit.contains(is_hidden), "{audit:?}");
    let audit = world.ok(["audit", "--json"]).await.stdout;
    assert!(audit.contains(r"building\u0090") && !audit.contains(is_hidden), "{audit:?}");
}

#[tokio::test]
async fn hidden_characters_of_files_titles_and_mcp_calls_are_shown() {
    // A C1 control, a direction override, and a zero-width space.
    let (unseen, seen) = ("a\u{9b}b\u{202e}c\u{200b}d", r"a\u{9b}b\u{202e}c\u{200b}d");
    let (model, home) = TempHome::with_server().await;
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/fake_server.py");
    let fake = json!({"command": "python3", "args": [server, "ok"], "tools": {"act": {"always_available": true}}});
    home.write("config/mcp_servers.yaml", json!({"servers": {"fake": fake}}).to_string());
    let world = World { daemon: TempDaemon::start_in(home).await, model };
    #[track_caller]
    fn check(shown: &str, seen: &str) {
        assert!(shown.contains(seen) && !shown.contains(is_hidden), "{shown:?}");
    }

    // An undo preview shows the content of the file.
    let content = format!("first\n{unseen}\n");
    let write = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": content}));
    world.model.reply(write).reply(Reply::text("Written."));
    let session = &world.ok(["run", "Write it", "--on-interrupt", "approve", "--output", "json"]).await.session();
    let undo = |more: &'static [&'static str]| {
        let args: Vec<&str> = ["undo", session, "--preview"].iter().chain(more).copied().collect();
        world.agentctl(args)
    };
    check(&undo(&[]).await.exits(0).stdout, &format!("-{seen}\n"));
    let json = undo(&["--json"]).await.exits(0);
    check(&json.stdout, r"a\u009bb\u202ec\u200bd");
    assert!(json.json()["files"][0]["diff"].as_str().unwrap().contains(unseen), "{}", json.stdout);

    // The title is escaped in lists, and in a question in the session.
    world.ok(["sessions", "rename", session, unseen]).await;
    check(&world.daemon.ok(["sessions", "list"]).await.stdout, seen);
    check(&world.daemon.ok(["sessions", "show", session]).await.stdout, seen);
    let call = Reply::tool_call("mcp_fake_act", json!({ "text": unseen }));
    world.model.reply(call).reply(Reply::text("No."));
    let args = ["run", "Act", "--session", session, "--on-interrupt", "wait", "--output", "stream-json"];
    let mut running = world.spawn_agentctl(args);
    let (raised, _) = running.event("interrupt_raised").await;
    let interrupt = &raised["interrupt"];
    let shown = world.ok(["interrupts", id(interrupt)]).await.stdout;
    check(&shown, &format!("in \"{seen}\""));

    // The call is for another program and has no separate preview, so its arguments are shown.
    check(&shown, &format!("\"text\": \"{seen}\""));
    check(&world.daemon.ok(["interrupts"]).await.stdout, seen);
    assert_eq!(interrupt["args"]["text"], unseen);
    world.ok(["answer", id(interrupt), "reject"]).await;
    let streamed = running.output(Vec::new()).await.exits(5).stdout;
    assert!(!streamed.contains(is_hidden), "{streamed:?}");
    check(&world.daemon.ok(["audit", "--session", session]).await.stdout, seen);
}

/// A pipe may lead to a terminal, and a terminal may not be recognised as one.
#[tokio::test]
async fn output_contains_no_terminal_escapes_in_any_format() {
    let world = World::start().await;
    let prompt = "Hi\u{1b}]0;owned\u{7}\u{1b}[2J\tthere\u{9b}31m,\n漢字 \u{202e}friend\u{85}.";
    for term in ["dumb", "", "xterm-256color"] {
        let run = async |output: &str| {
            let mut command = world.agentctl_command(["run", "Hello", "--output", output]);
            command.env("TERM", term);
            Running::spawn(command).output(Vec::new()).await.exits(0)
        };
        world.model.reply(says(prompt));
        assert_eq!(run("text").await.stdout, "Hi\tthere,\n漢字 <U+202E>friend.\n", "{term}");
        for output in ["json", "stream-json"] {
            world.model.reply(says(prompt));
            let output = run(output).await;
            assert!(!output.stdout.contains(is_hidden), "{:?}", output.stdout);
            assert_eq!(output.json_lines().pop().unwrap()["text"], prompt);
        }
    }
}

/// Returns the content that the pager received.
async fn paged(world: &World, terminal: &mut Terminal, command: &str) -> String {
    let (seen, whole) = (world.path().join("seen"), world.path().join("whole"));
    let _ = fs::remove_file(&whole);
    terminal.says(command);
    until_true("the pager has received the whole text", || whole.exists()).await;
    terminal.prompt();
    fs::read_to_string(seen).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn show_prints_the_whole_result_without_notes_to_the_model() {
    let mut world = World::start().await;
    world.daemon.set("PAGER", "cat >\"$HOME/seen\" && touch \"$HOME/whole\"");
    let lines = "for i in $(seq 1 2000); do echo line $i; done; echo 'FAILED test_one'; echo done; \
                 for i in $(seq 1 2000); do echo note $i >&2; done; exit 1";
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world
        .model
        .reply(Reply::tool_call("run_bash_command", json!({ "command": lines })))
        .reply(says("It failed."));
    terminal.says_for("Test it", "y yes");
    terminal.presses("y");
    terminal.sees_all(&["exit 1", "FAILED test_one", "note 1999"]);
    let after = terminal.sees("It failed.");
    assert!(!after.contains("large_tool_results"), "{after}");
    terminal.prompt();
    let result = tool_texts(world.model.requests().last().unwrap());
    assert!(
        result.contains("large_tool_results/") && !result.contains("line 1000\n"),
        "the model received the whole output: {result}"
    );
    let output = paged(&world, &mut terminal, "/show").await;
    has_all(&output, &["line 1\n", "line 1000\n", "FAILED test_one", "note 1000\n", "note 2000\n"]);
    assert!(
        !output.contains("large_tool_results") && !output.contains("read_file"),
        "{}",
        &output[output.len() - 600..]
    );

    // The contents are those of a file that was read, and a subagent's answer.
    let path = format!("outputs/{}.txt", "a");
    let session = world.last_session().await;
    let folder = world.data().join("workspace").join(&session);
    let long: String = (1..=1500).map(|n| format!("row {n} of a file with long rows that somebody wrote\n")).collect();
    fs::write(folder.join(&path), long).unwrap();
    world.model.reply(Reply::tool_call("read_file", json!({ "path": path }))).reply(Reply::text("Read."));
    terminal.hears("Read it", "Read.");
    let output = paged(&world, &mut terminal, "/show").await;
    assert!(output.contains("row 700 of") && !output.contains("too long to show"), "{}", &output[output.len() - 600..]);

    let answer = format!("First.\n\n{}", "And this is what came of it, in many words. ".repeat(10));
    world.model.reply(Reply::tool_call("delegate_task", json!({"task": "Look"})));
    world.model.reply(says(&answer)).reply(Reply::text("Found."));
    terminal.hears("Look", "Found.");
    let output = paged(&world, &mut terminal, "/show").await;
    assert!(output.contains("result:\nFirst.\n\nAnd this") && !output.contains("{\""), "{output}");

    // Removed content is reported as removed.
    fs::remove_dir_all(folder.join("large_tool_results")).unwrap();
    let output = paged(&world, &mut terminal, "/show 3").await;
    assert!(
        output.contains("line 1\n") && output.contains("was removed") && !output.contains("line 1000\n"),
        "{output}"
    );
    assert!(!output.contains("too long to show"), "{output}");
    terminal.leaves();
}
