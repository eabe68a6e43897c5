//! Under a supervisor such as systemd.

use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
};

use crate::daemon::Home;

#[test]
fn an_inherited_socket_is_adopted_and_outlives_the_daemon() {
    let home = Home::new();
    let path = home.path().join("inherited");
    let listener = UnixListener::bind(&path).unwrap();
    // The shell makes the listener its third descriptor, and becomes the daemon.
    let pass = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = home.wrapped(&["/bin/sh", "-c", pass, "sh"]);
    let daemon = home.start_with(command.stdin(OwnedFd::from(listener.try_clone().unwrap())));
    assert!(!home.socket().exists());
    let environment = fs::read(format!("/proc/{}/environ", daemon.pid())).unwrap();
    assert!(String::from_utf8_lossy(&environment).contains("LISTEN_FDS=1"), "the test passes nothing");

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hello = async { agentd_proto::client::Client::connect(&path).await.unwrap().status().await.unwrap() };
    assert_eq!(runtime.block_on(hello).pid, daemon.pid());
    assert_eq!(daemon.stop().status.code(), Some(0));
    assert!(path.exists());
    // A connection made now waits for the next daemon.
    UnixStream::connect(&path).unwrap();
}

#[test]
fn the_watchdog_hears_from_it() {
    let home = Home::new();
    let mut command = home.command();
    let daemon = home.start_with(command.env("WATCHDOG_USEC", "200000"));
    for _ in 0..3 {
        assert!(home.heard().contains("WATCHDOG=1"));
    }
    assert_eq!(daemon.stop().status.code(), Some(0));
}

#[test]
fn under_journald_lines_carry_priorities_and_no_clock() {
    let home = Home::new();
    let mut command = home.command();
    command.env("JOURNAL_STREAM", "8:1");
    let daemon = home.spawn(&mut command);
    assert!(home.heard().contains("READY=1"));
    let ended = daemon.stop();
    assert!(ended.stderr.lines().all(|line| line.starts_with("<6>")), "{}", ended.stderr);
    assert!(ended.stderr.contains("agentd is ready"), "{}", ended.stderr);
}
