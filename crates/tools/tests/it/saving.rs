//! Tests of `read_file` with `save_to`.

use super::{passwords::Locked, *};

/// Creates a bench with a reader that opens every document in an archive.
async fn bench(project: Project) -> Bench {
    let bench = Bench::with(project, |config| config.knowledge = Some(Arc::new(Locked))).await;
    bench.put("uploads/all.zip", "archive");
    bench.put("uploads/a.txt", "one\ntwo\n");
    bench
}

#[tokio::test]
async fn sheet_is_saved_where_commands_find_it() {
    let bench = bench(Project::ReadOnly).await;
    let save = json!({"path": "uploads/all.zip!/orders.xlsx", "offset": 2, "save_to": "temp/new/orders.csv"});
    let preview = bench.preview("read_file", save.clone()).await.unwrap().unwrap();
    assert_eq!(preview, "saves uploads/all.zip!/orders.xlsx (7 bytes) as text to the new file temp/new/orders.csv");
    let changes = |args: &Value| bench.toolbox.changes(&bench.context, &written("read_file", &args.to_string()));
    assert_eq!(changes(&save), Some(vec!["temp/new/orders.csv".to_owned()]));
    assert_eq!(changes(&json!({"path": "uploads/a.txt"})), None);
    let saved = bench.call("read_file", save).await;
    assert_eq!(
        saved.text,
        "Saved sheet 2 of uploads/all.zip!/orders.xlsx to temp/new/orders.csv: CSV, 2 rows, 2 columns, 8 bytes. Commands open \
         /temp/new/orders.csv."
    );
    assert_eq!(saved.files, [FileChange::new("temp/new/orders.csv", FileChangeKind::Created)]);
    assert_eq!(bench.content("temp/new/orders.csv"), b"a,b\n1,2\n");
    let plain = bench.preview("read_file", json!({"path": "uploads/a.txt"})).await.unwrap();
    assert_eq!(plain, None, "a plain read has no preview");
}

#[tokio::test]
async fn unusable_targets_and_sources_are_refused() {
    let bench = bench(Project::ReadOnly).await;
    bench.put("uploads/pic.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    bench.put("outputs/old.csv", "mine");
    bench.put("outputs/file", "x");
    symlink("old.csv", bench.real("outputs/link.csv")).unwrap();
    symlink("gone.csv", bench.real("outputs/dangling.csv")).unwrap();
    for (target, expected) in [
        ("skills/a.txt", "cannot be written"),
        ("/conversation_history/a.txt", "cannot be written"),
        ("a.txt", "mounted read-only"),
        ("/project/a.txt", "mounted read-only"),
        ("/state/a.txt", "commands do not see /state"),
        ("outputs/old.csv", "already exists"),
        ("outputs/link.csv", "is a link to"),
        ("outputs/dangling.csv", "link"),
        ("outputs", "name a file in it"),
        ("outputs/file/a.csv", "a parent of it is a file"),
        ("../a.txt", ""),
        ("", ""),
    ] {
        let save = json!({"path": "uploads/all.zip!/a.xlsx", "save_to": target});
        let text = bench.fails("read_file", save.clone(), ToolErrorCode::Path).await;
        assert!(text.contains(expected), "{target:?}: {text}");
        // A question is not asked about a call that fails anyway.
        assert_eq!(bench.preview("read_file", save).await.unwrap_err().text, text, "{target:?}");
    }
    for (arguments, code, expected) in [
        (json!({"path": "uploads"}), ToolErrorCode::Path, "is a folder"),
        (json!({"path": "uploads/none.txt"}), ToolErrorCode::Path, "none.txt"),
        (json!({"path": "uploads/pic.png"}), ToolErrorCode::Tool, "pic.png is not a document"),
        (json!({"path": "uploads/a.txt"}), ToolErrorCode::Tool, "commands open /uploads/a.txt as it is"),
        (json!({"path": "uploads/a.txt", "limit": 2}), ToolErrorCode::InvalidArgs, "omit limit"),
        (json!({"path": "uploads/all.zip!/a.xlsx", "row": 2}), ToolErrorCode::InvalidArgs, "omit limit"),
    ] {
        let mut save = arguments.clone();
        save["save_to"] = "temp/a.csv".into();
        let text = bench.fails("read_file", save, code).await;
        assert!(text.contains(expected), "{arguments}: {text}");
    }
    assert_eq!(bench.content("outputs/old.csv"), b"mine");
    assert_eq!(fs::read_dir(bench.real("temp")).unwrap().count(), 0, "nothing was saved");
}
