//! Sessions that are removed: gone at once for everybody, holding nobody up, and overwritten to the last word.

use std::path::Path;

use agentd_core::{ports::Store, search::SearchQuery};
use agentd_store::{SqliteStore, StoreSize};
use agentd_testkit::{daemon::until, store_contract::EventScript};
use rusqlite::Connection;

use crate::{new_session, open};

/// Twelve megabytes, of which a piece is a hundredth.
async fn large_session(store: &SqliteStore) -> EventScript {
    let mut script = new_session(store).await;
    let words = "the blue door; ".repeat(2000);
    for _ in 0..50 {
        let events = (0..8).map(|_| script.input(&words)).collect();
        store.append(events).await.unwrap();
    }
    script
}

async fn overwritten(store: &SqliteStore) -> StoreSize {
    until("all is overwritten", async || Some(store.size().await.unwrap()).filter(|size| size.removed_sessions == 0))
        .await
}

fn file_size(folder: &Path, name: &str) -> u64 {
    std::fs::metadata(folder.join(name)).map_or(0, |about| about.len())
}

#[tokio::test]
async fn a_large_session_is_gone_at_once_and_nobody_waits_for_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (large, mut other) = (large_session(&store).await, new_session(&store).await);
    store.append(vec![other.input("the green door")]).await.unwrap();
    let query = || SearchQuery::parse("door").unwrap();
    // The index has all of it before.
    until("all is indexed", async || {
        let found = store.search(query(), None, 10).await.unwrap();
        (found.unsearched == 0).then_some(())
    })
    .await;

    store.delete_session(large.session).await.unwrap();
    store.append(vec![other.input("meanwhile")]).await.unwrap();
    let size = store.size().await.unwrap();
    assert_eq!(size.removed_sessions, 1, "the append has waited until all was overwritten");
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
async fn the_room_goes_back_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let large = large_session(&store).await;
    let before = store.size().await.unwrap().bytes;
    assert!(before > 10 << 20, "{before}");
    store.delete_session(large.session).await.unwrap();
    until("the file is small", async || (store.size().await.unwrap().bytes < 2 << 20).then_some(())).await;
    until("the log is empty", async || (file_size(folder.path(), "journal.db-wal") == 0).then_some(())).await;
    assert!(file_size(folder.path(), "journal.db") < 2 << 20);
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_words_of_a_small_session_leave_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut small = new_session(&store).await;
    store.append(vec![small.input("the blue door")]).await.unwrap();
    let is_empty = async || (file_size(folder.path(), "journal.db-wal") == 0).then_some(());
    assert_eq!(is_empty().await, None, "it is in the log at first");
    store.delete_session(small.session).await.unwrap();
    until("the log is empty", is_empty).await;
    // Its id leaves with the note that its files are gone, which comes behind that.
    store.note_files_gone(vec![small.session]).await.unwrap();
    until("the log is empty again", is_empty).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_start_after_a_kill_empties_the_log_of_what_was_removed() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path());
    // Nothing can be moved while somebody reads what was there before.
    let reader = Connection::open(folder.path().join("journal.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions").unwrap();
    let mut small = new_session(&store).await;
    store.append(vec![small.input("the blue door")]).await.unwrap();
    store.delete_session(small.session).await.unwrap();
    store.note_files_gone(vec![small.session]).await.unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    assert!(file_size(copy.path(), "journal.db-wal") > 0);

    let killed = open(copy.path());
    until("the log is empty", async || (file_size(copy.path(), "journal.db-wal") == 0).then_some(())).await;
    killed.close().await.unwrap();
    drop(reader);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_stop_in_the_middle_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let large = large_session(&store).await;
    store.delete_session(large.session).await.unwrap();
    store.close().await.unwrap();
    let rows = |table: &str| -> i64 {
        let file = Connection::open(folder.path().join("journal.db")).unwrap();
        file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert!(rows("events") > 0, "there was nothing left to go on with");

    let store = open(folder.path());
    assert_eq!(store.session(large.session).await.unwrap(), None);
    // So are its files.
    assert_eq!(store.files_left().await.unwrap(), [large.session]);
    store.note_files_gone(vec![large.session]).await.unwrap();
    overwritten(&store).await;
    // A new one is not taken for it.
    let new = new_session(&store).await;
    assert!(store.events(new.session, 0, 10).await.unwrap().is_empty());
    store.close().await.unwrap();
    assert_eq!((rows("events"), rows("searched"), rows("sessions")), (0, 0, 1));
    let bytes = std::fs::read(folder.path().join("journal.db")).unwrap();
    for words in ["blue door", &large.session.as_uuid().simple().to_string()] {
        assert!(!bytes.windows(words.len()).any(|window| window == words.as_bytes()), "{words} is left");
    }
}

/// Spoils the page of the journal on which that stands, as a bad disk would.
fn spoil_page(folder: &Path, words: &str) {
    /// The first byte of a page that holds rows.
    const ROWS: u8 = 0x0d;
    let path = folder.join("journal.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let holds = |page: &[u8]| page[0] == ROWS && page.windows(words.len()).any(|window| window == words.as_bytes());
    bytes.chunks_mut(4096).find(|page| holds(page)).unwrap().fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
}

/// More than one piece of that.
async fn said(store: &SqliteStore, words: &str) -> EventScript {
    let mut script = new_session(store).await;
    let padding = "and so on ".repeat(60);
    store.append((0..400).map(|n| script.input(&format!("{words} {n}, {padding}"))).collect()).await.unwrap();
    script
}

#[tokio::test]
async fn a_damaged_page_keeps_no_session_from_being_removed_and_no_other_from_being_overwritten() {
    // In the first piece, and in a later one.
    for damaged in [5, 300] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let (spoiled, other) = (said(&store, "the blue door").await, said(&store, "the green door").await);
        store.close().await.unwrap();
        spoil_page(folder.path(), &format!("the blue door {damaged},"));

        let store = open(folder.path());
        for session in [spoiled.session, other.session] {
            store.delete_session(session).await.unwrap_or_else(|error| panic!("{damaged}: {error}"));
            assert_eq!(store.session(session).await.unwrap(), None);
        }
        assert!(store.sessions(10).await.unwrap().is_empty());
        let size = overwritten(&store).await;
        assert_eq!(size.stuck_sessions, 1, "what cannot be overwritten is told: {damaged}");
        let mut new = new_session(&store).await;
        store.append(vec![new.input("life goes on")]).await.unwrap();
        store.close().await.unwrap();
        let bytes = std::fs::read(folder.path().join("journal.db")).unwrap();
        assert!(!bytes.windows(10).any(|window| window == b"green door"), "the other one is left: {damaged}");

        // The next start tries it again, and is not held up by it.
        let store = open(folder.path());
        let third = said(&store, "the red door").await;
        store.delete_session(third.session).await.unwrap();
        assert_eq!(overwritten(&store).await.stuck_sessions, 1);
        assert_eq!(store.events(new.session, 0, 10).await.unwrap().len(), 1);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_settings_are_on_a_damaged_page_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let spoiled = said(&store, "the blue door").await;
    store.close().await.unwrap();
    spoil_page(folder.path(), "\"confirm_write\"");
    let store = open(folder.path());
    store.delete_session(spoiled.session).await.unwrap();
    assert!(store.sessions(10).await.unwrap().is_empty() && store.open_turns().await.unwrap().is_empty());
    // All but what is on that page.
    assert_eq!(overwritten(&store).await.stuck_sessions, 1);
    store.close().await.unwrap();
    let bytes = std::fs::read(folder.path().join("journal.db")).unwrap();
    assert!(!bytes.windows(9).any(|window| window == b"blue door"));
}

#[tokio::test]
async fn a_journal_that_could_not_shrink_can_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).close().await.unwrap();
    let path = folder.path().join("journal.db");
    let auto_vacuum =
        |file: &Connection| -> i64 { file.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap() };
    let old = Connection::open(&path).unwrap();
    assert_eq!(auto_vacuum(&old), 2, "a new file");
    old.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    assert_eq!(auto_vacuum(&old), 0);
    drop(old);
    let store = open(folder.path());
    assert!(!store.let_shrink().await.unwrap(), "a small one was rewritten when it was opened");
    let script = new_session(&store).await;
    store.close().await.unwrap();
    assert_eq!(auto_vacuum(&Connection::open(&path).unwrap()), 2);
    assert!(open(folder.path()).session(script.session).await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_noted_of_the_audit_log_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(store.audit_head().await.unwrap(), None);
    for n in [7, 8] {
        let head = agentd_core::audit::AuditHead { n, hash: "ab".repeat(32) };
        store.note_audit_head(head.clone()).await.unwrap();
        assert_eq!(store.audit_head().await.unwrap(), Some(head));
    }
    store.close().await.unwrap();
    assert_eq!(open(folder.path()).audit_head().await.unwrap().unwrap().n, 8);
}
