//! Resuming at a terminal: the list of sessions, starting a new session, and the last session in a folder.

use super::*;

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
