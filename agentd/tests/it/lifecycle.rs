//! Tests for startup, rejection of a second daemon, reload and shutdown.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
};

use agentd_proto::client::Client;
use nix::sys::signal::Signal;

use crate::daemon::{Home, wait_until};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn daemon_starts_serves_and_leaves_no_files() {
    let home = Home::new();
    let daemon = home.start();
    assert_eq!(mode(&home.socket()), 0o600);
    assert_eq!(mode(&home.data()), 0o700);
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", daemon.pid())).unwrap(), home.data().canonicalize().unwrap());
    let record = format!("{}\nsocket {}\n", daemon.pid(), home.socket().display());
    assert_eq!(fs::read_to_string(home.data().join("agentd.lock")).unwrap(), record);
    let output = daemon.stop();
    assert_eq!((output.status.code(), output.stderr.as_str(), output.stdout.as_str()), (Some(0), "", ""));
    assert!(!home.socket().exists());
    assert!(home.next_notification().contains("STOPPING=1"));
    assert!(home.log().contains("stopped"), "{}", home.log());
}

#[test]
fn reload_applies_valid_files_and_rejects_invalid_ones() {
    let home = Home::new();
    let daemon = home.start();
    home.configure("models.yaml", "base: {base_url: 'http://127.0.0.1:9/v1', tempreture: 1}\n");
    daemon.signal(Signal::SIGHUP);
    wait_until("the configuration error is logged", || home.log().contains("did you mean `temperature`?"));
    assert!(home.log().contains("could not reload the configuration"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&home.socket()).await.unwrap();
        let error = client.reload().await.unwrap_err().to_string();
        assert!(error.contains("models.yaml:1:"), "{error}");
        assert!(client.models().await.unwrap().iter().all(|slot| slot.model.embedded));

        home.configure("models.yaml", "base: {base_url: 'http://127.0.0.1:9/v1', id: small}\n");
        home.configure("tools.yaml", "optional: {run_bash_command: {enabled: never}}\n");
        home.configure("web.yaml", "fetch: {timeout: 29s}\n");
        let reloaded = client.reload().await.unwrap();
        assert_eq!(reloaded.config_sources.len(), 4);
        assert!(reloaded.notes.iter().any(|note| note.contains("web.yaml")), "{:?}", reloaded.notes);
        let tools = client.tools("").await.unwrap();
        let bash_tool = tools.iter().find(|standing| standing.tool.spec.name == "run_bash_command").unwrap();
        assert!(!bash_tool.visible && bash_tool.why.contains("never"), "{bash_tool:?}");
        assert!(client.models().await.unwrap().iter().all(|slot| slot.model.id == "small"));
    });
    assert_eq!(daemon.stop().status.code(), Some(0));
}

#[test]
fn socket_of_a_successor_is_not_removed() {
    let home = Home::new();
    let daemon = home.start();
    fs::remove_file(home.socket()).unwrap();
    let _successor = UnixListener::bind(home.socket()).unwrap();
    daemon.signal(Signal::SIGINT);
    assert_eq!(daemon.wait().status.code(), Some(0));
    assert!(home.socket().exists());
}

#[test]
fn daemon_notifies_the_watchdog() {
    let home = Home::new();
    let mut command = home.command();
    let daemon = home.start_with(command.env("WATCHDOG_USEC", "200000"));
    for _ in 0..3 {
        assert!(home.next_notification().contains("WATCHDOG=1"));
    }
    assert_eq!(daemon.stop().status.code(), Some(0));
}

#[test]
fn journald_lines_have_priorities_and_no_timestamps() {
    let home = Home::new();
    let mut command = home.command();
    command.env("JOURNAL_STREAM", "8:1");
    let daemon = home.spawn(&mut command);
    assert!(home.next_notification().contains("READY=1"));
    let output = daemon.stop();
    assert!(output.stderr.lines().all(|line| line.starts_with("<6>")), "{}", output.stderr);
    assert!(output.stderr.contains("agentd is ready"), "{}", output.stderr);
}
