//! A cancellation withdraws unanswered input. Responses that have started are marked as cancelled, so that no model
//! continues them without being asked.

use super::{Events as _, *};

/// Returns all text in a request.
fn words(request: &Recorded) -> String {
    request.messages().iter().map(|message| message["content"].to_string()).collect()
}

/// Returns the input and the additions that were withdrawn when the turn ended.
fn taken_back(events: &[Event]) -> Option<(Option<&str>, Vec<&str>)> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::StateChanged { change: StateChange::Withdrawn { input, added, .. } } => {
            Some((input.as_deref(), added.iter().map(String::as_str).collect()))
        }
        _ => None,
    })
}

fn reason(events: &[Event]) -> StopReason {
    match &events.last().unwrap().kind {
        EventKind::TurnEnded { result } => result.stop_reason,
        other => panic!("{other:?}"),
    }
}

fn new() -> SessionChoice {
    SessionChoice::New(NewSession::default())
}

fn existing(session: &str) -> SessionChoice {
    SessionChoice::Existing(session.to_owned())
}

#[tokio::test]
async fn unanswered_message_is_withdrawn_and_its_files_stay() {
    let mut world = World::start().await;
    let client = world.client().await;
    let session = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    client.upload(&session, "notes.txt", &b"zircon"[..]).await.unwrap();
    world.model.reply(Reply::never());
    let mut running = client.turn(turn(existing(&session), "wipe the database")).await.unwrap();
    world.model.wait_until(|counts| counts.requests == 1).await;
    client.steer_turn(&session, None, "and drop the tables").await.unwrap();
    running.sender().cancel().await.unwrap();
    let events = running.to_the_end().await;
    assert_eq!(taken_back(&events), Some((Some("wipe the database"), vec!["and drop the tables"])));
    assert_eq!(reason(&events), StopReason::Cancelled);
    world.agentctl(["run", "--session", &session]).await.exits(2).says(&["there is no turn to continue"]);

    world.daemon.restart().await;
    let client = world.client().await;
    assert_eq!(client.items(&session, 0, 100).await.unwrap(), Vec::new());
    let found = world.agentctl(["sessions", "search", "database", "--json"]).await.stdout;
    assert!(!found.contains("wipe"), "{found}");
    let exported = world.ok(["sessions", "export", &session, "--format", "markdown"]).await.stdout;
    let mark = "> **Withdrawn, not shown to models**\n> wipe the database; and drop the tables";
    assert!(exported.contains(mark), "{exported}");
    world.model.default_reply(Reply::text("Fine."));
    world.ok(["run", "second thing", "--session", &session]).await;
    let listed = world.ok(["sessions", "list", "--json"]).await.stdout;
    assert!(listed.contains("second thing") && !listed.contains("wipe"), "the withdrawn input is the title: {listed}");
    let fork = world.ok(["sessions", "fork", &session]).await.stdout;
    world.ok(["run", "third thing", "--session", fork.trim()]).await;
    for request in &world.model.requests()[1..] {
        let request_text = words(request);
        assert!(!request_text.contains("wipe") && !request_text.contains("drop"), "{request_text}");
        assert!(
            request_text.contains("notes.txt") && request_text.contains("second thing"),
            "the uploaded file is not mentioned: {request_text}"
        );
    }
}

#[tokio::test]
async fn partial_answer_is_marked_and_only_unread_input_withdrawn() {
    let world = World::start().await;
    let client = world.client().await;
    world.model.reply(Reply::text("I begin and never end").hang_after_text("begin"));
    let mut running = client.turn(turn(new(), "count")).await.unwrap();
    let session = running.session_id().to_string();
    while !matches!(running.event().await.unwrap().kind, EventKind::ItemDelta { .. }) {}
    client.steer_turn(&session, None, "drop the tables").await.unwrap();
    running.sender().cancel().await.unwrap();
    let events = running.to_the_end().await;
    assert_eq!(taken_back(&events), Some((None, vec!["drop the tables"])));
    world.model.default_reply(Reply::text("Fine."));
    world.ok(["run", "second thing", "--session", &session]).await;
    let text = words(world.model.requests().last().unwrap());
    let order = ["count", "I begin", "The user interrupted here", "second thing"].map(|part| text.find(part));
    assert!(order.is_sorted() && order[0].is_some() && !text.contains("drop"), "{text}");

    // The response is continued if the user asks for it.
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Which?"})));
    let mut running = client.turn(turn(existing(&session), "ask me")).await.unwrap();
    running.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    running.sender().cancel().await.unwrap();
    assert_eq!(taken_back(&running.to_the_end().await), None, "an input answered with a call is not withdrawn");
    world.ok(["run", "--session", &session]).await;
    let text = words(world.model.requests().last().unwrap());
    let last = text.rfind("The user interrupted here");
    assert!(last.is_some() && text.rfind("The user asks to continue") > last, "{text}");
}

#[tokio::test]
async fn queued_turn_is_withdrawn_alone_and_later_input_is_a_new_turn() {
    let world = World::start().await;
    let client = world.client().await;
    world.model.reply(Reply::text("I begin and never end").hang_after_text("begin"));
    let mut running = client.turn(turn(new(), "first")).await.unwrap();
    let session = running.session_id().to_string();
    while !matches!(running.event().await.unwrap().kind, EventKind::ItemDelta { .. }) {}
    let start = |text: &str, if_busy| {
        let request = turn(existing(&session), text);
        StartRequest { start: agentd_core::turn::StartTurn { if_busy, ..request.start }, ..request }
    };
    let mut queued = client.turn(start("drop the tables", IfBusy::Queue)).await.unwrap();
    client.cancel_turn(&session, Some(queued.turn_id())).await.unwrap();
    assert_eq!(taken_back(&queued.to_the_end().await), Some((Some("drop the tables"), Vec::new())));
    world.model.default_reply(Reply::text("Heard."));
    let mut waiting = client.turn(start("second thing", IfBusy::Queue)).await.unwrap();
    client.cancel_turn(&session, Some(running.turn_id())).await.unwrap();
    let mut third = client.turn(start("third thing", IfBusy::Steer)).await.unwrap();
    assert_eq!(reason(&running.to_the_end().await), StopReason::Cancelled);
    for turn in [&mut waiting, &mut third] {
        assert_eq!(reason(&turn.to_the_end().await), StopReason::Completed);
    }
    let text: String = world.model.requests()[1..].iter().map(words).collect();
    assert!(text.contains("second thing") && text.contains("third thing") && !text.contains("drop"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn escape_returns_the_withdrawn_message_to_the_prompt() {
    let world = World::start().await;
    let mut terminal = Terminal::ready(&world.daemon, &[]);
    world.model.reply(Reply::never());
    terminal.says("wipe the database");
    world.model.wait_until(|counts| counts.requests == 1).await;
    terminal.presses_for("and the tables\r", "1 message waits");
    terminal.presses("later\tsoon");
    terminal.sees_all(&["2 messages wait", "soon"]);
    terminal.presses_last("\u{1b}", "cancelling");
    terminal.sees_all(&["wipe the database", "soon"]);
    world.model.reply(Reply::deltas(["Sent as it was."]));
    terminal.presses_last("\r", "Sent as it was.");
    let requests = world.model.requests();
    assert_eq!(requests[1].last_user(), "wipe the database\nand the tables\nlater\nsoon");
    assert_eq!(words(&requests[1]).matches("wipe").count(), 1);
    terminal.leaves();
}
