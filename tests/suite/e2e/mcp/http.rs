//! MCP servers that are reached over HTTP.

use std::process::Child;

use super::*;

/// An HTTP server on loopback, stopped when the test ends.
pub(in crate::e2e) struct Server {
    process: Child,
    home: tempfile::TempDir,
    pub(in crate::e2e) url: String,
}

impl Server {
    pub(in crate::e2e) async fn start(mode: &str) -> Self {
        Self::of("fake_http.py", mode).await
    }

    /// Starts a server that runs this program in the given mode.
    pub(super) async fn of(program: &str, mode: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("python3");
        command.arg(fake().with_file_name(program)).arg(mode).arg(home.path());
        let process = command.stdin(Stdio::null()).spawn().unwrap();
        let mut server = Self { process, home, url: String::new() };
        let port = until("the server is listening", || async {
            Some(server.read("port")).filter(|port| port.ends_with('\n'))
        })
        .await;
        server.url = format!("http://127.0.0.1:{}/mcp", port.trim());
        server
    }

    /// Returns the content of a file that the server wrote.
    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn world_with_url(url: &str) -> World {
    let fake: Value =
        json!({"url": url, "headers": {"X-Key": "hunter2-and-more"}, "tools": {"act": {"always_available": true}}});
    world(json!({"fake": fake})).await
}

#[tokio::test]
async fn call_is_sent_once_even_if_the_server_lost_the_session() {
    let server = Server::start("forgets").await;
    let world = world_with_url(&server.url).await;
    has_all(&world.act("").await, &["E_UNKNOWN_OUTCOME"]);
    assert_eq!(server.read("acted"), "s1\n", "the call was sent again");
    // The next call starts a new MCP session.
    has_all(&world.act("").await, &["acted at last"]);
    assert_eq!(server.read("acted"), "s1\ns2\n");
    assert!(server.read("asked").lines().all(|key| key == "hunter2-and-more"), "{}", server.read("asked"));
    world.assert_all_exit().await;
}

#[tokio::test]
async fn server_silent_to_the_newer_protocol_gets_the_older_one() {
    let server = Server::start("hangs").await;
    let world = world_with_url(&server.url).await;
    has_all(&world.act("").await, &["acted at last"]);
    let methods = server.read("methods");
    assert!(methods.starts_with("server/discover\ninitialize\n"), "{methods}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn refusal_reason_of_a_newer_server_is_reported() {
    let server = Server::start("refuses").await;
    let world = world_with_url(&server.url).await;
    let result = world.act("").await;
    assert!(result.contains("the key is missing") && !result.contains("no such method"), "{result}");
    world.assert_all_exit().await;
}

#[tokio::test]
async fn redirect_to_another_server_is_not_followed() {
    let other = Server::start("ok").await;
    let server = Server::start(&format!("sends_to:{}", other.url)).await;
    let world = world_with_url(&format!("{}?key=sup3rsecretvalue", server.url)).await;
    let result = world.act("").await;
    assert!(result.contains("The call did not run"), "{result}");
    assert_eq!(other.read("asked"), "");
    assert!(!result.contains("sup3rsecret"), "{result}");
    world.assert_clean_end().await;
}

#[tokio::test]
async fn key_in_an_address_is_never_shown() {
    let world = world_with_url("http://127.0.0.1:9/mcp?key=sup3rsecretvalue").await;
    let result = world.act("").await;
    assert!(result.contains("The call did not run") && !result.contains("sup3rsecret"), "{result}");
    let started = world.agentctl(["mcp", "start", "fake"]).await.exits(1);
    let listed = world.ok(["mcp", "list", "--json"]).await;
    let logs = world.ok(["mcp", "logs", "fake"]).await;
    for shown in [&started.stderr, &listed.stdout, &logs.stdout, &world.daemon.log()] {
        assert!(!shown.contains("sup3rsecret"), "{shown}");
    }
    assert!(listed.stdout.contains("could not connect"), "{}", listed.stdout);
    world.assert_all_exit().await;
}
