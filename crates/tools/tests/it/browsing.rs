//! Access to a session's files by the user, under the same access rules as for the tools.

use agentd_core::{
    files::{EntryKind, SessionTree},
    state_files::StateFileChange,
};

use super::*;

fn tree(bench: &Bench) -> SessionTree {
    SessionTree { workspace: Arc::clone(&bench.context.workspace), state: Arc::clone(&bench.context.state_files) }
}

#[tokio::test]
async fn file_is_read_in_ranges_and_links_stay_inside() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    let secret = bench.secret();
    bench.put("/project/src/a.txt", "0123456789");
    symlink("src/a.txt", bench.real("/project/link")).unwrap();
    symlink(&secret, bench.real("/project/out")).unwrap();
    symlink(bench.outside.path(), bench.real("uploads/out")).unwrap();
    fs::hard_link(&secret, bench.real("uploads/hard")).unwrap();
    mkfifo(&bench.real("uploads/pipe"));
    let read = |path: &str, offset, most| bench.folders.read_file(tree(&bench), path.to_owned(), offset, most);
    let piece = read("/project/link", 4, 3).await.unwrap();
    assert_eq!((piece.content.as_slice(), piece.size, piece.modified.is_some()), (&b"456"[..], 10, true));
    assert_eq!(read("project/src/a.txt", 8, 100).await.unwrap().content, b"89");
    assert_eq!(read("/project/src/a.txt", 11, 100).await.unwrap().content, b"");
    for path in
        ["/project/out", "uploads/out/secret.txt", "uploads/hard", "uploads/pipe", "../secret.txt", "/etc/passwd"]
    {
        let error = read(path, 0, 100).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path}: {error}");
        assert!(error.hint().is_some() && !error.to_string().contains(SECRET), "{error}");
        let write = bench.folders.write_file(tree(&bench), path.to_owned(), b"x".to_vec(), bench.context.now);
        write.await.unwrap_err();
    }
    assert_eq!(read("uploads/none", 0, 1).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);

    let list = |path: &str| bench.folders.list_files(tree(&bench), path.to_owned());
    let listing = list("/project").await.unwrap();
    let seen: Vec<(&str, EntryKind)> = listing.entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    let links = [("/project/link", EntryKind::Link), ("/project/out", EntryKind::Link)];
    assert_eq!(seen, [&links[..], &[("/project/src", EntryKind::Folder)]].concat());
    assert_eq!(list("/project/src/a.txt").await.unwrap().entries[0].size, 10);
    assert!(list("uploads/out").await.is_err());
}

#[tokio::test]
async fn state_writes_are_returned_for_the_session_to_store() {
    let bench = Bench::new().await;
    let write = |path: &str, content: &[u8]| {
        bench.folders.write_file(tree(&bench), path.to_owned(), content.to_vec(), bench.context.now)
    };
    let written = write("/state//a.md", b"x").await.unwrap();
    let change = StateFileChange { path: "a.md".to_owned(), content: Some("x".to_owned()) };
    assert_eq!((written.path.as_str(), written.state), ("/state/a.md", Some(change)));
    assert!(write("/state/a.md", b"\xff").await.is_err());
    let written = write("outputs/new/a.md", b"\xff").await.unwrap();
    assert_eq!((written.path.as_str(), written.state), ("outputs/new/a.md", None));
    assert_eq!(bench.content("outputs/new/a.md"), b"\xff");
}
