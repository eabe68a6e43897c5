//! The client against a small server over a real socket.

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    model::Slot,
    turn::{IfBusy, OnInterrupt, StartTurn, StopReason},
};
use agentd_proto::{
    MAX_PROMPT_BYTES, PROTOCOL_VERSION,
    client::{Client, ClientError, ClientErrorKind, NewSession, SessionChoice, StartRequest, TurnStream, WatchEvent},
};
use tokio::net::UnixListener;

use crate::fake::{FakeDaemon, Manners};

fn start(session: SessionChoice, text: &str) -> StartRequest {
    let start = StartTurn {
        text: Some(text.to_owned()),
        compact: None,
        typed_bytes: Some(2),
        whole: false,
        answer_schema: None,
        slot: Some(Slot::Code),
        max_steps: None,
        planning: None,
        on_interrupt: OnInterrupt::Deny,
        while_connected: false,
        if_busy: IfBusy::Queue,
        client: "test".into(),
        environment: Default::default(),
        ..StartTurn::default()
    };
    StartRequest { session, start }
}

async fn turn(daemon: &FakeDaemon) -> TurnStream {
    let client = Client::connect(daemon.path()).await.unwrap();
    client.turn(start(SessionChoice::New(NewSession::default()), "hello")).await.unwrap()
}

fn said(event: Option<Event>) -> String {
    match event.map(|event| event.kind) {
        Some(EventKind::Warning { message, .. }) => message,
        other => format!("not a warning: {other:?}"),
    }
}

#[tokio::test]
async fn the_largest_input_passes_and_a_larger_one_is_not_even_sent() {
    let daemon = FakeDaemon::start(Manners::Echo).await;
    let mut turn = turn(&daemon).await;
    turn.steer(&"x".repeat(MAX_PROMPT_BYTES)).await.unwrap();
    assert_eq!(said(turn.next().await.unwrap()), format!("steer {MAX_PROMPT_BYTES} bytes"));
    let error = turn.steer(&"x".repeat(MAX_PROMPT_BYTES + 1)).await.unwrap_err();
    assert_eq!(error.kind, ClientErrorKind::Answered(ErrorKind::InvalidInput));
    assert!(error.message.contains("at most 8 MiB") && error.hint.is_some());
}

#[tokio::test]
async fn events_of_unknown_kinds_are_skipped() {
    let daemon = FakeDaemon::start(Manners::Newer).await;
    let mut turn = turn(&daemon).await;
    assert!(matches!(turn.next().await.unwrap().unwrap().kind, EventKind::TurnEnded { .. }));
    assert_eq!(turn.next().await, Ok(None));
}

#[tokio::test]
async fn a_watch_skips_what_it_does_not_know() {
    let daemon = FakeDaemon::start(Manners::Echo).await;
    let client = Client::connect(daemon.path()).await.unwrap();
    let mut watch = client.watch(true, false).await.unwrap();
    assert_eq!(watch.next().await, Ok(Some(WatchEvent::ConfigReloaded)));
    // An end is never skipped, whatever ended the turn.
    let end = watch.next().await;
    assert!(matches!(end, Ok(Some(WatchEvent::TurnEnded { stop_reason: StopReason::Failed, .. }))), "{end:?}");
    assert_eq!(watch.next().await, Ok(None));
}

#[tokio::test]
async fn a_refusal_carries_kind_message_and_hint() {
    let daemon = FakeDaemon::start(Manners::Echo).await;
    let client = Client::connect(daemon.path()).await.unwrap();
    let request = start(SessionChoice::Existing("missing".into()), "hello");
    let error = client.turn(request).await.unwrap_err();
    let expected = ClientError::new(ClientErrorKind::Answered(ErrorKind::NotFound), "there is no session \"missing\"");
    assert_eq!(error, expected.with_hint("list them"));
    assert_eq!(client.reload().await.unwrap_err().answered(), Some(ErrorKind::Configuration));
    assert_eq!(client.cancel_turn("a", None).await.unwrap_err().answered(), Some(ErrorKind::Conflict));
    assert_eq!(client.stop(None).await, Ok(42));
}

#[tokio::test]
async fn a_stopping_daemon_is_told_from_a_lost_one() {
    let mut daemon = FakeDaemon::start(Manners::Stopping).await;
    let mut stopping = turn(&daemon).await;
    assert_eq!(said(stopping.next().await.unwrap()), "started");
    assert_eq!(stopping.next().await.unwrap_err().answered(), Some(ErrorKind::ShuttingDown));

    daemon.stop_listening().await;
    let error = Client::connect(daemon.path()).await.unwrap_err();
    assert_eq!(error.kind, ClientErrorKind::NotRunning);
    assert!(error.is_unreachable() && error.hint.is_some());
}

#[tokio::test]
async fn another_version_is_refused_but_can_be_stopped() {
    let daemon = FakeDaemon::start_with(Manners::Echo, PROTOCOL_VERSION + 1).await;
    let error = Client::connect(daemon.path()).await.unwrap_err();
    assert_eq!(error.kind, ClientErrorKind::OtherVersion);
    assert!(error.message.contains("9.9.9") && error.hint.is_some());
    let client = Client::connect_any_version(daemon.path()).await.unwrap();
    assert_eq!(client.stop(None).await, Ok(42));
}

#[tokio::test]
async fn what_is_no_daemon_is_refused() {
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
