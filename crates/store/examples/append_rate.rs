//! Prints how many events a second the journal makes durable over 100 sessions, and how long a session of 10,000
//! items takes to open: `cargo run --release -p agentd-store --example append_rate [FOLDER]`.
//!
//! The folder decides what is measured; the default, the system's temporary one, may be memory and not a disk.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use agentd_core::{error::StoreError, ids::SessionId, item::ItemBody, ports::Store, session::SessionSettings};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_testkit::store_contract::EventScript;
use futures_util::future::try_join_all;

const SESSIONS: usize = 100;
const ROUNDS: usize = 200;
const ITEMS: usize = 10_000;
/// What the engine reads of a session when it opens it.
const RECENT: usize = 400;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let floor = syncs_per_second(folder.path())?;
    println!("floor: {floor:.0} writes of 4 KiB made durable a second, one after the other");
    let store = SqliteStore::open(StoreConfig::at(folder.path().join("journal.db")))?;
    append_rate(&store).await?;
    let long = long_session(&store).await?;
    store.close().await?;
    opening_time(folder.path(), long).await?;
    Ok(())
}

fn syncs_per_second(folder: &Path) -> std::io::Result<f64> {
    use std::io::Write;
    const WRITES: u32 = 200;
    let mut file = std::fs::File::create(folder.join("floor"))?;
    let start = Instant::now();
    for _ in 0..WRITES {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
    }
    Ok(f64::from(WRITES) / start.elapsed().as_secs_f64())
}

async fn new_session(store: &SqliteStore) -> Result<EventScript, StoreError> {
    let (id, at) = (SessionId::generate(), agentd_core::Timestamp::now());
    store.create_session(id, at, SessionSettings::default(), Vec::new()).await?;
    Ok(EventScript::new(id, at))
}

fn words() -> ItemBody {
    ItemBody::AgentMessage { text: "A sentence of the length that sentences have. ".repeat(8) }
}

/// Every session appends one event, waits until it is durable, and appends the next.
async fn append_rate(store: &SqliteStore) -> Result<(), StoreError> {
    let scripts = try_join_all((0..SESSIONS).map(|_| new_session(store))).await?;
    let before = store.stats();
    let start = Instant::now();
    let appenders = scripts.into_iter().map(async |mut script| {
        let mut slowest = Duration::ZERO;
        for _ in 0..ROUNDS {
            let asked = Instant::now();
            store.append(vec![script.completed(words())]).await?;
            slowest = slowest.max(asked.elapsed());
        }
        Ok::<_, StoreError>(slowest)
    });
    let slowest = try_join_all(appenders).await?.into_iter().max().unwrap_or_default();
    let seconds = start.elapsed().as_secs_f64();
    let after = store.stats();
    let events = after.events - before.events;
    println!(
        "append: {:.0} durable events a second over {SESSIONS} sessions ({events} events in {} commits, slowest {slowest:.1?})",
        events as f64 / seconds,
        after.commits - before.commits,
    );
    Ok(())
}

async fn long_session(store: &SqliteStore) -> Result<SessionId, StoreError> {
    let mut script = new_session(store).await?;
    for _ in 0..ITEMS / 100 {
        store.append((0..100).map(|_| script.completed(words())).collect()).await?;
    }
    Ok(script.session)
}

async fn opening_time(folder: &Path, session: SessionId) -> Result<(), StoreError> {
    let start = Instant::now();
    let store = SqliteStore::open(StoreConfig::at(folder.join("journal.db")))?;
    println!("open: the journal in {:.1?}", start.elapsed());
    for what in ["first", "again"] {
        let start = Instant::now();
        let stored = store.session(session).await?;
        let items = store.recent_items(session, stored.map_or(0, |stored| stored.reset_seq), RECENT).await?;
        println!("open: a session of {ITEMS} items in {:.1?} ({what}, {} items read)", start.elapsed(), items.len());
    }
    let start = Instant::now();
    store.delete_session(session).await?;
    println!("delete: a session of {ITEMS} items in {:.1?}", start.elapsed());
    store.close().await
}
