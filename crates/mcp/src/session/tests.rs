//! Servers of sessions, none of which is there: what is kept, what is replaced, and what is forgotten.

use std::sync::Arc;

use secrecy::SecretString;

use super::*;
use crate::config::{HttpWire, ServerAddress};

/// The secrets that were told last.
type Learned = Arc<Mutex<Vec<String>>>;

fn servers() -> (SessionServers, Learned) {
    let learned = Learned::default();
    let told = Arc::clone(&learned);
    let parts = SessionServersParts {
        guard: "/nonexistent".into(),
        environment: BTreeMap::new(),
        routes: Default::default(),
        clean: Clean::default(),
        learn_secrets: Box::new(move |secrets| *told.lock().unwrap() = secrets),
    };
    (SessionServers::new(parts), learned)
}

/// A server at an address where nothing listens.
fn nobody(name: &str, key: &str) -> SessionServer {
    let headers = [("X-Key".to_owned(), SecretString::from(key))].into();
    let (url, wire) = ("http://127.0.0.1:9/mcp".into(), HttpWire::Streamable);
    SessionServer { name: name.to_owned(), address: ServerAddress::Http { url, headers, wire, client: None } }
}

async fn set(servers: &SessionServers, session: SessionId, brought: &[SessionServer], replaces: Option<u64>) -> u64 {
    servers.set(session, brought, &ClientEnvironment::default(), replaces).await.unwrap().version
}

#[tokio::test]
async fn secrets_are_known_as_long_as_their_servers_are_there() {
    let (servers, learned) = servers();
    let (one, other) = (SessionId::generate(), SessionId::generate());
    let known = || {
        let mut known = learned.lock().unwrap().clone();
        known.sort();
        known
    };
    set(&servers, one, &[nobody("a", "key-of-one")], None).await;
    set(&servers, other, &[nobody("a", "key-of-other")], None).await;
    assert_eq!(known(), ["key-of-one", "key-of-other"]);
    set(&servers, one, &[nobody("a", "new-key-of-one")], None).await;
    assert_eq!(known(), ["key-of-other", "new-key-of-one"]);
    servers.remove(one).await;
    assert_eq!(known(), ["key-of-other"]);
    servers.close().await;
    assert_eq!(known(), Vec::<String>::new());
    let refused = servers.set(one, &[nobody("a", "key")], &ClientEnvironment::default(), None).await;
    assert!(refused.is_err_and(|refusal| refusal.message.contains("stopping")));
}

#[tokio::test]
async fn a_client_that_leaves_ends_what_it_brought_and_nothing_newer() {
    let (servers, _) = servers();
    let session = SessionId::generate();
    let first = set(&servers, session, &[nobody("a", "k")], None).await;
    let second = set(&servers, session, &[nobody("b", "k")], None).await;
    assert!(second > first);
    assert_eq!(set(&servers, session, &[], Some(first)).await, second, "it is told what is there");
    assert!(servers.of(session).is_some(), "another client's are left alone");
    set(&servers, session, &[], Some(second)).await;
    assert!(servers.of(session).is_none());
    assert_eq!(set(&servers, session, &[nobody("a", "k")], Some(second)).await, 0, "nothing is there");
    assert!(servers.of(session).is_none());
}

#[tokio::test]
async fn the_session_that_was_brought_servers_longest_ago_makes_room() {
    let (servers, _) = servers();
    let sessions: Vec<SessionId> = (0..=SESSIONS).map(|_| SessionId::generate()).collect();
    for session in &sessions {
        // Two of one definition are one.
        set(&servers, *session, &[nobody("a", "k"), nobody("a", "k")], None).await;
    }
    assert!(servers.of(sessions[0]).is_none());
    assert!(sessions[1..].iter().all(|session| servers.of(*session).is_some()));
}
