//! Tests with unreachable session servers: storing, replacing and removing them, and validation.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use proptest::prelude::*;
use secrecy::SecretString;

use super::*;
use crate::config::{HttpWire, ServerAddress};

/// Secrets passed to the last callback.
type Learned = Arc<Mutex<Vec<String>>>;

fn servers() -> (SessionServers, Learned) {
    let learned = Learned::default();
    let sink = Arc::clone(&learned);
    let parts = SessionServersParts {
        guard: "/nonexistent".into(),
        environment: BTreeMap::new(),
        routes: Default::default(),
        clean: SecretFilter::default(),
        learn_secrets: Box::new(move |secrets| *sink.lock().unwrap() = secrets),
    };
    (SessionServers::new(parts), learned)
}

/// Returns an HTTP server at a URL where nothing listens.
fn unreachable_server(name: &str, key: &str) -> SessionServer {
    SessionServer { name: name.to_owned(), ..http("http://127.0.0.1:9/mcp", &[("X-Key", key)]) }
}

async fn set(servers: &SessionServers, session: SessionId, provided: &[SessionServer], replaces: Option<u64>) -> u64 {
    servers.set(session, provided, &ClientEnvironment::default(), replaces).await.unwrap().version
}

#[tokio::test]
async fn secrets_are_redacted_while_their_servers_exist() {
    let (servers, learned) = servers();
    let (one, other) = (SessionId::generate(), SessionId::generate());
    let redacted = || {
        let mut secrets = learned.lock().unwrap().clone();
        secrets.sort();
        secrets
    };
    set(&servers, one, &[unreachable_server("a", "key-of-one")], None).await;
    set(&servers, other, &[unreachable_server("a", "key-of-other")], None).await;
    assert_eq!(redacted(), ["key-of-one", "key-of-other"]);
    set(&servers, one, &[unreachable_server("a", "new-key-of-one")], None).await;
    assert_eq!(redacted(), ["key-of-other", "new-key-of-one"]);
    servers.remove(one).await;
    assert_eq!(redacted(), ["key-of-other"]);
    servers.close().await;
    assert_eq!(redacted(), Vec::<String>::new());
    let refused = servers.set(one, &[unreachable_server("a", "key")], &ClientEnvironment::default(), None).await;
    assert!(refused.is_err_and(|refusal| refusal.message.contains("stopping")));
}

#[tokio::test]
async fn disconnected_client_ends_only_its_own_servers() {
    let (servers, _) = servers();
    let session = SessionId::generate();
    let first = set(&servers, session, &[unreachable_server("a", "k")], None).await;
    let second = set(&servers, session, &[unreachable_server("b", "k")], None).await;
    assert!(second > first);
    assert_eq!(set(&servers, session, &[], Some(first)).await, second, "the current version is not returned");
    assert!(servers.of(session).is_some(), "another client's servers were removed");
    set(&servers, session, &[], Some(second)).await;
    assert!(servers.of(session).is_none());
    assert_eq!(
        set(&servers, session, &[unreachable_server("a", "k")], Some(second)).await,
        0,
        "servers were added to a session that has none"
    );
    assert!(servers.of(session).is_none());
}

#[tokio::test]
async fn oldest_session_servers_are_evicted() {
    let (servers, _) = servers();
    let sessions: Vec<SessionId> = (0..=SESSIONS).map(|_| SessionId::generate()).collect();
    for session in &sessions {
        // Two servers with one definition count once.
        set(&servers, *session, &[unreachable_server("a", "k"), unreachable_server("a", "k")], None).await;
    }
    assert!(servers.of(sessions[0]).is_none());
    assert!(sessions[1..].iter().all(|session| servers.of(*session).is_some()));
}

fn program(name: &str, command: &str, env: &[(&str, &str)]) -> SessionServer {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value))).collect();
    let (command, args) = (command.to_owned(), vec!["-v".into()]);
    let address = ServerAddress::Stdio { command, args, env, cwd: PathBuf::new() };
    SessionServer { name: name.to_owned(), address }
}

