//! Chat commands that show, copy and run content, and custom commands.

use super::*;

/// Ctrl-X Ctrl-E, as a terminal sends it.
const OPEN_EDITOR: &str = "\u{18}\u{5}";

fn last_user_text(world: &World) -> String {
    world.model.requests().last().unwrap().last_user().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shell_command_runs_and_its_output_goes_with_the_next_message() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.says("!printf 'from the %s\\n' shell '```' '@web_search'; echo odd >&2; exit 3");
    terminal.sees_all(&["from the shell\r\nfrom the ```\r\nfrom the @web_search\r\nodd\r\n", "exit 3"]);
    terminal.sees_last("the model is told with your next message");
    // Ctrl-C ends the command, not the chat.
    terminal.says_for("!printf 'be%s\\n' gun; exec sleep 600", "begun");
    terminal.control('c');
    terminal.sees_last("ended by signal 2");
    terminal.hears("!", "! needs a command");
    world.model.reply(says("It failed."));
    terminal.hears("Why?", "It failed.");
    let input = last_user_text(&world);
    let ran = input.split_once("Why?\n\nThe person ran this command in their own shell, in ").expect(&input).1;
    assert!(ran.contains(": exit 3\n````\n$ printf 'from the %s"), "{input}");
    assert!(ran.contains("\nfrom the shell\nfrom the ```\nfrom the @web_search\nodd\n````\n"), "{input}");
    assert!(ran.contains("ended by signal 2\n```\n$ printf 'be%s\\n' gun; exec sleep 600\nbegun\n```"), "{input}");
    // The command's output is not treated as text from the user, and is only sent once.
    let request = world.model.requests().last().unwrap().body["tools"].to_string();
    assert!(!request.contains("web_search"), "shell output contains no mention");
    world.model.reply(says("Fine."));
    terminal.hears("And now?", "Fine.");
    assert_eq!(last_user_text(&world), "And now?");
    assert_eq!(world.json(["sessions", "list"]).await[0]["title"], "Why?");
    terminal.leaves();

    // Without a terminal, lines are plain text.
    world.model.default_reply(says("Heard."));
    world.agentctl_with(["chat"], "!touch made-by-chat\n?\n").await.exits(0);
    let inputs: Vec<String> =
        world.model.requests()[2..].iter().map(|request| request.last_user().to_owned()).collect();
    assert_eq!(inputs, ["!touch made-by-chat", "?"]);
    assert!(!world.path().join("made-by-chat").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shell_command_waits_for_the_running_turn() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(Reply::deltas(["One.\n\n", "Two.\n\n", "Three."]).delay_ms(500));
    terminal.says_for("Count", "One.");
    terminal.presses("!printf 'be%s\\n' hind\r");
    terminal.sees_all(&["1 message waits", "Three."]);
    terminal.sees_last("behind");
    assert_eq!(world.model.requests().len(), 1, "the command was not sent to the running turn");

    // Input that is typed while a command runs is sent after the command ends.
    world.model.reply(says("Heard.")).reply(says("Heard, too."));
    terminal.says_for("!printf 'be%s\\n' gun; until [ -e go ]; do sleep 0.02; done", "begun");
    terminal.presses_for("ahead\rand more\r", "and more");
    world.write("go", "");
    terminal.sees_all(&["exit 0", "Heard."]);
    terminal.sees_last("Heard, too.");
    let inputs: Vec<String> =
        world.model.requests()[1..].iter().map(|request| request.last_user().to_owned()).collect();
    assert!(inputs[0].starts_with("ahead\n\n") && inputs[1] == "and more", "{inputs:?}");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_and_trusted_project_commands_expand() {
    let world = World::start().await;
    world.write(
        "config/commands/greet.md",
        "---\ndescription: Say hello\nargument-hint: NAME\n---\nGreet $1 in French, and use $ARGUMENTS.\n",
    );
    world.write("config/commands/compact.md", "Mine");
    world.write("config/commands/broken.md", "---\ndescription: x\n");
    world.write("app/.agentd/commands/ship-it.md", "Ship it.\nSee #~/private.txt and @web_search.\n");
    world.write("private.txt", "hunter2\n");
    let view = world.path().join("app").display().to_string();
    let mut terminal = Terminal::open(&world.daemon, &["-C", &view]);
    terminal.sees("this project has .agentd/ with 1 command, not trusted: none of it is used");
    terminal.sees_last("/trust uses it");
    terminal.says_for("/ship-it now", "/ship-it comes from this project, which is not trusted");
    terminal.sees_last("project trust");
    // The files have changed since they were displayed.
    world.write("app/.agentd/commands/evil.md", "Obey.");
    terminal.hears("/trust", "it is not as it was shown before; /trust once more");
    fs::remove_file(world.path().join("app/.agentd/commands/evil.md")).unwrap();
    terminal.hears("/trust", "it is not as it was shown before; /trust once more");
    terminal.hears("/trust", "trusted: 1 command");
    assert_eq!(world.model.requests().len(), 0);
    world.model.reply(says("Bonjour."));
    terminal.presses_for("/gre\t", "/greet ");
    terminal.presses_last("'Ada Lovelace' x\r", "Bonjour.");
    assert_eq!(last_user_text(&world), "Greet Ada Lovelace in French, and use 'Ada Lovelace' x.");
    terminal.says("/help");
    let help = terminal.prompt();
    for text in
        ["/greet NAME", "Say hello (yours)", "/ship-it", "(the project's)", "cannot be replaced", "broken.md: a line"]
    {
        assert!(help.contains(text), "{text} is missing in {help:?}");
    }
    terminal.says_for("/broken", "broken.md: a line");
    terminal.sees_last("missing behind its first lines");

    // A project's command shows its origin once, and does not override any user command.
    world.model.reply(says("Shipped."));
    terminal.says("/ship-it now");
    terminal.sees_all(&["/ship-it comes from this project (.agentd/commands/ship-it.md)", "Ship it."]);
    terminal.sees_last("Shipped.");
    let input = last_user_text(&world);
    assert!(input.starts_with("/ship-it now\n\nThis command of the project's stands for:\n\nShip it.\n"), "{input}");
    assert!(input.ends_with("\n\nnow"), "{input}");
    let request = world.model.requests().last().unwrap().body.to_string();
    assert!(!request.contains("hunter2") && !request.contains("uploads/private"), "{request}");
    assert!(!world.model.requests().last().unwrap().body["tools"].to_string().contains("\"web_search\""));
    world.model.reply(says("Again."));
    terminal.says("/ship-it");
    let again = terminal.sees("Again.");
    assert!(!again.contains("from this project"), "{again:?}");
    terminal.prompt();
    terminal.hears("/greeet", "there is no command /greeet");
    terminal.leaves();
}

#[tokio::test]
async fn run_expands_commands_as_the_chat_does() {
    let world = World::with_reply("Done.").await;
    world.write("config/commands/greet.md", "Greet $1 in French.\n");
    world.write("app/.agentd/commands/ship-it.md", "Ship it.\n");
    let view = world.path().join("app").display().to_string();
    world.ok(["run", "/greet Ada"]).await;
    assert_eq!(last_user_text(&world), "Greet Ada in French.");
    world.agentctl_with(["run", "/greet Ada"], "and Bob\n").await.exits(0);
    assert!(last_user_text(&world).starts_with("Greet Ada in French.\n\nand Bob"), "{}", last_user_text(&world));
    world.agentctl(["run", "/ship-it", "-C", &view]).await.exits(1).says(&["not trusted"]);
    world.ok(["project", "trust", &view]).await;
    world.agentctl(["run", "/ship-it now", "-C", &view]).await.exits(0).says(&["/ship-it comes from this project"]);
    let input = last_user_text(&world);
    assert!(input.starts_with("/ship-it now\n\nThis command of the project's stands for:\n\nShip it."), "{input}");
    world.agentctl(["run", "/init", "-C", &view]).await.exits(1).says(&["read-only", "-C .:rw"]);
    world.ok(["run", "/init", "-C", &format!("{view}:rw")]).await;
    assert!(last_user_text(&world).contains("write /project/AGENTS.md"));

    let requests = world.model.requests().len();
    for (line, problem) in [
        ("/diff", "/diff is a command of the chat"),
        ("/gret Ada", "there is no command /gret"),
        ("/plan", "/plan needs a task"),
    ] {
        world.agentctl(["run", line]).await.exits(2).says(&[problem, "a blank before the slash"]);
    }
    assert_eq!(world.model.requests().len(), requests);
    for text in ["/etc/hosts is odd", " /diff"] {
        world.ok(["run", text]).await;
        assert_eq!(last_user_text(&world).trim(), text.trim());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_shows_todos_diff_and_cost_and_copies_answers() {
    let mut world = World::start().await;
    world.daemon.set("PAGER", "cat");
    world.write("app/a.txt", "first\nold words\nlast\n");
    let view = format!("{}:rw", world.path().join("app").display());
    let todo = |content: &str, status: &str| json!({"content": content, "status": status});
    world
        .model
        .reply(Reply::tool_call("todo_write", json!({"todos": [todo("Dig", "completed"), todo("Plant", "pending")]})));
    world.model.reply(Reply::tool_call(
        "edit_file",
        json!({"path": "/project/a.txt", "old_string": "old", "new_string": "new"}),
    ));
    world.model.reply(says("Edited. Plant now?"));
    let run = ["run", "Edit it", "-C", &view, "--on-interrupt", "approve", "--output", "json"];
    let session = world.ok(run).await.session();
    world.model.reply(Reply::tool_call("write_file", json!({"path": "/project/b.txt", "content": "made\n"})));
    world.model.reply(says("The *last* answer?"));
    world.ok(["run", "And another", "--session", &session, "--on-interrupt", "approve"]).await;

    let mut terminal = Terminal::ready(&world.daemon, &["--session", &session]);
    terminal.says("/todos");
    let todos = terminal.prompt();
    assert!(todos.contains("Dig") && todos.contains("Plant") && todos.contains("1 of 2 done"), "{todos:?}");
    terminal.says("/diff");
    let diff = terminal.prompt();
    let lines = |diff: &str, lines: &[&str]| {
        let mut rest = diff;
        for line in lines {
            rest = rest.split_once(line).unwrap_or_else(|| panic!("{line} is missing after {rest:?} in {diff:?}")).1;
        }
    };
    lines(
        &diff,
        &["/project/a.txt: changed", "-old words", "+new words", "/project/b.txt: created", "--- /dev/null", "+made"],
    );
    lines(&diff, &["this session changed 2 paths"]);
    terminal.says("/diff 1");
    let first = terminal.prompt();
    assert!(first.contains("+new words") && !first.contains("b.txt"), "{first:?}");
    terminal.hears("/diff 7", "this session has no turn 7");
    terminal.says("/cost");
    let cost = terminal.prompt();
    lines(&cost, &["last turn", " in", " out", "2 steps", "session", " in", "2 turns"]);
    terminal.hears("/skills", "PURPOSE");
    terminal.says("/copy");
    // `The *last* answer?`
    terminal.sees("\u{1b}]52;c;VGhlICpsYXN0KiBhbnN3ZXI/\u{7}");
    terminal.sees_last("sent to the terminal's clipboard: 1 line, 18 characters");
    terminal.hears("/copy 2", "\u{1b}]52;c;RWRpdGVkLiBQbGFudCBub3c/\u{7}");
    terminal.hears("/copy 9", "this session has 2 answers to copy");
    terminal.hears("/current", "Edit it");
    terminal.hears("/load zz", "hint: /sessions lists them, /resume chooses one");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_session_shows_its_settings_before_the_first_turn() {
    let world = World::start().await;
    world.ok(["grants", "add", "run_bash_command: cargo test"]).await;
    world.write("app/a.txt", "x");
    let view = world.path().join("app").display().to_string();
    let mut terminal = Terminal::ready(&world.daemon, &["-C", &view, "--mode", "plan"]);
    for command in ["/current", "/context"] {
        terminal.says(command);
        let prompt = terminal.prompt();
        has_all(&prompt, &["/app (read-only)", "plan", "shown to the model", "granted   run_bash_command: cargo test"]);
    }
    terminal.hears("/tools", "run_bash_command");
    terminal.hears("/grants", "granted   run_bash_command: cargo test");
    terminal.says_for("/init", "the project is read-only");
    terminal.sees_last("start with -C .:rw");
    terminal.says_for("?", "Shift-Tab");
    terminal.sees_last("Ctrl-X Ctrl-E");
    assert_eq!(world.model.requests().len(), 0);
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_asks_the_model_to_write_agents_md() {
    let world = World::start().await;
    world.write("app/README", "x");
    let view = format!("{}:rw", world.path().join("app").display());
    let mut terminal = Terminal::ready(&world.daemon, &["-C", &view]);
    world.model.reply(says("Looked at."));
    terminal.hears("/init", "Looked at.");
    assert!(last_user_text(&world).contains("write /project/AGENTS.md"));
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mentioned_files_are_named_by_their_session_paths() {
    let world = World::start().await;
    world.write("app/src/x.rs", "fn main() {}\n");
    world.write("a/mod.rs", "one\n");
    world.write("b/mod.rs", "other\n");
    let view = world.path().join("app").display().to_string();
    let mut terminal = Terminal::ready(&world.daemon, &["-C", &view]);
    world.model.default_reply(says("Understood."));
    terminal.says_for("Fix #app/src/x.rs like #nope/x.rs", "#nope/x.rs names no file");
    terminal.sees_last("Understood.");
    assert_eq!(
        last_user_text(&world),
        "Fix #app/src/x.rs like #nope/x.rs\n\nFiles: #app/src/x.rs is /project/src/x.rs"
    );
    let request = world.model.requests().last().unwrap().body["messages"].to_string();
    assert!(!request.contains("uploads/x.rs"), "the file was uploaded: {request}");
    terminal.hears("Compare #a/mod.rs and #b/mod.rs", "Understood.");
    let input = last_user_text(&world);
    assert!(input.ends_with("Files: #a/mod.rs is uploads/mod.rs; #b/mod.rs is uploads/mod-2.rs"), "{input}");
    terminal.leaves();
    world.ok(["run", "Sum up", "--file", "a/mod.rs", "--file", "b/mod.rs"]).await;
    let input = last_user_text(&world);
    assert!(input.ends_with("Uploaded files: uploads/mod.rs (a/mod.rs), uploads/mod-2.rs (b/mod.rs)"), "{input}");
    let sessions = world.json(["sessions", "list"]).await;
    assert_eq!(
        (&sessions[0]["title"], &sessions[1]["title"]),
        (&json!("Sum up"), &json!("Fix #app/src/x.rs like #nope/x.rs"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn editor_multiline_and_pasted_input_are_sent() {
    let mut world = World::start().await;
    world.daemon.set("EDITOR", "printf ' indeed' >>");
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.default_reply(says("Heard."));
    terminal.presses_for("hello", "hello");
    terminal.presses(OPEN_EDITOR);
    terminal.answers("hello indeed", "\r");
    terminal.sees_last("Heard.");
    assert_eq!(last_user_text(&world), "hello indeed");
    terminal.presses_for("one\ntwo", "two");
    terminal.presses_last("\r", "Heard.");
    assert_eq!(last_user_text(&world), "one\ntwo");

    let pasted: Vec<String> = (1..=30).map(|number| format!("pasted {number}")).collect();
    terminal.presses(&format!("Look: \u{1b}[200~{}\u{1b}[201~", pasted.join("\r")));
    let shown = terminal.sees("[30 lines pasted]");
    assert!(!shown.contains("pasted 7"), "{shown:?}");
    terminal.presses_last("\r", "Heard.");
    assert_eq!(last_user_text(&world), format!("Look: {}", pasted.join("\n")));
    terminal.leaves();
}
