//! Disk errors, wrong files and locked files. Each must cause an error with a hint, without any loss of data.

use std::{path::Path, time::Duration};

use agentd_core::{
    error::{ErrorKind, StoreError},
    event::{EventKind, StateChange},
    ids::InterruptId,
    item::ItemBody,
    ports::Store,
    state_files::StateFileChange,
};
use agentd_store::{DamagedSession, SqliteStore, StoreConfig};
use serde_json::json;

use crate::{corrupt_page, file, journal, new_session, one_session, open, opened};

#[track_caller]
fn check(error: &StoreError, message: &str, hint: &str) {
    assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.hint().unwrap_or_default().contains(hint), "{error:?}");
}

/// Returns the error from opening the journal.
fn failure(config: StoreConfig) -> StoreError {
    match SqliteStore::open(config) {
        Ok(_) => panic!("the journal was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn full_disk_rejects_only_writes_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::at(journal(folder.path()));
    config.max_pages = Some(60);
    let store = SqliteStore::open(config).unwrap();
    let mut script = new_session(&store).await;
    let mut other = new_session(&store).await;
    store.append(vec![script.input("before")]).await.unwrap();

    let before = script.clone();
    let huge = vec![script.turn_started(), script.input(&"x".repeat(1_000_000))];
    let small = vec![other.input("small")];
    let (huge, small) = tokio::join!(store.append(huge), store.append(small));
    check(&huge.unwrap_err(), "could not store events in", "free some space");
    small.unwrap();
    assert_eq!(store.events(script.session, 0, 10).await.unwrap().len(), 1);
    assert!(store.open_turns().await.unwrap().is_empty());

    script = before;
    store.append(vec![script.input("after")]).await.unwrap();
    let mut fitted = 0;
    let error = loop {
        match store.append(vec![other.input(&"y".repeat(2000))]).await {
            Ok(()) => fitted += 1,
            Err(error) => break error,
        }
    };
    check(&error, "the disk is full", "acknowledged data is safe");
    assert!(fitted > 0);
    assert_eq!(store.events(other.session, 0, 1000).await.unwrap().len(), fitted + 1);

    // Space freed by a deleted session is reused.
    store.delete_session(other.session).await.unwrap();
    store.append(vec![script.input(&"z".repeat(20_000))]).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(open(folder.path()).events(script.session, 0, 10).await.unwrap().len(), 3);
}

#[test]
fn invalid_journal_path_has_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    check(&failure(StoreConfig::at(file.join("journal.db"))), "could not open the journal", "check that");
    check(&failure(StoreConfig::at(folder.path())), "could not open the journal", "AGENTD_DATA_DIR");
}

#[test]
fn foreign_file_is_rejected_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal(folder.path());
    let notes = "my notes, not a database\n".repeat(200);
    std::fs::write(&path, &notes).unwrap();
    check(&failure(StoreConfig::at(&path)), "not a journal", "move");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), notes);

    std::fs::remove_file(&path).unwrap();
    file(folder.path()).execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    check(&failure(StoreConfig::at(&path)), "another program", "move the file away");
}

/// Creates a journal with several pages, corrupts a page in its middle, and leaves an invalid log, as after a crash.
async fn corrupt_journal(folder: &Path) -> StoreConfig {
    let store = open(folder);
    let mut script = new_session(&store).await;
    let events = (0..200).map(|_| script.input(&"words ".repeat(100))).collect();
    store.append(events).await.unwrap();
    store.close().await.unwrap();
    let path = journal(folder);
    corrupt_page(folder, u32::try_from(std::fs::metadata(&path).unwrap().len() / 2 / 4096).unwrap());
    std::fs::write(folder.join("journal.db-wal"), "what a crash left").unwrap();
    StoreConfig::at(path)
}

/// A damaged page of events after an unclean stop only loses the events on that page, with and without a full check.
#[tokio::test]
async fn damaged_event_page_loses_only_its_events() {
    for full_check_up_to in [0, u64::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig { full_check_up_to, ..corrupt_journal(folder.path()).await };
        let store = SqliteStore::open(config).unwrap();
        let [summary] = store.sessions(10).await.unwrap().try_into().unwrap();
        let events = store.events(summary.id, 0, 1000).await.unwrap();
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=200).collect::<Vec<_>>());
        let damaged: Vec<u64> = events.iter().filter(|event| event.is_damaged()).map(|event| event.seq).collect();
        assert!((1..100).contains(&damaged.len()), "{damaged:?}");
        // The model's history has a placeholder for each damaged event, so that the session can continue.
        let items = store.recent_items(summary.id, 0, 1000).await.unwrap();
        assert_eq!(items.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), (1..=200).collect::<Vec<_>>());
        let placeholders = items
            .iter()
            .filter(|(_, item)| matches!(&item.body, ItemBody::Notice { text, .. } if text.contains("damaged")));
        assert_eq!(placeholders.map(|(seq, _)| *seq).collect::<Vec<_>>(), damaged);
        store.turns(summary.id).await.unwrap();
        let found = store.damaged().await.unwrap();
        assert_eq!(found, [DamagedSession { id: Some(summary.id), events: damaged }]);
    }
}

