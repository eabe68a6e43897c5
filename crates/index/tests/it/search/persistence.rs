//! Tests for persistence and eviction.

use std::sync::atomic::Ordering;

use agentd_index::{IndexError, IndexHandle};
use futures_util::FutureExt as _;

use super::support::{START, TestIndex, begin, cited, config, id_of, page};

const HOUR: u64 = 3600;

#[tokio::test]
async fn committed_document_stays_and_partial_one_is_dropped() {
    let test_index = TestIndex::new().await;
    let whole = test_index.add("whole.pdf", &["kept text"]).await;
    let id = id_of("half", &[]);
    let mut half = begin(&test_index.index, &id, None).await.unwrap().unwrap();
    half.add((1..200).map(|number| page(number, None, "kept half".to_owned())).collect()).await.unwrap();
    // Committed together with another document, but not visible.
    let other = test_index.add("other.pdf", &["kept as well"]).await;
    let all = [whole.clone(), other.clone(), agentd_index::VisibleDocument { id, name: "half.pdf".to_owned() }];
    let answer = test_index.search(&all, "kept").await;
    assert_eq!(answer.hits.len(), 2);
    assert_eq!(test_index.index.missing(&[id]).await.unwrap(), [id]);
    drop(half);

    let test_index = test_index.reopened().await;
    assert_eq!(test_index.index.missing(&[whole.id, id, other.id]).await.unwrap(), [id]);
    assert_eq!(cited(&test_index.search(std::slice::from_ref(&whole), "kept").await), ["whole.pdf p. 1"]);

    assert!(test_index.index.remove(&whole.id).await.unwrap());
    assert!(!test_index.index.remove(&whole.id).await.unwrap());
    assert!(test_index.search(&[whole], "kept").await.hits.is_empty());
    assert_eq!(test_index.index.stats().await.unwrap().documents, 1);
}

#[tokio::test]
async fn documents_unused_for_thirty_days_are_removed() {
    let test_index = TestIndex::new().await;
    let used = test_index.add("used.pdf", &["text"]).await;
    let unused = test_index.add("unused.pdf", &["text too"]).await;
    let pass = |hours: u64| test_index.clock.store(START + hours * HOUR, Ordering::Relaxed);
    pass(25);
    assert_eq!(test_index.index.stats().await.unwrap().stale, 2);
    test_index.search(std::slice::from_ref(&used), "text").await;
    assert_eq!(test_index.index.stats().await.unwrap().stale, 1);
    assert_eq!(test_index.index.sweep().await.unwrap(), 0, "stale documents stay below the size limit");

    // Times of last use survive a restart.
    let test_index = test_index.reopened().await;
    test_index.clock.store(START + 721 * HOUR, Ordering::Relaxed);
    assert_eq!(test_index.index.sweep().await.unwrap(), 1);
    assert_eq!(test_index.index.missing(&[used.id, unused.id]).await.unwrap(), [unused.id]);
}

#[tokio::test]
async fn stale_documents_are_removed_over_the_size_limit() {
    let test_index = TestIndex::with(|config| config.most_bytes = 1).await;
    let stale = test_index.add("stale.pdf", &["text"]).await;
    test_index.clock.store(START + 25 * HOUR, Ordering::Relaxed);
    let fresh = test_index.add("fresh.pdf", &["text too"]).await;
    test_index.index.sweep().await.unwrap();
    assert_eq!(test_index.index.missing(&[stale.id, fresh.id]).await.unwrap(), [stale.id]);
}

#[tokio::test]
async fn other_index_version_is_removed_and_other_files_stay() {
    let test_index = TestIndex::new().await;
    test_index.add("a.pdf", &["text"]).await;
    test_index.index.close().await.unwrap();
    let root = test_index.folder.path().join("index");
    std::fs::create_dir_all(root.join("v0.9")).unwrap();
    std::fs::create_dir_all(root.join("value")).unwrap();
    let index = IndexHandle::open(config(test_index.folder.path(), &test_index.clock)).await.unwrap();
    assert_eq!(index.stats().await.unwrap().documents, 1);
    assert!(!root.join("v0.9").exists() && root.join("value").exists());
}

#[tokio::test]
async fn second_writer_gets_busy_error() {
    let test_index = TestIndex::new().await;
    test_index.add("a.pdf", &["text"]).await;
    let second = IndexHandle::open(config(test_index.folder.path(), &test_index.clock)).await.unwrap();
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
async fn until_merged(folder: &std::path::Path, few: usize, chunks: u64) {
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

/// Every separately added document is a segment, and a search reads each segment.
#[tokio::test]
async fn rest_merges_segments_and_purges_removed_documents() {
    let test_index = TestIndex::with(|config| config.rest_after = std::time::Duration::ZERO).await;
    let mut documents = Vec::new();
    for number in 0..35 {
        documents.push(test_index.add(&format!("{number}.pdf"), &["some text"]).await);
    }
    until_merged(test_index.folder.path(), 2, 70).await;
    for document in &documents[..24] {
        assert!(test_index.index.remove(&document.id).await.unwrap());
    }
    until_merged(test_index.folder.path(), 2, 2 * 11 * 10 / 7).await;
    assert_eq!(test_index.search(&documents[24..], "text").await.hits.len(), 10);
}

#[tokio::test]
async fn abandoned_document_does_not_block_rest() {
    let test_index = TestIndex::with(|config| config.rest_after = std::time::Duration::ZERO).await;
    let id = id_of("given up", &[]);
    for polls in 0..20 {
        let mut indexing = Box::pin(begin(&test_index.index, &id, None));
        for _ in 0..polls {
            if (&mut indexing).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    for number in 0..4 {
        test_index.add(&format!("{number}.pdf"), &["some text"]).await;
    }
    until_merged(test_index.folder.path(), 2, 8).await;
}
