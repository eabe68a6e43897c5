//! Tests for the worker process: its privileges, and how the process ends.

use std::time::Duration;

use agentd_index::{Extractor, Kind, Limits, Piece, WantedParts};
use tokio_util::sync::CancellationToken;

use crate::bench::{Document, cited_parts, extractor, fixture, read, read_file, variant, worker};

#[tokio::test]
async fn text_documents_are_read_with_their_title() {
    let extractor = extractor(Limits::default());
    let (document, failure) = read(&extractor, "note.md", b"intro\n\n# A title\n\nText.\n").await;
    let document = document.unwrap();
    assert_eq!((failure, document.kind, document.title.as_deref()), (None, Kind::Markdown, Some("A title")));
    let page = b"<html><head><title>T</title><style>p{}</style></head><body><h1>H</h1><p>one</p>\
                 <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><script>x()</script></body>";
    let (document, _) = read(&extractor, "page.html", page).await;
    let document = document.unwrap();
    assert_eq!(document.title.as_deref(), Some("T"));
    let text = document.markdown();
    assert!(text.starts_with("# H\n\none") && text.contains("| a") && !text.contains("x()"), "{text}");
    let (document, _) = read(&extractor, "t.csv", "名称;数量\n苹果;\"1;2\"\n".as_bytes()).await;
    assert_eq!(cited_parts(&document.unwrap()), ["[A2:B2]\n| 名称 | 数量 |\n| --- | --- |\n| 苹果 | 1;2 |"]);
    let (document, _) = read(&extractor, "t.txt", b"\xc4\xfa\xba\xc3\xa3\xac\xca\xc0\xbd\xe7\xa1\xa3").await;
    assert_eq!(cited_parts(&document.unwrap()), ["[:1]\n您好，世界。"]);
}

async fn pieces_from(first: u32) -> Vec<String> {
    let extractor = extractor(Limits::default());
    let file = std::fs::File::open(fixture("latin.pdf")).unwrap();
    let cancel = CancellationToken::new();
    let mut extraction = extractor
        .extract(file, WantedParts { named: Some(Kind::Pdf), first, ..WantedParts::default() }, cancel)
        .await
        .unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = extraction.next().await {
        pieces.push(match piece.unwrap() {
            Piece::Head(head) => format!("{:?}", head.parts),
            Piece::Part(part) => part.place.to_string(),
            Piece::End { parts } => format!("{parts} parts"),
        });
    }
    pieces
}

#[tokio::test]
async fn parts_stream_from_the_first_wanted() {
    assert_eq!(pieces_from(1).await, ["Some(3)", "p. 1", "p. 2", "p. 3", "3 parts"]);
    assert_eq!(pieces_from(2).await, ["Some(3)", "p. 2", "p. 3", "2 parts"]);
    assert_eq!(pieces_from(9).await, ["Some(3)", "0 parts"]);
}

/// Reads a document with a fake worker. The kind of the document selects its behaviour.
async fn read_with_fake_worker(kind: Kind, limits: Limits) -> (Option<Document>, Option<agentd_index::Failure>) {
    let extractor = Extractor::new(fixture("liar.sh"), limits, 1);
    read_file(&extractor, tempfile::tempfile().unwrap(), Some(kind)).await
}

#[tokio::test]
async fn invalid_worker_output_is_rejected() {
    let check = async |kind: Kind, code: &str, words: &str| {
        let limits = Limits { bytes_out: 10_000, ..Limits::default() };
        let (_, failure) = read_with_fake_worker(kind, limits).await;
        let failure = failure.unwrap_or_else(|| panic!("{kind:?} was believed"));
        assert_eq!(variant(&failure), code, "{kind:?}: {failure}");
        assert!(failure.to_string().contains(words), "{kind:?}: {failure}");
    };
    check(Kind::Docx, "Worker", "invalid data").await;
    check(Kind::Xlsx, "Worker", "without a result").await;
    check(Kind::Xls, "Broken", "SIGSEGV").await;
    check(Kind::Ods, "OutOfMemory", "MiB").await;
    check(Kind::Pptx, "Worker", "before the head").await;
    check(Kind::Csv, "Worker", "invalid data").await;
    check(Kind::Html, "Worker", "an invalid location").await;
    check(Kind::Odt, "Worker", "its reader was killed").await;
    check(Kind::Plain, "TooLarge", "its text exceeds 10000 bytes").await;
    let (document, failure) = read_with_fake_worker(Kind::Markdown, Limits::default()).await;
    let document = document.unwrap();
    assert_eq!((failure, document.title.as_deref()), (None, Some("a[31mbc")));
    assert_eq!(document.markdown(), "x]0;yz");
}

