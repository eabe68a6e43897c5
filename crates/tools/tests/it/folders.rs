//! Workspace folders are created, cleaned, removed, mounted and filled with uploads.

use agentd_core::{
    Timestamp,
    context::HistoryFile,
    files::{FilesCopied, SessionTree},
    folder::Mounts,
    ports::WorkspaceArea,
};

use super::*;

#[tokio::test]
async fn workspace_is_private_complete_and_reopens() {
    let bench = Bench::new().await;
    bench.put("outputs/kept.txt", "kept");
    let session = bench.context.session_id;
    let reopened = bench.folders.open(session, Mounts::default()).await.unwrap();
    assert_eq!(&reopened, bench.workspace());
    assert_eq!(bench.content("outputs/kept.txt"), b"kept");
    for folder in ["", "uploads", "outputs", "temp", "skills", "large_tool_results", "conversation_history", ".."] {
        assert_eq!(mode(&reopened.root.join(folder)), 0o700, "{folder}");
    }
    let metadata: Value = serde_json::from_slice(&bench.content(".metadata.json")).unwrap();
    assert_eq!(metadata["session_id"], session.to_string());
    assert!(metadata["created_at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert!(bench.ok("read_file", json!({"path": ".metadata.json"})).await.contains("session_id"));
}

#[tokio::test]
async fn invalid_mounts_are_rejected() {
    let outside = tempfile::tempdir().unwrap();
    let base = outside.path().join("data/workspaces");
    fs::create_dir(outside.path().join("data")).unwrap();
    let folders = WorkspaceFolders::new(base.clone());
    let session = SessionId::generate();
    let own = folders.open(session, Mounts::default()).await.unwrap().root;
    fs::write(outside.path().join("file"), "x").unwrap();
    fs::create_dir(outside.path().join("code")).unwrap();
    symlink("code", outside.path().join("link")).unwrap();
    for (path, expected) in [
        (outside.path().join("missing"), Some(ErrorKind::NotFound)),
        (outside.path().join("file"), Some(ErrorKind::InvalidInput)),
        (outside.path().to_path_buf(), Some(ErrorKind::InvalidInput)),
        (base.clone(), Some(ErrorKind::InvalidInput)),
        (own, Some(ErrorKind::InvalidInput)),
        (outside.path().join("link"), None),
    ] {
        let opened = folders.open(session, Some(Mount { path: path.clone(), writable: false }).into()).await;
        match (opened, expected) {
            (Ok(workspace), None) => {
                let real = outside.path().join("code").canonicalize().unwrap();
                assert_eq!(workspace.project, Some(Mount { path: real, writable: false }));
            }
            (Err(error), Some(kind)) => {
                assert_eq!(error.kind(), kind, "{}: {error}", path.display());
                assert!(error.hint().is_some());
            }
            (opened, _) => panic!("{}: {opened:?}", path.display()),
        }
    }
    // An error is reported if the base folder cannot be created.
    let folders = WorkspaceFolders::new(outside.path().join("file/workspaces"));
    let error = folders.open(session, None.into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn temp_with_any_content_is_emptied() {
    let bench = Bench::new().await;
    let secret = bench.secret();
    bench.put("temp/a/b/c.txt", "x");
    bench.put("temp/.hidden/x", "x");
    bench.put("outputs/kept.txt", "kept");
    symlink(bench.outside.path(), bench.real("temp/out")).unwrap();
    symlink(bench.outside.path(), bench.real("temp/a/out")).unwrap();
    fs::hard_link(&secret, bench.real("temp/hard")).unwrap();
    let command = "cd temp; mkdir -p ro/x/y; touch ro/x/y/z; chmod 0500 ro/x/y ro/x; chmod 0 ro; mkfifo pipe";
    bench.ok("run_bash_command", json!({ "command": command })).await;
    deep_tree(&bench.real("temp"), 3000);
    bench.folders.clear_temp(bench.context.session_id).await.unwrap();
    assert_eq!(fs::read_dir(bench.real("temp")).unwrap().count(), 0);
    assert_eq!(bench.content("outputs/kept.txt"), b"kept");
    assert!(secret.exists());
    bench.folders.clear_temp(SessionId::generate()).await.unwrap();
}

#[tokio::test]
async fn session_copy_excludes_links_that_lead_outside() {
    let bench = Bench::new().await;
    let secret = bench.secret();
    let from = bench.context.session_id;
    for (path, content) in [
        ("uploads/a.pdf", "a"),
        ("outputs/deep/er/b.txt", "bb"),
        ("temp/c.txt", "c"),
        ("large_tool_results/call_1.txt", "dddd"),
        ("conversation_history/one.md", "then and now"),
        ("conversation_history/two.md", "e"),
    ] {
        bench.put(path, content);
    }
    symlink(&secret, bench.real("outputs/link")).unwrap();
    symlink(bench.outside.path(), bench.real("outputs/folder")).unwrap();
    fs::hard_link(&secret, bench.real("outputs/hard")).unwrap();
    bench.ok("run_bash_command", json!({"command": "mkfifo outputs/pipe; chmod +x outputs/deep/er/b.txt"})).await;
    let to = SessionId::generate();
    let history = HistoryFile { name: "one.md".to_owned(), bytes: Some(4), missing_after: None };
    let copied = bench.folders.copy(from, to, Some(history)).await.unwrap();
    assert_eq!(copied, FilesCopied { files: 4, bytes: 11, left_out: 4 });
    let root = bench.folders.open(to, None.into()).await.unwrap().root;
    for (path, content) in [
        ("uploads/a.pdf", "a"),
        ("outputs/deep/er/b.txt", "bb"),
        ("large_tool_results/call_1.txt", "dddd"),
        // The copied file is truncated to the given length of the history.
        ("conversation_history/one.md", "then"),
    ] {
        assert_eq!(fs::read_to_string(root.join(path)).unwrap(), content);
    }
    assert_eq!(mode(&root.join("outputs/deep/er/b.txt")), 0o700);
    for gone in ["temp/c.txt", "conversation_history/two.md", "outputs/link", "outputs/folder", "outputs/hard"] {
        assert!(fs::symlink_metadata(root.join(gone)).is_err(), "{gone}");
    }
    // The copy does not share data with the original.
    fs::write(root.join("uploads/a.pdf"), "b").unwrap();
    assert_eq!(bench.content("uploads/a.pdf"), b"a");
    // A session that never had files has nothing to copy.
    let nothing = bench.folders.copy(SessionId::generate(), SessionId::generate(), None).await.unwrap();
    assert_eq!(nothing, FilesCopied::default());
}

#[tokio::test]
async fn removing_a_session_touches_nothing_else() {
    let bench = Bench::with_project(Project::Writable).await;
    let other = bench.folders.open(SessionId::generate(), None.into()).await.unwrap();
    bench.put("/project/mine.txt", "mine");
    bench.put("outputs/a/b.txt", "x");
    symlink(bench.real("/project"), bench.real("outputs/project")).unwrap();
    bench.folders.remove(bench.context.session_id).await.unwrap();
    bench.folders.remove(bench.context.session_id).await.unwrap();
    assert!(!bench.workspace().root.exists());
    assert_eq!(bench.content("/project/mine.txt"), b"mine");
    let left: Vec<_> = fs::read_dir(other.root.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [other.root]);
}

#[tokio::test]
async fn uploads_get_unique_names_and_inputs_are_stored_once() {
    let bench = Bench::new().await;
    let add = |name: &str, content: &str| {
        bench.folders.add_upload(bench.context.session_id, name.to_owned(), content.as_bytes().to_vec())
    };
    for (name, expected) in [
        ("notes.txt", "uploads/notes.txt"),
        ("notes.txt", "uploads/notes-2.txt"),
        ("/home/me/notes.txt", "uploads/notes-3.txt"),
        ("../../../secret.txt", "uploads/secret.txt"),
        ("noextension", "uploads/noextension"),
        ("noextension", "uploads/noextension-2"),
        (".bashrc", "uploads/bashrc"),
        ("", "uploads/upload"),
    ] {
        let path = add(name, name).await.unwrap();
        assert_eq!(path, expected);
        assert_eq!(bench.content(&path), name.as_bytes());
    }
    // A command created a link with this name. The link is not followed.
    symlink(bench.outside.path().join("new"), bench.real("uploads/link.txt")).unwrap();
    assert_eq!(add("link.txt", "x").await.unwrap(), "uploads/link-2.txt");
    assert!(!bench.outside.path().join("new").exists());

    // The same input is only stored once and does not replace another file.
    let bench = Bench::new().await;
    let keep = |content: &str| {
        bench.folders.store_input(bench.context.session_id, "stdin.txt".to_owned(), content.as_bytes().to_vec())
    };
    for (content, expected) in [
        ("one", "uploads/stdin.txt"),
        ("two", "uploads/stdin-2.txt"),
        ("one", "uploads/stdin.txt"),
        ("two", "uploads/stdin-2.txt"),
        ("three", "uploads/stdin-3.txt"),
    ] {
        assert_eq!(keep(content).await.unwrap(), expected);
        assert_eq!(bench.content(expected), content.as_bytes());
    }
    // A changed file is not reused, and a link is never reused.
    fs::write(bench.real("uploads/stdin.txt"), "ONE").unwrap();
    fs::write(bench.outside.path().join("same"), "one").unwrap();
    symlink(bench.outside.path().join("same"), bench.real("uploads/stdin-4.txt")).unwrap();
    assert_eq!(keep("one").await.unwrap(), "uploads/stdin-5.txt");
}

/// Files that arrive while a folder is being cleaned are stored after the cleaning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_arriving_during_cleaning_are_kept() {
    const OLD: usize = 2000;
    let bench = Bench::new().await;
    let session = bench.context.session_id;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    // This file prevents the removal of the whole area.
    bench.put("outputs/kept.txt", "kept");
    let mut cleaned_count = 0;
    for round in 0..6 {
        for number in 0..OLD {
            let file = fs::File::create(bench.put(&format!("uploads/old-{number}.txt"), "")).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        let folder = bench.real("uploads");
        let before = fs::read_dir(&folder).unwrap().count();
        let since = Timestamp::from_second(2_000_000).unwrap();
        let folders = bench.folders.clone();
        let cleaning =
            tokio::spawn(async move { folders.clean(session, vec![(WorkspaceArea::Uploads, since)], false).await });
        // Waits until the cleaning has begun.
        while !cleaning.is_finished() && fs::read_dir(&folder).unwrap().count() == before {}
        let path = if round % 2 == 0 {
            bench.folders.add_upload(session, "new.txt".to_owned(), b"new".to_vec()).await.unwrap()
        } else {
            let tree = SessionTree { workspace: Arc::clone(&bench.context.workspace), state: Arc::default() };
            let path = "uploads/new.txt".to_owned();
            bench.folders.write_file(tree, path, b"new".to_vec(), Timestamp::now()).await.unwrap().path
        };
        cleaned_count += cleaning.await.unwrap().unwrap().len();
        assert_eq!(bench.content(&path), b"new", "round {round}");
        fs::remove_file(bench.real(&path)).unwrap();
    }
    assert_eq!(cleaned_count, 6);
}

#[tokio::test]
async fn known_paths_are_bounded_and_ordered() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    let paths = ["/project/src/new.rs", "uploads/old.txt", "/project/old.md", "/project/mid.rs", "outputs/new.txt"];
    for (age, path) in paths.into_iter().enumerate() {
        let file = fs::File::options().write(true).open(bench.put(path, "x")).unwrap();
        let age = if path.ends_with("new.rs") { 99 } else { age as u64 };
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + age)).unwrap();
    }
    bench.put("uploads/.hidden", "x");
    let paths = |limit| bench.folders.paths(bench.workspace(), limit);
    let expected = ["outputs/new.txt", "uploads/old.txt", "/project/mid.rs", "/project/old.md", "/project/src/new.rs"];
    assert_eq!(paths(10).await.unwrap(), expected);
    assert_eq!(paths(3).await.unwrap(), expected[..3]);

    // Project paths are available before the session has a folder, and session files are available after the project
    // was removed.
    let bench = Bench::with_project(Project::ReadOnly).await;
    bench.put("/project/README.md", "x");
    let workspace = Workspace { root: bench.workspace().root.join("not-made-yet"), ..bench.workspace().clone() };
    assert_eq!(bench.folders.paths(&workspace, 10).await.unwrap(), ["/project/README.md"]);
    let gone = Workspace {
        project: Some(Mount { path: workspace.root.join("gone"), writable: false }),
        ..bench.workspace().clone()
    };
    bench.put("uploads/a.txt", "x");
    assert_eq!(bench.folders.paths(&gone, 10).await.unwrap(), ["uploads/a.txt"]);
}
