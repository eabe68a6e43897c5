//! Tests of persistence and eviction.

use std::sync::atomic::Ordering;

use agentd_index::{IndexError, IndexHandle};
use futures_util::FutureExt as _;

use super::support::{START, Shelf, begin, cited, config, id_of, page};

const HOUR: u64 = 3600;

#[tokio::test]
async fn committed_document_stays_and_partial_one_is_dropped() {
    let shelf = Shelf::new().await;
    let whole = shelf.add("whole.pdf", &["kept text"]).await;
    let id = id_of("half", &[]);
    let mut half = begin(&shelf.index, &id, None).await.unwrap().unwrap();
    half.add((1..200).map(|number| page(number, None, "kept half".to_owned())).collect()).await.unwrap();
    // Committed together with another document, and still not visible.
    let other = shelf.add("other.pdf", &["kept as well"]).await;
    let all = [whole.clone(), other.clone(), agentd_index::VisibleDocument { id, name: "half.pdf".to_owned() }];
    let answer = shelf.search(&all, "kept").await;
    assert_eq!(answer.hits.len(), 2);
    assert_eq!(shelf.index.missing(&[id]).await.unwrap(), [id]);
    drop(half);

    let shelf = shelf.reopened().await;
    assert_eq!(shelf.index.missing(&[whole.id, id, other.id]).await.unwrap(), [id]);
    assert_eq!(cited(&shelf.search(std::slice::from_ref(&whole), "kept").await), ["whole.pdf p. 1"]);

    assert!(shelf.index.remove(&whole.id).await.unwrap());
    assert!(!shelf.index.remove(&whole.id).await.unwrap());
    assert!(shelf.search(&[whole], "kept").await.hits.is_empty());
    assert_eq!(shelf.index.stats().await.unwrap().documents, 1);
}

#[tokio::test]
async fn documents_unused_for_thirty_days_are_removed() {
    let shelf = Shelf::new().await;
    let used = shelf.add("used.pdf", &["text"]).await;
    let unused = shelf.add("unused.pdf", &["text too"]).await;
    let pass = |hours: u64| shelf.clock.store(START + hours * HOUR, Ordering::Relaxed);
    pass(25);
    assert_eq!(shelf.index.stats().await.unwrap().stale, 2);
    shelf.search(std::slice::from_ref(&used), "text").await;
    assert_eq!(shelf.index.stats().await.unwrap().stale, 1);
    assert_eq!(shelf.index.sweep().await.unwrap(), 0, "stale ones stay while there is room");

    // Times of last use survive a restart.
    let shelf = shelf.reopened().await;
    shelf.clock.store(START + 721 * HOUR, Ordering::Relaxed);
    assert_eq!(shelf.index.sweep().await.unwrap(), 1);
    assert_eq!(shelf.index.missing(&[used.id, unused.id]).await.unwrap(), [unused.id]);
}

#[tokio::test]
async fn stale_documents_are_removed_over_the_size_limit() {
    let shelf = Shelf::with(|config| config.most_bytes = 1).await;
    let stale = shelf.add("stale.pdf", &["text"]).await;
    shelf.clock.store(START + 25 * HOUR, Ordering::Relaxed);
    let fresh = shelf.add("fresh.pdf", &["text too"]).await;
    shelf.index.sweep().await.unwrap();
    assert_eq!(shelf.index.missing(&[stale.id, fresh.id]).await.unwrap(), [stale.id]);
}

#[tokio::test]
async fn other_index_version_is_removed_but_not_foreign_files() {
    let shelf = Shelf::new().await;
    shelf.add("a.pdf", &["text"]).await;
    shelf.index.close().await.unwrap();
    let root = shelf.folder.path().join("index");
    std::fs::create_dir_all(root.join("v0.9")).unwrap();
    std::fs::create_dir_all(root.join("value")).unwrap();
    let index = IndexHandle::open(config(shelf.folder.path(), &shelf.clock)).await.unwrap();
    assert_eq!(index.stats().await.unwrap().documents, 1);
    assert!(!root.join("v0.9").exists() && root.join("value").exists());
}

#[tokio::test]
async fn second_writer_gets_busy_error() {
    let shelf = Shelf::new().await;
    shelf.add("a.pdf", &["text"]).await;
    let second = IndexHandle::open(config(shelf.folder.path(), &shelf.clock)).await.unwrap();
    let error = begin(&second, &id_of("b", &[]), None).await.unwrap_err();
    assert!(matches!(error, IndexError::Busy), "{error}");
}

/// Returns the number of chunks and entries per segment, including removed ones.
fn segments(folder: &std::path::Path) -> Vec<u64> {
    let version = std::fs::read_dir(folder.join("index")).unwrap().next().unwrap().unwrap().path();
    let meta = std::fs::read(version.join("meta.json")).unwrap();
    let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
    meta["segments"].as_array().unwrap().iter().map(|segment| segment["max_doc"].as_u64().unwrap()).collect()
}

/// Waits until a rest has left at most this many segments and chunks.
async fn rested(folder: &std::path::Path, few: usize, chunks: u64) {
    let is_rested = || {
        let kept = segments(folder);
        kept.len() <= few && kept.iter().sum::<u64>() <= chunks
    };
    let waiting = async {
        while !is_rested() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await;
    assert!(waited.is_ok(), "{:?}", segments(folder));
}

/// Every document added on its own is a segment, and a search looks into each segment.
#[tokio::test]
async fn rest_merges_segments_and_purges_removed_documents() {
    let shelf = Shelf::with(|config| config.rest_after = std::time::Duration::ZERO).await;
    let mut documents = Vec::new();
    for number in 0..35 {
        documents.push(shelf.add(&format!("{number}.pdf"), &["some text"]).await);
    }
    rested(shelf.folder.path(), 2, 70).await;
    for document in &documents[..24] {
        assert!(shelf.index.remove(&document.id).await.unwrap());
    }
    rested(shelf.folder.path(), 2, 2 * 11 * 10 / 7).await;
    assert_eq!(shelf.search(&documents[24..], "text").await.hits.len(), 10);
}

#[tokio::test]
async fn abandoned_document_does_not_block_rest() {
    let shelf = Shelf::with(|config| config.rest_after = std::time::Duration::ZERO).await;
    let id = id_of("given up", &[]);
    for polls in 0..20 {
        let mut begun = Box::pin(begin(&shelf.index, &id, None));
        for _ in 0..polls {
            if (&mut begun).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    for number in 0..4 {
        shelf.add(&format!("{number}.pdf"), &["some text"]).await;
    }
    rested(shelf.folder.path(), 2, 8).await;
}
