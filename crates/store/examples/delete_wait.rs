//! Prints how long others wait while a session of so many megabytes is deleted, and what is left of its room:
//! `cargo run --release -p agentd-store --example delete_wait [MEGABYTES] [FOLDER]`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use agentd_core::{error::StoreError, ids::SessionId, ports::Store, session::SessionSettings};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_testkit::store_contract::EventScript;

/// Words of one event.
const EVENT: usize = 8 << 10;
/// Events of one append.
const AT_ONCE: usize = 64;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let megabytes: usize = args.next().map_or(Ok(25), |number| number.parse())?;
    let folder = match args.next() {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(StoreConfig::at(&path))?;
    let mut large = new_session(&store).await?;
    let mut other = new_session(&store).await?;
    let words: String = (0..EVENT / 8).map(|n| format!("{:07} ", n * 7919)).collect();
    for _ in 0..(megabytes << 20) / EVENT / AT_ONCE {
        let events = (0..AT_ONCE).map(|_| large.input(&words)).collect();
        store.append(events).await?;
    }
    // The index of the search is a part of what is deleted.
    while store.search(agentd_core::search::SearchQuery::parse("x").ok_or("no word")?, None, 1).await?.unsearched > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("before: {} MB, log {} MB", size(&path)?, size(&log(&path)).unwrap_or_default());

    let begun = Instant::now();
    store.delete_session(large.session).await?;
    println!("deleted for everybody after {:.1} ms", begun.elapsed().as_secs_f64() * 1000.0);
    let (mut waits, mut longest_log) = (Vec::new(), 0);
    while store.size().await?.removed_sessions > 0 {
        let asked = Instant::now();
        store.append(vec![other.input("meanwhile")]).await?;
        waits.push(asked.elapsed());
        longest_log = longest_log.max(size(&log(&path)).unwrap_or_default());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    waits.sort_unstable();
    let at = |share: usize| waits.get(waits.len() * share / 100).copied().unwrap_or_default().as_secs_f64() * 1000.0;
    println!(
        "overwritten after {:.1} s; {} appends of another session meanwhile took {:.1} ms in the middle, {:.1} at 95 %, \
         {:.1} at the most; log up to {longest_log} MB",
        begun.elapsed().as_secs_f64(),
        waits.len(),
        at(50),
        at(95),
        waits.last().copied().unwrap_or_default().as_secs_f64() * 1000.0
    );
    while store.size().await?.spare_bytes > 2 << 20 || size(&log(&path)).unwrap_or_default() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if begun.elapsed() > Duration::from_secs(600) {
            break;
        }
    }
    println!("after {:.1} s: {} MB, log {} MB", begun.elapsed().as_secs_f64(), size(&path)?, size(&log(&path))?);
    store.close().await?;
    Ok(())
}

async fn new_session(store: &SqliteStore) -> Result<EventScript, StoreError> {
    let (id, at) = (SessionId::generate(), agentd_core::Timestamp::now());
    store.create_session(id, at, SessionSettings::default(), Vec::new()).await?;
    Ok(EventScript::new(id, at))
}

fn log(path: &Path) -> std::path::PathBuf {
    path.with_file_name("journal.db-wal")
}

/// In megabytes.
fn size(path: &Path) -> std::io::Result<u64> {
    Ok(std::fs::metadata(path)?.len() >> 20)
}
