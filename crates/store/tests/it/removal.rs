//! Removal of sessions: immediate for all readers, without blocking other writes, and with all data overwritten.

use std::path::Path;

use agentd_core::{ports::Store, search::SearchQuery};
use agentd_store::SqliteStore;
use agentd_testkit::{daemon::until, store_contract::EventScript};
use rusqlite::Connection;

use crate::{corrupt_page, file, new_session, open, opened, overwritten, rows};

/// Creates a session of twelve megabytes, or about a hundred pieces.
async fn large_session(store: &SqliteStore) -> EventScript {
    let mut script = new_session(store).await;
    let text = "the blue door; ".repeat(2000);
    for _ in 0..50 {
        let events = (0..8).map(|_| script.input(&text)).collect();
        store.append(events).await.unwrap();
    }
    script
}

fn file_size(folder: &Path, name: &str) -> u64 {
    std::fs::metadata(folder.join(name)).map_or(0, |about| about.len())
}

async fn log_is_empty(folder: &Path) {
    until("the log is empty", async || (file_size(folder, "journal.db-wal") == 0).then_some(())).await;
}

#[tokio::test]
async fn large_session_removal_is_immediate_and_non_blocking() {
    let (_folder, store) = opened();
    let (large, mut other) = (large_session(&store).await, new_session(&store).await);
    store.append(vec![other.input("the green door")]).await.unwrap();
    let query = || SearchQuery::parse("door").unwrap();
    until("everything is indexed", async || {
        let found = store.search(query(), None, 10).await.unwrap();
        (found.unsearched == 0).then_some(())
    })
    .await;

    store.delete_session(large.session).await.unwrap();
    store.append(vec![other.input("meanwhile")]).await.unwrap();
    let size = store.size().await.unwrap();
    assert_eq!(size.removed_sessions, 1, "the append waited until all data was overwritten");
    assert_eq!(store.session(large.session).await.unwrap(), None);
    assert!(store.events(large.session, 0, 10).await.unwrap().is_empty());
    assert!(store.find_sessions(String::new(), 10).await.unwrap() == [other.session]);
    let listed: Vec<_> = store.sessions(10).await.unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(listed, [other.session]);
    let found = store.search(query(), None, 10).await.unwrap();
    assert_eq!(found.hits.iter().map(|hit| hit.session_id).collect::<Vec<_>>(), [other.session]);
    assert_eq!(found.unsearched, 0);

    overwritten(&store).await;
    assert_eq!(store.events(other.session, 0, 10).await.unwrap().len(), 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn removal_returns_space_to_the_disk() {
    let (folder, store) = opened();
    let large = large_session(&store).await;
    let before = store.size().await.unwrap().bytes;
    assert!(before > 10 << 20, "{before}");
    store.delete_session(large.session).await.unwrap();
    until("the file is small", async || (store.size().await.unwrap().bytes < 2 << 20).then_some(())).await;
    log_is_empty(folder.path()).await;
    assert!(file_size(folder.path(), "journal.db") < 2 << 20);
    store.close().await.unwrap();
}

#[tokio::test]
async fn removed_text_leaves_the_log() {
    let (folder, store) = opened();
    let mut small = new_session(&store).await;
    store.append(vec![small.input("the blue door")]).await.unwrap();
    assert!(file_size(folder.path(), "journal.db-wal") > 0, "the text is in the log before the removal");
    store.delete_session(small.session).await.unwrap();
    log_is_empty(folder.path()).await;
    // The session's ID only disappears when its files are recorded as removed.
    store.record_files_removed(vec![small.session]).await.unwrap();
    log_is_empty(folder.path()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn start_after_a_kill_purges_removed_text_from_the_log() {
    let (copy, (folder, store)) = (tempfile::tempdir().unwrap(), opened());
    // The log cannot be moved while a reader holds an old snapshot.
    let reader = file(folder.path());
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions").unwrap();
    let mut small = new_session(&store).await;
    store.append(vec![small.input("the blue door")]).await.unwrap();
    store.delete_session(small.session).await.unwrap();
    store.record_files_removed(vec![small.session]).await.unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    assert!(file_size(copy.path(), "journal.db-wal") > 0);

    let killed = open(copy.path());
    log_is_empty(copy.path()).await;
    killed.close().await.unwrap();
    drop(reader);
    store.close().await.unwrap();
}

#[tokio::test]
async fn interrupted_removal_is_continued() {
    let (folder, store) = opened();
    let large = large_session(&store).await;
    store.delete_session(large.session).await.unwrap();
    store.close().await.unwrap();
    assert!(rows(folder.path(), "events") > 0, "no work is left to continue");

    let store = open(folder.path());
    assert_eq!(store.session(large.session).await.unwrap(), None);
    // The session's files are still recorded as existing.
    assert_eq!(store.files_left().await.unwrap(), [large.session]);
    store.record_files_removed(vec![large.session]).await.unwrap();
    overwritten(&store).await;
    // A new session is not mistaken for the removed session.
    let new = new_session(&store).await;
    assert!(store.events(new.session, 0, 10).await.unwrap().is_empty());
    store.close().await.unwrap();
    assert_eq!(["events", "searched", "sessions"].map(|table| rows(folder.path(), table)), [0, 0, 1]);
    check_gone(folder.path(), "blue door");
    check_gone(folder.path(), &large.session.as_uuid().simple().to_string());
}

fn contains_text(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[track_caller]
fn check_gone(folder: &Path, text: &str) {
    assert!(!contains_text(&std::fs::read(folder.join("journal.db")).unwrap(), text), "{text} is left");
}

/// Damages the page of rows that contains this text.
fn corrupt_page_with(folder: &Path, text: &str) {
    let bytes = std::fs::read(folder.join("journal.db")).unwrap();
    // The first byte of a page marks a page with rows.
    let found = bytes.chunks(4096).position(|page| page[0] == 0x0d && contains_text(page, text));
    corrupt_page(folder, u32::try_from(found.unwrap()).unwrap());
}

/// Creates a session with this text in more than one piece.
async fn session_with(store: &SqliteStore, text: &str) -> EventScript {
    let mut script = new_session(store).await;
    let padding = "and so on ".repeat(60);
    store.append((0..400).map(|n| script.input(&format!("{text} {n}, {padding}"))).collect()).await.unwrap();
    script
}

#[tokio::test]
async fn damaged_page_does_not_block_removal_or_overwriting() {
    // Damages the first piece, then a later piece.
    for damaged in [5, 300] {
        let (folder, store) = opened();
        let (damaged_session, other) =
            (session_with(&store, "the blue door").await, session_with(&store, "the green door").await);
        store.close().await.unwrap();
        corrupt_page_with(folder.path(), &format!("the blue door {damaged},"));

        let store = open(folder.path());
        for session in [damaged_session.session, other.session] {
            store.delete_session(session).await.unwrap_or_else(|error| panic!("{damaged}: {error}"));
            assert_eq!(store.session(session).await.unwrap(), None);
        }
        assert!(store.sessions(10).await.unwrap().is_empty());
        let size = overwritten(&store).await;
        assert_eq!(size.stuck_sessions, 1, "sessions that cannot be overwritten are counted: {damaged}");
        let mut new = new_session(&store).await;
        store.append(vec![new.input("still writable")]).await.unwrap();
        store.close().await.unwrap();
        check_gone(folder.path(), "green door");

        // The next start retries the session, and the damage does not block the start.
        let store = open(folder.path());
        let third = session_with(&store, "the red door").await;
        store.delete_session(third.session).await.unwrap();
        assert_eq!(overwritten(&store).await.stuck_sessions, 1);
        assert_eq!(store.events(new.session, 0, 10).await.unwrap().len(), 1);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn session_with_damaged_settings_can_be_removed() {
    let (folder, store) = opened();
    let damaged_session = session_with(&store, "the blue door").await;
    store.close().await.unwrap();
    corrupt_page_with(folder.path(), "\"confirm_write\"");
    let store = open(folder.path());
    store.delete_session(damaged_session.session).await.unwrap();
    assert!(store.sessions(10).await.unwrap().is_empty() && store.open_turns().await.unwrap().is_empty());
    // All data is overwritten except for the data on that page.
    assert_eq!(overwritten(&store).await.stuck_sessions, 1);
    store.close().await.unwrap();
    check_gone(folder.path(), "blue door");
}

#[tokio::test]
async fn journal_without_auto_vacuum_is_rewritten_on_open() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).close().await.unwrap();
    let auto_vacuum =
        |file: &Connection| -> i64 { file.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap() };
    let old = file(folder.path());
    assert_eq!(auto_vacuum(&old), 2, "a new file");
    old.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    assert_eq!(auto_vacuum(&old), 0);
    drop(old);
    let store = open(folder.path());
    assert!(!store.let_shrink().await.unwrap(), "a small file is rewritten on open");
    let script = new_session(&store).await;
    store.close().await.unwrap();
    assert_eq!(auto_vacuum(&file(folder.path())), 2);
    assert!(open(folder.path()).session(script.session).await.unwrap().is_some());
}
