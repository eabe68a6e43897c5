//! Login to MCP servers over HTTP.

use std::{io::Read as _, net::TcpStream};

use super::{http::Server, *};

/// Starts a server that requires authentication, and a daemon with that server and these additional keys.
async fn world_with_login(mode: &str, keys: Value) -> (Server, World) {
    let server = Server::of("fake_login.py", mode).await;
    let fake = entry(&server, keys);
    (server, world(json!({"fake": fake})).await)
}

fn entry(server: &Server, keys: Value) -> Value {
    let mut fake = json!({"url": server.url, "tools": {"act": {"always_available": true}}});
    fake.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    fake
}

/// Requests a URL like a browser. Returns the status and the redirect target.
fn get(url: &str) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    // The request is sent in a single write, as browsers do, because the response may arrive before all of it is sent.
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let location = answer.lines().find_map(|line| line.strip_prefix("location: "));
    (status, location.unwrap_or_default().to_owned())
}

/// Logs in as a user whose browser redirects immediately.
async fn log_in(world: &World) {
    let mut login = world.spawn_agentctl(["mcp", "login", "fake", "--json"]);
    let waiting = login.json_line().await.expect("the command prints a login URL");
    let (_, redirect_url) = get(waiting["address"].as_str().unwrap());
    assert_eq!(get(&redirect_url).0, 200);
    assert_eq!(login.json_line().await.expect("the command prints the outcome")["status"], "logged_in");
    login.output(Vec::new()).await.exits(0);
}

/// Stops the daemon and starts it again.
async fn restart_daemon(world: &mut World) {
    world.assert_all_exit().await;
    world.daemon.restart().await;
}

/// Checks that stored logins are only readable by the user, and that the log contains no secrets.
fn assert_stored_securely(world: &World) {
    let folder = world.data().join("mcp/tokens");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.iter().any(|file| file.extension().is_some_and(|end| end == "json")), "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    let log = world.log();
    has_none(&log, &["token-", "renewal-", "secret-of-", "registered-secret", "code-"]);
}

