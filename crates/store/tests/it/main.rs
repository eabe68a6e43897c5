//! The journal through its public face: the contract it shares with the fake, what survives a crash, what a broken
//! disk looks like, and what many sessions cost.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;
mod crash;
mod faults;
mod importing;
mod load;
mod removal;
mod schema;
mod searching;
mod usage;

use std::path::{Path, PathBuf};

use agentd_core::{Timestamp, ids::SessionId, ports::Store, session::SessionSettings};
use agentd_store::{SqliteStore, StoreConfig, StoreSize};
use agentd_testkit::{daemon::until, store_contract::EventScript};
use rusqlite::Connection;
use tempfile::TempDir;

fn journal(folder: &Path) -> PathBuf {
    folder.join("journal.db")
}

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(StoreConfig::at(journal(folder))).unwrap()
}

async fn new_session(store: &SqliteStore) -> EventScript {
    let (id, at) = (SessionId::generate(), Timestamp::UNIX_EPOCH);
    store.create_session(id, at, SessionSettings::default(), Vec::new()).await.unwrap();
    EventScript::new(id, at)
}

/// A journal in a folder that goes with it.
fn opened() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    (folder, store)
}

async fn one_session() -> (TempDir, SqliteStore, EventScript) {
    let (folder, store) = opened();
    let script = new_session(&store).await;
    (folder, store, script)
}

/// The file of the journal, as another program opens it.
fn file(folder: &Path) -> Connection {
    Connection::open(journal(folder)).unwrap()
}

/// Rows of the journal, whoever they belong to.
fn rows(folder: &Path, table: &str) -> i64 {
    file(folder).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Spoils a page of the journal, as a bad disk would.
fn spoil(folder: &Path, page: u32) {
    let mut bytes = std::fs::read(journal(folder)).unwrap();
    bytes[page as usize * 4096..][..4096].fill(0xa5);
    std::fs::write(journal(folder), bytes).unwrap();
}

/// Waits until nothing is left of the sessions that were removed, but for what cannot be overwritten.
async fn overwritten(store: &SqliteStore) -> StoreSize {
    until("all is overwritten", async || Some(store.size().await.unwrap()).filter(|size| size.removed_sessions == 0))
        .await
}
