//! Clients that are asked to end or die, and the effects on their turns.

use agentd_core::ids::SessionId;

use super::*;

fn run(command: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({ "command": command }))
}

/// Waits for the first event of a run. Returns its session and output folder.
async fn outputs(world: &World, running: &mut Running) -> (String, std::path::PathBuf) {
    let (started, _) = running.event("turn_started").await;
    let session = started["session_id"].as_str().unwrap().to_owned();
    let outputs = world.data().join("workspace").join(&session).join("outputs");
    (session, outputs)
}

/// Starts a client that handles a hang-up, even if the tests run under `nohup`.
fn spawn_with_hangup_handling(world: &World, args: &[&str]) -> Running {
    let client = world.agentctl_command(args);
    let mut command = world.daemon.command("python3");
    let restore_hangup =
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])";
    command.args(["-c", restore_hangup]).arg(client.get_program()).args(client.get_args());
    let mut running = Running::spawn(command);
    running.end_input();
    running
}

async fn wait_for_file(path: &Path) {
    until_true("a file", || path.exists()).await;
}

#[tokio::test]
async fn signal_cancels_the_command_and_prints_the_result() {
    let world = World::start().await;
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130)] {
        world.model.reply(run("touch outputs/begun; sleep 50; touch outputs/late"));
        let args = ["run", "Go!", "--on-interrupt", "approve", "--output", "stream-json"];
        let mut running = spawn_with_hangup_handling(&world, &args);
        let (session, outputs) = outputs(&world, &mut running).await;
        wait_for_file(&outputs.join("begun")).await;
        running.signal(signal);
        let output = running.output(Vec::new()).await.exits(code);
        let result = output.json_lines().pop().unwrap();
        holds(&result, json!({"type": "result", "stop_reason": "cancelled"}));
        assert_eq!(world.json(["sessions", "show", &session]).await["live_turn_id"], Value::Null, "{signal}");
        assert!(!outputs.join("late").exists());
    }
}

#[tokio::test]
async fn sigterm_ends_a_run_while_streaming_and_at_a_question() {
    let world = World::start().await;
    world.model.reply(Reply::text("It hangs now").hang_after_text("hangs"));
    let running = world.spawn_agentctl(["run", "Hang!", "--output", "json"]);
    world.model.wait_until(|counts| counts.requests == 1).await;
    // Like `timeout`, the test sends the signal to the process and to its process group.
    running.signal(Signal::SIGTERM);
    running.signal(Signal::SIGTERM);
    let result = running.output(Vec::new()).await.exits(143).json();
    assert_eq!(result["stop_reason"], "cancelled");
    world.model.wait_until(|counts| counts.dropped == 1).await;

    world.model.reply(run("touch outputs/a"));
    let mut running = world.spawn_agentctl(["run", "Ask!", "--on-interrupt", "wait", "--output", "stream-json"]);
    running.event("interrupt_raised").await;
    running.signal(Signal::SIGTERM);
    let output = running.output(Vec::new()).await.exits(143);
    assert_eq!(output.json_lines().pop().unwrap()["stop_reason"], "cancelled");
    assert_eq!(world.questions().await, [Value::Null; 0]);
    world.still_serves().await;
}

