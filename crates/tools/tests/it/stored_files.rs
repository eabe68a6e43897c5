//! Files that the daemon stores in a session's tree, which tools can read and models cannot change. Also `/memories`, a
//! folder shared by all sessions with the same protection as session files.

use agentd_core::{ports::ArtifactDir, undo::UndoOutcome};
use agentd_testkit::{memory_workspaces::MemoryWorkspaces, workspace_contract::check_kept_texts};
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};

use super::*;

#[tokio::test]
async fn workspace_folders_and_fake_fulfil_the_contract() {
    let base = tempfile::tempdir().unwrap();
    let folders = WorkspaceFolders::new(base.path().join("workspace"));
    check_kept_texts(&folders, |session, path| {
        fs::read(base.path().join("workspace").join(session.to_string()).join(path)).ok()
    })
    .await;
    let fake = MemoryWorkspaces::default();
    check_kept_texts(&fake, |session, path| fake.kept(session, path)).await;
}

async fn keep(bench: &Bench, area: ArtifactDir, name: &str, content: &str) -> String {
    let content = content.as_bytes().to_vec();
    let session = bench.context.session_id;
    match area {
        ArtifactDir::LargeToolResults => bench.folders.keep(session, area, name.to_owned(), content).await.unwrap(),
        ArtifactDir::ConversationHistory => {
            bench.folders.append_artifact(session, area, name.to_owned(), None, content).await.unwrap().path
        }
    }
}

#[tokio::test]
async fn spilled_texts_are_readable_but_not_writable() {
    let bench = Bench::with_project(Project::Writable).await;
    let path = keep(&bench, ArtifactDir::LargeToolResults, "call.txt", "first\nneedle\n").await;
    keep(&bench, ArtifactDir::ConversationHistory, "h.md", "the needle of turn 5\n").await;
    for written in [path.as_str(), "/large_tool_results/call.txt", "./large_tool_results//call.txt"] {
        assert_eq!(bench.ok("read_file", json!({ "path": written })).await, "first\nneedle\n");
    }
    for folder in ["large_tool_results", "/large_tool_results"] {
        let hits = bench.ok("grep", json!({"pattern": "needle", "path": folder})).await;
        assert!(hits.contains("large_tool_results/call.txt:2: needle"), "{hits}");
        let found = bench.ok("find_files", json!({"pattern": "*.txt", "path": folder})).await;
        assert!(found.contains("large_tool_results/call.txt"), "{found}");
        let listed = bench.ok("list_workspace_files", json!({ "path": folder })).await;
        assert!(listed.contains("large_tool_results/call.txt"), "{listed}");
    }
    assert!(bench.ok("list_workspace_files", json!({})).await.contains("conversation_history/h.md"));
    // A search of the whole tree excludes earlier results and history.
    bench.put("outputs/a.txt", "needle\n");
    let hits = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(hits.contains("outputs/a.txt") && !hits.contains("call.txt") && !hits.contains("h.md"), "{hits}");
    assert!(!bench.ok("find_files", json!({"pattern": "*.md"})).await.contains("h.md"));
    assert_eq!(bench.folders.paths(bench.workspace(), 10).await.unwrap(), ["outputs/a.txt"]);

    let refused = [
        ("write_file", json!({"path": path, "content": "x"})),
        ("write_file", json!({"path": "/conversation_history/new.md", "content": "x"})),
        ("edit_file", json!({"path": path, "old_string": "first", "new_string": "x"})),
        ("apply_patch", json!({"patch": format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch")})),
        ("apply_patch", json!({"patch": "*** Begin Patch\n*** Add File: large_tool_results/n\n+x\n*** End Patch"})),
    ];
    for (tool, arguments) in refused {
        let text = bench.fails(tool, arguments, ToolErrorCode::Path).await;
        assert!(text.contains("cannot be written"), "{text}");
    }
    assert_eq!(bench.content(&path), b"first\nneedle\n");
    assert_eq!(mode(&bench.real(&path)), 0o600);
}

#[tokio::test]
async fn links_cannot_redirect_spilled_texts() {
    let bench = Bench::new().await;
    let secret = bench.secret();
    let before = fs::read(&secret).unwrap();
    // Recreates the state left by a command without a sandbox.
    for area in ["large_tool_results", "conversation_history"] {
        fs::remove_dir(bench.real(area)).unwrap();
        symlink(bench.outside.path(), bench.real(area)).unwrap();
    }
    keep(&bench, ArtifactDir::LargeToolResults, "secret.txt", "x").await;
    keep(&bench, ArtifactDir::ConversationHistory, "secret.txt", "x").await;
    assert_eq!(bench.content("large_tool_results/secret.txt"), b"x");
    assert_eq!(bench.content("conversation_history/secret.txt"), b"x");

    // A link in place of the file is replaced in the results folder, and rejected in the history folder, whose files
    // are appended to.
    symlink(&secret, bench.real("large_tool_results/l")).unwrap();
    symlink(&secret, bench.real("conversation_history/l")).unwrap();
    fs::hard_link(&secret, bench.real("conversation_history/hard")).unwrap();
    keep(&bench, ArtifactDir::LargeToolResults, "l", "x").await;
    assert!(fs::symlink_metadata(bench.real("large_tool_results/l")).unwrap().is_file());
    for name in ["l", "hard"] {
        let session = bench.context.session_id;
        let area = ArtifactDir::ConversationHistory;
        let kept = bench.folders.append_artifact(session, area, name.to_owned(), Some(0), b"x".to_vec()).await;
        assert!(kept.unwrap_err().hint().is_some(), "{name}");
    }
    assert_eq!(fs::read(&secret).unwrap(), before);
}

#[tokio::test]
async fn spilled_text_is_not_a_change_of_the_running_call() {
    let bench = Bench::new().await;
    let snapshots = FileSnapshots::new(bench.outside.path().join("undo"), SnapshotConfig::default());
    keep(&bench, ArtifactDir::ConversationHistory, "h.md", "one\n").await;
    let before = snapshots.before(&bench.context, None).await.unwrap();
    keep(&bench, ArtifactDir::LargeToolResults, "call.txt", "x").await;
    keep(&bench, ArtifactDir::ConversationHistory, "h.md", "two\n").await;
    bench.put("outputs/a.txt", "x");
    let changes = before.after.await.unwrap();
    let paths: Vec<&str> = changes.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["outputs/a.txt"]);
}

#[tokio::test]
async fn links_in_memories_cannot_lead_outside() {
    let bench = Bench::new().await;
    let secret = bench.secret();
    symlink(bench.outside.path(), bench.real("/memories/out")).unwrap();
    symlink(&secret, bench.real("/memories/link.md")).unwrap();
    fs::hard_link(&secret, bench.real("/memories/hard.md")).unwrap();
    mkfifo(&bench.real("/memories/pipe"));
    for path in
        ["/memories/out/secret.txt", "/memories/link.md", "/memories/hard.md", "/memories/pipe", "/memories/../x"]
    {
        for (tool, arguments) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({"path": path, "content": "x"})),
            ("edit_file", json!({"path": path, "old_string": "launch", "new_string": "x"})),
        ] {
            let text = bench.fails(tool, arguments, ToolErrorCode::Path).await;
            assert!(!text.contains(SECRET), "{tool} {path}: {text}");
        }
    }
    assert!(!bench.ok("grep", json!({"pattern": "launch", "path": "/memories"})).await.contains(SECRET));
    assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
}

