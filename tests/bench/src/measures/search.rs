//! Search in a large journal, during and after building the index.

use agentd_core::{item::ItemBody, ports::Store as _, search::SearchQuery};
use agentd_testkit::store_contract::EventScript;

use super::*;

const SESSIONS: usize = 200;
/// Number of items in each session, two per turn.
const ITEMS: usize = 100;
const SEARCHES: usize = 50;
const MAX_RESULTS: usize = 20;

/// Words in the texts, enough to make the texts differ as real ones do.
const WORDS: [&str; 24] = [
    "harbour", "ledger", "invoice", "window", "garden", "compile", "failing", "network", "letter", "engine", "summary",
    "budget", "station", "bridge", "kitchen", "archive", "monday", "parser", "timeout", "client", "painter", "orchard",
    "velvet", "thunder",
];

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let store = filled_store(&folder.path().join("journal.db")).await?;
    let (indexed, early) = index(&store).await?;
    let (mut later, mut fresh) = (Samples::default(), Samples::default());
    for number in 0..SEARCHES {
        let query = format!("{} {}", WORDS[number % WORDS.len()], WORDS[(number * 7 + 3) % WORDS.len()]);
        later.add(search(&store, &query).await?);
        // The next search also covers a turn that has just ended.
        let mut script = journal::new_session(&store).await?;
        store.append(turn(&mut script, number)).await?;
        fresh.add(search(&store, &query).await?);
    }
    store.close().await?;
    let figures =
        vec![Figure::millis("until everything is indexed", millis(indexed)), Figure::millis("search", early.median())];
    let indexed = Row::new("index of 20,000 items of 200 sessions, searched while it is built", figures)
        .with_note("built while nothing else is written; searches report how much is not indexed yet");
    let figures = vec![Figure::millis("median", later.median()), Figure::millis("after a new turn", fresh.median())];
    Ok(vec![indexed, Row::new("later searches", figures)])
}

/// Searches until the index is complete. Returns the total time, and the time of each search.
async fn index(store: &SqliteStore) -> anyhow::Result<(Duration, Samples)> {
    let (begun, mut searches) = (Instant::now(), Samples::default());
    loop {
        let query = SearchQuery::parse("harbour ledger").context("the query has no terms")?;
        let started = Instant::now();
        let found = store.search(query, None, MAX_RESULTS).await?;
        searches.add(started.elapsed());
        if found.unsearched == 0 {
            return Ok((begun.elapsed(), searches));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn search(store: &SqliteStore, query_text: &str) -> anyhow::Result<Duration> {
    let query = SearchQuery::parse(query_text).context("the query has no terms")?;
    let begun = Instant::now();
    let hits = store.search(query, None, MAX_RESULTS).await?.hits;
    let took = begun.elapsed();
    anyhow::ensure!(!hits.is_empty(), "no results for {query_text:?}");
    Ok(took)
}

async fn filled_store(path: &Path) -> anyhow::Result<SqliteStore> {
    let store = journal::open(path).await?;
    for session in 0..SESSIONS {
        let mut script = journal::new_session(&store).await?;
        for batch in 0..ITEMS / 2 / 50 {
            let turns = (0..50).flat_map(|number| turn(&mut script, (session * ITEMS + batch) * 50 + number));
            let events = turns.collect();
            store.append(events).await?;
        }
    }
    Ok(store)
}

fn turn(script: &mut EventScript, seed: usize) -> Vec<std::sync::Arc<agentd_core::event::Event>> {
    vec![
        script.turn_started(),
        script.input(&sentence(seed, 12)),
        script.completed(ItemBody::AgentMessage { text: sentence(seed + 1, 40) }),
        script.turn_ended(StopReason::Completed),
    ]
}

/// Returns a sentence of `count` words in an order that depends on `seed`.
fn sentence(seed: usize, count: usize) -> String {
    let mut state = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        WORDS[(state >> 33) % WORDS.len()]
    };
    (0..count).map(|_| next()).collect::<Vec<_>>().join(" ")
}
