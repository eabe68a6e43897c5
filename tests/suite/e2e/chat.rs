//! The chat, at a terminal and through a pipe.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_answers_prompts_and_slash_commands() {
    let world = World::start().await;
    let mut terminal = Terminal::open(&world.daemon, &[]);
    let greeting = terminal.prompt();
    assert!(greeting.contains("/help"), "{greeting:?}");
    world.model.reply(says("Good morning, Ada."));
    terminal.hears("I am Ada", "Good morning, Ada.");
    world.model.reply(says("You are Ada."));
    terminal.hears("Who am I?", "You are Ada.");
    assert!(
        world.model.requests()[1].body["messages"].to_string().contains("I am Ada"),
        "both turns are in one session"
    );

    terminal.says("/help");
    let help = terminal.prompt();
    has_all(&help, &["/help", "/model", "/sessions", "/quit", "/reset", "/tools"]);
    terminal.hears("/sesions", "did you mean /sessions?");
    terminal.hears("/tools", "run_bash_command");
    terminal.hears("/clean", "nothing is old enough to be removed");
    world.write("notes with blanks.txt", "the walrus is called Paul\n");
    terminal.hears("/upload ~/notes with blanks.txt", "uploaded as uploads/notes with blanks.txt");
    terminal.hears("/upload /no/such/file", "could not read the file /no/such/file");
    world.model.reply(says("I see it."));
    terminal.hears("What is new?", "I see it.");
    has_all(&world.model.requests().last().unwrap().body["messages"].to_string(), &["uploads/notes with blanks.txt"]);
    terminal.says_for("quit", "this chat: 3 turns");
    terminal.sees("agentctl chat --session");
    terminal.ends();
    world.model.reply(Reply::text("What?"));
    world.agentctl_with(["chat"], "exit\n").await.exits(0).shows(&["What?"]);
    assert_eq!(world.model.requests().last().unwrap().last_user(), "exit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reopened_chat_shows_the_last_turns() {
    let mut world = World::start().await;
    world.daemon.set("PAGER", "cat");
    let run = async |input: &str, answer: Reply, more: &[&str]| {
        world.model.reply(answer);
        let args = [&["run", input, "--output", "json", "--on-interrupt", "approve"], more].concat();
        world.ok(args).await.session()
    };
    let session = run("First of all", says("Answer one."), &[]).await;
    let options = ["--session", session.as_str()];
    world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "printf 'un%s\\n' seen; exit 3"})));
    run("Second thing", says("Answer two."), &options).await;
    run("Third thing", says("Answer three."), &options).await;
    let mut terminal = Terminal::open(&world.daemon, &options);
    let shown = terminal.prompt();
    let mut rest = shown.as_str();
    // The terminal library does not decode non-ASCII characters.
    for phrase in
        ["1 earlier turn: agentctl attach", "Second thing", "exit 3", "Answer two.", "Third thing", "Answer three."]
    {
        rest = rest.split_once(phrase).unwrap_or_else(|| panic!("{phrase} is missing after {rest:?} in {shown:?}")).1;
    }
    assert!(!shown.contains("Answer one."), "{shown:?}");
    // `/show` prints the complete text of output that was shown on one line.
    terminal.says("/show");
    let whole = terminal.sees("stdout:\r\nunseen");
    assert!(whole.contains("command: printf 'un%s"), "{whole:?}");
    terminal.prompt();
    terminal.hears("/show 2", "there are 1 results and reasonings");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_names_reads_and_shows_unasked_changes() {
    let world = World::configured("sessions: {confirm_write: false}").await;
    world.write("app/a.txt", "first\nold words\nlast\n");
    let folder = format!("{}:rw", world.path().join("app").display());
    let part = |line: u64| Reply::tool_call("read_file", json!({"path": "/project/a.txt", "offset": line, "limit": 1}));
    let edit = json!({"path": "/project/a.txt", "old_string": "old", "new_string": "new"});
    let lines: String = (1..=40).map(|number| format!("line {number}\n")).collect();
    world
        .model
        .reply(part(1))
        .reply(part(2))
        .reply(Reply::tool_call("grep", json!({"pattern": "old \\w+", "path": "/project"})))
        .reply(Reply::tool_call("edit_file", edit))
        .reply(Reply::tool_call("write_file", json!({"path": "/project/b.txt", "content": lines})))
        .reply(says("It is done."));
    let mut terminal = Terminal::ready(&world.daemon, &["-C", &folder]);
    terminal.says("Change it");
    terminal.sees_all(&["read_file /project/a.txt:1, 2", "2 calls", "grep \"old \\w+\" in /project"]);
    terminal.sees_all(&["edit_file /project/a.txt", "+1 ", "-old words", "+new words"]);
    terminal.sees_all(&["write_file /project/b.txt", "created +40", "+line 19", "21 more lines", "/diff"]);
    terminal.sees_last("It is done.");
    terminal.leaves();

    // Without a terminal, each call is one line.
    let session = &world.last_session().await;
    let attached = world.ok(["attach", session, "--after", "0"]).await.stderr;
    let reads: Vec<&str> = attached.lines().filter(|line| line.contains("read_file")).collect();
    assert!(matches!(reads[..], [line] if line.contains("a.txt:1, 2") && line.ends_with("2 calls")), "{attached}");
    has_all(&attached, &["grep \"old \\w+\" in /project", "edit_file /project/a.txt → +1 −1", "created +40"]);
    assert!(!attached.contains("+new words"), "{attached}");
}

