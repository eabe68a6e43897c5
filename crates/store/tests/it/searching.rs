//! Searches in a journal whose index is outdated or damaged.

use std::{path::Path, time::Duration};

use agentd_core::{
    ports::Store,
    search::{SearchQuery, SearchResult},
    turn::StopReason,
};
use agentd_store::SqliteStore;
use rusqlite::Connection;

use crate::{corrupt_page, file, new_session, open, opened};

async fn search(store: &SqliteStore, query: &str) -> SearchResult {
    store.search(SearchQuery::parse(query).unwrap(), None, 5).await.unwrap()
}

/// Returns the best hits for a query in a store with these texts, each stored in a session of its own.
async fn ranked(texts: &[&str], query: &str) -> Vec<String> {
    let (_folder, store) = opened();
    for text in texts {
        let mut script = new_session(&store).await;
        store.append(vec![script.input(text)]).await.unwrap();
    }
    search(&store, query).await.hits.into_iter().map(|hit| hit.excerpt).collect()
}

#[tokio::test]
async fn texts_with_all_words_come_first_and_common_words_count_little() {
    const LIMIT: &str = "we raised the retry limit to seven";
    let long = format!("{LIMIT}, {}", "and then we tidied the garden ".repeat(40));
    let common: Vec<String> =
        (0..30).map(|number| format!("where did we change the colour of barn {number}, and why?")).collect();
    let check = async |more: &[&str], query: &str, expected: &[&str]| {
        let texts: Vec<&str> = common.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let found = ranked(&texts, query).await;
        let best: Vec<bool> = found.iter().zip(expected).map(|(excerpt, text)| excerpt.contains(text)).collect();
        assert_eq!(best, vec![true; expected.len()], "{query:?}: {found:#?}");
    };
    check(&[LIMIT], "where did we change the retry limit?", &[LIMIT]).await;
    check(&["retry, retry, retry", &long], "retry limit", &[LIMIT, "retry, retry, retry"]).await;
    check(&["the limit of patience", LIMIT], "why the RETRY-less limit?", &["limit of patience"]).await;
    check(&["现在重试次数是五次", "我们改了名字"], "我们在哪里改了重试次数？", &["现在重试次数是五次"]).await;
    check(&["税务报告"], "报告 1999", &["税务报告"]).await;
    check(&[LIMIT], "where is `limit` (seven)?", &[LIMIT]).await;
    check(&[LIMIT], "where did they say \"retry limit\" 'twice' (or not)", &[LIMIT]).await;
}

#[tokio::test]
async fn any_query_is_harmless() {
    let (_folder, store) = opened();
    let mut script = new_session(&store).await;
    store.append(vec![script.input("the needle")]).await.unwrap();
    let long: String = (0..10_000).map(|number| format!("straw{number} ")).collect();
    let chinese: String = ('\u{4e00}'..='\u{7500}').collect();
    for query in [
        "needle\"",
        "needle OR",
        "NEAR( needle , 5 )",
        "needle AND NOT",
        "text: needle",
        "needle * ^",
        "nee\0dle",
        "%%% needle",
        "\\ needle _",
        &format!("needle {long}"),
        &format!("needle {chinese}"),
    ] {
        assert_eq!(search(&store, query).await.hits.len(), 1, "{query:?}");
    }
    assert_eq!(SearchQuery::parse("\0 * \" ("), None);
}

