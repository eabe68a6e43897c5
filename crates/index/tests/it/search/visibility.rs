//! Tests that a session only finds its own documents.

use agentd_index::{Query, Request};

use super::support::{TestIndex, cited, put};

#[tokio::test]
async fn sessions_find_only_their_own_documents() {
    let test_index = TestIndex::new().await;
    let shared = test_index.add("shared.pdf", &["secret of both"]).await;
    let mine = test_index.add("mine.pdf", &["secret of mine"]).await;
    let theirs = test_index.add("theirs.pdf", &["secret of theirs", "secret secret secret secret"]).await;
    let visible_documents = [mine.clone(), shared.clone()];
    let their_own = [theirs.clone(), shared.clone()];

    for query in ["secret", "\"secret of\"", "secr*", "secret OR of", "theirs"] {
        let answer = test_index.search(&visible_documents, query).await;
        assert!(answer.hits.iter().all(|hit| !hit.citation.starts_with("theirs")), "{query}");
        let answer = test_index.search(&their_own, query).await;
        assert!(answer.hits.iter().all(|hit| !hit.citation.starts_with("mine")), "{query}");
    }
    for pattern in ["secret", "s.*t", "."] {
        let query = Query::Regex(pattern.to_owned());
        let answer = test_index.ask(Request::new(visible_documents.to_vec(), query)).await;
        assert_eq!(cited(&answer), ["mine.pdf p. 1", "shared.pdf p. 1"], "{pattern}");
    }
    assert!(test_index.search(&[], "secret").await.hits.is_empty());
    let match_all = Query::Regex(".".to_owned());
    assert!(test_index.ask(Request::new(Vec::new(), match_all)).await.hits.is_empty());
}

#[tokio::test]
async fn invisible_documents_do_not_displace_visible_ones() {
    let test_index = TestIndex::new().await;
    let better: Vec<String> = (0..300).map(|number| format!("needle needle needle {number}")).collect();
    test_index.add("theirs.pdf", &better).await;
    let mine = test_index.add("mine.pdf", &["among much straw and more straw one needle is hidden very well"]).await;
    assert_eq!(cited(&test_index.search(&[mine], "needle").await), ["mine.pdf p. 1"]);
}

#[tokio::test]
async fn invisible_documents_do_not_affect_typo_correction() {
    let test_index = TestIndex::new().await;
    let wrong: Vec<String> = (0..20).map(|number| format!("the harbuor and its harbuors {number}")).collect();
    test_index.add("theirs.pdf", &wrong).await;
    let mine = test_index.add("mine.pdf", &["the harbour is closed", "nothing of it"]).await;
    assert_eq!(cited(&test_index.search(&[mine], "harbuor").await), ["mine.pdf p. 1"]);
    // Typo corrections are not derived from other documents either.
    let other = test_index.add("other.pdf", &["a harbor on the hill"]).await;
    let answer = test_index.search(&[other], "harbuor hill").await;
    assert_eq!(cited(&answer), ["other.pdf p. 1"]);
}

#[tokio::test]
async fn equal_content_is_indexed_once_and_cited_by_each_name() {
    let test_index = TestIndex::new().await;
    let pages = || vec![(None, "a common text".to_owned())];
    let (one, other) =
        tokio::join!(put(&test_index.index, "x", None, pages()), put(&test_index.index, "x", None, pages()));
    let (one, mut other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.id, other.id);
    assert_eq!(test_index.index.stats().await.unwrap().chunks, 1);
    other.name = "other name.pdf".to_owned();
    assert_eq!(cited(&test_index.search(&[one], "common").await), ["x p. 1"]);
    assert_eq!(cited(&test_index.search(&[other], "common").await), ["other name.pdf p. 1"]);
}
