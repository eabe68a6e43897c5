//! Opens journals of every released version.

use agentd_core::{
    context::Window,
    error::ErrorKind,
    event::StateChange,
    grant::ScopedGrant,
    interrupt::{Answer, Ask},
    item::ItemBody,
    ports::Store,
    session::{SessionStatus, TodoStatus},
};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_testkit::store_contract::EventScript;
use tempfile::TempDir;

use crate::{file, open, opened};

/// A journal of the first version, as SQL text, so that later code changes do not affect the test.
const VERSION_1: &str = include_str!("version_1.sql");

/// Opens a journal of the first version after applying this change.
fn old_journal(change: &str) -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path()).execute_batch(&format!("{VERSION_1};{change}")).unwrap();
    let store = open(folder.path());
    (folder, store)
}

#[tokio::test]
async fn journal_of_the_first_version_opens() {
    let (_folder, store) = old_journal("");
    let [waiting, idle] = store.sessions(10).await.unwrap().try_into().unwrap();
    assert_eq!((waiting.title.as_str(), waiting.status), ("Write a note", SessionStatus::Waiting));
    assert_eq!((idle.title.as_str(), idle.status), ("", SessionStatus::Idle));
    assert_eq!((waiting.turns, waiting.last_seq, waiting.usage.prompt_tokens), (1, 5, 120));
    assert_eq!(waiting.updated_at.to_string(), "2026-01-01T00:00:05.000000005Z");

    let session = store.session(waiting.id).await.unwrap().unwrap();
    assert!(!session.settings.confirm_exec);
    let grant = ScopedGrant { session_id: Some(waiting.id), grant: "run_bash_command:ls".into() };
    assert_eq!(session.settings.grants, std::slice::from_ref(&grant.grant));
    assert_eq!((store.session_grants().await.unwrap(), store.grants().await.unwrap()), (vec![grant], Vec::new()));
    assert_eq!(session.todos[0].status, TodoStatus::InProgress);
    assert_eq!(session.open_turn.map(|(_, seq)| seq), Some(1));

    let events = store.events(waiting.id, 0, 10).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(kinds, ["turn_started", "item_completed", "usage_updated", "interrupt_raised", "state_changed"]);
    let items = store.recent_items(waiting.id, 0, 10).await.unwrap();
    let input = ItemBody::UserMessage { text: "Write a note".into(), steered: false, typed_bytes: None, stored: None };
    assert_eq!(items.into_iter().map(|(seq, item)| (seq, item.body)).collect::<Vec<_>>(), [(2, input)]);

    let [interrupt] = store.pending_interrupts(None).await.unwrap().try_into().unwrap();
    assert!(matches!(&interrupt.ask, Ask::Approval { tool, .. } if tool == "write_file"));
    assert_eq!(store.interrupt(interrupt.id).await.unwrap().unwrap().answer, None::<Answer>);
    store.delete_session(waiting.id).await.unwrap();
    assert_eq!(store.sessions(10).await.unwrap(), [idle]);
    store.close().await.unwrap();
}

/// Migration 5: history that was reset before windows existed stays hidden, and no other history is hidden.
#[tokio::test]
async fn history_reset_before_windows_stays_hidden() {
    let (_folder, store) = old_journal("UPDATE sessions SET reset_seq = 2 WHERE last_seq = 5");
    let [waiting, idle] = store.sessions(10).await.unwrap().try_into().unwrap();
    let session = store.session(waiting.id).await.unwrap().unwrap();
    assert_eq!((session.reset_seq, session.window), (2, Window { after: 2, summary: 0, held: 0 }));
    assert!(store.recent_items(waiting.id, session.window.after, 10).await.unwrap().is_empty());
    assert_eq!(store.session(idle.id).await.unwrap().unwrap().window, Window::default());
    store.close().await.unwrap();
}

/// Migration 16: sessions that were sorted by time keep that order, and sessions used later precede them.
#[tokio::test]
async fn migrated_sessions_keep_their_time_order() {
    for is_waiting_last in [true, false] {
        let later = format!("UPDATE sessions SET updated_at = 1 << 61 WHERE (last_seq = 5) = {is_waiting_last}");
        let (_folder, store) = old_journal(&later);
        let ids =
            async || -> Vec<_> { store.sessions(10).await.unwrap().into_iter().map(|listed| listed.id).collect() };
        let [first, second] = store.sessions(10).await.unwrap().try_into().unwrap();
        assert_eq!(first.last_seq == 5, is_waiting_last);
        let mut script = EventScript::new(second.id, second.updated_at);
        script.seq = second.last_seq;
        store.append(vec![script.changed(StateChange::Reset)]).await.unwrap();
        assert_eq!(ids().await, [second.id, first.id]);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn journal_of_a_newer_version_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    open(folder.path()).close().await.unwrap();
    file(folder.path()).pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    let Err(error) = SqliteStore::open(StoreConfig::at(&path)) else { panic!("a newer journal was opened") };
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("newer agentd"), "{error}");
    assert!(error.hint().unwrap().contains("update agentd"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn migrated_and_new_schemas_are_equal() {
    let mut schemas = Vec::new();
    for (folder, store) in [old_journal(""), opened()] {
        store.close().await.unwrap();
        let connection = file(folder.path());
        let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)));
        let squeeze = |sql: String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
        schemas.push(rows.unwrap().map(|row| row.map(|(n, s)| (n, s.map(squeeze))).unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(schemas[0], schemas[1]);
}