/// Searches until all events are indexed. Each search triggers an update of the index.
async fn searched(store: &SqliteStore, query: &str) -> SearchResult {
    loop {
        let found = search(store, query).await;
        if found.unsearched == 0 {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

/// Creates a journal without an index, as an older version would leave it. No other connection can write until the
/// returned transaction ends.
fn without_index(folder: &Path) -> Connection {
    let other = file(folder);
    loop {
        other.execute_batch("DELETE FROM search_progress; DELETE FROM searched; BEGIN IMMEDIATE").unwrap();
        let indexed: i64 = other.query_row("SELECT count(*) FROM search_progress", [], |row| row.get(0)).unwrap();
        if indexed == 0 {
            return other;
        }
        // The journal's own writer was still busy and has written in the meantime.
        other.execute_batch("ROLLBACK").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outdated_index_is_built_and_reported_by_search() {
    const EVENTS: u64 = 3000;
    let (folder, store) = opened();
    let mut scripts = Vec::new();
    for number in 0..3 {
        let mut script = new_session(&store).await;
        let mut events = vec![script.input(&format!("the needle {number}"))];
        events.extend((1..EVENTS / 3).map(|line| script.input(&format!("straw {line}"))));
        store.append(events).await.unwrap();
        scripts.push(script);
    }
    assert_eq!(searched(&store, "needle").await.hits.len(), 3);

    let other = without_index(folder.path());
    let early = search(&store, "needle").await;
    assert_eq!(
        (early.hits.len(), early.unsearched),
        (0, EVENTS),
        "the search does not wait, and counts the missing events"
    );
    // A session that is small enough is searched completely by the first search.
    other.execute_batch("ROLLBACK").unwrap();
    let one = store.search(SearchQuery::parse("needle").unwrap(), Some(scripts[1].session), 5).await.unwrap();
    assert_eq!((one.hits.len(), one.unsearched), (1, 0));

    // Events stored during the update are also found.
    let script = &mut scripts[0];
    store.append(vec![script.turn_started(), script.input("a new needle")]).await.unwrap();
    store.append(vec![script.turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(searched(&store, "needle").await.hits.len(), 4);
    assert_eq!(searched(&store, "\"straw 999\"").await.hits.len(), 3, "each line is found once per session");
    store.close().await.unwrap();

    // The next process uses the same index.
    let store = open(folder.path());
    assert_eq!(search(&store, "needle").await.hits.len(), 4);
}

#[tokio::test]
async fn search_skips_only_unreadable_events() {
    let (folder, store) = opened();
    let mut damaged = new_session(&store).await;
    let events = ["needle one", "needle two", "needle three", "needle four"].map(|text| damaged.input(text));
    store.append(events.to_vec()).await.unwrap();
    let mut whole = new_session(&store).await;
    store.append(vec![whole.input("needle five")]).await.unwrap();

    let other = without_index(folder.path());
    let half = "UPDATE events SET payload = substr(payload, 1, 20) WHERE payload LIKE '%needle two%'";
    let no_text = "UPDATE events SET payload = CAST(x'22ff22' AS TEXT) WHERE payload LIKE '%needle three%'";
    assert_eq!([half, no_text].map(|damage| other.execute(damage, []).unwrap()), [1, 1]);
    other.execute_batch("COMMIT").unwrap();

    let found = store.search(SearchQuery::parse("needle").unwrap(), None, 9).await.unwrap();
    let mut excerpts: Vec<String> = found.hits.into_iter().map(|hit| hit.excerpt).collect();
    excerpts.sort();
    assert_eq!(
        (excerpts, found.unsearched),
        (["needle five", "needle four", "needle one"].map(String::from).to_vec(), 0)
    );
}

/// Damages a page in the middle of a table or an index. The journal must be closed.
fn corrupt_middle_page(folder: &Path, name: &str) {
    let pages = "SELECT pageno - 1 FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY path
                 LIMIT 1 OFFSET (SELECT count(*) / 2 FROM dbstat WHERE name = ?1 AND pagetype = 'leaf')";
    let page = file(folder).query_row(pages, [name], |row| row.get(0)).unwrap();
    corrupt_page(folder, page);
}

/// Returns the number of sessions in which a search finds each line.
async fn lines_found(store: &SqliteStore, lines: u64) -> Vec<usize> {
    let mut found = Vec::new();
    for line in 1..=lines {
        let query = SearchQuery::parse(&format!("\"needle {line},\"")).unwrap();
        found.push(store.search(query, None, 5).await.unwrap().hits.len());
    }
    found
}

/// Creates a closed journal with two sessions that are not indexed and have more events than a search indexes before
/// searching.
async fn unsearched(folder: &Path, lines: u64) {
    let store = open(folder);
    for _ in 0..2 {
        let mut script = new_session(&store).await;
        let padding = "and so on ".repeat(10);
        let events = (1..=lines).map(|line| script.input(&format!("needle {line}, {padding}"))).collect();
        store.append(events).await.unwrap();
    }
    searched(&store, "needle").await;
    let other = without_index(folder);
    other.execute_batch("COMMIT").unwrap();
    drop(other);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_page_loses_only_its_search_hits() {
    const LINES: u64 = 1200;
    for table in ["events", "completed_items"] {
        let folder = tempfile::tempdir().unwrap();
        unsearched(folder.path(), LINES).await;
        corrupt_middle_page(folder.path(), table);
        let store = open(folder.path());
        let all = tokio::time::timeout(Duration::from_secs(60), searched(&store, "needle")).await;
        all.expect("the index is completed in time");
        let found = lines_found(&store, LINES).await;
        let lost = found.iter().filter(|sessions| **sessions < 2).count();
        // If only the table `completed_items` is damaged, the events themselves are readable.
        let expected = if table == "events" { 1..50 } else { 0..1 };
        assert!(expected.contains(&lost) && !found.contains(&0), "{lost} lines of one session are lost with {table}");
    }
}
