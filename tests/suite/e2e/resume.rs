//! Resuming at a terminal: the list of sessions, starting a new session, the last session in a folder, and what ended
//! meanwhile.

use super::{damage::damage_journal, *};

/// An arrow key, as a terminal sends it.
const DOWN: &str = "\u{1b}[B";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_chosen_from_the_list_can_be_continued() {
    let world = World::start().await;
    let project = world.path().join("app");
    fs::create_dir(&project).unwrap();
    let view = format!("{}:ro", project.display());
    for (prompt, folder) in [("Paint the barn", &view[..]), ("Mend the roof", &view), ("Sail away", "none")] {
        world.model.reply(Reply::text("Certainly."));
        world.ok(["run", prompt, "-C", folder]).await;
    }
    let mut terminal = Terminal::open(&world.daemon, &["-C", &view]);
    terminal.sees_last("last here: Mend the roof");
    terminal.says("/resume");
    // Sessions in this folder come first, although another session was used more recently.
    let list = terminal.sees("Sail away");
    let (roof, barn) = (list.find("Mend the roof").unwrap(), list.find("Paint the barn").unwrap());
    assert!(roof < barn, "{list}");
    terminal.presses_for("app", "leaves): app");
    terminal.presses(DOWN);
    // The bytes are `› `, which the terminal library does not decode.
    terminal.answers("\u{e2}\u{80}\u{ba} Paint the barn", "\r");
    terminal.sees_last("Certainly.");
    world.model.reply(Reply::text("Red."));
    terminal.hears("Which colour?", "Red.");
    let request = world.model.requests().last().unwrap().body.to_string();
    assert!(request.contains("Paint the barn") && !request.contains("Mend the roof"), "{request}");

    // Esc selects nothing. A new session has no content from the previous one, which is preserved.
    terminal.says_for("/resume", "leaves)");
    terminal.presses("\u{1b}");
    terminal.prompt();
    terminal.hears("/clear", "the session before is kept");
    world.model.reply(Reply::text("Hello."));
    terminal.hears("Hi", "Hello.");
    let request = world.model.requests().last().unwrap().body.to_string();
    assert!(!request.contains("Paint the barn"), "{request}");
    terminal.leaves();
}

#[tokio::test]
async fn resume_without_a_terminal_is_refused() {
    let world = World::start().await;
    world.agentctl(["chat", "--resume"]).await.exits(2).says(&["needs a terminal", "hint: /load"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_command_is_a_chooser_or_a_table_without_a_terminal() {
    let world = World::with_reply("Certainly.").await;
    for prompt in ["Paint the barn", "Mend the roof"] {
        world.ok(["run", prompt]).await;
    }
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.says_for("/sessions", "leaves)");
    terminal.presses("\u{1b}");
    terminal.prompt();
    terminal.says_for("/sessions", "leaves)");
    terminal.presses_for("barn", "leaves): barn");
    terminal.presses_last("\r", "Certainly.");
    terminal.hears("And then?", "Certainly.");
    let request = world.model.requests().last().unwrap().body.to_string();
    assert!(request.contains("Paint the barn") && !request.contains("Mend the roof"), "{request}");
    terminal.leaves();
    world.agentctl_with(["chat"], b"/sessions\n".to_vec()).await.exits(0).shows(&["TITLE", "Mend the roof"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_is_found_in_the_list_by_its_text() {
    let world = World::start().await;
    let runs =
        [("Paint the barn", "The retry limit is now seven."), ("Mend the roof", "Mended."), ("Sail away", "Sailed.")];
    for (prompt, answer) in runs {
        world.model.reply(says(answer));
        world.ok(["run", prompt]).await;
    }
    world.model.default_reply(Reply::text("Seven."));
    for (line, is_plain) in [("exec \"$@\"", false), ("TERM=dumb exec \"$@\"", true)] {
        let mut terminal = Terminal::around(&world.daemon, line, &["chat"]);
        if is_plain {
            terminal.sees("\u{e2}\u{80}\u{ba} ");
            terminal.presses("/resume\r");
            terminal.answers("words to search", "our retry limit\r");
            terminal.sees_all(&["  1  Paint the barn", "retry limit is now", "words to search"]);
            terminal.presses_for("1\r", "The retry limit is now seven.");
            terminal.sees("\u{e2}\u{80}\u{ba} ");
        } else {
            terminal.prompt();
            terminal.says_for("/resume", "leaves)");
            terminal.presses("our retry limit");
            // Only the passage continues after the searched words.
            terminal.sees_all(&["leaves): our retry limit", "Paint the barn", "retry limit is now"]);
            terminal.presses_last("\r", "The retry limit is now seven.");
            terminal.hears("How many?", "Seven.");
        }
        terminal.leaves();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_session_is_marked_in_a_new_chat_and_in_lists() {
    let world = World::start().await;
    let project = world.path().join("app");
    fs::create_dir(&project).unwrap();
    let view = format!("{}:ro", project.display());
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"})));
    let args = ["run", "Write it", "-C", &view, "--on-interrupt", "wait", "--output", "stream-json"];
    let mut running = world.spawn_agentctl(args);
    running.event("interrupt_raised").await;
    drop(running);
    world.ok(["sessions", "list"]).await.shows(&["FOLDER", "app/", "waits for your answer", "Write it"]);
    let listed = world.json(["sessions", "list"]).await;
    holds(&listed[0], json!({"status": "waiting", "project": {"path": project, "writable": false}}));

    let mut terminal = Terminal::open(&world.daemon, &["-C", &view]);
    terminal.sees("last here: Write it");
    terminal.sees_last("waits for your answer");
    terminal.says_for("/resume", "leaves)");
    terminal.sees_all(&["Write it", "app/", "waits for your answer"]);
    terminal.presses("\u{1b}");
    terminal.prompt();
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_session_summarises_what_ended_meanwhile() {
    let mut world = World::start().await;
    let write = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(write).reply(says("It is written."));
    let args = ["run", "Write it", "--on-interrupt", "approve", "--output", "json"];
    let session = world.ok(args).await.session();
    let options = ["--session", session.as_str()];
    let mut terminal = Terminal::open(&world.daemon, &options);
    let shown = terminal.prompt();
    assert!(shown.contains("It is written.") && !shown.contains("since the last message"), "{shown:?}");
    terminal.leaves();

    assert_eq!(world.daemon.sigterm().await, Some(0));
    let hours = 3 * 3600 * 1_000_000_000_u64;
    damage_journal(&world, &format!("UPDATE events SET at = at - {hours}"));
    world.daemon.restart().await;
    let mut terminal = Terminal::open(&world.daemon, &options);
    let shown = terminal.prompt();
    has_all(&shown, &["since the last message, 3 h ago: 1 turn ended", "changed: outputs/a.txt"]);
    terminal.leaves();

    // The turn that waits has a newer message.
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/b.txt", "content": "b"})));
    let args = ["run", "Another", "--session", &session, "--on-interrupt", "wait", "--output", "stream-json"];
    let mut running = world.spawn_agentctl(args);
    running.event("interrupt_raised").await;
    drop(running);
    let mut terminal = Terminal::open(&world.daemon, &options);
    let shown = terminal.sees("y yes");
    assert!(shown.contains("It is written.") && !shown.contains("since the last message"), "{shown:?}");
    terminal.presses_for("s", "/interrupts asks again");
    terminal.prompt();
    terminal.leaves();
}
