//! The journal's write speed, and the cost of a long session compared with a short one.

use agentd_core::{error::StoreError, item::ItemBody, ports::Store as _};
use agentd_testkit::store_contract::EventScript;
use futures_util::future::try_join_all;

use crate::floor::Disk;

use super::*;

const SESSIONS: usize = 100;
/// Number of events appended to each session.
const ROUNDS: u64 = 100;
const LONG: usize = 10_000;
const SHORT: usize = 10;
/// Number of items that the engine reads when it opens a session.
const RECENT: usize = 400;
const WARM_UP: usize = 20;
const TURNS: usize = 200;
const SYNCS: u64 = 300;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let floor = tokio::task::block_in_place(|| syncs_per_second(folder.path()))?;
    let store = open(&folder.path().join("journal.db")).await?;
    let appended = append_rate(&store, floor).await?;
    store.close().await?;
    let (opened, step) = long_session().await?;
    Ok(vec![appended, opened, step])
}

fn syncs_per_second(folder: &Path) -> anyhow::Result<f64> {
    let disk = Disk::in_folder(folder)?;
    let started = Instant::now();
    for _ in 0..SYNCS {
        disk.sync()?;
    }
    Ok(rate(SYNCS, started.elapsed()))
}

pub(super) async fn open(path: &Path) -> anyhow::Result<SqliteStore> {
    Ok(tokio::task::block_in_place(|| SqliteStore::open(StoreConfig::at(path)))?)
}

pub(super) async fn new_session(store: &SqliteStore) -> Result<EventScript, StoreError> {
    let (id, at) = (SessionId::generate(), Timestamp::now());
    store.create_session(id, at, SessionSettings::default(), Vec::new()).await?;
    Ok(EventScript::new(id, at))
}

fn words() -> ItemBody {
    ItemBody::AgentMessage { text: "A sentence of the length that sentences have. ".repeat(4) }
}

/// Measures appends: each session appends an event, waits until it is durable, and appends the next one.
async fn append_rate(store: &SqliteStore, floor: f64) -> anyhow::Result<Row> {
    let scripts = try_join_all((0..SESSIONS).map(|_| new_session(store))).await?;
    let before = store.stats();
    let started = Instant::now();
    let appenders = scripts.into_iter().map(async |mut script| {
        for _ in 0..ROUNDS {
            store.append(vec![script.completed(words())]).await?;
        }
        Ok::<_, StoreError>(())
    });
    try_join_all(appenders).await?;
    let took = started.elapsed();
    let after = store.stats();
    let (events, commits) = (after.events - before.events, after.commits - before.commits);
    let figures = vec![Figure::per_second("", rate(events, took)).at_least(5_000.0)];
    Ok(Row::new("journal, durable events of 100 sessions", figures)
        .over(Figure::per_second("4 KiB fdatasync", floor))
        .with_note(format!("{events} events in {commits} commits")))
}

/// Measures opening a session of 10,000 items, and the time to the first token of a turn in it.
async fn long_session() -> anyhow::Result<(Row, Row)> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let home = Home::new(&model)?;
    let store = open(&home.journal()).await?;
    let (short, long) = (session_of(&store, SHORT).await?, session_of(&store, LONG).await?);
    store.close().await?;

    let store = open(&home.journal()).await?;
    let (opening_short, opening_long) = (opening(&store, short).await?, opening(&store, long).await?);
    store.close().await?;
    let opened = Row::new("opening a session of 10,000 items", vec![Figure::millis("", opening_long).at_most(50.0)])
        .over(Figure::millis("10 items", opening_short));

    let daemon = home.start().await?;
    Ok((opened, step(&daemon.client, short, long).await?))
}

/// Creates a session with `items` items, two per turn.
pub(super) async fn session_of(store: &SqliteStore, items: usize) -> anyhow::Result<SessionId> {
    let mut script = new_session(store).await?;
    for _ in 0..items / 2 / 5 {
        let mut events = Vec::new();
        for _ in 0..5 {
            events.extend([script.turn_started(), script.input("Say something."), script.completed(words())]);
            events.push(script.turn_ended(StopReason::Completed));
        }
        store.append(events).await?;
    }
    Ok(script.session)
}

/// Measures the reads that open a session for the first time after a start, in milliseconds.
async fn opening(store: &SqliteStore, session: SessionId) -> anyhow::Result<f64> {
    let started = Instant::now();
    let stored = store.session(session).await?;
    store.recent_items(session, stored.map_or(0, |stored| stored.reset_seq), RECENT).await?;
    Ok(millis(started.elapsed()))
}

/// Compares turns in both sessions, in alternating order. The warm-up turns extend the short session until its requests
/// contain the maximum amount of history.
async fn step(client: &Client, short: SessionId, long: SessionId) -> anyhow::Result<Row> {
    let (mut in_short, mut in_long) = (Samples::default(), Samples::default());
    for number in 0..WARM_UP + TURNS {
        let mut pair = [(short, &mut in_short), (long, &mut in_long)];
        if number % 2 == 1 {
            pair.reverse();
        }
        for (session, samples) in pair {
            let seen = turn::run(client, turn::request(Some(session), None), || {}).await?;
            if number >= WARM_UP {
                samples.add(seen.first_text);
            }
        }
    }
    let ratio = in_long.median() / in_short.median();
    let figures = vec![Figure::times("", ratio).at_most(1.2), Figure::millis("median", in_long.median())];
    Ok(Row::new("first token after 10,000 items, compared with few items", figures)
        .over(Figure::millis("few items", in_short.median()))
        .with_ratio(ratio))
}