/// The client ignores hang-ups, as when started by `nohup`.
#[tokio::test]
async fn ignored_sighup_stays_ignored() {
    let world = World::start().await;
    let client = world.agentctl_command(["run", "Slowly", "--output", "json"]);
    let mut command = world.daemon.command("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(client.get_program()).args(client.get_args());
    world.model.reply(Reply::deltas(["One.\n\n", "Two."]).delay_ms(1000));
    let mut running = Running::spawn(command);
    running.end_input();
    world.model.wait_until(|counts| counts.requests == 1).await;
    running.signal(Signal::SIGHUP);
    assert_eq!(running.output(Vec::new()).await.exits(0).json()["stop_reason"], "completed");
}

#[tokio::test]
async fn killed_client_approves_nothing() {
    let world = World::start().await;
    let first = "touch outputs/one; until [ -e outputs/go ]; do sleep 0.1; done; echo first";
    let steps: Vec<(&[&str], Reply)> =
        vec![(&["first"], run(first)), (&["second"], run("touch outputs/two; echo second"))];
    script_steps(&world.model, steps, Reply::text("Both."));
    let mut running = world.spawn_agentctl(["run", "Go!", "--on-interrupt", "approve", "--output", "stream-json"]);
    let (session, outputs) = outputs(&world, &mut running).await;
    wait_for_file(&outputs.join("one")).await;
    running.signal(Signal::SIGKILL);
    running.output(Vec::new()).await;
    fs::write(outputs.join("go"), "").unwrap();

    let question = world.first_question().await;
    assert_eq!(question["args"]["command"], "touch outputs/two; echo second");
    assert!(!outputs.join("two").exists());
    world.ok(["answer", question["id"].as_str().unwrap(), "approve"]).await;
    world.ok(["attach", &session]).await;
    wait_for_file(&outputs.join("two")).await;
}

#[tokio::test]
async fn detached_run_continues_with_its_interrupt_policy() {
    let world = World::start().await;
    let steps: Vec<(&[&str], Reply)> = vec![(&["done"], run("touch outputs/a; echo done"))];
    script_steps(&world.model, steps, says("It is done."));
    let output = world.ok(["run", "Go!", "--detach", "--on-interrupt", "approve"]).await;
    let session: SessionId = output.stdout.trim().parse().unwrap();
    output.says(&["agentctl attach"]);
    wait_for_file(&world.daemon.data().join("workspace").join(session.to_string()).join("outputs/a")).await;

    // Without a terminal, the client waits by default.
    let started = world.ok(["run", "Go!", "--detach", "--output", "json"]).await.json();
    assert_eq!(started["type"], "started");
    let question = world.first_question().await;
    assert_eq!((&question["session_id"], &question["turn_id"]), (&started["session_id"], &started["turn_id"]));
    world.agentctl(["run", "Go!", "--detach", "--on-interrupt", "ask"]).await.exits(2).says(&["hint:"]);
}

/// Returns the process ID of the client at a terminal, found by the client's arguments.
fn client(world: &World) -> u32 {
    let is_client = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        first.ends_with(b"/agentctl")
    };
    world.processes().into_iter().find(is_client).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_restores_the_terminal_settings() {
    let world = World::start().await;
    let line = "stty -g >\"$HOME/before\"; \"$@\"; echo \"code $?\"; stty -g >\"$HOME/after\"";
    let signal = |signal: Signal| {
        let pid = i32::try_from(client(&world)).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    };
    let ends = |mut terminal: Terminal, parts: &[&str]| {
        signal(Signal::SIGTERM);
        terminal.sees_all(parts);
        terminal.sees("code 143");
        terminal.ends();
        assert_eq!(world.read("before"), world.read("after"));
    };
    // At the prompt, while streaming, and at a question, the turn continues, as it does when a window is closed.
    let mut terminal = Terminal::around(&world.daemon, line, &["chat"]);
    terminal.prompt();
    ends(terminal, &[]);

    world.model.reply(Reply::text("It hangs now").hang_after_text("hangs"));
    let mut terminal = Terminal::around(&world.daemon, line, &["chat"]);
    terminal.prompt();
    terminal.says("Hang!");
    world.model.wait_until(|counts| counts.requests == 1).await;
    ends(terminal, &["the turn continues"]);
    assert_eq!(world.model.counts().dropped, 0);

    world.model.reply(run("touch outputs/a"));
    let mut terminal = Terminal::around(&world.daemon, line, &["run", "Ask!"]);
    terminal.sees("y yes");
    ends(terminal, &[]);
    assert_eq!(world.questions().await, [Value::Null; 0]);
}

/// Simulates a user whose terminal disappears. Arguments: text to wait for before typing, text to type, text to wait
/// for before the terminal disappears, `ignored` if the client ignores the hang-up, and the client. Prints the client's
/// exit code.
const LOSE_TERMINAL: &str = r#"
import os, pty, signal, sys
before, typed, after, ignored, *client = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored == "ignored" else signal.SIG_DFL)
    os.execv(client[0], client)
seen = b""
def late(*_):
    print(seen[-2000:], flush=True)
    os._exit(1)
# A client that goes on for ever is a failure, too.
signal.signal(signal.SIGALRM, late)
signal.alarm(60)
def sees(words):
    global seen
    while words.encode() not in seen:
        seen += os.read(terminal, 4096)
sees(before)
if typed:
    os.write(terminal, typed.encode())
    sees(typed)
    os.write(terminal, b"\r")
sees(after)
stopped = int(os.environ.get("STOPPED") or 0)
if stopped:
    os.kill(stopped, signal.SIGSTOP)
