//! Tests of the journal's public interface: the contract shared with the fake, crashes, disk errors, and the cost of
//! many sessions.

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

/// Opens a journal in a temporary folder.
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

/// Opens the journal's file as another program would.
fn file(folder: &Path) -> Connection {
    Connection::open(journal(folder)).unwrap()
}

/// Returns the number of rows in a table, over all sessions.
fn rows(folder: &Path, table: &str) -> i64 {
    file(folder).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Damages a page of the journal like a bad disk.
fn corrupt_page(folder: &Path, page: u32) {
    let mut bytes = std::fs::read(journal(folder)).unwrap();
    bytes[page as usize * 4096..][..4096].fill(0xa5);
    std::fs::write(journal(folder), bytes).unwrap();
}

/// Waits until removed sessions are overwritten, except for sessions that cannot be overwritten.
async fn overwritten(store: &SqliteStore) -> StoreSize {
    until("all removed data is overwritten", async || {
        Some(store.size().await.unwrap()).filter(|size| size.removed_sessions == 0)
    })
    .await
}