/// Damages the first page of a table or an index.
fn corrupt_root(folder: &Path, name: &str, unclean: bool) {
    let root = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = ?1";
    let page = file(folder).query_row(root, [name], |row| row.get(0)).unwrap();
    corrupt_page(folder, page);
    if unclean {
        std::fs::write(folder.join("journal.db-wal"), "what a crash left").unwrap();
    }
}

/// If the table of sessions is damaged, the journal is not opened and the file is not changed.
#[tokio::test]
async fn damaged_session_table_is_found_after_unclean_stop() {
    let (folder, store) = opened();
    new_session(&store).await;
    store.close().await.unwrap();
    corrupt_root(folder.path(), "sessions", true);
    check(&failure(StoreConfig::at(journal(folder.path()))), "damaged", "keep a copy");
}

/// A journal with a page that is both free and in use is not opened, because a write could overwrite the page's data.
#[tokio::test]
async fn damaged_free_list_is_found_after_unclean_stop() {
    for full_check_up_to in [0, u64::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig { full_check_up_to, ..corrupt_journal(folder.path()).await };
        let mut bytes = std::fs::read(&config.path).unwrap();
        // First page of the free list, and its length.
        bytes[32..40].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 1]);
        std::fs::write(&config.path, bytes).unwrap();
        check(&failure(config), "damaged", "keep a copy");
    }
}

/// A damaged index loses no data. The index is skipped until it is rebuilt.
#[tokio::test]
async fn damaged_event_index_loses_nothing() {
    for index in ["completed_items", "events_by_number"] {
        for unclean in [true, false] {
            let (folder, store, mut script) = one_session().await;
            store.append((0..200).map(|_| script.input("words")).collect()).await.unwrap();
            store.close().await.unwrap();
            corrupt_root(folder.path(), index, unclean);
            let store = open(folder.path());
            let items = store.recent_items(script.session, 0, 1000).await.unwrap();
            assert_eq!(items.len(), 200, "{index} {unclean}");
        }
    }
}

/// An unreadable question does not hide the others.
#[tokio::test]
async fn damaged_interrupt_loses_only_itself() {
    let (folder, store, mut script) = one_session().await;
    let (first, second) = (InterruptId::generate(), InterruptId::generate());
    let started = script.turn_started();
    store.append(vec![started, script.approval(first, json!({})), script.approval(second, json!({}))]).await.unwrap();
    let [_, remaining] = store.pending_interrupts(None).await.unwrap().try_into().unwrap();
    file(folder.path())
        .execute("UPDATE interrupts SET interrupt = '{}' WHERE key = (SELECT min(key) FROM interrupts)", [])
        .unwrap();
    assert_eq!(store.pending_interrupts(None).await.unwrap(), [remaining]);
}

#[tokio::test]
async fn locked_journal_has_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).close().await.unwrap();
    let other = file(folder.path());
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let config = StoreConfig { busy_timeout: Duration::from_millis(1), ..StoreConfig::at(journal(folder.path())) };
    check(&failure(config.clone()), "locked", "another process");
    drop(other);
    let store = SqliteStore::open(config).unwrap();
    let mut script = new_session(&store).await;

    let other = file(folder.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = script.clone();
    check(&store.append(vec![script.input("a")]).await.unwrap_err(), "locked", "another process");
    other.execute_batch("ROLLBACK").unwrap();
    script = before;
    store.append(vec![script.input("a")]).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn journal_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let store = open(&data);
    let mut script = new_session(&store).await;
    store.append(vec![script.input("private")]).await.unwrap();
    assert_eq!(mode(&data), 0o700);
    for entry in std::fs::read_dir(&data).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    store.close().await.unwrap();
    std::fs::set_permissions(journal(&data), std::fs::Permissions::from_mode(0o644)).unwrap();
    open(&data);
    assert_eq!(mode(&journal(&data)), 0o600);
}