#[tokio::test]
async fn continue_selects_the_last_session_of_the_folder() {
    let world = World::with_reply("Done.").await;
    let folder = |name: &str| {
        let folder = world.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let (one, other, third) = (folder("one"), folder("other"), folder("third"));
    let run = async |args: &[&str]| {
        let ran = world.agentctl([&["run", "Hi", "--output", "json"], args].concat()).await;
        ran.exits(0).json()["session_id"].clone()
    };
    let first = run(&["-C", &format!("{one}:rw")]).await;
    let second = run(&["-C", &other]).await;
    assert_eq!(run(&["--continue", "-C", &format!("{one}:rw")]).await, first);
    assert_eq!(run(&["--continue", "-C", &other]).await, second);
    let refused = world.agentctl(["run", "Hi", "--continue", "-C", &third]).await;
    refused.exits(2).says(&["no session sees this folder", "agentctl sessions list"]);
    assert_eq!(world.json(["sessions", "list"]).await[0]["project"], json!({"path": other, "writable": false}));
    // A session without a folder can be continued from any folder.
    let nowhere = run(&[]).await;
    assert_eq!(run(&["--continue"]).await, nowhere);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_starts_with_the_prompt_of_its_command() {
    let world = World::with_reply("Good morning.").await;
    let mut terminal = Terminal::open(&world.daemon, &["Say", "hello"]);
    terminal.sees("Say hello");
    terminal.sees_last("Good morning.");
    terminal.leaves();
    let piped = world.agentctl_with(["chat", "First"], "\nSecond\n").await;
    assert_eq!(piped.exits(0).stdout, "Good morning.\nGood morning.\n");
    let inputs: Vec<String> = world.model.requests().iter().map(|request| request.last_user().to_owned()).collect();
    assert_eq!(inputs, ["Say hello", "First", "Second"]);
    assert!(world.model.requests()[2].body["messages"].to_string().contains("First"), "both turns are in one session");
    world.agentctl_with(["chat"], "/nonsense\n").await.exits(2).says(&["/help"]);
    // Without a prompt argument, a chat is only started at a terminal.
    let mut terminal = Terminal::around(&world.daemon, "exec \"$@\"", &[]);
    terminal.prompt();
    terminal.leaves();
    world.daemon.agentctl::<&str>([]).await.exits(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_without_a_command_takes_what_chat_takes() {
    let world = World::with_reply("Good morning.").await;
    let first = world.agentctl_with(["Paint the barn"], "").await;
    assert_eq!(first.exits(0).stdout, "Good morning.\n");
    let session = world.last_session().await;
    world.agentctl_with(["-c"], "And the roof?\n").await.exits(0);
    world.agentctl_with(["--resume", &session, "And the door?"], "").await.exits(0);
    assert!(world.model.requests().iter().all(|request| request.body.to_string().contains("Paint the barn")));
    assert_eq!((world.model.requests().len(), world.last_session().await), (3, session));
    world.agentctl(["stauts"]).await.exits(2).says(&["unrecognized subcommand", "'status'"]);
    world.agentctl(["-c", "stauts"]).await.exits(2).says(&["a command comes first"]);
    world.agentctl(["--resume", "", "And the door?"]).await.exits(2).says(&["takes no message", "--resume last"]);
    assert_eq!(world.model.requests().len(), 3);
    let mut terminal = Terminal::around(&world.daemon, "exec \"$@\"", &["--resume"]);
    terminal.answers("leaves)", "\r");
    terminal.sees_last("Good morning.");
    terminal.leaves();
}

/// A rule is shown before it is stored, a permanent rule is confirmed twice, and a denied edit asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_stores_a_rule_and_refuses_a_denied_edit() {
    let world = World::with_files(&[("config/hitl_rules.yaml", "tools: {run_bash_command: {deny: [shred]}}")]).await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let run = |command: &str| Reply::tool_call("run_bash_command", json!({ "command": command }));
    world.model.reply(run("touch a && touch b")).reply(Reply::text("Touched."));
    terminal.says("Touch them");
    let question = terminal.sees("y yes");
    has_all(&question, &["confirm_exec", "medium risk", "run_bash_command: touch a", "run_bash_command: touch b"]);
    terminal.presses_for("g", "in every session");
    terminal.presses_for("\r", "kept for good");
    terminal.sees_last("Touched.");
    terminal.says("/grants");
    let listed = terminal.prompt();
    assert!(listed.contains("permanent") && listed.contains("run_bash_command: [in /] touch b"), "{listed:?}");

    world.model.reply(run("touch c")).reply(says("Then not."));
    terminal.says_for("One more", "y yes");
    terminal.presses_for("e", "command:");
    // Ctrl-U erases the line.
    terminal.presses("\u{15}shr'ed' c\r");
    terminal.sees_all(&["denied", "y yes"]);
    terminal.presses_for("n", "reason");
    terminal.presses_last("\r", "Then not.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_cancels_the_turn_and_not_the_conversation() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(Reply::text("It hangs now").hang_after_text("hangs"));
    terminal.says("Hang, please");
    world.model.wait_until(|counts| counts.requests == 1).await;
    terminal.control('c');
    terminal.sees_last("cancel");
    world.model.wait_until(|counts| counts.dropped == 1).await;
    world.model.reply(says("Better now."));
    terminal.hears("And now?", "Better now.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_answered_elsewhere_leaves_the_chat() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let write = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(write).reply(says("It is written."));
    terminal.says_for("Write it", "y yes");
    let waiting = world.json(["interrupts"]).await;
    world.ok(["answer", waiting[0]["id"].as_str().unwrap(), "approve"]).await;
    terminal.sees("approved, from another terminal");
    terminal.sees_last("It is written.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reopened_chat_shows_the_pending_question() {
    let world = World::start().await;
    let write = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(write).reply(says("It is written."));
    let mut running = world.spawn_agentctl(["run", "Write it", "--on-interrupt", "wait", "--output", "stream-json"]);
    let (raised, _) = running.event("interrupt_raised").await;
    drop(running);
    let mut terminal = Terminal::open(&world.daemon, &["--session", raised["session_id"].as_str().unwrap()]);
    terminal.answers("y yes", "y");
    terminal.sees_last("It is written.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompt_shows_context_usage_when_the_window_fills() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(Reply::text("Little."));
    terminal.says_for("Read a line", "Little.");
    let quiet = terminal.prompt();
    assert!(!quiet.contains('%'), "{quiet:?}");
    let usage = json!({"prompt_tokens": 26_000, "completion_tokens": 10, "total_tokens": 26_010});
    world.model.reply(Reply { usage: Some(usage), ..Reply::text("Much.") });
    terminal.says("Read all of it");
    terminal.sees_all(&["Much.", PROMPT_START, "79% "]);
    terminal.hears("/context", "window of 32,768 tokens");
    terminal.hears("/compact summarize", "nothing to compact");
    terminal.hears("/compact undo", "no compaction to undo");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_shows_a_preview_and_asks_for_confirmation() {
    let world = World::start().await;
    let write = |path: &str, content: &str| Reply::tool_call("write_file", json!({"path": path, "content": content}));
    world
        .model
        .reply(write("/state/plan.md", "dig\n"))
        .reply(write("outputs/a.txt", "first\n"))
        .reply(Reply::text("So."));
    let session = &world.ok(["run", "Write", "--on-interrupt", "approve", "--output", "json"]).await.session();
    let written = world.data().join("workspace").join(session).join("outputs/a.txt");
    let mut terminal = Terminal::ready(&world.daemon, &["--session", session]);
    for (answer, stays) in [("n\r", true), ("y\r", false)] {
        terminal.says("/undo");
        let preview = terminal.sees("Undo turn 1? y/n");
        // The input field appears once the user has had time to read the question.
        terminal.sees(" > ");
        has_all(&preview, &["outputs/a.txt: will be removed", "/state/plan.md: will be removed", "-dig"]);
        terminal.presses(answer);
        terminal.sees_last(if stays { "nothing was undone" } else { "turn 1: 2 paths undone" });
        assert_eq!(written.exists(), stays);
        let plan = world.agentctl(["files", "get", session, "/state/plan.md"]).await;
        assert_eq!(plan.code, Some(if stays { 0 } else { 2 }));
    }
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_mention_is_completed_and_attached() {
    let world = World::start().await;
    world.write("desk/my notes.txt", "the cat is out\n");
    world.write("desk/.secret", "hunter2\n");
    let desk = world.path().join("desk").display().to_string();
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(says("It is out."));
    terminal.presses(&format!("Where is it? #{desk}/\t"));
    // Hidden files are not offered, so there is only one match.
    terminal.answers("my notes.txt", "\r");
    terminal.sees("attached: uploads/my notes.txt");
    terminal.sees_last("It is out.");
    terminal.leaves();
    let messages = world.model.requests()[0].body["messages"].to_string();
    assert!(messages.contains("the cat is out") && !messages.contains("hunter2"), "{messages}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_that_was_left_open_is_shown_again() {
    let world = World::start().await;
    world.model.reply(says("1. Dig\n2. Plant")).reply(says("Planted."));
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.says_for("/plan Make a garden", "y yes");
    terminal.presses("s");
    terminal.prompt();
    terminal.says("/interrupts");
    let asked = terminal.sees("Carry out this plan?");
    assert!(asked.contains("1. Dig\r\n2. Plant\r\n"), "{asked:?}");
    terminal.answers("y yes", "y");
    terminal.sees_last("Planted.");
    terminal.leaves();
}
