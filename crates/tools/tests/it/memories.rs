//! `/memories`: one folder of all sessions, behind the same doors as a session's own files.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use agentd_core::{
    ids::SessionId,
    ports::{Snapshots as _, Workspaces as _},
    tool::ToolErrorCode,
    undo::UndoOutcome,
};
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use serde_json::json;

use crate::bench::{Bench, SECRET, mkfifo};

#[tokio::test]
async fn what_one_session_writes_another_reads() {
    let mut bench = Bench::new().await;
    let written = bench.ok("write_file", json!({"path": "memories/people/ada.md", "content": "tea\n"})).await;
    assert!(written.contains("/memories/people/ada.md"), "{written}");
    let first = bench.context.session_id;
    bench.context.session_id = SessionId::generate();
    bench.context.workspace = Arc::new(bench.folders.open(bench.context.session_id, None.into()).await.unwrap());
    for path in
        ["/memories/people/ada.md", "memories/people/ada.md", bench.real("/memories/people/ada.md").to_str().unwrap()]
    {
        assert_eq!(bench.ok("read_file", json!({ "path": path })).await, "tea\n", "{path}");
    }
    let listed = bench.ok("list_workspace_files", json!({})).await;
    assert!(listed.ends_with("/memories/\n/memories/people/"), "{listed}");
    let hits = bench.ok("grep", json!({"pattern": "tea", "path": "/memories"})).await;
    assert!(hits.contains("/memories/people/ada.md:1: tea"), "{hits}");
    assert!(bench.ok("find_files", json!({"pattern": "*.md", "path": "/memories"})).await.contains("ada.md"));
    let patch = "*** Begin Patch\n*** Update File: /memories/people/ada.md\n@@\n-tea\n+coffee\n*** End Patch";
    bench.ok("apply_patch", json!({ "patch": patch })).await;
    assert_eq!(bench.content("/memories/people/ada.md"), b"coffee\n");
    bench.folders.remove(first).await.unwrap();
    assert_eq!(bench.content("/memories/people/ada.md"), b"coffee\n", "it outlives its session");
}

#[tokio::test]
async fn nothing_there_leads_out() {
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
async fn what_a_call_remembered_can_be_taken_back() {
    let bench = Bench::new().await;
    bench.put("/memories/a.md", "old\n");
    let snapshots = FileSnapshots::new(bench.outside.path().join("undo"), SnapshotConfig::default());
    let before = snapshots.before(&bench.context, Some(&["/memories/a.md".to_owned()])).await.unwrap();
    bench.ok("write_file", json!({"path": "/memories/a.md", "content": "new\n"})).await;
    let changes = before.after.await.unwrap().files;
    assert!(changes.iter().map(|change| &*change.path).eq(["/memories/a.md"]), "{changes:?}");
    // Another session has written there since.
    bench.put("/memories/a.md", "newer\n");
    let undo = || snapshots.undo(bench.context.session_id, bench.workspace(), changes.clone(), false);
    assert_eq!(undo().await.unwrap().files[0].outcome, UndoOutcome::Conflict);
    bench.put("/memories/a.md", "new\n");
    assert_eq!(undo().await.unwrap().files[0].outcome, UndoOutcome::Done);
    assert_eq!(bench.content("/memories/a.md"), b"old\n");

    // What others remember while a command runs is none of its changes.
    let before = snapshots.before(&bench.context, None).await.unwrap();
    bench.put("/memories/a.md", "new\n");
    bench.put("/memories/b.md", "new\n");
    bench.put("outputs/made.txt", "by the command\n");
    let changes = before.after.await.unwrap().files;
    assert!(changes.iter().map(|change| &*change.path).eq(["outputs/made.txt"]), "{changes:?}");
}