/// Counts processes with this number in their command line.
fn processes_with(number: u64) -> usize {
    let number = number.to_string();
    let commands = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        std::fs::read(entry.path().join("cmdline")).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    });
    commands.filter(|command| command.contains(&number)).count()
}

/// Waits until the process is visible. Its command line is empty during `exec`.
async fn until_running(number: u64) {
    wait_for(|| processes_with(number) > 0).await.expect("the worker is running");
}

pub(crate) async fn until_gone(number: u64) {
    wait_for(|| processes_with(number) == 0).await.expect("the worker is gone");
}

async fn wait_for(holds: impl Fn() -> bool) -> Result<(), tokio::time::error::Elapsed> {
    let poll = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), poll).await
}

#[tokio::test]
async fn slow_worker_is_killed_and_reported() {
    // Number that identifies the process.
    let mark = 7_000_000_001 + u64::from(std::process::id());
    let limits = Limits { cells: mark, time: Duration::from_millis(300), ..Limits::default() };
    let (_, failure) = read_with_fake_worker(Kind::Pdf, limits).await;
    let failure = failure.unwrap();
    assert_eq!(failure.to_string(), "could not read the file: it took longer than 0.3 seconds");
    assert!(failure.hint().contains("split it"), "{}", failure.hint());
    until_gone(mark).await;
}

#[tokio::test]
async fn worker_is_killed_when_its_extraction_is_dropped() {
    let mark = 8_000_000_001 + u64::from(std::process::id());
    let extractor = Extractor::new(fixture("liar.sh"), Limits { cells: mark, ..Limits::default() }, 1);
    let cancel = CancellationToken::new();
    let file = || tempfile::tempfile().unwrap();
    let mut extraction = extractor.extract(file(), Some(Kind::Pdf), cancel.clone()).await.unwrap();
    until_running(mark).await;
    cancel.cancel();
    assert_eq!(variant(&extraction.next().await.unwrap().unwrap_err()), "Cancelled");
    assert!(extraction.next().await.is_none());
    until_gone(mark).await;
    drop(extraction);
    // The first extraction has released its permit. Dropping an extraction is enough to end its worker.
    let extraction = extractor.extract(file(), Some(Kind::Pdf), CancellationToken::new()).await.unwrap();
    until_running(mark).await;
    drop(extraction);
    until_gone(mark).await;
}

#[tokio::test]
async fn only_regular_files_within_the_size_limit_are_read() {
    let small_limits = Limits { bytes_in: 10, ..Limits::default() };
    let (_, failure) = read(&extractor(small_limits), "a.txt", b"more than ten bytes").await;
    assert_eq!(failure.unwrap().to_string(), "could not read the file: its size exceeds 10 bytes");
    let folder = std::fs::File::open("/").unwrap();
    let (_, failure) = read_file(&extractor(small_limits), folder, None).await;
    assert_eq!(failure.unwrap().to_string(), "could not read the file: it is not a regular file");
}

#[tokio::test]
async fn parts_read_before_a_limit_are_kept() {
    let limits = Limits { parts: 2, ..Limits::default() };
    let file = std::fs::File::open(fixture("latin.pdf")).unwrap();
    let (document, failure) = read_file(&extractor(limits), file, Some(Kind::Pdf)).await;
    assert_eq!(document.unwrap().parts.len(), 2);
    assert_eq!(failure.unwrap().to_string(), "could not read the file to its end: the number of its parts exceeds 2");
}

#[test]
fn confined_worker_has_no_rights() {
    let output = std::process::Command::new(worker()).arg("probe").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains("allowed"), "{said}");
    assert_eq!(said.matches("refused").count(), 8, "{said} {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn worker_ends_when_the_daemon_is_gone() {
    // The input never ends, as with a document that takes forever.
    let limits = serde_json::to_string(&Limits::default()).unwrap();
    let mut child = std::process::Command::new(worker())
        .args(["extract-worker", &format!("{{\"named\":null,\"limits\":{limits}}}")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(stdin);
}
