//! Tests shared by all backends, run against the disk and the state files, and a test of the combined tree.

use std::{collections::BTreeSet, io::Read as _};

use agentd_core::{ids::SessionId, tool::ToolErrorCode};

use super::*;
use crate::layout;

/// Creates a tree with a real disk and empty state.
fn files(folder: &tempfile::TempDir) -> Files {
    let root = layout::make(&folder.path().join("workspace"), SessionId::generate()).unwrap();
    let memories = Some(layout::make_shared(&folder.path().join("memories")).unwrap());
    let workspace = Workspace { root, memories, ..Workspace::default() };
    Files::new(Arc::new(workspace), &StateFiles::default(), "2026-11-21T08:31:05Z".parse().unwrap())
}

fn read(backend: &dyn Backend, path: &ToolPath) -> Vec<u8> {
    let mut opened = backend.open_file(path).map_err(|failure| failure.text).unwrap();
    let mut content = Vec::new();
    opened.content.read_to_end(&mut content).unwrap();
    assert_eq!(opened.size, content.len() as u64);
    content
}

fn write(backend: &dyn Backend, path: &ToolPath, content: &str) {
    backend.target(path, 1000).unwrap().replace(content.as_bytes()).unwrap();
}

fn names(backend: &dyn Backend, folder: &ToolPath) -> BTreeSet<String> {
    let entries = backend.entries(folder).map_err(|failure| failure.text).unwrap();
    let shown = entries.map(|listed| match listed {
        ListedEntry::Entry(Entry { name, kind: Kind::Folder, .. }) => format!("{name}/"),
        ListedEntry::Entry(Entry { name, size, .. }) => format!("{name} {size}"),
        ListedEntry::Hidden(_) => "hidden".to_owned(),
        ListedEntry::Unreadable => "unreadable".to_owned(),
    });
    shown.collect()
}

#[track_caller]
fn refused<T>(outcome: Result<T, Failure>, part: &str) {
    let failure = outcome.err().expect("it should have failed");
    assert_eq!(failure.code, ToolErrorCode::Path, "{failure}");
    assert!(failure.text.contains(part), "{failure}");
}

/// Runs the shared tests. `top` is an empty folder of the backend.
fn check(backend: &dyn Backend, top: &ToolPath) {
    let at = |path: &str| path.split('/').fold(top.clone(), |folder, name| folder.entry(name));
    assert!(backend.is_folder(top).unwrap() && names(backend, top).is_empty());
    refused(backend.open_file(&at("a.txt")), "does not exist");
    refused(backend.is_folder(&at("a.txt")), "does not exist");
    refused(backend.entries(&at("no")), "does not exist");
    refused(backend.open_file(top), "is a folder");
    refused(backend.target(top, 10), "name a file in it");

    // Files are created, replaced and read without changing a byte.
    let target = backend.target(&at("a.txt"), 1000).unwrap();
    assert!(target.existing.is_none());
    assert!(target.document(1000).is_err_and(|failure| failure.text.contains("does not exist")));
    target.replace("one\r\n报告\n".as_bytes()).unwrap();
    assert_eq!(read(backend, &at("a.txt")), "one\r\n报告\n".as_bytes());
    let target = backend.target(&at("a.txt"), 1000).unwrap();
    let existing = target.existing.as_ref().unwrap();
    assert_eq!((existing.content.as_deref(), existing.size), (Some("one\r\n报告\n".as_bytes()), 12));
    assert!(existing.changed.is_some());
    assert_eq!(target.document(1000).unwrap().text(), "one\n报告\n");
    target.replace(b"").unwrap();
    assert_eq!(read(backend, &at("a.txt")), b"");
    write(backend, &at("a.txt"), "twelve bytes");
    let large = backend.target(&at("a.txt"), 11).unwrap();
    assert_eq!((large.existing.as_ref().unwrap().content.as_ref(), large.existing.as_ref().unwrap().size), (None, 12));

    // Folders are created along with their files.
    write(backend, &at("b/c/d.txt"), "deep");
    write(backend, &at("b/e.txt"), "e");
    write(backend, &at("b-e"), "x");
    write(backend, &at(".hidden"), "h");
    let all = ["a.txt 12", "b-e 1", "b/", "hidden"].map(str::to_owned);
    assert_eq!(names(backend, top), BTreeSet::from(all));
    assert_eq!(names(backend, &at("b")), BTreeSet::from(["c/".to_owned(), "e.txt 1".to_owned()]));
    assert_eq!(read(backend, &at(".hidden")), b"h");
    assert!(backend.is_folder(&at("b/c")).unwrap() && !backend.is_folder(&at("b/e.txt")).unwrap());
    refused(backend.open_file(&at("b/c")), "is a folder");
    refused(backend.target(&at("b/c"), 10), "is a folder");
    assert!(backend.entries(&at("a.txt")).is_err());
    let below_a_file = backend.target(&at("a.txt/x"), 10).and_then(|target| target.replace(b"x"));
    assert_eq!(below_a_file.unwrap_err().code, ToolErrorCode::Path);
    assert_eq!(read(backend, &at("a.txt")), b"twelve bytes");

    // Both targets refer to the same file.
    let (one, two) = (backend.target(&at("b/e.txt"), 10).unwrap(), backend.target(&at("b/e.txt"), 10).unwrap());
    assert!(one.is_file_of(&two) && !one.is_file_of(&large));
    one.remove().unwrap();
    refused(backend.open_file(&at("b/e.txt")), "does not exist");
    assert!(backend.target(&at("b/e.txt"), 10).unwrap().existing.is_none());
    assert!(backend.open_optional(&at("b/e.txt")).is_none());
    assert!(backend.open_optional(&at("a.txt")).is_some());
}

#[test]
fn combined_tree_fulfils_the_contract_and_routes_by_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    check(&files, &ToolPath::parse("outputs").unwrap());
    assert!(files.state_changes().is_empty() && files.beside().is_empty());
    let top = ToolPath::root(PathPlace::State);
    check(&files, &top);
    assert_eq!(files.beside(), std::slice::from_ref(&top));
    // Replaying the recorded changes gives the same files.
    let mut replayed = StateFiles::default();
    files.state_changes().iter().for_each(|change| replayed.apply(change, Timestamp::UNIX_EPOCH));
    assert_eq!(names(&StateBackend::new(replayed, Timestamp::UNIX_EPOCH), &top), names(&files, &top));
    assert!(folder.path().join("workspace").read_dir().unwrap().next().is_some());
    assert!(files.jail.open_folder(&ToolPath::parse("/state").unwrap()).is_err(), "it is not on the disk");
    assert!(files.follow(&ToolPath::parse("/state/a.txt").unwrap()).is_ok());
    assert_eq!(files.locate("//state/a.txt").unwrap(), ToolPath::parse("/state/a.txt").unwrap());
}
