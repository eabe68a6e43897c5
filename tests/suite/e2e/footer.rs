//! The lines at the bottom of the screen: the status line, the keys of a question, and what waits.

use super::*;

const SIZE: (u16, u16) = (80, 24);

/// Time of a turn in the status line, as bytes.
const CLOCK: &str = " \u{c2}\u{b7} 0:0";

fn write(path: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": "a"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_line_stays_below_a_question_and_leaves_no_trace() {
    let world = World::start().await;
    world.model.reply(write("outputs/a.txt")).reply(says("Written."));
    let mut screen = Screen::ready(&world.daemon, SIZE, &[]);
    screen.types("Write it\r");
    screen.wait("the status line is the row below the keys", |screen| {
        let rows = screen.rows();
        let keys = rows.iter().position(|row| row.contains("y yes"));
        let last = rows.last().filter(|row| row.starts_with("ask · ") && row.contains(" · 0:0"));
        last.is_some() && keys == rows.len().checked_sub(2)
    });
    screen.types("y");
    screen.sees("Written.");
    screen.prompt();
    let shown = screen.rows().join("\n");
    assert!(!shown.contains("y yes") && !shown.contains(" · 0:0"), "{shown}");
    assert_eq!(shown.matches("ask · ").count(), 1, "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_at_a_question_takes_its_keys_off_the_screen() {
    let world = World::start().await;
    world.model.reply(write("outputs/a.txt")).reply(says("Heard."));
    let mut screen = Screen::ready(&world.daemon, SIZE, &[]);
    screen.types("Write it\r");
    screen.sees("y yes");
    screen.types("\u{3}");
    screen.sees("cancelling the turn");
    let shown = screen.rows();
    assert!(shown.iter().any(|row| row.starts_with("cancelling")), "{shown:?}");
    assert!(!shown.join("\n").contains("y yes"), "{shown:?}");
    screen.prompt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_questions_and_messages_are_counted_at_a_question() {
    let world = World::start().await;
    world.model.respond_with(|request| match (is_subagent(request), request.last_role()) {
        (true, "tool") => Reply::text("It was written as it was wanted, and nothing was left open. ".repeat(8)),
        (true, _) if request.last_user().contains("first part") => write("outputs/one.txt"),
        (true, _) => write("outputs/two.txt"),
        (false, "tool") => says("Both are over."),
        (false, _) if request.last_user().ends_with("Go") => {
            let call = |task: &str| json!({ "task": task });
            Reply::tool_call("delegate_task", call("Write the first part"))
                .and_call("delegate_task", call("Write the second part"))
        }
        (false, _) => says("Heard."),
    });
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    terminal.says_for("Go", "1 question waits");
    terminal.presses_for("later\t", "1 message waits");
    terminal.answers("y yes", "y");
    terminal.sees("approved");
    terminal.answers("y yes", "y");
    terminal.sees_all(&["approved", "Both are over."]);
    terminal.sees_last("Heard.");
    assert!(world.model.requests().last().unwrap().last_user().ends_with("later"));

    // A question that was put off is counted at the prompt.
    world.model.respond_with(|request| match request.last_role() {
        "tool" => says("Written."),
        _ => write("outputs/three.txt"),
    });
    terminal.says_for("Write it", "y yes");
    terminal.presses("s");
    terminal.sees_all(&[PROMPT_START, "1 question waits"]);
    terminal.says_for("/interrupts", "y yes");
    terminal.presses_last("y", "Written.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn escape_twice_edits_the_last_message() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(says("One.")).reply(says("Two."));
    terminal.hears("First thing", "One.");
    terminal.hears("Second thing", "Two.");
    terminal.presses_for("\u{1b}", "Esc again edits the last message");
    // Another key ends it: the next Esc is a first one.
    terminal.presses("x\u{8}");
    terminal.presses_for("\u{1b}", "Esc again edits the last message");
    terminal.presses_last("\u{1b}", "back to before turn 2");
    terminal.sees("Second thing");
    world.model.reply(says("Edited."));
    terminal.presses_last(" twice\r", "Edited.");
    let request = world.model.requests().pop().unwrap();
    assert!(request.last_user().ends_with("Second thing twice"), "{}", request.last_user());
    let texts: String = request.messages().iter().map(|message| message["content"].to_string()).collect();
    assert!(texts.contains("First thing") && texts.matches("Second thing").count() == 1, "{texts}");

    // The files of the turn are asked about.
    world.model.reply(write("outputs/a.txt")).reply(says("Written."));
    terminal.says_for("Write it", "y yes");
    terminal.presses_last("y", "Written.");
    terminal.presses_for("\u{1b}", "Esc again edits the last message");
    terminal.presses_for("\u{1b}", "Rewind (type to search");
    terminal.presses_for("\r", "1 path undone");
    terminal.sees_last("back to before turn 3");
    terminal.sees("Write it");
    terminal.control('c');
    terminal.prompt();

    // `/rewind N` returns the message of its turn, too.
    terminal.hears("/rewind 1", "back to before turn 1");
    terminal.sees("First thing");
    terminal.control('c');
    terminal.prompt();
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_blocks_of_the_last_answer_are_copied() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    let answer = "Run:\n\n```sh\nmake\n```\n\nOr:\n\n```\nmake all\nmake test\n```\nThat is it.";
    world.model.reply(says(answer));
    terminal.hears("How?", "That is it.");
    terminal.says("/copy code 1");
    // `make`
    terminal.sees("\u{1b}]52;c;bWFrZQ==\u{7}");
    terminal.sees_last("sent to the terminal's clipboard: 1 line, 4 characters");
    terminal.hears("/copy code", "2 lines, 18 characters");
    terminal.hears("/copy code 3", "the last answer has 2 code blocks to copy");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_is_counted_down_and_keys_of_the_prompt_are_named() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(Reply::rate_limited(3.0)).reply(says("There."));
    terminal.says("Hello");
    // The warning with its reason stays, and the line below counts.
    terminal.sees_all(&["! retrying in ", "slow down", "retrying in "]);
    // Alt-E.
    terminal.presses_for("\u{1b}e", "the editor opens at the prompt");
    terminal.control('v');
    terminal.sees("pictures are pasted at the prompt");
    terminal.sees_last("There.");
    terminal.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn footer_is_drawn_again_when_the_chat_is_continued() {
    let world = World::start().await;
    let mut terminal = Terminal::around(&world.daemon, "set -m; \"$@\"; echo stopped; fg", &["chat"]);
    terminal.prompt();
    world.model.reply(Reply::deltas(["It hangs. ", "Never"]).hang_after_text("Never"));
    terminal.says_for("Hang, please", "It hangs");
    terminal.control('z');
    terminal.sees_all(&["stopped", "It hangs", CLOCK]);
    terminal.control('c');
    terminal.sees_last("cancelling");
    terminal.leaves();
}