/// An unreadable stored value does not affect other values.
#[tokio::test]
async fn unreadable_event_is_skipped_without_quoting_it() {
    let (folder, store, mut script) = one_session().await;
    store.append(vec![script.input("a"), script.input("b")]).await.unwrap();
    file(folder.path()).execute("UPDATE events SET payload = '{\"type\":\"secret\"}' WHERE seq = 2", []).unwrap();
    store.append(vec![script.input("c")]).await.unwrap();
    let events = store.events(script.session, 0, 10).await.unwrap();
    assert_eq!(events.iter().map(|event| event.is_damaged()).collect::<Vec<_>>(), [false, true, false]);
    assert!(!format!("{events:?}").contains("secret"));
    let items = store.recent_items(script.session, 0, 10).await.unwrap();
    assert_eq!(items.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(matches!(&items[1].1.body, ItemBody::Notice { text, .. } if text.contains("event 2")), "{items:?}");
}

/// A missing event number gets a placeholder, even at the end, so that no reader waits for the event forever.
#[tokio::test]
async fn missing_event_is_replaced_by_a_placeholder() {
    let (folder, store, mut script) = one_session().await;
    store.append((0..5).map(|_| script.input("a")).collect()).await.unwrap();
    file(folder.path()).execute("DELETE FROM events WHERE seq IN (2, 5)", []).unwrap();
    let events = store.events(script.session, 0, 10).await.unwrap();
    let damaged: Vec<_> = events.iter().map(|event| (event.seq, event.is_damaged())).collect();
    assert_eq!(damaged, [(1, false), (2, true), (3, false), (4, false), (5, true)]);
    assert_eq!(store.events(script.session, 4, 10).await.unwrap().len(), 1);
    assert!(store.events(script.session, 5, 10).await.unwrap().is_empty());
    let found = store.damaged().await.unwrap();
    assert_eq!(found, [DamagedSession { id: Some(script.session), events: vec![2, 5] }]);
}

/// A session with any kind of damage can be removed, and other sessions are still listed and usable.
#[tokio::test]
async fn damaged_session_can_be_removed() {
    let corruptions = [
        "UPDATE events SET payload = substr(payload, 1, 20)",
        "UPDATE session_state SET settings = '{'",
        "UPDATE sessions SET usage = 'none' WHERE key = 1",
        "UPDATE sessions SET updated_at = 1 << 62, last_seq = -1 WHERE key = 1",
    ];
    for corruption in corruptions {
        let (folder, store, mut script) = one_session().await;
        let change = EventKind::StateChanged {
            change: StateChange::File(StateFileChange { path: "a".into(), content: Some("b".into()) }),
        };
        store.append(vec![script.input("a"), script.next(change)]).await.unwrap();
        store.close().await.unwrap();
        file(folder.path()).execute(corruption, []).unwrap();
        let store = open(folder.path());
        let other = new_session(&store).await;
        assert!(store.sessions(10).await.unwrap().iter().any(|session| session.id == other.session), "{corruption}");
        assert_eq!(store.session_grants().await.unwrap(), Vec::new());
        store.delete_session(script.session).await.unwrap_or_else(|error| panic!("{corruption}: {error}"));
        assert_eq!(store.sessions(10).await.unwrap().len(), 1, "{corruption}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn appends_fail_if_the_journal_file_was_removed() {
    for name in ["journal.db", "journal.db-wal"] {
        let (folder, store, mut script) = one_session().await;
        store.append(vec![script.input("a")]).await.unwrap();
        store.check_files().unwrap();
        let (file, aside) = (folder.path().join(name), folder.path().join("aside"));
        std::fs::rename(&file, &aside).unwrap();
        let before = script.clone();
        check(&store.append(vec![script.input("b")]).await.unwrap_err(), "was removed", "docs/operations.md");
        check(&store.check_files().unwrap_err(), name, "docs/operations.md");
        std::fs::copy(&aside, &file).unwrap();
        check(&store.check_files().unwrap_err(), "was replaced", "docs/operations.md");
        std::fs::rename(&aside, &file).unwrap();
        store.check_files().unwrap();
        // The event may have been stored, so a caller that received an error has to check.
        let seen = store.events(before.session, before.seq, 10).await.unwrap();
        script.seq = before.seq + seen.len() as u64;
        store.append(vec![script.input("c")]).await.unwrap();
    }
    // The file still exists at its path, but is empty.
    let (folder, store, mut script) = one_session().await;
    std::fs::write(folder.path().join("journal.db"), "").unwrap();
    check(&store.append(vec![script.input("b")]).await.unwrap_err(), "was emptied", "docs/operations.md");
}
