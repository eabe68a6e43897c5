//! Session modes at a terminal and for scripts: which calls run without approval, and how this is reported.

use super::*;

/// Shift-Tab, as a terminal sends it.
const SHIFT_TAB: &str = "\u{1b}[Z";

fn writes(path: &str) -> Reply {
    Reply::deltas(["Now."]).and_call("write_file", json!({"path": path, "content": "a"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shift_tab_switches_the_mode() {
    let world = World::start().await;
    let mut terminal = Terminal::open(&world.daemon, &[]);
    terminal.sees_last("\u{1b}]2;agentd");
    // Several keys sent in one write are all handled, and the input line is unchanged.
    terminal.presses(&format!("wri{SHIFT_TAB}te"));
    terminal.sees_all(&["accept-edits", "write"]);
    world.model.reply(writes("outputs/a.txt")).reply(says("It stands there."));
    terminal.presses_last("\r", "It stands there.");
    assert_eq!(world.model.requests()[0].last_user(), "write");

    // While a turn runs, the key affects the next call.
    world.model.reply(
        Reply::deltas(["One.\n\n", "Two."])
            .delay_ms(700)
            .and_call("write_file", json!({"path": "outputs/b.txt", "content": "b"})),
    );
    world.model.reply(says("I only looked."));
    terminal.says_for("again", "One.");
    terminal.presses(SHIFT_TAB);
    terminal.sees_all(&["mode: plan", "in plan mode"]);
    terminal.sees_last("I only looked.");
    assert!(world.model.requests().last().unwrap().body.to_string().contains("The session is in plan mode"));

    terminal.hears("/mode ask", "mode: ask");
    world.model.reply(writes("outputs/c.txt"));
    terminal.says_for("once more", "wants to use write_file");
    // A question rings the terminal bell.
    terminal.control('c');
    terminal.prompt();
    terminal.leaves();

    let audit = world.ok(["audit"]).await.stdout;
    for mode in ["plan", "ask"] {
        assert!(audit.lines().any(|line| line.contains("mode set") && line.contains(mode)), "{audit}");
    }
    world.ok(["audit", "verify"]).await;
}

#[tokio::test]
async fn mode_option_applies_to_a_run_and_is_stored() {
    let world = World::start().await;
    world.model.reply(writes("outputs/a.txt")).reply(says("Written."));
    assert_eq!(world.ok(["run", "Write", "--mode", "accept-edits"]).await.stdout, "Written.\n");
    world.model.reply(writes("outputs/b.txt")).reply(says("I only looked."));
    world.agentctl(["run", "Write", "--continue", "--mode", "plan"]).await.exits(5);
    let id = &world.last_session().await;
    world.ok(["sessions", "show", id]).await.shows(&["plan: read-only"]);
    world.agentctl(["run", "Write", "--mode", "yolo"]).await.exits(2).says(&["accept-edits"]);
}
