//! Helpers shared by the tests: the worker and the fixtures.

use std::{
    fmt::Debug,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use agentd_index::{Extractor, Failure, Kind, Limits, Part, Piece};
use tokio_util::sync::CancellationToken;

/// Document that was read completely or partly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) kind: Kind,
    pub(crate) title: Option<String>,
    pub(crate) parts: Vec<Part>,
}

impl Document {
    fn push(&mut self, part: Part) {
        let rest = match self.parts.last_mut() {
            Some(last) => last.join(part),
            None => Some(part),
        };
        self.parts.extend(rest);
    }

    /// Returns the whole text as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::markdown).collect();
        let texts = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty());
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// Reads a whole file. Returns the readable content and the failure, if any.
pub(crate) async fn read_file(
    extractor: &Extractor,
    file: File,
    named: Option<Kind>,
) -> (Option<Document>, Option<Failure>) {
    let mut extraction = match extractor.extract(file, named, CancellationToken::new()).await {
        Ok(extraction) => extraction,
        Err(failure) => return (None, Some(failure)),
    };
    let mut document: Option<Document> = None;
    loop {
        match extraction.next().await {
            Some(Ok(Piece::Head(head))) => {
                document = Some(Document { kind: head.kind, title: head.title, parts: Vec::new() });
            }
            Some(Ok(Piece::Part(part))) => document.as_mut().unwrap().push(part),
            Some(Ok(Piece::End { .. })) | None => return (document, None),
            Some(Err(failure)) => return (document, Some(failure)),
        }
    }
}

/// Returns the path of the example worker, which is built together with the tests.
pub(crate) fn worker() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().map(|folder| folder.join("examples/extract_worker")).find(|path| path.is_file());
    found.expect("the worker was built with the tests")
}

pub(crate) fn extractor(limits: Limits) -> Extractor {
    Extractor::new(worker(), limits, 2)
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// Returns the name of the variant, to distinguish failures.
pub(crate) fn variant(failure: &impl Debug) -> String {
    format!("{failure:?}").chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

/// Reads bytes as a file with this name.
pub(crate) async fn read(extractor: &Extractor, name: &str, bytes: &[u8]) -> (Option<Document>, Option<Failure>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    read_file(extractor, file, Kind::of_name(name)).await
}

pub(crate) async fn read_fixture(name: &str) -> (Option<Document>, Option<Failure>) {
    let file = File::open(fixture(name)).unwrap();
    read_file(&extractor(Limits::default()), file, Kind::of_name(name)).await
}

/// Reads a fixture and asserts that there is no failure.
pub(crate) async fn document(name: &str) -> Document {
    let (document, failure) = read_fixture(name).await;
    assert_eq!(failure, None, "{name}");
    document.unwrap()
}

/// Returns each part with its location.
pub(crate) fn cited_parts(document: &Document) -> Vec<String> {
    document.parts.iter().map(|part| format!("[{}]\n{}", part.place, part.markdown().trim_end())).collect()
}
