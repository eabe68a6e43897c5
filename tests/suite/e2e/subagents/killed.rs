//! Kills the daemon at every stored event of a turn and its subagent.

use agentd_proto::client::ClientError;
use futures_util::{StreamExt as _, stream};

use super::*;

/// Replies as a careful main agent or subagent, which does not repeat a call with a known result.
fn careful_reply(request: &Recorded) -> Reply {
    let result = tool_texts(request);
    if task_of(request).is_some() {
        return match result.contains("appended") || result.contains("may not have taken effect") {
            true => report("the log"),
            false => Reply::tool_call(
                "run_bash_command",
                json!({"command": r#"echo line >> "$PROJECT/log.txt"; echo appended"#}),
            ),
        };
    }
    let go_on = result.rsplit("\"context_id\":\"").next().and_then(|rest| rest.split('"').next());
    match go_on {
        _ if result.contains("The report of the log") => Reply::text("All is done."),
        Some(id) if result.contains("to continue it") => {
            Reply::tool_call("delegate_task", json!({"task": "Go on", "context_id": id}))
        }
        _ => Reply::tool_call("delegate_task", json!({"task": "Write a line"})),
    }
}

#[tokio::test]
async fn kill_at_each_event_neither_loses_nor_repeats_work() {
    let model = ModelServer::start().await;
    model.respond_with(|request| Reply { delay_ms: 2, ..careful_reply(request) });
    let whole = killed_at(&TempDaemon::start(&model.base_url()).await, usize::MAX).await;
    assert!(matches!(whole.last().unwrap().kind, EventKind::TurnEnded { .. }), "{whole:#?}");
    stream::iter(1..=whole.len()).for_each_concurrent(3, |number| kill_and_resume(&model, number)).await;
}

/// Runs the turn, and kills the daemon at the event with that number, in the parent or its subagent.
async fn killed_at(daemon: &TempDaemon, number: usize) -> Vec<Event> {
    fs::create_dir_all(daemon.path().join("project")).unwrap();
    let client = Client::connect(&daemon.socket()).await.unwrap();
    let mut start = turn(trusting_session(&daemon.path().join("project")), "Do it");
    start.start.on_interrupt = OnInterrupt::Approve;
    let mut events = client.turn(start).await.unwrap();
    let (mut seen, mut of_child) = (Vec::new(), None);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            event = next_of(&mut of_child) => event,
        };
        let Ok(Some(event)) = event else { return seen };
        // Events sent before the kill can still be read, but no new subscriptions are possible.
        let is_alive = seen.len() < number;
        if let EventKind::StateChanged { change: StateChange::Subagent(child) } = &event.kind
            && is_alive
        {
            // The subagent's session starts a moment later.
            let session = child.session_id.to_string();
            let listen = || async { client.subscribe(&session, 0, false).await.ok() };
            of_child = Some(until("the subagent is running", listen).await);
        }
        if event.kind.is_stored() {
            let is_end = matches!(event.kind, EventKind::TurnEnded { .. }) && event.session_id == events.session_id();
            seen.push(event);
            if seen.len() == number {
                daemon.signal(Signal::SIGKILL);
            }
            if is_end {
                return seen;
            }
        }
    }
}

async fn next_of(stream: &mut Option<EventStream>) -> Result<Option<Event>, ClientError> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn kill_and_resume(model: &ModelServer, number: usize) {
    let mut daemon = TempDaemon::start(&model.base_url()).await;
    let seen = killed_at(&daemon, number).await;
    if seen.len() < number {
        // The order in which events of two sessions arrive can vary.
        return;
    }
    daemon.ended().await;
    let lines = || daemon.read("project/log.txt").lines().count();
    let before = lines();
    daemon.restart().await;
    let session = session_of(&seen);
    let client = Client::connect(&daemon.socket()).await.unwrap();
    let view = client.session(&session).await.unwrap();
    assert!(view.session.open_turn.is_none(), "killed at {number}: {view:#?}");
    assert_eq!(daemon.read("project/log.txt").lines().count(), before, "a call ran before the model requested it");
    if view.session.summary.status == SessionStatus::Interrupted {
        let args = ["run", "--session", &session, "--on-interrupt", "approve", "--output", "json"];
        let result = daemon.ok(args).await.json();
        assert_eq!(result["text"], "All is done.", "killed at {number}: {result:#}");
    }
    let lines = daemon.read("project/log.txt").lines().count();
    let children = client.filtered_sessions("", 10, true, &Default::default()).await.unwrap().0.len() - 1;
    // An interrupted command may or may not have run. A command that is known to have run is not repeated.
    assert!(lines <= 1, "killed at {number}: the command ran {lines} times");
    assert!(children <= 2, "killed at {number}: {children} subagents");
}
