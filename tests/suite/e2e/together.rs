//! Two chats in one session: each shows the activity of the other, and both can add messages to the running turn.

use super::*;

fn slow_reply<const N: usize>(deltas: [&str; N]) -> Reply {
    Reply::deltas(deltas).delay_ms(500)
}

/// Opens two chats, which are at their prompts, in a session with a message.
async fn two_chats(world: &World) -> (Terminal, Terminal) {
    let mut first = Terminal::ready(&world.daemon, &[]);
    world.model.reply(says("Hello to you."));
    first.hears("Hi", "Hello to you.");
    let mut second = Terminal::open(&world.daemon, &["--session", "last"]);
    second.sees_last("Hello to you.");
    (first, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_chat_shows_a_running_turn_and_can_steer_it() {
    let world = World::start().await;
    let (mut first, mut second) = two_chats(&world).await;
    // A partially typed line is preserved.
    second.presses_for("in Fren", "in Fren");
    world.model.reply(slow_reply(["One.\n\n", "Two.\n\n", "Three."])).reply(says("In French: un."));
    first.says("Count to three");
    second.sees_all(&["Count to three", "One."]);
    second.presses_for("ch\r", "1 message waits");
    for terminal in [&mut first, &mut second] {
        terminal.sees_all(&["Three.", "in French\r"]);
        terminal.sees_last("In French: un.");
    }
    let inputs: Vec<String> = world.model.requests().iter().map(|request| request.last_user().to_owned()).collect();
    assert_eq!(inputs, ["Hi", "Count to three", "in French"]);
    assert_eq!(world.json(["sessions", "list"]).await[0]["turns"], 2, "steering input starts no turn");

    // The partially typed line is back in the prompt after the turn. Another turn is also shown.
    second.presses_for("half a li", "half a li");
    world.model.reply(says("Four."));
    first.says("And then?");
    second.sees("And then?");
    second.sees_last("Four.");
    second.sees("half a li");
    first.sees_last("Four.");
    world.model.reply(says("Whole."));
    second.presses_last("ne\r", "Whole.");
    first.sees("half a line");
    first.sees_last("Whole.");
    second.leaves();
    first.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_chat_can_leave_steer_and_cancel_the_turn() {
    let world = World::start().await;
    let (mut first, mut second) = two_chats(&world).await;
    world.model.reply(says("It hangs now").hang_after_text("hangs"));
    first.says("Go");
    second.sees("Go");
    world.model.wait_until(|counts| counts.requests == 2).await;
    second.presses_last("q", "left; the turn continues");
    // The turn is not shown again automatically, but a message is added to it.
    second.says("faster, please");
    second.sees_all(&["another client's turn is at work here", "1 message waits"]);
    second.control('c');
    second.sees("Ctrl-C again cancels the turn");
    second.control('c');
    second.sees("cancelling");
    // No model has read the message, so it is returned to the client that cancelled.
    second.prompt();
    second.sees("faster, please");
    first.sees_last("cancelled");
    let shown = world.ok(["sessions", "show", "last"]).await.stdout;
    assert!(shown.contains("Go") && !shown.contains("faster, please"), "{shown}");
    second.presses("\u{15}");
    second.leaves();
    first.leaves();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attach_finds_the_running_turn_and_q_leaves_it() {
    let world = World::start().await;
    world.ok(["attach"]).await.says(&["no turn is running"]);
    let hangs = || says("It hangs now").hang_after_text("hangs");
    world.model.reply(hangs());
    let one = world.ok(["run", "Go", "--detach"]).await.stdout;
    world.model.wait_until(|counts| counts.requests == 1).await;
    let mut terminal = Terminal::around(&world.daemon, "\"$@\"; echo ended:$?", &["attach"]);
    terminal.answers("Go", "q");
    terminal.sees_all(&["left; the turn continues", "ended:0"]);
    terminal.ends();
    let sessions = world.json(["sessions", "list"]).await;
    assert_eq!(sessions[0]["status"], "running");

    world.model.reply(hangs());
    world.ok(["run", "Go on", "--detach"]).await;
    let end = &one.trim()[one.trim().len() - 8..];
    world.agentctl(["attach"]).await.exits(2).says(&["turns are running in 2 sessions", "Go on · just now · ", end]);
}
