//! End-to-end tests for the library: documents are read by real workers, indexed and found, despite changes to the
//! index files.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{DocumentFinds, DocumentQuery, OpenDocument, PartRange, Reading},
    ports::Knowledge as _,
};
use agentd_index::{
    Chunk, ContentHash, DocumentId, DocumentPlace, DocumentProperties, Extractor, IndexConfig, IndexHandle, Kind,
    Library, Limits,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    bench::{extractor, fixture},
    search::support::index_files,
};

pub(crate) struct TestLibrary {
    pub(crate) folder: TempDir,
    pub(crate) library: Library,
}

impl TestLibrary {
    pub(crate) fn new() -> Self {
        Self::closing_after(Duration::from_secs(60))
    }

    pub(crate) fn with(extractor: Extractor) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), extractor)
    }

    /// Opens the index in this folder.
    pub(crate) fn in_folder(folder: TempDir, extractor: Extractor) -> Self {
        let library = Library::new(extractor, config(folder.path()));
        Self { folder, library }
    }

    /// Reopens the index as after a restart.
    pub(crate) async fn reopened(self, extractor: Extractor) -> Self {
        self.library.close().await;
        Self::in_folder(self.folder, extractor)
    }

    fn closing_after(rest_after: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = IndexConfig { rest_after, ..config(folder.path()) };
        let library = Library::new(extractor(Limits::default()), config);
        Self { folder, library }
    }

    pub(crate) async fn search(&self, documents: Vec<OpenDocument>, text: &str) -> DocumentFinds {
        self.library.search(documents, query(text), Arc::new(|_| {}), CancellationToken::new()).await.unwrap()
    }

    pub(crate) async fn read(&self, document: OpenDocument) -> Result<Reading, KnowledgeError> {
        self.read_range(document, PartRange::default()).await
    }

    pub(crate) async fn read_range(&self, document: OpenDocument, range: PartRange) -> Result<Reading, KnowledgeError> {
        self.library.read(document, range, Arc::new(|_| {}), CancellationToken::new()).await
    }

    /// Writes a file next to the index.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the index files that this process has open.
    #[cfg(target_os = "linux")]
    fn open_files(&self) -> Vec<PathBuf> {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let index_folder = self.folder.path().join("index");
        open.filter_map(|file| std::fs::read_link(file.path()).ok())
            .filter(|path| path.starts_with(&index_folder))
            .collect()
    }
}

fn config(folder: &Path) -> IndexConfig {
    IndexConfig::new(folder.join("index"), Arc::new(|| 1_700_000_000))
}

pub(crate) fn query(text: &str) -> DocumentQuery {
    DocumentQuery { text: text.to_owned(), regex: false, limit: 5, neighbours: false, begin_by: None }
}

pub(crate) fn open(name: &str) -> OpenDocument {
    OpenDocument::new(format!("uploads/{name}"), File::open(fixture(name)).unwrap())
}

pub(crate) fn named(path: &Path, name: &str) -> OpenDocument {
    OpenDocument::new(name.to_owned(), File::open(path).unwrap())
}

/// Formats the best hit.
pub(crate) fn first(finds: &DocumentFinds) -> String {
    finds.hits.first().map(|hit| format!("{}: {}", hit.citation(), hit.marked("[", "]"))).unwrap_or_default()
}

#[tokio::test]
async fn document_text_is_found_with_its_place() {
    let test_library = TestLibrary::new();
    let all = || ["latin.pdf", "cjk.pdf", "handbook.docx", "sales.xlsx", "deck.pptx", "open.ods", "old.xls"].map(open);
    assert!(!test_library.library.is_open().await, "the index opens on first use");
    for (text, citation, marked) in [
        ("QUARTZ-2", "latin.pdf p. 2", "[QUARTZ-2]"),
        ("when do departments submit 提交报表", "cjk.pdf p. 1", "[报表]"),
        ("会議の記録", "cjk.pdf p. 2", "会議"),
        ("회의 기록", "cjk.pdf p. 3", "회의"),
        ("\"Guests are welcome\"", "handbook.docx", "[Guests are welcome]"),
        ("苹果", "sales.xlsx '销售 2024'!C6:D6", "[苹果]"),
        ("预算", "deck.pptx slide 2", "[预算]"),
        ("Speak slowly", "deck.pptx slide 1", "[Speak] [slowly]"),
        ("りんご", "open.ods Blatt!A2:B3", "[りんご]"),
        ("Birnen", "old.xls Alt!A2:B4", "[Birnen]"),
    ] {
        let finds = test_library.search(all().into(), text).await;
        let hit = first(&finds);
        assert!(hit.starts_with(&format!("{citation}: ")) && hit.contains(marked), "{text}: {hit}");
        assert_eq!((finds.searched, finds.broken.len()), (7, 0), "{finds:?}");
    }
    // A document that was not passed is not found, although it is indexed.
    assert_eq!(test_library.search(vec![open("cjk.pdf")], "QUARTZ").await.hits, []);
    // The same bytes under another name are only indexed once.
    let finds = test_library.search(vec![named(&fixture("latin.pdf"), "other/name.pdf")], "QUARTZ-3").await;
    assert_eq!(finds.hits[0].citation(), "name.pdf p. 3");
    assert_eq!(test_library.library.stats().await.unwrap().documents, 7);
}

