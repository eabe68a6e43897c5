//! Data outside a session's events that must match the events: the copy in a fork, the data for undo, the file of a
//! compaction, and the database itself.

use std::{fs, process::Command};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    ids::TurnId,
    item::{Item, ItemBody},
    turn::StopReason,
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest},
};
use agentd_proto::client::Client;
use agentd_testkit::daemon::{PATIENCE, TempDaemon};
use serde_json::Value;

use super::work::content;

/// Runs SQLite's integrity check in a separate process, while the daemon runs.
pub(super) fn check_database(daemon: &TempDaemon, context: &str) {
    let ask = "import sqlite3, sys\n\
               journal = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
               print(*(row[0] for row in journal.execute('PRAGMA integrity_check')), sep='\\n')";
    let checker_output = Command::new("python3").args(["-c", ask]).arg(daemon.data().join("agentd.db")).output();
    let checker_output = checker_output.expect("python3");
    let stdout = String::from_utf8_lossy(&checker_output.stdout);
    assert_eq!(stdout.trim(), "ok", "{context}: {}", String::from_utf8_lossy(&checker_output.stderr));
}

/// Compares the copy in a fork with its origin. Returns true if the session is a fork and its origin still exists.
pub(super) async fn check_fork(client: &Client, session: &str, events: &[Event], context: &str) -> bool {
    let Some((copied, from)) = copied_events(events) else { return false };
    let Some(originals) = first_events(client, &from, copied.len()).await else { return false };
    for (copy, original) in copied.iter().zip(&originals) {
        assert_eq!(text_of(copy).replace(session, &from), text_of(original), "{context}: event {} of {from}", copy.seq);
    }
    assert_eq!(copied.len(), originals.len(), "{context}: events of {from}");
    true
}

/// Returns the copied events and the ID of their origin.
fn copied_events(events: &[Event]) -> Option<(&[Event], String)> {
    events.iter().enumerate().rev().find_map(|(index, event)| match &event.kind {
        EventKind::StateChanged { change: StateChange::Forked { from, .. } } => {
            Some((&events[..index], from.to_string()))
        }
        _ => None,
    })
}

fn text_of(event: &Event) -> String {
    // Converting to a value first sorts the keys.
    serde_json::to_value(event).map(|value: Value| value.to_string()).expect("JSON")
}

/// Returns the first events of a session, or `None` if the session was deleted.
async fn first_events(client: &Client, session: &str, count: usize) -> Option<Vec<Event>> {
    let mut stream = match client.subscribe(session, 0, false).await {
        Err(error) if error.answered() == Some(ErrorKind::NotFound) => return None,
        stream => stream.expect("the session is readable"),
    };
    let mut events = Vec::new();
    while events.len() < count {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await.expect("its events are stored");
        events.extend(next.expect("events").filter(|event| event.kind.is_stored()));
    }
    Some(events)
}

/// Checks that the file of the last compaction contains all replaced messages from the journal. Returns true if such a
/// file exists.
pub(super) async fn check_compaction(daemon: &TempDaemon, client: &Client, session: &str, events: &[Event]) -> bool {
    let view = client.session(session).await.expect("the session is readable");
    let Some(seq) = view.session.window.summary.checked_sub(1) else { return false };
    let event = &events[usize::try_from(seq).expect("a number")];
    let EventKind::ItemCompleted { item: Item { body: ItemBody::Compaction(compaction), .. }, .. } = &event.kind else {
        panic!("event {} of session {session} is not a compaction", event.seq);
    };
    let Some(bytes) = compaction.file.bytes.filter(|_| !compaction.file.name.is_empty()) else { return true };
    let file = daemon.data().join("workspace").join(session).join("conversation_history").join(&compaction.file.name);
    let length = fs::metadata(&file).map_or(0, |meta| meta.len());
    assert!(length >= bytes, "{} has only {length} of {bytes} bytes", file.display());
    true
}

/// Returns the turns that wrote one of the session's own files, each with the file and its mark. Copied turns are left
/// out, because they cannot be undone in the copy.
pub(super) fn written(events: &[Event]) -> Vec<(TurnId, String, String)> {
    let of_turn = |event: &Event| {
        let EventKind::TurnEnded { result } = &event.kind else { return None };
        let [file] = &result.files[..] else { return None };
        // A turn that was interrupted by a kill may or may not have written its file.
        if result.stop_reason != StopReason::Completed {
            return None;
        }
        let mark = file.path.strip_prefix("outputs/")?.strip_suffix(".txt")?;
        Some((result.turn_id, file.path.clone(), mark.to_owned()))
    };
    let own = copied_events(events).map_or(0, |(copied, _)| copied.len());
    events[own..].iter().filter_map(of_turn).collect()
}

/// Undoes and redoes the write of a turn. The undo data must have survived the kills.
pub(super) async fn check_undo(client: &Client, session: &str, written: &(TurnId, String, String), context: &str) {
    let (turn, path, mark) = written;
    let ask = async |redo: bool, preview: bool| -> UndoReport {
        let turn = Some(TurnChoice::Id(*turn));
        let request = UndoRequest { turn, redo, preview, client: "a test".to_owned() };
        let undone = client.undo(session, &request).await;
        undone.unwrap_or_else(|error| panic!("{context}: {path}, redo: {redo}: {error}"))
    };
    let outcome = |report: UndoReport| report.files.iter().map(|file| file.outcome).collect::<Vec<_>>();
    assert_eq!(outcome(ask(false, true).await), [UndoOutcome::Done], "{context}: preview of undoing {path}");
    assert_eq!(outcome(ask(false, false).await), [UndoOutcome::Done], "{context}: undoing {path}");
    let undone_file = client.read_file(session, path, 0).await;
    assert!(undone_file.is_err(), "{context}: {path} still exists");
    assert_eq!(outcome(ask(true, false).await), [UndoOutcome::Done], "{context}: redoing {path}");
    let redone_file =
        client.read_file(session, path, 0).await.unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
    assert!(redone_file.content == content(mark).into_bytes(), "{context}: {path} has different content");
}
