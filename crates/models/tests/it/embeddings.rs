//! Embeddings: what is sent and stored, and invalid answers.

use std::{collections::HashSet, path::Path, sync::Arc};

use agentd_core::{
    embedding::{EmbeddingReport, TextGroup},
    error::{ErrorKind, ModelError},
    ports::{Clock, Embeddings as _, Store},
    route::Routes,
    spending::UsageQuery,
};
use agentd_models::{EmbeddingStore, EmbeddingsConfig, ModelConfig, Wire};
use agentd_testkit::{
    embedding_server::{EMBEDDING_KEY, EmbeddingBehaviour, EmbeddingServer},
    memory_store::MemoryStore,
    scripted::StoppedClock,
};

const TEXTS: [(u64, &str); 3] = [(1, "how to repair a car"), (2, "the weather of May"), (3, "a bill to settle")];

struct World {
    server: EmbeddingServer,
    folder: tempfile::TempDir,
    journal: Arc<MemoryStore>,
}

impl World {
    async fn start() -> Self {
        let (server, folder) = (EmbeddingServer::start().await, tempfile::tempdir().unwrap());
        Self { server, folder, journal: Arc::default() }
    }

    fn store(&self, model: &str) -> EmbeddingStore {
        let mut config = ModelConfig::new(Wire::OpenAi, self.server.base_url());
        (config.id, config.api_key, config.retries) = (model.to_owned(), Some(EMBEDDING_KEY.into()), 0);
        let config = EmbeddingsConfig { model: config, folders: vec![self.folder.path().join("named")] };
        let journal: (Arc<dyn Store>, Arc<dyn Clock>) = (self.journal.clone(), Arc::new(StoppedClock::default()));
        EmbeddingStore::new(config, self.folder.path().join("embeddings"), Routes::default(), journal).unwrap()
    }
}

/// Sends or counts texts. Returns the number of texts and of tokens.
async fn add(store: &EmbeddingStore, texts: &[(u64, &str)], sent: bool) -> Result<(u64, u64), ModelError> {
    let texts = texts.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
    let mut report = EmbeddingReport { sent, ..EmbeddingReport::default() };
    store.add(&TextGroup { name: "code-1".to_owned(), texts }, &mut report).await?;
    assert!(report.server.starts_with("http://127.0.0.1:") && report.server.ends_with("-embedder)"), "{report:?}");
    Ok((report.texts, report.tokens))
}

async fn nearest(store: &EmbeddingStore, query: &str) -> (Vec<(usize, u64)>, Option<String>) {
    store.nearest(query, &["code-1".to_owned()]).await
}

#[tokio::test]
async fn texts_are_counted_then_sent_once_and_found_by_meaning() {
    let world = World::start().await;
    let store = world.store("small-embedder");
    // Nothing is stored, so the query is not sent. The note is given once.
    let (found, note) = nearest(&store, "mend an automobile").await;
    assert!(found.is_empty() && note.unwrap().contains("agentctl docs embed"));
    assert_eq!(nearest(&store, "mend an automobile").await, (Vec::new(), None));
    // The empty text is never sent.
    let texts = [TEXTS[0], TEXTS[1], TEXTS[2], (9, " \n")];
    assert_eq!(add(&store, &texts, false).await.unwrap(), (3, 14));
    assert!(world.server.take_requests().is_empty() && !world.folder.path().join("embeddings").exists());

    assert_eq!(add(&store, &texts, true).await.unwrap(), (3, 14));
    assert_eq!(world.server.take_requests(), [TEXTS.map(|(_, text)| text)]);
    let fresh = world.store("small-embedder");
    let (found, note) = nearest(&fresh, "mend an automobile").await;
    assert_eq!((found[0], note), ((0, 1), None));
    assert_eq!(nearest(&fresh, "Rechnung bezahlen").await.0[0], (0, 3));

    // Only a new text is sent, and a removed one is forgotten.
    world.server.take_requests();
    let texts = [TEXTS[0], TEXTS[1], (4, "another text")];
    assert_eq!(add(&fresh, &texts, true).await.unwrap().0, 1);
    assert_eq!(world.server.take_requests(), [["another text"]]);
    let (found, note) = nearest(&fresh, "Rechnung bezahlen").await;
    assert!(found.len() == 3 && found.iter().all(|(_, key)| *key != 3) && note.is_none(), "{found:?} {note:?}");
    assert_eq!(world.server.refusals(), [""; 0]);
    let usage = world.journal.usage(UsageQuery::default(), agentd_core::Timestamp::UNIX_EPOCH).await.unwrap();
    assert!(usage.total.calls == 5 && usage.total.prompt_tokens > 20, "{usage:?}");
}

