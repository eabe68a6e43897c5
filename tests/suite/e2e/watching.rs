//! One stream for all sessions, paging through older items, and structured results, which other clients can be built
//! on.

use agentd_core::{ids::SessionId, session::SessionStatus, tool::ToolResult};
use agentd_proto::{
    client::{WatchEvent, WatchStream},
    v1::{self, daemon_client::DaemonClient, watch_event::Kind},
};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use super::{Events as _, *};

async fn next(watch: &mut WatchStream) -> WatchEvent {
    tokio::time::timeout(std::time::Duration::from_secs(30), watch.next()).await.unwrap().unwrap().unwrap()
}

/// Collects all events up to and including the first matching one.
async fn until(watch: &mut WatchStream, fits: impl Fn(&WatchEvent) -> bool) -> Vec<WatchEvent> {
    let mut seen = Vec::new();
    loop {
        seen.push(next(watch).await);
        if fits(seen.last().unwrap()) {
            return seen;
        }
    }
}

fn new() -> SessionChoice {
    SessionChoice::New(NewSession::default())
}

#[tokio::test]
async fn watch_reports_turns_questions_settings_and_deletions() {
    let world = World::start().await;
    let client = world.client().await;
    let mut watch = client.watch(true, false).await.unwrap();
    assert_eq!(next(&mut watch).await, WatchEvent::Snapshot { sessions: vec![], interrupts: vec![], more: false });
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "x"})));
    world.model.reply(Reply::text("Written."));
    let mut stream = client.turn(turn(new(), "Write it")).await.unwrap();
    let id = stream.session_id();
    let seen = until(&mut watch, |event| matches!(event, WatchEvent::InterruptRaised(_))).await;
    assert!(matches!(&seen[0], WatchEvent::SessionCreated(summary) if summary.id == id), "{seen:?}");
    assert!(matches!(&seen[1], WatchEvent::TurnStarted { session, .. } if *session == id), "{seen:?}");
    let Some(WatchEvent::InterruptRaised(interrupt)) = seen.last() else { panic!("{seen:?}") };
    let waiting = |event: &WatchEvent| matches!(event, WatchEvent::SessionChanged(summary) if summary.status == SessionStatus::Waiting);
    until(&mut watch, waiting).await;
    // A new watcher receives the pending questions.
    let mut late = client.watch(true, false).await.unwrap();
    let WatchEvent::Snapshot { sessions, interrupts, .. } = next(&mut late).await else { panic!() };
    assert_eq!((sessions.len(), interrupts[0].id), (1, interrupt.id));
    client.answer(interrupt.id, &Answer::Approve, "test").await.unwrap();
    stream.to_the_end().await;
    for watch in [&mut watch, &mut late] {
        let seen = until(watch, |event| matches!(event, WatchEvent::TurnEnded { .. })).await;
        let resolved = |event: &WatchEvent| matches!(event, WatchEvent::InterruptResolved { interrupt: id, .. } if *id == interrupt.id);
        assert!(seen.iter().any(resolved), "{seen:?}");
        let Some(WatchEvent::TurnEnded { stop_reason, .. }) = seen.last() else { panic!() };
        assert_eq!(*stop_reason, StopReason::Completed);
        until(
            watch,
            |event| matches!(event, WatchEvent::SessionChanged(summary) if summary.status == SessionStatus::Idle),
        )
        .await;
    }
    client.rename_session(&id.to_string(), "New name").await.unwrap();
    until(&mut watch, |event| matches!(event, WatchEvent::SessionChanged(summary) if summary.title == "New name"))
        .await;
    client.reload().await.unwrap();
    until(&mut watch, |event| *event == WatchEvent::ConfigReloaded).await;
    client.delete_session(&id.to_string()).await.unwrap();
    until(&mut watch, |event| *event == WatchEvent::SessionDeleted(id)).await;
}

#[tokio::test]
async fn watch_hides_subagents_by_default_except_their_questions() {
    let world = World::start().await;
    let client = world.client().await;
    let (mut all, mut own) = (client.watch(false, true).await.unwrap(), client.watch(false, false).await.unwrap());
    world.model.respond_with(|request| match (is_subagent(request), request.last_role()) {
        (true, "tool") => Reply::text("It was written as it was wanted, and nothing was left open. ".repeat(8)),
        (true, _) => Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "x"})),
        (false, "tool") => Reply::text("over"),
        (false, _) => Reply::tool_call("delegate_task", json!({"task": "Write it"})),
    });
    let mut stream = client.turn(turn(new(), "Go")).await.unwrap();
    let id = stream.session_id();
    let raised = stream.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    let Some(EventKind::InterruptRaised { interrupt }) = raised.last().map(|event| &event.kind) else { panic!() };
    assert_ne!(interrupt.session_id, id, "the subagent asks");
    client.answer(interrupt.id, &Answer::Approve, "test").await.unwrap();
    stream.to_the_end().await;
    client.delete_session(&id.to_string()).await.unwrap();
    for (watch, children) in [(&mut all, 1), (&mut own, 0)] {
        // Subagents are deleted with their parent. The next event marks the end.
        client.reload().await.unwrap();
        let seen = until(watch, |event| *event == WatchEvent::ConfigReloaded).await;
        let count = |fits: &dyn Fn(&WatchEvent) -> bool| seen.iter().filter(|event| fits(event)).count();
        assert_eq!(count(&|event| matches!(event, WatchEvent::InterruptRaised(_))), 1, "{seen:#?}");
        assert_eq!(count(&|event| matches!(event, WatchEvent::InterruptResolved { .. })), 1, "{seen:#?}");
        assert_eq!(count(&|event| matches!(event, WatchEvent::SessionDeleted(_))), 1 + children, "{seen:#?}");
    }
}

