//! Several clients in one session, and clients that stop reading.

use agentd_testkit::model_server::fast_text;
use futures_util::future::join_all;

use super::{Events as _, *};

const DELTAS: u64 = 200_000;

fn answer(events: &[Event]) -> Option<&str> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::AgentMessage { text } => Some(text.as_str()),
            _ => None,
        },
        _ => None,
    })
}

#[tokio::test]
async fn stalled_reader_blocks_no_client_and_loses_no_stored_event() {
    let world = World::start().await;
    world.model.default_reply(Reply::fast(DELTAS));
    let (quick, slow) = (world.client().await, world.client().await);
    let mut turn = quick.turn(turn(SessionChoice::New(NewSession::default()), "Count")).await.unwrap();
    let session = turn.session_id().to_string();
    let mut stalled = slow.subscribe(&session, 0, true).await.unwrap();
    assert!(stalled.event().await.is_some());
    // From now on, `stalled` is not read until the turn has ended.
    let seen = turn.to_the_end().await;
    assert!(answer(&seen).is_some_and(|text| text == fast_text(DELTAS)), "the answer is complete");

    let mut caught_up = vec![];
    let mut deltas = 0;
    while let Some(event) = stalled.event().await {
        if event.kind.is_stored() {
            caught_up.push(event);
        } else {
            deltas += 1;
        }
    }
    assert_eq!(caught_up, seen[1..], "stored events arrive in order without gaps");
    assert!(deltas < DELTAS, "unread deltas are dropped");
    // Late subscribers get the same events.
    let late = slow.subscribe(&session, 0, true).await.unwrap().to_the_end().await;
    assert_eq!(late, seen);
}

#[tokio::test]
async fn subscription_continues_after_the_last_seen_event() {
    let world = World::start().await;
    world.ok(["run", "Hi"]).await;
    let client = world.client().await;
    let session = client.sessions(1).await.unwrap()[0].id.to_string();
    let all = client.subscribe(&session, 0, true).await.unwrap().to_the_end().await;
    for after in 1..all.len() as u64 {
        let rest = client.subscribe(&session, after, true).await.unwrap().to_the_end().await;
        assert_eq!(rest, all[usize::try_from(after).unwrap()..]);
    }
    assert!(client.subscribe(&session, all.len() as u64, true).await.unwrap().event().await.is_none());
}

#[tokio::test]
async fn concurrent_turns_each_get_their_own_answer() {
    let world = World::start().await;
    world.model.respond_with(|request| Reply::text(format!("You said: {}", request.last_user())));
    let client = world.client().await;
    let turns = (0..50).map(|number| {
        let client = client.clone();
        async move {
            let request = turn(SessionChoice::New(NewSession::default()), &format!("number {number}."));
            let mut turn = client.turn(request).await.unwrap();
            let events = turn.to_the_end().await;
            assert_eq!(answer(&events), Some(format!("You said: number {number}.").as_str()));
        }
    });
    join_all(turns).await;
}

#[tokio::test]
async fn a_second_turn_is_refused_while_the_first_runs() {
    let world = World::start().await;
    world.model.reply(Reply::text("One two three").hang_after_text("two"));
    let mut running = world.spawn_agentctl(["run", "Hi", "--output", "stream-json"]);
    let (delta, _) = running.event("item_delta").await;
    let session = delta["session_id"].as_str().unwrap();
    let second_run = ["run", "Me too", "--session", session];
    world.agentctl(second_run).await.exits(75).says(&["is running", "hint:"]);
    let refused = world.agentctl([&second_run[..], &["--output", "json"]].concat()).await.exits(75).json();
    assert_eq!(refused["error"]["kind"], "busy", "{refused}");
    world.agentctl(["undo", session]).await.exits(75);
    running.signal(Signal::SIGINT);
    running.output(Vec::new()).await.exits(130);
    world.ok(second_run).await;
}

#[tokio::test]
async fn attach_shows_the_live_turn_in_a_second_terminal() {
    let world = World::configured("service: {log_level: debug}").await;
    let args = ["run", "Hi", "--output", "stream-json"];
    world.model.reply(Reply::text("One two three four").hold_after_text("two").when("Hi"));
    let mut running = world.spawn_agentctl(args);
    let (delta, _) = running.event("item_delta").await;
    let session = delta["session_id"].as_str().unwrap();
    let attached = world.spawn_agentctl(["attach", session]);
    until_true("the client is attached", || world.followers() > 0).await;
    world.model.release_held_reply();
    let attached = attached.output(Vec::new()).await.exits(0);
    assert!(attached.stdout.contains("One two three four"), "{attached:?}");
    running.output(Vec::new()).await.exits(0);
    // `attach` ends immediately if no turn is running.
    let attached = world.ok(["attach", session]).await;
    assert_eq!(attached.stdout, "");
    attached.says(&["no turn is running"]);
    world.agentctl(["attach", "ffff"]).await.exits(2).says(&["ffff", "hint:"]);
}
