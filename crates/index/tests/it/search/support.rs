//! Helpers: an index in a temporary folder, and small documents.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use agentd_index::{
    Answer, Chunk, ContentHash, DocumentId, DocumentPlace, DocumentProperties, IndexConfig, IndexError, IndexHandle,
    Indexing, Kind, Query, RecognitionStamp, Request, VisibleDocument,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Index with a manual clock.
pub(crate) struct TestIndex {
    pub(crate) folder: TempDir,
    pub(crate) index: IndexHandle,
    pub(crate) clock: Arc<AtomicU64>,
}

pub(crate) const START: u64 = 1_700_000_000;

/// Returns the index files in this folder.
pub(crate) fn index_files(folder: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(folder.join("index")).unwrap();
    let folder = versions.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Returns the default settings for this folder.
pub(crate) fn config(folder: &Path, clock: &Arc<AtomicU64>) -> IndexConfig {
    let clock = Arc::clone(clock);
    IndexConfig::new(folder.join("index"), Arc::new(move || clock.load(Ordering::Relaxed)))
}

impl TestIndex {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut IndexConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(START));
        let mut config = config(folder.path(), &clock);
        change(&mut config);
        let index = IndexHandle::open(config).await.unwrap();
        Self { folder, index, clock }
    }

    pub(crate) async fn reopened(self) -> Self {
        self.index.close().await.unwrap();
        let index = IndexHandle::open(config(self.folder.path(), &self.clock)).await.unwrap();
        Self { index, ..self }
    }

    /// Indexes a document with one chunk per page.
    pub(crate) async fn add(&self, name: &str, pages: &[impl AsRef<str>]) -> VisibleDocument {
        let pages = pages.iter().map(|page| (None, page.as_ref().to_owned())).collect();
        put(&self.index, name, None, pages).await.unwrap()
    }

    /// Indexes a document with these chunks.
    pub(crate) async fn add_chunks(&self, name: &str, chunks: Vec<Chunk>) -> VisibleDocument {
        let id = DocumentId::new(ContentHash::of(name.as_bytes()), Kind::Pdf, 1);
        let mut indexing = begin(&self.index, &id, None).await.unwrap().unwrap();
        indexing.add(chunks).await.unwrap();
        indexing.finish(DocumentProperties::default()).await.unwrap();
        VisibleDocument { id, name: name.to_owned() }
    }

    pub(crate) async fn search(&self, documents: &[VisibleDocument], query: &str) -> Answer {
        self.ask(words(documents, query)).await
    }

    /// Returns at most `limit` hits.
    pub(crate) async fn first(&self, documents: &[VisibleDocument], query: &str, limit: usize) -> Answer {
        self.ask(Request { limit, ..words(documents, query) }).await
    }

    pub(crate) async fn ask(&self, request: Request) -> Answer {
        self.index.search(request, CancellationToken::new()).await.unwrap()
    }
}

pub(crate) fn words(documents: &[VisibleDocument], query: &str) -> Request {
    Request::new(documents.to_vec(), Query::Words(query.to_owned()))
}

/// Returns the ID of a document with this text.
pub(crate) fn id_of(name: &str, pages: &[(Option<&str>, String)]) -> DocumentId {
    DocumentId::new(ContentHash::of(format!("{name} {pages:?}").as_bytes()), Kind::Pdf, 1)
}

/// Starts indexing a document. Returns `None` if the document is already indexed.
pub(crate) async fn begin(
    index: &IndexHandle,
    id: &DocumentId,
    title: Option<&str>,
) -> Result<Option<Indexing>, IndexError> {
    match index.claim(id, &RecognitionStamp::default()).await? {
        Some(claim) => claim.begin(title.map(str::to_owned)).await.map(Some),
        None => Ok(None),
    }
}

/// Indexes a document with one chunk per page, each with its heading.
pub(crate) async fn put(
    index: &IndexHandle,
    name: &str,
    title: Option<&str>,
    pages: Vec<(Option<&str>, String)>,
) -> Result<VisibleDocument, IndexError> {
    let id = id_of(name, &pages);
    if let Some(mut indexing) = begin(index, &id, title).await? {
        let chunks = (1..).zip(pages).map(|(number, (heading, text))| page(number, heading, text)).collect();
        indexing.add(chunks).await?;
        indexing.finish(DocumentProperties::default()).await?;
    }
    Ok(VisibleDocument { id, name: name.to_owned() })
}

pub(crate) fn page(number: u32, heading: Option<&str>, text: String) -> Chunk {
    Chunk { place: DocumentPlace::Page(number), heading: heading.map(str::to_owned), bytes: 0..text.len(), text }
}

/// Formats each hit as its citation with the highlighted texts in brackets.
pub(crate) fn highlights(answer: &Answer) -> Vec<String> {
    let hit = |hit: &agentd_index::Hit| {
        let marks: Vec<&str> = hit.snippet.hits.iter().map(|mark| &hit.snippet.text[mark.clone()]).collect();
        format!("{} [{}]", hit.citation, marks.join("|"))
    };
    answer.hits.iter().map(hit).collect()
}

pub(crate) fn cited(answer: &Answer) -> Vec<&str> {
    answer.hits.iter().map(|hit| hit.citation.as_str()).collect()
}
