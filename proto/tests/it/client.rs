//! Tests the client against a small server over a real socket.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_core::{
    event::EventKind,
    turn::{StartTurn, StopReason},
};
use agentd_proto::{
    PROTOCOL_VERSION,
    client::{Client, ClientErrorKind, NewSession, SessionChoice, StartRequest, WatchEvent},
};
use tokio::net::{UnixListener, UnixStream};

use crate::fake::FakeDaemon;

#[tokio::test]
async fn events_of_unknown_kinds_are_skipped() {
    let daemon = FakeDaemon::start(PROTOCOL_VERSION).await;
    let client = Client::connect(daemon.path()).await.unwrap();
    let start = StartTurn { text: Some("hello".to_owned()), ..StartTurn::default() };
    let request = StartRequest { session: SessionChoice::New(NewSession::default()), start };
    let mut turn = client.turn(request).await.unwrap();
    assert!(matches!(turn.next().await.unwrap().unwrap().kind, EventKind::TurnEnded { .. }));
    assert_eq!(turn.next().await, Ok(None));
}

#[tokio::test]
async fn watch_skips_unknown_kinds() {
    let daemon = FakeDaemon::start(PROTOCOL_VERSION).await;
    let client = Client::connect(daemon.path()).await.unwrap();
    let mut watch = client.watch(true, false).await.unwrap();
    assert_eq!(watch.next().await, Ok(Some(WatchEvent::ConfigReloaded)));
    // The end of a turn must be delivered even if its reason is unknown.
    let end = watch.next().await;
    assert!(matches!(end, Ok(Some(WatchEvent::TurnEnded { stop_reason: StopReason::Failed, .. }))), "{end:?}");
    assert_eq!(watch.next().await, Ok(None));
}

#[tokio::test]
async fn other_protocol_version_is_rejected_but_can_be_stopped() {
    let daemon = FakeDaemon::start(PROTOCOL_VERSION + 1).await;
    let error = Client::connect(daemon.path()).await.unwrap_err();
    assert_eq!(error.kind, ClientErrorKind::OtherVersion);
    assert!(error.message.contains("9.9.9") && error.hint.is_some());
    let client = Client::connect_any_version(daemon.path()).await.unwrap();
    assert_eq!(client.stop(None).await, Ok(42));
}

#[tokio::test]
async fn daemon_of_another_machine_is_named_and_its_version_is_checked() {
    let dial = |path: PathBuf| {
        move || {
            let stream = std::os::unix::net::UnixStream::connect(&path)?;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        }
    };
    for version in [PROTOCOL_VERSION, PROTOCOL_VERSION + 1] {
        let daemon = FakeDaemon::start(version).await;
        let dial = dial(daemon.path().to_owned());
        let limit = Duration::from_secs(60);
        let client = Client::connect_through("ssh://box", dial().unwrap(), dial, limit).await.unwrap();
        assert_eq!(client.host(), Some("ssh://box"));
        let Err(error) = client.of_our_version(Path::new("ssh://box")) else {
            assert_eq!(version, PROTOCOL_VERSION);
            continue;
        };
        assert_eq!((error.kind, version), (ClientErrorKind::OtherVersion, PROTOCOL_VERSION + 1));
        assert!(error.message.contains("ssh://box") && error.message.contains("9.9.9"), "{error}");
        assert!(error.hint.unwrap().contains("both machines"));
    }
}

#[tokio::test]
async fn server_that_is_not_the_daemon_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let other = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream
    };
    let (error, _stream) = tokio::join!(Client::connect(&path), other);
    let error = error.unwrap_err();
    assert_eq!(error.kind, ClientErrorKind::Refused, "{error:?}");
    assert!(error.message.contains("other.sock"));
}
