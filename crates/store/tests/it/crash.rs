//! Acknowledged events survive any kind of process end.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agentd_core::{error::ErrorKind, ids::SessionId, ports::Store, session::SessionStatus};
use agentd_store::SqliteStore;

use crate::{file, new_session, one_session, open};

/// Environment variable with the folder for the child process. The child process runs this test binary.
const CHILD_FOLDER: &str = "STORE_TEST_FOLDER";

/// Code of the child process: appends forever and prints every acknowledged event. Does nothing when run as a test.
#[tokio::test]
async fn child_that_appends() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = open(&PathBuf::from(folder));
    let mut script = new_session(&store).await;
    store.append(vec![script.turn_started()]).await.unwrap();
    let mut out = std::io::stdout();
    loop {
        store.append(vec![script.input("more")]).await.unwrap();
        writeln!(out, "acked {} {}", script.session, script.seq).unwrap();
        out.flush().unwrap();
    }
}

#[tokio::test]
async fn acknowledged_events_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_appends", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = None;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while acknowledged.as_ref().is_none_or(|(_, seq)| *seq < 200) {
        let line = lines.next().expect("the child keeps appending").unwrap();
        if let Some((session, seq)) = line.split_once("acked ").and_then(|(_, ack)| ack.split_once(' ')) {
            acknowledged = Some((session.parse::<SessionId>().unwrap(), seq.parse::<u64>().unwrap()));
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (session, acknowledged) = acknowledged.unwrap();

    let store = open(folder.path());
    let events = store.events(session, 0, usize::MAX).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert!(numbers.len() as u64 >= acknowledged, "{} of {acknowledged}", numbers.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let summary = store.session(session).await.unwrap().unwrap().summary;
    assert_eq!(summary.last_seq, numbers.len() as u64);
    assert_eq!(summary.status, SessionStatus::Running);
    assert_eq!(store.open_turns().await.unwrap(), [session]);
    store.close().await.unwrap();
}

/// Copies the files in the state that a power loss would leave.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // Shared memory does not survive a power loss.
        if !entry.file_name().to_string_lossy().ends_with("-shm") {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("journal.db-wal")
}

async fn stored(store: &SqliteStore, session: SessionId) -> usize {
    store.events(session, 0, usize::MAX).await.unwrap().len()
}

#[tokio::test]
async fn torn_log_tail_loses_only_unacknowledged_events() {
    let (copy, (folder, store, mut script)) = (tempfile::tempdir().unwrap(), one_session().await);
    store.append(vec![script.turn_started(), script.input("stored")]).await.unwrap();
    copy_files(folder.path(), copy.path());
    let acknowledged = std::fs::metadata(log_of(copy.path())).unwrap().len();
    store.append(vec![script.input("torn")]).await.unwrap();
    std::fs::copy(log_of(folder.path()), log_of(copy.path())).unwrap();
    let whole = std::fs::metadata(log_of(copy.path())).unwrap().len();
    // The offset is in the first page after the acknowledged part. The search index may have been written after it.
    let torn = acknowledged + 100;
    assert!(whole > torn);
    let log = std::fs::OpenOptions::new().write(true).open(log_of(copy.path())).unwrap();
    log.set_len(torn).unwrap();

    let copied = open(copy.path());
    assert_eq!(stored(&copied, script.session).await, 2);
    assert_eq!(copied.session(script.session).await.unwrap().unwrap().summary.last_seq, 2);
    copied.close().await.unwrap();
}

#[tokio::test]
async fn checkpoint_by_another_program_is_not_reported_as_loss() {
    for is_moved in [true, false] {
        let (copy, (folder, store, mut script)) = (tempfile::tempdir().unwrap(), one_session().await);
        store.append(vec![script.turn_started(), script.input("stored")]).await.unwrap();
        copy_files(folder.path(), copy.path());
        let other_journal = file(copy.path());
        let tables: i64 = other_journal.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert!(tables > 0);
        other_journal.close().unwrap();
        assert!(!log_of(copy.path()).exists(), "the last connection to close moves the log");
        if !is_moved {
            // The copy corresponds to a database that never received its log, except for the tables.
            file(copy.path()).execute_batch("PRAGMA foreign_keys = off; DELETE FROM events").unwrap();
        }

        let copied = open(copy.path());
        assert_eq!(copied.loss().is_none(), is_moved, "{:?}", copied.loss());
        copied.close().await.unwrap();
    }
}

#[tokio::test]
async fn clean_close_leaves_one_self_contained_file() {
    let (folder, store, mut script) = one_session().await;
    store.append(vec![script.input("stored")]).await.unwrap();
    assert!(log_of(folder.path()).exists());
    store.close().await.unwrap();
    store.close().await.unwrap();
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    // The reserve for a full disk is not part of the journal.
    let names: Vec<_> = names.filter(|name| name != "journal.reserve").collect();
    assert_eq!(names, ["journal.db"]);
    let append = store.append(vec![script.input("late")]).await.unwrap_err();
    let read = store.session(script.session).await.unwrap_err();
    assert_eq!([append, read].map(|error| error.kind()), [ErrorKind::ShuttingDown; 2]);
    drop(store);
    assert_eq!(stored(&open(folder.path()), script.session).await, 1);
}

#[tokio::test]
async fn close_finishes_pending_appends() {
    let (folder, store, mut script) = one_session().await;
    let events: Vec<_> = (0..20).map(|_| script.input("stored")).collect();
    let appends = futures_util::future::join_all(events.into_iter().map(|event| store.append(vec![event])));
    let (outcomes, closed) = tokio::join!(appends, store.close());
    closed.unwrap();
    let acknowledged = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(stored(&open(folder.path()), script.session).await, acknowledged);
    assert_eq!(acknowledged, 20, "all appends were queued before the close");
}