#[tokio::test]
async fn login_survives_a_restart_and_renews_tokens() {
    // The server's tokens expire immediately, so each request renews them.
    let (server, mut world) = world_with_login("brief", json!({})).await;
    has_all(&world.act("").await, &["it requires a login; `agentctl mcp login fake` logs in"]);

    let mut login = world.spawn_agentctl(["mcp", "login", "fake", "--json"]);
    let waiting = login.json_line().await.expect("the command prints a login URL");
    assert_eq!(waiting["status"], "waiting");
    let (_, redirect_url) = get(waiting["address"].as_str().unwrap());
    // A redirect from another login is rejected by the client and by the daemon, and does not end this login.
    let wrong = format!("{}&state=wrong", redirect_url.split_once("&state=").unwrap().0);
    assert_eq!(get(&wrong).0, 404);
    has_all(
        &world.client().await.finish_mcp_login("fake", &wrong).await.unwrap_err().to_string(),
        &["the redirect belongs to another login"],
    );
    assert!(world.act("").await.contains("agentctl mcp login fake"));
    assert_eq!(get(&redirect_url).0, 200);
    login.output(Vec::new()).await.exits(0);

    assert!(world.act("").await.contains("acted at last"));
    assert_eq!(server.read("asked_for"), "read\n", "the scope named in the refusal");
    assert_stored_securely(&world);
    let renewed = server.read("renewed").lines().count();
    assert!(renewed > 0, "an expired token was sent");
    // The same redirect cannot be used twice.
    has_all(
        &world.client().await.finish_mcp_login("fake", &redirect_url).await.unwrap_err().to_string(),
        &["no login is in progress"],
    );

    restart_daemon(&mut world).await;
    assert!(world.act("").await.contains("acted at last"));
    assert!(server.read("renewed").lines().count() > renewed, "{}", server.read("renewed"));
    assert_eq!((server.read("strangers"), server.read("asked_for").as_str()), (String::new(), "read\n"));
    assert_stored_securely(&world);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn insufficient_scope_asks_for_a_login_with_more_scopes() {
    let (server, mut world) = world_with_login("more", json!({})).await;
    log_in(&world).await;
    let result = world.act("").await;
    assert!(result.contains("refused the call, which did not run") && result.contains("E_TOOL"), "{result}");
    assert!(result.contains("log in again with `agentctl mcp login fake`"), "{result}");
    assert!(result.contains("<mcp_content from=\"fake\">\nwrite\n</mcp_content>"), "{result}");
    assert_eq!(server.read("refused"), "read\n", "the server was called once");
    // The required scopes are stored as well, so the next daemon uses them.
    restart_daemon(&mut world).await;
    log_in(&world).await;
    assert_eq!(server.read("asked_for"), "read\nread write\n");
    assert!(world.act("").await.contains("acted at last"));
    assert_stored_securely(&world);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn repeated_scope_refusal_does_not_ask_for_another_login() {
    let (server, world) = world_with_login("never", json!({})).await;
    log_in(&world).await;
    assert!(world.act("").await.contains("log in again with `agentctl mcp login fake`"));
    log_in(&world).await;
    let result = world.act("").await;
    assert!(result.contains("another login would not help") && !result.contains("agentctl mcp login"), "{result}");
    assert_eq!(server.read("refused"), "read\nread write\n");
    world.assert_clean_end().await;
}

#[tokio::test]
async fn manually_registered_client_can_log_in() {
    let (server, mut world) = world_with_login("by_hand,brief", json!({})).await;
    let output = world.agentctl(["mcp", "login", "fake"]).await.exits(1);
    output.says(&["could not log in", "put a manually registered client into `oauth` of mcp_servers.yaml"]);
    let is_registered_by = async |world: &World, issuer: String| {
        let registered = json!({"client_id": "me", "client_secret": "registered-secret", "issuer": issuer});
        let servers = json!({"servers": {"fake": entry(&server, json!({"oauth": registered}))}});
        world.write("config/mcp_servers.yaml", servers.to_string());
        world.ok(["reload"]).await;
    };
    let people = server.url.replace("/mcp", "/people");
    // The secret is not sent to another authorization server.
    is_registered_by(&world, format!("{people}/others")).await;
    let output = world.agentctl(["mcp", "login", "fake"]).await.exits(1);
    output.says(&["its issuer differs from the `issuer` of mcp_servers.yaml", &people]);
    is_registered_by(&world, people).await;
    log_in(&world).await;
    assert!(world.act("").await.contains("acted at last"));
    restart_daemon(&mut world).await;
    assert!(world.act("").await.contains("acted at last"));
    let renewed = server.read("renewed");
    assert!(!renewed.is_empty() && renewed.lines().all(|name| name == "me"), "{renewed}");
    assert_eq!(server.read("strangers"), "");
    let listed = world.ok(["mcp", "list", "--json"]).await;
    assert!(!listed.stdout.contains("registered-secret"), "{}", listed.stdout);
    assert_stored_securely(&world);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn token_is_not_sent_to_another_login_server() {
    let (server, world) = world_with_login("moves,brief", json!({})).await;
    log_in(&world).await;
    // Without metadata about the authorization server, default paths on the server itself are requested.
    has_all(&world.act("").await, &["it requires a login; `agentctl mcp login fake` logs in"]);
    assert_eq!((server.read("shown"), server.read("renewed")), (String::new(), String::new()));
    world.ok(["mcp", "logs", "fake"]).await.shows(&["no token is sent: the login server changed"]);
    assert_stored_securely(&world);
    world.assert_all_exit().await;
}

#[tokio::test]
async fn login_with_a_forged_issuer_is_refused() {
    let (server, world) = world_with_login("forged", json!({})).await;
    let output = world.agentctl(["mcp", "login", "fake"]).await.exits(1);
    output.says(&["its issuer does not confirm the token endpoint: http://localhost:9/honest"]);
    assert_eq!(server.read("registered"), "");
    world.assert_clean_end().await;
}

#[tokio::test]
async fn failed_renewal_asks_for_a_new_login() {
    let (server, world) = world_with_login("rotates,brief", json!({})).await;
    log_in(&world).await;
    let result = world.act("").await;
    assert!(
        result.contains("could not be renewed; if it persists, `agentctl mcp login fake` logs in again"),
        "{result}"
    );
    assert!(result.contains("invalid_client"), "{result}");
    assert_eq!(server.read("acted"), "");
    log_in(&world).await;
    world.assert_clean_end().await;
}
