//! Runs the same contract tests on the journal and on the fake.

use std::cell::Cell;

use agentd_testkit::{memory_store::MemoryStore, store_contract::check_store};

#[tokio::test]
async fn journal_store_fulfils_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let opened = Cell::new(0);
    let fresh = async || {
        opened.set(opened.get() + 1);
        super::open(&folder.path().join(opened.get().to_string()))
    };
    check_store(fresh).await;
}

#[tokio::test]
async fn memory_store_fulfils_the_contract() {
    check_store(async || MemoryStore::new()).await;
}
