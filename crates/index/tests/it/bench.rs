//! What the tests share: where the worker and the documents are.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use agentd_index::{Document, Extractor, Failure, Kind, Limits};
use tokio_util::sync::CancellationToken;

/// The example that is built with the tests, beside them.
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

/// Reads bytes as a file of that name.
pub(crate) async fn read(extractor: &Extractor, name: &str, bytes: &[u8]) -> (Option<Document>, Option<Failure>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    extractor.read(file, Kind::of_name(name), CancellationToken::new()).await
}

/// Reads a document that is beside the tests.
pub(crate) async fn read_fixture(name: &str) -> (Option<Document>, Option<Failure>) {
    let file = File::open(fixture(name)).unwrap();
    extractor(Limits::default()).read(file, Kind::of_name(name), CancellationToken::new()).await
}

/// The same, of one that is read without a failure.
pub(crate) async fn document(name: &str) -> Document {
    let (document, failure) = read_fixture(name).await;
    assert_eq!(failure, None, "{name}");
    document.unwrap()
}

/// Each part with its place.
pub(crate) fn told(document: &Document) -> Vec<String> {
    document.parts.iter().map(|part| format!("[{}]\n{}", part.place, part.markdown().trim_end())).collect()
}
