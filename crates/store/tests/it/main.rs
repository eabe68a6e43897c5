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

use std::path::Path;

use agentd_core::{Timestamp, ids::SessionId, ports::Store, session::SessionSettings};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_testkit::store_contract::EventScript;

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(StoreConfig::at(folder.join("journal.db"))).unwrap()
}

async fn new_session(store: &SqliteStore) -> EventScript {
    let (id, at) = (SessionId::generate(), Timestamp::UNIX_EPOCH);
    store.create_session(id, at, SessionSettings::default(), Vec::new()).await.unwrap();
    EventScript::new(id, at)
}