/// Problem of a document with one page of text and two scanned pages.
const PARTLY_READ: &str = "could not read all of the PDF: 2 of its 3 pages are pictures, probably scanned; run it \
                      through text recognition (OCR) first, or build agentd with the feature `ocr`, as `make install` does and `make \
                      chat` does not";

#[tokio::test]
async fn documents_of_older_index_without_recognition_are_reread() {
    let test_library = TestLibrary::new();
    let before = IndexHandle::open(config(test_library.folder.path())).await.unwrap();
    let content = ContentHash::of(&std::fs::read(fixture("partly.pdf")).unwrap());
    let mut indexing =
        crate::search::support::begin(&before, &DocumentId::new(content, Kind::Pdf, 2), None).await.unwrap().unwrap();
    let text = "The annex names the vermilion barn.".to_owned();
    let chunk = Chunk { place: DocumentPlace::Page(1), heading: None, bytes: 0..text.len(), text };
    indexing.add(vec![chunk]).await.unwrap();
    indexing
        .finish(DocumentProperties { kind: Some(Kind::Pdf), parts: 3, ..DocumentProperties::default() })
        .await
        .unwrap();
    before.close().await.unwrap();
    drop(before);
    let finds = test_library.search(vec![open("partly.pdf")], "vermilion").await;
    assert_eq!(finds.broken, [("uploads/partly.pdf".to_owned(), PARTLY_READ.to_owned())]);
}

#[tokio::test]
async fn deleted_or_truncated_index_is_rebuilt() {
    let test_library = TestLibrary::new();
    let find = async |state: &str| {
        let finds = test_library.search(["latin.pdf", "cjk.pdf"].map(open).into(), "\"met on day 2\"").await;
        assert!(first(&finds).starts_with("latin.pdf p. 2: "), "{state}: {finds:?}");
    };
    find("new").await;
    std::fs::remove_dir_all(test_library.folder.path().join("index")).unwrap();
    find("deleted").await;
    for shorter in [0, 2] {
        for file in index_files(test_library.folder.path()) {
            let length = std::fs::metadata(&file).unwrap().len();
            let file = File::options().write(true).open(&file).unwrap();
            file.set_len(length.checked_div(shorter).unwrap_or_default()).unwrap();
        }
        find("cut short").await;
        find("after that").await;
    }
    std::fs::remove_dir_all(test_library.folder.path().join("index")).unwrap();
    assert_eq!(test_library.library.states(vec![open("latin.pdf")]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn idle_index_is_closed_and_reopened() {
    let test_library = TestLibrary::closing_after(Duration::from_millis(50));
    assert!(!test_library.search(vec![open("latin.pdf")], "QUARTZ").await.hits.is_empty());
    // Without a timeout: the test runner limits the wait.
    while test_library.library.is_open().await {
        tokio::task::yield_now().await;
    }
    // Cached parts of files are released when the files are closed.
    #[cfg(target_os = "linux")]
    assert_eq!(test_library.open_files(), Vec::<PathBuf>::new());
    assert!(first(&test_library.search(vec![open("latin.pdf")], "QUARTZ-1").await).starts_with("latin.pdf p. 1"));

    // Repeated, because a partial result must never be returned, regardless of timing.
    for _ in 0..200 {
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let pending_search =
            test_library.library.search(vec![open("cjk.pdf")], query("x"), Arc::new(|_| {}), cancelled);
        let error = pending_search.await.unwrap_err();
        assert!(error.to_string().contains("cancelled"), "{error}");
    }
    test_library.library.close().await;
    let pending_search =
        test_library.library.search(vec![open("cjk.pdf")], query("x"), Arc::new(|_| {}), CancellationToken::new());
    assert_eq!(pending_search.await.unwrap_err().kind(), ErrorKind::ShuttingDown);
}