#[tokio::test]
async fn another_model_or_dimension_starts_over() {
    let world = World::start().await;
    let sent = async |store: &EmbeddingStore| add(store, &TEXTS, true).await.unwrap().0;
    let store = world.store("small-embedder");
    assert_eq!((sent(&store).await, sent(&store).await), (3, 0));
    let store = world.store("large-embedder");
    let (found, note) = nearest(&store, "mend an automobile").await;
    assert!(found.is_empty() && note.is_some());
    assert_eq!((sent(&store).await, sent(&store).await), (3, 0));
    world.server.has_dimension(64);
    let store = world.store("large-embedder");
    let (found, note) = nearest(&store, "mend an automobile").await;
    assert!(found.is_empty() && note.is_some());
    assert_eq!((sent(&store).await, sent(&store).await), (3, 0));
    assert_eq!(nearest(&store, "mend an automobile").await.0[0], (0, 1));
    // A new text with another dimension discards the others, which the next run sends.
    world.server.has_dimension(32);
    let texts = [TEXTS[0], TEXTS[1], TEXTS[2], (9, "a new text")];
    assert_eq!(add(&store, &texts, true).await.unwrap().0, 1);
    assert!(nearest(&world.store("large-embedder"), "mend an automobile").await.1.is_some());
    assert_eq!(add(&store, &texts, true).await.unwrap().0, 3);
    assert!(nearest(&store, "mend an automobile").await.0.contains(&(0, 1)));
}

#[tokio::test]
async fn interrupted_run_continues_where_it_stopped() {
    let world = World::start().await;
    let all: Vec<String> = (0..100).map(|number| format!("text number {number}")).collect();
    let texts: Vec<(u64, &str)> = (0..).zip(all.iter().map(String::as_str)).collect();
    world.server.behaves(EmbeddingBehaviour::RefusesAfter(2));
    let error = add(&world.store("small-embedder"), &texts, true).await.unwrap_err();
    assert!(error.to_string().contains("the texts are refused"), "{error}");
    world.server.behaves(EmbeddingBehaviour::Answers);
    // The file ends in the middle of a vector.
    let path = world.folder.path().join("embeddings/code-1");
    let stored = std::fs::read(&path).unwrap();
    std::fs::write(&path, &stored[..stored.len() - 7]).unwrap();
    let store = world.store("small-embedder");
    assert!(nearest(&store, "number").await.1.is_some(), "a part is missing");
    // Two clients do not send the same texts.
    let (one, other) = tokio::join!(add(&store, &texts, true), add(&store, &texts, true));
    assert_eq!((one.unwrap().0, other.unwrap().0), (100 - 64 + 1, 0));
    let sent = world.server.take_requests().concat();
    let repeated = sent.iter().filter(|text| sent.iter().filter(|other| other == text).count() > 1);
    assert_eq!(repeated.collect::<HashSet<_>>(), HashSet::from([&"text number 63".to_owned()]));
    assert!(nearest(&world.store("small-embedder"), "number").await.1.is_none());
}

#[tokio::test]
async fn invalid_answers_store_nothing() {
    let vectors = |vectors: &[&str]| {
        let entry = |(index, vector): (usize, &&str)| format!(r#"{{"index": {index}, "embedding": {vector}}}"#);
        format!(r#"{{"data": [{}]}}"#, vectors.iter().enumerate().map(entry).collect::<Vec<_>>().join(", "))
    };
    for body in [
        String::new(),
        "<html>".to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        r#"{"data": [1, 2, 3]}"#.to_owned(),
        r#"{"data": [{"index": 0, "embedding": "AAAA"}]}"#.to_owned(),
        r#"{"data": [{"index": 7, "embedding": [1]}]}"#.to_owned(),
        r#"{"data": [{"index": 0, "embedding": [1e300]}]}"#.to_owned(),
        vectors(&["[1, 2]", "[1, 2]"]),
        vectors(&["[1, 2]", "[1, 2]", "[1]"]),
        vectors(&["[]", "[]", "[]"]),
        vectors(&["[1]", "[1]", "[1]", "[1]"]),
        vectors(&["[null]", "[1]", "[1]"]),
    ] {
        let world = World::start().await;
        let store = world.store("small-embedder");
        world.server.behaves(EmbeddingBehaviour::Raw(body.clone()));
        let error = add(&store, &TEXTS, true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{body}: {error}");
        assert_eq!(add(&store, &TEXTS, false).await.unwrap().0, 3, "{body}");
        assert!(!world.folder.path().join("embeddings").exists(), "{body}");
    }
}

#[tokio::test]
async fn failed_query_is_reported_once_and_then_not_repeated() {
    let world = World::start().await;
    let store = world.store("small-embedder");
    add(&store, &TEXTS, true).await.unwrap();
    world.server.take_requests();
    world.server.behaves(EmbeddingBehaviour::Refuses(500));
    let (found, note) = nearest(&store, "mend an automobile").await;
    let note = note.unwrap();
    assert!(found.is_empty() && note.starts_with("searched by words only: "), "{note}");
    assert!(!note.contains(EMBEDDING_KEY));
    // A server that is gone is not asked again for a minute.
    world.server.behaves(EmbeddingBehaviour::Answers);
    assert_eq!(nearest(&store, "mend an automobile").await, (Vec::new(), None));
    assert!(world.server.take_requests().is_empty());
}

#[tokio::test]
async fn only_named_folders_are_covered() {
    let world = World::start().await;
    let store = world.store("small-embedder");
    let root = world.folder.path().canonicalize().unwrap();
    assert!(!store.covers(&root.join("named/a.rs")), "the folder does not exist");
    std::fs::create_dir_all(root.join("named/below")).unwrap();
    std::fs::create_dir(root.join("named-too")).unwrap();
    for (path, is_covered) in
        [("named", true), ("named/below/a.rs", true), ("named-too/a.rs", false), ("a.rs", false), ("", false)]
    {
        assert_eq!(store.covers(&root.join(path)), is_covered, "{path}");
    }
    assert!(!store.covers(Path::new("/")));
}