#[tokio::test]
async fn memory_writes_can_be_undone() {
    let bench = Bench::new().await;
    bench.put("/memories/a.md", "old\n");
    let snapshots = FileSnapshots::new(bench.outside.path().join("undo"), SnapshotConfig::default());
    let before = snapshots.before(&bench.context, Some(&["/memories/a.md".to_owned()])).await.unwrap();
    bench.ok("write_file", json!({"path": "/memories/a.md", "content": "new\n"})).await;
    let changes = before.after.await.unwrap().files;
    assert!(changes.iter().map(|change| &*change.path).eq(["/memories/a.md"]), "{changes:?}");
    // Another session has changed the file in the meantime.
    bench.put("/memories/a.md", "newer\n");
    let undo = || snapshots.undo(bench.context.session_id, bench.workspace(), changes.clone(), false);
    assert_eq!(undo().await.unwrap().files[0].outcome, UndoOutcome::Conflict);
    bench.put("/memories/a.md", "new\n");
    assert_eq!(undo().await.unwrap().files[0].outcome, UndoOutcome::Done);
    assert_eq!(bench.content("/memories/a.md"), b"old\n");

    // Files that other sessions write to `/memories` during a command are not among the command's changes.
    let before = snapshots.before(&bench.context, None).await.unwrap();
    bench.put("/memories/a.md", "new\n");
    bench.put("/memories/b.md", "new\n");
    bench.put("outputs/made.txt", "by the command\n");
    let changes = before.after.await.unwrap().files;
    assert!(changes.iter().map(|change| &*change.path).eq(["outputs/made.txt"]), "{changes:?}");
}
