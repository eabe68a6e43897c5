//! Files in, places out: documents read, indexed and found by real workers, whatever happens to the files of the index.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{DocumentFinds, DocumentQuery, ExtentUnit, OpenDocument, PartCursor, PartKind, PartRange, Reading},
    ports::Knowledge as _,
};
use agentd_index::{
    About, Chunk, ContentHash, DocumentId, DocumentPlace, Extractor, IndexConfig, IndexHandle, Kind, Library, Limits,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    bench::{extractor, fixture},
    search::support::index_files,
};

pub(crate) struct Shop {
    pub(crate) folder: TempDir,
    pub(crate) library: Library,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self::resting_after(Duration::from_secs(60))
    }

    pub(crate) fn with(extractor: Extractor) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), extractor)
    }

    /// One with the index that this folder has.
    pub(crate) fn in_folder(folder: TempDir, extractor: Extractor) -> Self {
        let library = Library::new(extractor, config(folder.path()));
        Self { folder, library }
    }

    /// The same folder after a restart.
    pub(crate) async fn reopened(self, extractor: Extractor) -> Self {
        self.library.close().await;
        Self::in_folder(self.folder, extractor)
    }

    fn resting_after(rest_after: Duration) -> Self {
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

    /// Writes a file beside the index.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The files of the index that this process has open.
    #[cfg(target_os = "linux")]
    fn open_files(&self) -> Vec<PathBuf> {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let own = self.folder.path().join("index");
        open.filter_map(|file| std::fs::read_link(file.path()).ok()).filter(|path| path.starts_with(&own)).collect()
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

/// The best find.
pub(crate) fn first(finds: &DocumentFinds) -> String {
    finds.hits.first().map(|hit| format!("{}: {}", hit.citation(), hit.marked("[", "]"))).unwrap_or_default()
}

#[tokio::test]
async fn what_a_document_says_is_found_with_its_place() {
    let shop = Shop::new();
    let all = || ["latin.pdf", "cjk.pdf", "handbook.docx", "sales.xlsx", "deck.pptx", "open.ods", "old.xls"].map(open);
    assert!(!shop.library.is_open().await, "nothing runs before it is needed");
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
        let finds = shop.search(all().into(), text).await;
        let told = first(&finds);
        assert!(told.starts_with(&format!("{citation}: ")) && told.contains(marked), "{text}: {told}");
        assert_eq!((finds.searched, finds.broken.len()), (7, 0), "{finds:?}");
    }
    // Nobody finds what he was not given, though it is in the index.
    assert_eq!(shop.search(vec![open("cjk.pdf")], "QUARTZ").await.hits, []);
    // The same bytes under another name are there once.
    let finds = shop.search(vec![named(&fixture("latin.pdf"), "other/name.pdf")], "QUARTZ-3").await;
    assert_eq!(finds.hits[0].citation(), "name.pdf p. 3");
    assert_eq!(shop.library.stats().await.unwrap().documents, 7);
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_stops_no_other() {
    let shop = Shop::new();
    for _ in 0..2 {
        let finds =
            shop.search(["password.pdf", "scanned.pdf", "latin.pdf"].map(open).into(), "\"met on day 1\"").await;
        assert!(first(&finds).starts_with("latin.pdf p. 1"), "{finds:?}");
        assert_eq!((finds.searched, finds.is_complete()), (1, false), "what cannot be read is not searched");
        let why = |name: &str| finds.broken.iter().find(|(broken, _)| broken.ends_with(name)).unwrap().1.clone();
        assert!(why("password.pdf").contains("password") && why("scanned.pdf").contains("OCR"), "{finds:?}");
    }
    let error = shop.read(open("password.pdf")).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Rejected && error.hint().unwrap().contains("without one") && error.needs_password(),
        "{error}"
    );
}

/// What is wrong with a document that begins with a page of text and goes on with two pictures.
const PARTLY: &str = "could not read all of the PDF: 2 of its 3 pages are pictures, probably scanned; run it \
                      through text recognition (OCR) first, or build agentd with the feature `ocr`, as `make install` does and `make \
                      chat` does not";

#[tokio::test]
async fn pages_that_are_pictures_are_a_flaw_of_a_document_that_has_text() {
    let shop = Shop::new();
    // The second time it comes from the index.
    for _ in 0..2 {
        for (text, hits) in [("vermilion barn", 1), ("zebra", 0)] {
            let finds = shop.search(["partly.pdf", "latin.pdf"].map(open).into(), text).await;
            assert_eq!((finds.hits.len(), finds.searched), (hits, 2), "{finds:?}");
            assert_eq!(finds.broken, [("uploads/partly.pdf".to_owned(), PARTLY.to_owned())]);
            assert!(!finds.is_complete(), "{finds:?}");
        }
    }
    assert!(shop.search(vec![open("latin.pdf")], "QUARTZ").await.is_complete());
    let again = shop.library.take_in(vec![open("partly.pdf")], true, Arc::new(|_| {}), CancellationToken::new());
    for states in [again.await.unwrap(), shop.library.states(vec![open("partly.pdf")]).await.unwrap()] {
        assert_eq!((states[0].parts, states[0].chunks, states[0].problem.as_deref()), (3, Some(1), Some(PARTLY)));
    }
}

#[tokio::test]
async fn whoever_reads_pages_that_are_pictures_is_told_so() {
    let shop = Shop::new();
    let check = async |first: u32, count: Option<u32>, shown: usize, broken: Option<&str>| {
        let range = PartRange { first, count, ..PartRange::default() };
        let reading = shop.read_range(open("partly.pdf"), range).await.unwrap();
        assert_eq!((reading.total, reading.parts.len()), (3, shown), "{reading:?}");
        assert_eq!(reading.broken.as_deref(), broken, "{reading:?}");
    };
    check(1, None, 3, Some(PARTLY)).await;
    // Where reading ends before the document does, it is known of the pages that are shown.
    check(1, Some(1), 1, None).await;
    let of_shown = "1 of the pages shown is a picture, probably scanned; run it through text recognition \
                    (OCR) first, or build agentd with the feature `ocr`, as `make install` does and `make chat` does not";
    check(1, Some(2), 2, Some(of_shown)).await;
    check(2, Some(1), 1, Some(of_shown)).await;
    // Of pages before those that are shown nothing is known, as they are not read.
    check(3, None, 1, Some(of_shown)).await;
    // Nothing is wrong with pages that are not there.
    check(9, None, 0, None).await;
}

#[tokio::test]
async fn what_an_earlier_version_indexed_without_a_word_on_pictures_is_read_again() {
    let shop = Shop::new();
    let before = IndexHandle::open(config(shop.folder.path())).await.unwrap();
    let content = ContentHash::of(&std::fs::read(fixture("partly.pdf")).unwrap());
    let mut indexing = before.begin(&DocumentId::new(content, Kind::Pdf, 2), None).await.unwrap().unwrap();
    let text = "The annex names the vermilion barn.".to_owned();
    let chunk = Chunk { place: DocumentPlace::Page(1), heading: None, bytes: 0..text.len(), text };
    indexing.add(vec![chunk]).await.unwrap();
    indexing.finish(About { kind: Some(Kind::Pdf), parts: 3, ..About::default() }).await.unwrap();
    before.close().await.unwrap();
    drop(before);
    let finds = shop.search(vec![open("partly.pdf")], "vermilion").await;
    assert_eq!(finds.broken, [("uploads/partly.pdf".to_owned(), PARTLY.to_owned())]);
}

#[tokio::test]
async fn parts_are_read_by_their_numbers() {
    let shop = Shop::new();
    let check = async |name: &str, first: u32, count: Option<u32>| {
        let range = PartRange { first, count, ..PartRange::default() };
        shop.read_range(open(name), range).await.unwrap()
    };
    let reading = check("latin.pdf", 2, Some(1)).await;
    assert_eq!((reading.parts_are, reading.total, reading.parts.len()), (PartKind::Page, 3, 1));
    assert!(reading.parts[0].label == "page 2" && reading.parts[0].text.contains("QUARTZ-2"), "{reading:?}");
    let reading = check("deck.pptx", 3, None).await;
    assert!(reading.parts_are == PartKind::Slide && reading.parts[0].label == "slide 3", "{reading:?}");
    let reading = check("sales.xlsx", 2, None).await;
    assert!(reading.parts[0].label.starts_with("sheet 销售 2024"), "{reading:?}");
    let reading = check("handbook.docx", 1, None).await;
    assert!(
        reading.parts_are == PartKind::Section && reading.parts[0].text.contains("Doors are closed"),
        "{reading:?}"
    );
    assert_eq!(check("latin.pdf", 9, None).await.parts, []);
    assert!(!shop.library.is_open().await, "reading needs no index");
}

#[tokio::test]
async fn an_index_that_is_deleted_or_cut_short_under_its_readers_is_made_anew() {
    let shop = Shop::new();
    let find = async |what: &str| {
        let finds = shop.search(["latin.pdf", "cjk.pdf"].map(open).into(), "\"met on day 2\"").await;
        assert!(first(&finds).starts_with("latin.pdf p. 2: "), "{what}: {finds:?}");
    };
    find("new").await;
    std::fs::remove_dir_all(shop.folder.path().join("index")).unwrap();
    find("deleted").await;
    for shorter in [0, 2] {
        for file in index_files(shop.folder.path()) {
            let length = std::fs::metadata(&file).unwrap().len();
            let file = File::options().write(true).open(&file).unwrap();
            file.set_len(length.checked_div(shorter).unwrap_or_default()).unwrap();
        }
        find("cut short").await;
        find("after that").await;
    }
    std::fs::remove_dir_all(shop.folder.path().join("index")).unwrap();
    assert_eq!(shop.library.states(vec![open("latin.pdf")]).await.unwrap().len(), 1);
}

/// Parts that were read, of how many.
type Step = (u32, Option<u32>);

#[tokio::test]
async fn documents_are_taken_in_with_progress_and_again_when_asked() {
    let shop = Shop::new();
    let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
    let take = async |again: bool, name: &str| {
        let told = Arc::clone(&steps);
        let progress = Arc::new(move |step: agentd_core::knowledge::DocumentProgress| {
            told.lock().unwrap().push((step.parts, step.total));
        });
        shop.library.take_in(vec![open(name)], again, progress, CancellationToken::new()).await.unwrap()
    };
    assert_eq!(shop.library.states(vec![open("latin.pdf")]).await.unwrap()[0].chunks, None);
    let states = take(false, "latin.pdf").await;
    assert_eq!((states[0].format.as_str(), states[0].parts, states[0].problem.as_deref()), ("PDF", 3, None));
    assert_eq!(states[0].title.as_deref(), Some("Annual report"));
    assert!(states[0].chunks.unwrap() >= 3, "{states:?}");
    assert_eq!(*steps.lock().unwrap(), [(0, Some(3)), (1, Some(3)), (2, Some(3)), (3, Some(3))]);
    // It is there: nothing is read once more, unless that is asked for.
    take(false, "latin.pdf").await;
    assert_eq!(steps.lock().unwrap().len(), 4);
    take(true, "latin.pdf").await;
    assert_eq!(steps.lock().unwrap().len(), 8);
    let broken = take(false, "password.pdf").await;
    assert!(broken[0].chunks.is_none() && broken[0].problem.as_ref().unwrap().contains("password"), "{broken:?}");
    assert_eq!(shop.library.states(vec![open("latin.pdf")]).await.unwrap(), states);
}

#[tokio::test]
async fn the_index_is_put_away_when_nobody_needs_it_and_comes_back() {
    let shop = Shop::resting_after(Duration::from_millis(50));
    assert!(!shop.search(vec![open("latin.pdf")], "QUARTZ").await.hits.is_empty());
    // As long as it takes: the test's own runner ends a wait without an end.
    while shop.library.is_open().await {
        tokio::task::yield_now().await;
    }
    // What is kept of its files is kept as long as they are open.
    #[cfg(target_os = "linux")]
    assert_eq!(shop.open_files(), Vec::<PathBuf>::new());
    assert!(first(&shop.search(vec![open("latin.pdf")], "QUARTZ-1").await).starts_with("latin.pdf p. 1"));

    // Often, since the part that was looked at must never come first.
    for _ in 0..200 {
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let asked = shop.library.search(vec![open("cjk.pdf")], query("x"), Arc::new(|_| {}), cancelled);
        let error = asked.await.unwrap_err();
        assert!(error.to_string().contains("cancelled"), "{error}");
    }
    shop.library.close().await;
    let asked = shop.library.search(vec![open("cjk.pdf")], query("x"), Arc::new(|_| {}), CancellationToken::new());
    assert_eq!(asked.await.unwrap_err().kind(), ErrorKind::ShuttingDown);
}

#[tokio::test]
async fn texts_are_in_the_same_index_with_their_lines() {
    let shop = Shop::new();
    let mut lines: Vec<String> = (1..=400).map(|line| format!("Line {line} tells of the harbour.\r")).collect();
    lines[199] = "## Barn\u{c}s\r".to_owned();
    lines[201] = "The barn is vermilion.\r".to_owned();
    let path = shop.put("notes.md", lines.join("\n"));
    let text = || named(&path, "uploads/notes.md");
    let taken = shop.library.take_in(vec![text()], false, Arc::new(|_| {}), CancellationToken::new()).await.unwrap();
    assert!(taken[0].chunks.is_some_and(|chunks| chunks > 3) && taken[0].problem.is_none(), "{taken:?}");
    let finds = shop.search(vec![text(), open("latin.pdf")], "vermilion").await;
    let hit = &finds.hits[0];
    let (from, to) = hit.place.trim_start_matches(':').split_once('-').unwrap();
    let (from, to): (u32, u32) = (from.parse().unwrap(), to.parse().unwrap());
    assert!(from <= 202 && 202 <= to && to - from < 30, "{}", hit.place);
    assert_eq!(hit.citation(), format!("notes.md:{from}-{to}"));
    // The lines are those of the chunk to the letter.
    let words = |line: u32| format!("Line {line} tells");
    let chunk = hit.snippet.trim_matches('…');
    assert!(!chunk.contains(&words(from - 1)) && !chunk.contains(&words(to + 1)), "{hit:?}");
}

/// Every row of a sheet and every cell that a reader comes by who goes on as he is told.
#[tokio::test]
async fn a_long_sheet_is_read_on_row_by_row_to_its_end() {
    let shop = Shop::new();
    let lines: Vec<String> = (1..=9000)
        .map(|row| match row {
            1 => "ship,fee".to_owned(),
            row if row % 100 == 0 => String::from(","),
            row => format!("Alma {row},{}", row * 3),
        })
        .collect();
    let path = shop.put("long.csv", lines.join("\n"));
    let mut from = PartCursor::default();
    let (mut steps, mut next_row) = (0, 2);
    loop {
        let range = PartRange { from, ..PartRange::default() };
        let reading = shop.read_range(named(&path, "long.csv"), range).await.unwrap();
        let [part] = &reading.parts[..] else { panic!("{reading:?}") };
        let shown = part.shown.unwrap();
        assert_eq!((shown.unit, shown.first, shown.total), (ExtentUnit::Row, next_row, 8999), "{shown}");
        assert!(part.text.starts_with("| ship | fee |") && part.label.contains("header in row 1"), "{}", part.label);
        assert!(part.text.contains(&format!("| Alma {} | {} |", shown.last, shown.last * 3)), "{}", part.text);
        steps += 1;
        let Some(next) = part.next else { break };
        assert_eq!((part.cut, next), (true, PartCursor { row: shown.last + 1, column: 0 }));
        from = next;
        next_row = if next.row % 100 == 0 { next.row + 1 } else { next.row };
    }
    assert!(steps > 2, "{steps}");
}
