//! Tests for documents that are replaced, and for workers that are killed from outside.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use agentd_core::ports::Knowledge as _;
use agentd_index::{Extractor, Limits};

use crate::{
    bench::{extractor, fixture, worker},
    library::{TestLibrary, first, named},
};

#[tokio::test]
async fn replaced_document_leaves_nothing_in_the_index() {
    let test_library = TestLibrary::new();
    let path = |name: &str| test_library.folder.path().join(name);
    let indexed = async |test_library: &TestLibrary| test_library.library.stats().await.unwrap().documents;
    fs::copy(fixture("latin.pdf"), path("report.pdf")).unwrap();
    fs::copy(fixture("latin.pdf"), path("copy.pdf")).unwrap();
    test_library.search(vec![named(&path("report.pdf"), "report.pdf")], "QUARTZ").await;
    test_library.search(vec![named(&path("copy.pdf"), "copy.pdf")], "QUARTZ").await;
    assert_eq!(indexed(&test_library).await, 1);
    // Replaced in place, by another file with the same name, and by a document that is already indexed.
    fs::copy(fixture("columns.pdf"), path("report.pdf")).unwrap();
    test_library.search(vec![named(&path("report.pdf"), "report.pdf")], "apples").await;
    assert_eq!(indexed(&test_library).await, 1);
    fs::copy(fixture("cjk.pdf"), path("draft.pdf")).unwrap();
    fs::rename(path("draft.pdf"), path("report.pdf")).unwrap();
    test_library.search(vec![named(&path("report.pdf"), "report.pdf")], "QUARTZ").await;
    assert_eq!(indexed(&test_library).await, 1);
    test_library.search(vec![named(&fixture("table.pdf"), "table.pdf")], "prices").await;
    assert_eq!(indexed(&test_library).await, 2);
    // The path of the replaced document is still known after a restart.
    let test_library = test_library.reopened(extractor(Limits::default())).await;
    let path = |name: &str| test_library.folder.path().join(name);
    fs::copy(fixture("table.pdf"), path("report.pdf")).unwrap();
    test_library.search(vec![named(&path("report.pdf"), "report.pdf")], "prices").await;
    assert_eq!(indexed(&test_library).await, 1);
    // A copy of the replaced document at another path is still found.
    let finds = test_library.search(vec![named(&path("copy.pdf"), "copy.pdf")], "QUARTZ-1").await;
    assert!(first(&finds).starts_with("copy.pdf p. 1"), "{finds:?}");
    let listed = test_library.library.states(vec![named(&path("report.pdf"), "report.pdf")]).await.unwrap();
    assert!(listed[0].chunks.is_some(), "{listed:?}");
}

/// Creates a worker that executes `failure_command` in the first `times` runs and works afterwards. Each run adds a
/// line to a file.
fn failing(folder: &Path, failure_command: &str, times: u32) -> Extractor {
    let (script, runs, worker) = (folder.join("reader.sh"), folder.join("runs"), worker());
    let (runs, worker) = (runs.display(), worker.display());
    let text = format!(
        "#!/bin/sh\necho run >> '{runs}'\n[ $(wc -l < '{runs}') -gt {times} ] && exec '{worker}' \"$@\"\n{failure_command}\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Extractor::new(script, Limits::default(), 1)
}

#[tokio::test]
async fn document_of_a_killed_reader_is_read_by_the_next_search() {
    let no_memory = "echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$";
    for (failure_command, code) in
        [("kill -KILL $$", "was killed"), (no_memory, "of memory"), ("kill -XCPU $$", "took longer")]
    {
        let folder = tempfile::tempdir().unwrap();
        let extractor = failing(folder.path(), failure_command, 1);
        let test_library = TestLibrary::in_folder(folder, extractor);
        let search = async || test_library.search(vec![named(&fixture("latin.pdf"), "latin.pdf")], "QUARTZ-1").await;
        let finds = search().await;
        assert!(finds.hits.is_empty() && finds.broken[0].1.contains(code), "{failure_command}: {finds:?}");
        let finds = search().await;
        assert!(first(&finds).starts_with("latin.pdf p. 1") && finds.broken.is_empty(), "{failure_command}: {finds:?}");
    }
    // A document that always exceeds its limits does not slow down every search.
    for (failure_command, runs) in [(no_memory, 2), ("kill -XCPU $$", 2), ("kill -SEGV $$", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let failure_command = format!("printf '\\024\\0\\0\\0{{\"recognised\":\"pdf\"}}'; {failure_command}");
        let extractor = failing(folder.path(), &failure_command, 99);
        let test_library = TestLibrary::in_folder(folder, extractor);
        for _ in 0..4 {
            let finds = test_library.search(vec![named(&fixture("latin.pdf"), "latin.pdf")], "QUARTZ-1").await;
            assert_eq!(finds.broken.len(), 1, "{failure_command}: {finds:?}");
        }
        let run = fs::read_to_string(test_library.folder.path().join("runs")).unwrap().lines().count();
        assert_eq!(run, runs, "{failure_command}");
    }
}