fn http(url: &str, headers: &[(&str, &str)]) -> SessionServer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value))).collect();
    let address = ServerAddress::Http { url: url.into(), headers, wire: HttpWire::Streamable, client: None };
    SessionServer { name: "web".to_owned(), address }
}

fn names(servers: &[SessionServer]) -> Vec<String> {
    config(servers, Path::new("/tmp")).unwrap().1
}

#[test]
fn session_server_name_identifies_it_without_secrets() {
    let one = names(&[program("files", "/bin/a", &[("KEY", "one")])]).remove(0);
    let check = |server: SessionServer, same: bool| {
        let other = names(&[server]).remove(0);
        assert_eq!(one == other, same, "{one} {other}");
    };
    check(program("files", "/bin/a", &[("KEY", "other")]), true);
    check(program("files", "/bin/b", &[("KEY", "one")]), false);
    check(program("Files", "/bin/a", &[("KEY", "one")]), false);
    check(program("files", "/bin/a", &[("TOKEN", "one")]), false);
    assert!(one.starts_with("files-") && one.len() == "files-".len() + 8, "{one}");
}

#[test]
fn invalid_session_server_is_reported_as_broken() {
    let check = |servers: &[SessionServer], part: &str| {
        let (config, names) = config(servers, Path::new("/tmp")).unwrap();
        assert!(config.servers.is_empty() && config.broken.len() == 1, "{config:?}");
        let reason = &config.broken[&names[0]];
        assert!(reason.contains(part) && !reason.contains("s3cret"), "{reason}");
    };
    check(&[program(" ", "/bin/a", &[])], "name");
    check(&[program(&"x".repeat(101), "/bin/a", &[])], "name");
    check(&[program("a", " ", &[])], "no command");
    check(&[program("a", "/bin/a\0b", &[])], "invalid characters");
    check(&[program("a", &variables::mark("HOME"), &[])], "invalid characters");
    check(&[program("a", "/bin/a", &[("", "s3cret")])], "without a name");
    check(&[program("a", "/bin/a", &[("A=B", "s3cret")])], "without a name");
    let relative = ServerAddress::Stdio {
        command: "a".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: "up/../down".into(),
    };
    check(&[SessionServer { name: "a".to_owned(), address: relative }], "relative folder");
    check(&[http("file:///etc/passwd", &[])], "no http or https address");
    check(&[http("nonsense", &[])], "no http or https address");
    check(&[http("https://me:s3cret@example.org/", &[])], "password");
    check(&[http("https://example.org/", &[("Bad Name", "s3cret")])], "header");
    check(&[http("https://example.org/", &[("X-Key", "s3cret\r\nX-Other: a")])], "header");
}

#[test]
fn oversized_server_lists_are_rejected_with_a_hint() {
    let check = |servers: &[SessionServer], part: &str| {
        let refusal = config(servers, Path::new("/tmp")).unwrap_err();
        assert!(refusal.message.contains(part) && !refusal.hint.is_empty(), "{refusal:?}");
    };
    check(&vec![program("a", "/bin/a", &[]); MAX_SESSION_SERVERS + 1], "17 MCP servers");
    check(&[program("a", &"x".repeat(MAX_SESSION_SERVER_BYTES), &[])], "bytes of text");
}

proptest! {
    #[test]
    fn session_tools_are_recognised_for_any_server_name(name in ".{1,100}", tool in "[a-zA-Z_][a-zA-Z0-9_./-]{0,80}") {
        prop_assume!(!name.trim().is_empty() && !name.contains('\0') && !variables::has_mark(&name));
        prop_assume!(name.chars().count() <= MAX_SERVER_NAME);
        let inner = names(&[program(&name, "/bin/a", &[])]).remove(0);
        let tool = schema::name(&inner, &tool);
        prop_assert!(is_of_session_server(&tool), "{tool}");
        prop_assert!(tool.starts_with(&format!("mcp_{inner}_")), "{tool} {inner}");
    }
}

#[test]
fn configured_tools_are_not_session_tools() {
    for tool in ["mcp_files_read", "mcp_my-files_read", "read_file", "mcp_", "mcp_a-1234567_b"] {
        assert!(!is_of_session_server(tool), "{tool}");
    }
}
