//! Start and end of a daemon.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;

use super::*;

#[tokio::test]
async fn client_starts_the_daemon_if_none_runs() {
    let (_model, home) = TempHome::with_server().await;
    assert_eq!(home.ok(["run", "Hi"]).await.stdout, "Hello from the model server.\n");
    let status = home.json(["status"]).await;
    let pid = status["pid"].as_u64().unwrap();
    // The daemon outlives its client, because it runs in a new session, and other clients reach the same daemon.
    assert_eq!(home.json(["start"]).await["started"], false);
    assert_eq!(home.json(["status"]).await["pid"], pid);
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home.socket()), mode(home.socket().parent().unwrap())), (0o600, 0o700));
    assert_eq!(mode(&home.data()), 0o700);
    home.ok(["stop"]).await;
    assert!(!home.socket().exists());
    home.ok(["stop"]).await.says(&["no daemon is running"]);
    home.agentctl(["status"]).await.exits(3);
}

#[tokio::test]
async fn concurrent_clients_start_one_daemon() {
    let (_model, home) = TempHome::with_server().await;
    let run = || home.agentctl(["run", "Hi"]);
    let outputs = tokio::join!(run(), run(), run());
    for output in [outputs.0, outputs.1, outputs.2] {
        assert_eq!(output.exits(0).stdout, "Hello from the model server.\n");
    }
    until_true("only one daemon is running", || home.processes().len() == 1).await;
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_the_first_left_alone() {
    let world = World::start().await;
    let second = Running::spawn(world.daemon.command(program("agentd"))).output(Vec::new()).await;
    second.exits(1).says(&["already running", &world.daemon.pid().to_string(), "hint:"]);
    world.still_serves().await;
}

#[tokio::test]
async fn stale_socket_is_replaced() {
    let mut world = World::start().await;
    world.daemon.kill9().await;
    assert!(world.socket().exists(), "the socket still exists");
    world.daemon.restart().await;
    world.still_serves().await;
    // A daemon that a client starts replaces a stale socket as well.
    world.daemon.kill9().await;
    world.still_serves().await;
}

#[tokio::test]
async fn other_file_at_the_socket_path_is_left_alone() {
    let (_model, home) = TempHome::with_server().await;
    home.write("run/agentd.sock", "precious");
    fs::set_permissions(home.path().join("run"), fs::Permissions::from_mode(0o700)).unwrap();
    home.agentctl(["run", "Hi"]).await.exits(3).says(&["is not a socket", "hint:"]);
    assert_eq!(home.read("run/agentd.sock"), "precious");
    // A process that listens but sends nothing, or hangs up immediately, is not a daemon.
    fs::remove_file(home.socket()).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let inode = fs::metadata(home.socket()).unwrap().ino();
    // The thread lives as long as the test process.
    std::thread::spawn(move || while listener.accept().is_ok() {});
    home.agentctl(["run", "Hi"]).await.exits(3).says(&["agentd.sock", "hint:"]);
    assert_eq!(fs::metadata(home.socket()).unwrap().ino(), inode);
}

#[tokio::test]
async fn live_socket_of_another_program_is_not_replaced() {
    let home = TempHome::new();
    home.write("run/x", "");
    fs::set_permissions(home.path().join("run"), fs::Permissions::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let output = Running::spawn(home.command(program("agentd"))).output(Vec::new()).await;
    output.exits(1).says(&["already listening", "hint:"]);
    drop(listener);
}

#[tokio::test]
async fn stop_suspends_the_turn_and_it_can_be_continued() {
    let mut world = World::configured("service: {drain_deadline: 200ms}").await;
    world.model.reply(Reply::text("One two three four five").hang_after_text("two"));
    let mut running = world.spawn_agentctl(["run", "Count", "--output", "stream-json"]);
    let (delta, _) = running.event("item_delta").await;
    let session = delta["session_id"].as_str().unwrap().to_owned();
    assert_eq!(world.daemon.sigterm().await, Some(0), "{}", world.log());
    // The attached client is notified of the turn's end.
    let (ended, _) = running.event("turn_ended").await;
    assert_eq!(ended["result"]["stop_reason"], "suspended");
    running.output(Vec::new()).await.exits(75);

    world.daemon.restart().await;
    world.model.reply(Reply::text("Six."));
    assert_eq!(world.ok(["run", "--session", &session, "--output", "json"]).await.json()["text"], "Six.");
    let request = world.model.requests().pop().unwrap();
    assert!(request.body["messages"].to_string().contains("Count"), "{}", request.body);
    // A completed turn cannot be continued.
    world.agentctl(["run", "--session", &session]).await.exits(2).says(&["no turn to continue", "hint:"]);
}

#[tokio::test]
async fn short_turn_completes_before_the_stop() {
    let world = World::start().await;
    world.model.reply(Reply::text("One two three four five six seven").delay_ms(30));
    let mut running = world.spawn_agentctl(["run", "Count", "--output", "stream-json"]);
    running.event("item_delta").await;
    assert_eq!(world.daemon.sigterm().await, Some(0));
    let output = running.output(Vec::new()).await.exits(0);
    assert_eq!(output.json_lines().last().unwrap()["text"], "One two three four five six seven");
}

/// A client that connects while a daemon ends is served by the next daemon, or gets a clear error. The next daemon can
/// be started immediately.
#[tokio::test]
async fn client_during_shutdown_is_served_by_the_next_daemon() {
    let (_model, home) = TempHome::with_server().await;
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGKILL, Signal::SIGTERM] {
        let started = home.json(["start"]).await;
        let pid = i32::try_from(started["pid"].as_i64().unwrap()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
        let output = home.agentctl(["run", "Hi"]).await;
        if output.code == Some(3) {
            output.says(&["the daemon", "hint:"]);
        } else {
            output.exits(0);
        }
    }
}

#[tokio::test]
async fn stop_waits_until_the_daemon_is_gone() {
    let (model, home) = TempHome::with_server().await;
    home.ok(["start"]).await;
    model.reply(Reply::text("One two three").hang_after_text("two"));
    let mut running = home.spawn_agentctl(["run", "Count", "--output", "stream-json"]);
    running.event("item_delta").await;
    home.ok(["stop", "--within", "0"]).await;
    let (ended, _) = running.event("turn_ended").await;
    assert_eq!(ended["result"]["stop_reason"], "suspended");
    assert!(!home.socket().exists());
}

/// Passes a listening socket as a service manager does: bound in advance, as descriptor 3, for this process alone.
const ACTIVATE: &str = "
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[tokio::test]
async fn passed_socket_is_served_and_not_removed() {
    let (_model, home) = TempHome::with_server().await;
    let mut command = home.command("python3");
    fs::create_dir(home.path().join("run")).unwrap();
    command.args(["-c", ACTIVATE]).arg(home.socket()).arg(program("agentd"));
    let daemon = TempDaemon::start_with(home, command).await;
    let inode = fs::metadata(daemon.socket()).unwrap().ino();
    // Clients that connect before the daemon is ready are served as soon as it is.
    assert_eq!(daemon.json(["status"]).await["pid"], json!(daemon.pid()));
    daemon.ok(["run", "Hi"]).await;
    assert_eq!(daemon.sigterm().await, Some(0));
    assert_eq!(
        fs::metadata(daemon.socket()).unwrap().ino(),
        inode,
        "the daemon removed a socket that it did not create"
    );
}
