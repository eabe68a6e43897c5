//! Many concurrent sessions, and long sessions.

use agentd_core::ports::Store;
use futures_util::future::join_all;

use crate::{file, new_session, one_session, open, opened};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_of_many_sessions_share_commits() {
    const SESSIONS: usize = 100;
    const ROUNDS: u64 = 10;
    let (folder, store) = opened();
    let mut scripts = Vec::new();
    for _ in 0..SESSIONS {
        scripts.push(new_session(&store).await);
    }
    let before = store.stats();
    let appenders = scripts.iter_mut().map(async |script| {
        for _ in 0..ROUNDS {
            store.append(vec![script.input("word")]).await.unwrap();
            // The reply means that the event is stored, so a reader can read it immediately.
            let last = store.session(script.session).await.unwrap().unwrap().summary.last_seq;
            assert_eq!(last, script.seq);
        }
    });
    join_all(appenders).await;
    let after = store.stats();
    let appends = after.appends - before.appends;
    assert_eq!((appends, after.events - before.events), (SESSIONS as u64 * ROUNDS, SESSIONS as u64 * ROUNDS));
    let commits = after.commits - before.commits;
    assert!(commits < appends, "{commits} commits for {appends} appends");
    store.close().await.unwrap();

    let store = open(folder.path());
    for script in &scripts {
        let numbers: Vec<_> =
            store.events(script.session, 0, 100).await.unwrap().iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=ROUNDS).collect::<Vec<_>>());
    }
}

/// An append whose caller was dropped is stored completely or not at all, and the next append gets its number.
#[tokio::test]
async fn dropped_append_leaves_no_gap() {
    let (_folder, store, mut script) = one_session().await;
    let first = vec![script.input("a"), script.input("b")];
    // A single poll sends the append. The caller is then dropped, whether or not there was a reply.
    let mut append = store.append(first);
    let _ = futures_util::poll!(&mut append);
    drop(append);
    store.append(vec![script.input("c")]).await.unwrap();
    assert_eq!(store.events(script.session, 0, 10).await.unwrap().len(), 3);
}

/// A long session costs no more than a short session, because no query reads more rows than it returns.
#[tokio::test]
async fn session_queries_use_an_index() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).close().await.unwrap();
    let connection = file(folder.path());
    let plan = |query: &str| -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let lines = statement.query_map([], |row| row.get::<_, String>("detail")).unwrap();
        lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    let check = |query: &str, index: &str| {
        let plan = plan(query);
        assert!(plan.contains(index) && !plan.contains("SCAN events") && !plan.contains("TEMP B-TREE"), "{plan}");
    };
    check(
        "SELECT payload FROM events WHERE session = 1 AND kind = 'item_completed' AND seq > 2 ORDER BY seq DESC LIMIT 3",
        "completed_items",
    );
    check(
        "SELECT payload FROM events WHERE session = 1 AND kind = 'state_changed'
         AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.change.state') END = 'file' AND seq < 9 ORDER BY seq DESC LIMIT 3",
        "state_file_changes",
    );
    check("SELECT payload FROM events WHERE session = 1 AND seq > 2 ORDER BY seq LIMIT 3", "events_by_number");
    check("SELECT id FROM sessions WHERE parent IS NULL ORDER BY used DESC LIMIT 3", "sessions_by_use");
    check("SELECT id FROM sessions WHERE parent = 1 ORDER BY key", "children");
    check("DELETE FROM events WHERE session = 1", "events_by_number");
}