os.close(terminal)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if stopped:
    os.kill(stopped, signal.SIGCONT)
print("code", code, flush=True)
"#;

/// Makes a client lose its terminal, and waits until the client ends.
async fn assert_ends_without_terminal(
    world: &World,
    [before, typed, after, ignored]: [&str; 4],
    stopped: &str,
    args: &[&str],
) {
    let client = world.agentctl_command(args);
    let mut command = world.daemon.command("python3");
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1").env("STOPPED", stopped);
    command.args(["-c", LOSE_TERMINAL, before, typed, after, ignored]);
    command.arg(client.get_program()).args(client.get_args());
    let output = Running::spawn(command).output(Vec::new()).await.exits(0);
    assert!(output.stdout.contains("code 129"), "{args:?}, {ignored}: {output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_terminal_ends_client_in_pager_or_with_daemon_stopped() {
    let mut world = World::start().await;
    world.daemon.set("PAGER", "trap '' HUP; echo paged; exec sleep 600");
    let stopped = world.daemon.pid().to_string();
    for ignored in ["heeded", "ignored"] {
        world.model.reply(Reply::deltas(std::iter::repeat_n("And more.\n\n", 50)).delay_ms(200));
        assert_ends_without_terminal(&world, ["› ", "Go on!", "And more.", ignored], &stopped, &["chat"]).await;
    }
    let history = fs::read_to_string(world.data().join("history")).unwrap();
    assert!(history.contains("Go on!\n"), "an input is in the history as soon as it is sent: {history:?}");
    let time = Reply::tool_call("current_time", json!({}));
    world.model.reply(time).reply(says("It is late."));
    let session = &world.ok(["run", "What time is it?", "--output", "json"]).await.session();
    for ignored in ["heeded", "ignored"] {
        // The last message has the same marker as the prompt, so the test recognises the prompt by the start of
        // bracketed paste mode.
        let prompt = "\x1b[?2004h";
        assert_ends_without_terminal(&world, [prompt, "/show", "paged", ignored], "", &["chat", "--session", session])
            .await;
    }
    world.still_serves().await;
}

/// Sends a signal and waits until the client has ended.
async fn ends_by(client: Running, signal: Signal) -> Output {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(client.pid()).unwrap());
    let ended = tokio::spawn(client.output(Vec::new()));
    until("the client has disconnected", || async {
        let _ = nix::sys::signal::kill(pid, signal);
        ended.is_finished().then_some(())
    })
    .await;
    ended.await.unwrap()
}

#[tokio::test]
async fn further_signal_ends_any_command_while_the_daemon_is_stopped() {
    let world = World::configured("service: {log_level: debug}").await;
    world.model.reply(Reply::text("It hangs now").hang_after_text("hangs"));
    let mut running = world.spawn_agentctl(["run", "Hang!", "--output", "stream-json"]);
    let (started, _) = running.event("turn_started").await;
    let session = started["session_id"].as_str().unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let before = world.followers();
        let attached = world.spawn_agentctl(["attach", session, "--output", "stream-json"]);
        let waiting = world.spawn_agentctl(["wait", session]);
        let server = world.spawn_agentctl(["mcp", "serve"]);
        until_true("all clients are subscribed", || world.followers() >= before + 2).await;
        world.daemon.signal(Signal::SIGSTOP);
        for client in [attached, waiting, server] {
            ends_by(client, signal).await;
        }
        world.daemon.signal(Signal::SIGCONT);
    }
    world.daemon.signal(Signal::SIGSTOP);
    ends_by(running, Signal::SIGTERM).await.exits(143);
    world.daemon.signal(Signal::SIGCONT);
    world.still_serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_terminal_ends_the_client_in_any_state() {
    let world = World::start().await;
    for ignored in ["heeded", "ignored"] {
        let lose = async |before: &str, typed: &str, after: &str, args: &[&str]| {
            assert_ends_without_terminal(&world, [before, typed, after, ignored], "", args).await;
        };
        // The client ends at the prompt, while streaming, and at a question.
        lose("› ", "", "", &["chat"]).await;
        world.model.reply(Reply::deltas(std::iter::repeat_n("And more.\n\n", 200)).delay_ms(200));
        lose("› ", "Go on!", "And more.", &["chat"]).await;
        world.model.reply(run("touch outputs/a"));
        lose("› ", "Ask!", "y yes", &["chat"]).await;
    }
    assert_eq!(world.questions().await.len(), 2);
}