#[tokio::test]
async fn many_sessions_are_watched_and_paged_completely() {
    const SESSIONS: usize = 300;
    let world = World::start().await;
    let client = world.client().await;
    let mut watch = client.watch(false, false).await.unwrap();
    let mut made = BTreeSet::new();
    for _ in 0..SESSIONS {
        made.insert(client.create_session(&NewSession::default()).await.unwrap().session.summary.id);
    }
    let mut seen: BTreeSet<SessionId> = BTreeSet::new();
    while seen.len() < SESSIONS {
        if let WatchEvent::SessionCreated(summary) = next(&mut watch).await {
            seen.insert(summary.id);
        }
    }
    assert_eq!(seen, made);
    let (mut paged, mut after) = (Vec::new(), Some(String::new()));
    while let Some(cursor) = after {
        let (page, next) = client.filtered_sessions(&cursor, 70, false, &Default::default()).await.unwrap();
        paged.extend(page.into_iter().map(|summary| summary.id));
        after = next;
    }
    assert_eq!((paged.len(), paged.into_iter().collect::<BTreeSet<_>>()), (SESSIONS, made));
    let refused = client.filtered_sessions("nowhere", 7, false, &Default::default()).await.unwrap_err();
    assert!(refused.hint.is_some(), "{refused}");
}

/// Connects a client with small receive buffers.
async fn narrow(socket: &Path) -> DaemonClient<Channel> {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://local").initial_stream_window_size(4096);
    DaemonClient::new(endpoint.connect_with_connector(connect).await.unwrap())
}

#[tokio::test]
async fn lagging_watcher_gets_a_lag_notice_and_a_snapshot() {
    let world = World::start().await;
    let client = world.client().await;
    let mut narrow = narrow(&world.daemon.socket()).await;
    let request = v1::WatchRequest { snapshot: true, ..v1::WatchRequest::default() };
    let mut watch = narrow.watch(request).await.unwrap().into_inner();
    let id = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    // The connection buffers some events, and the daemon up to a thousand more. The daemon does not wait for the
    // watcher.
    for at in 0..1200 {
        client.rename_session(&id, &format!("name {at} {}", "x".repeat(150))).await.unwrap();
    }
    client.rename_session(&id, "last").await.unwrap();
    let mut lagged = false;
    loop {
        let event = watch.message().await.unwrap().unwrap();
        match event.kind.unwrap() {
            Kind::Lagged(missed) => lagged = missed.missed > 0,
            Kind::Snapshot(snapshot) if lagged => {
                assert_eq!(snapshot.sessions[0].title, "last", "a missed change is reloaded");
                break;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn older_items_are_paged_and_results_are_structured() {
    let world = World::start().await;
    let project = world.path().join("project");
    fs::create_dir_all(&project).unwrap();
    let bash = |command: &str| Reply::tool_call("run_bash_command", json!({ "command": command }));
    world.model.reply(bash("echo out; echo err >&2; exit 3"));
    world.model.reply(Reply::tool_call("write_file", json!({"path": "/project/a.txt", "content": "one\n"})));
    let edit = json!({"path": "/project/a.txt", "old_string": "one", "new_string": "two"});
    world.model.reply(Reply::tool_call("edit_file", edit));
    world.model.reply(bash("yes x | head -c 40000"));
    world.model.reply(Reply::text("Done."));
    let client = world.client().await;
    let mut request = turn(trusting_session(&project), "Do it");
    request.start.on_interrupt = OnInterrupt::Approve;
    let mut stream = client.turn(request).await.unwrap();
    let events = stream.to_the_end().await;
    let results: Vec<&ToolResult> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ItemCompleted { item, .. } => match &item.body {
                ItemBody::ToolResult(result) => Some(result),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let details = |at: usize| results[at].details.as_deref().unwrap();
    assert_eq!(results[0].exit_code, Some(3));
    assert_eq!(details(0).stdout.as_ref().unwrap().text, "out\n");
    assert_eq!(details(0).stderr.as_ref().unwrap().text, "err\n");
    assert!(details(1).diff.as_ref().unwrap().text.contains("+one"), "{:?}", details(1));
    has_all(&details(2).diff.as_ref().unwrap().text, &["-one", "+two"]);
    let long = details(3).stdout.as_ref().unwrap();
    assert_eq!((long.text.len(), long.bytes, long.cut), (16 << 10, 40_000, true));
    // The model receives the text, but not the structured data.
    assert!(!world.model.requests().pop().unwrap().body.to_string().contains("@@ -1"));
    // Older items are read page by page.
    let id = stream.session_id().to_string();
    let all: Vec<u64> = client.items(&id, 0, 1000).await.unwrap().into_iter().map(|item| item.seq).collect();
    let (mut paged, mut before) = (Vec::new(), 0);
    loop {
        let page = client.items_between(&id, 0, before, 4).await.unwrap();
        let Some(first) = page.first() else { break };
        before = first.seq;
        paged.splice(0..0, page.into_iter().map(|item| item.seq));
    }
    assert_eq!(paged, all);
}
