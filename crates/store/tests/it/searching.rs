//! Searching a journal whose index is far behind.

use agentd_core::{
    ports::Store,
    search::{Found, SearchQuery},
    turn::StopReason,
};
use agentd_store::SqliteStore;

use crate::{new_session, open};

async fn search(store: &SqliteStore, words: &str) -> Found {
    store.search(SearchQuery::parse(words).unwrap(), None, 5).await.unwrap()
}

/// Searches until all is searched. Each search has the index brought further.
async fn searched(store: &SqliteStore, words: &str) -> Found {
    loop {
        let found = search(store, words).await;
        if found.unsearched == 0 {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_far_behind_is_built_meanwhile_and_the_search_says_so() {
    const EVENTS: u64 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut scripts = Vec::new();
    for number in 0..3 {
        let mut script = new_session(&store).await;
        let mut events = vec![script.input(&format!("the needle {number}"))];
        events.extend((1..EVENTS / 3).map(|line| script.input(&format!("straw {line}"))));
        store.append(events).await.unwrap();
        scripts.push(script);
    }
    assert_eq!(searched(&store, "needle").await.hits.len(), 3);

    // As an older version left it: nothing was ever searched. Nobody else can write now.
    let mut other = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    other.execute_batch("DELETE FROM search_progress; DELETE FROM searched;").unwrap();
    let lock = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let early = search(&store, "needle").await;
    assert_eq!((early.hits.len(), early.unsearched), (0, EVENTS), "it waits for nothing, and says what it lacks");
    // Of a session of its own that is small enough, all is searched at once where it can be.
    drop(lock);
    let one = store.search(SearchQuery::parse("needle").unwrap(), Some(scripts[1].session), 5).await.unwrap();
    assert_eq!((one.hits.len(), one.unsearched), (1, 0));

    // What is stored meanwhile is stored, and found.
    let script = &mut scripts[0];
    store.append(vec![script.turn_started(), script.input("a new needle")]).await.unwrap();
    store.append(vec![script.turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(searched(&store, "needle").await.hits.len(), 4);
    assert_eq!(searched(&store, "\"straw 999\"").await.hits.len(), 3, "each of them once");
    store.close().await.unwrap();

    // The next life finds it as it was left.
    let store = open(folder.path());
    assert_eq!(search(&store, "needle").await.hits.len(), 4);
}
