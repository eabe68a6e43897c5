//! Files with unsaved text in the client: the requests that tools send to the client, and their use of the answers.

use std::{fmt, sync::Mutex};

use agentd_core::{
    client_file::{ClientFileAnswer, FileAction, NoAnswer},
    ports::{ClientFileAccess, ClientFiles},
    undo::{UndoOutcome, folded},
};
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use futures_util::future::BoxFuture;

use super::*;

type Answers = dyn Fn(&str, &FileAction) -> Result<ClientFileAnswer, NoAnswer> + Send + Sync;

/// Editor that answers by calling a function.
struct FakeEditor {
    answers: Box<Answers>,
    requests: Mutex<Vec<(String, FileAction)>>,
}

impl fmt::Debug for FakeEditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeEditor")
    }
}

impl ClientFiles for FakeEditor {
    fn access(&self) -> Option<ClientFileAccess> {
        Some(ClientFileAccess::ReadWrite)
    }

    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>> {
        let answer = (self.answers)(path, &action);
        self.requests.lock().unwrap().push((path.to_owned(), action));
        std::future::ready(answer).boxed()
    }
}

impl FakeEditor {
    fn new(
        answers: impl Fn(&str, &FileAction) -> Result<ClientFileAnswer, NoAnswer> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let answers = Box::new(answers);
        Arc::new(Self { answers, requests: Mutex::default() })
    }

    /// Creates an editor that returns this text for every file and accepts all writes.
    fn with_text(text: &'static str) -> Arc<Self> {
        Self::new(move |_, action| {
            Ok(match action {
                FileAction::Read => ClientFileAnswer::Text(text.to_owned()),
                FileAction::Write(_) => ClientFileAnswer::Written,
            })
        })
    }

    fn written(&self) -> BTreeMap<String, String> {
        let requests = self.requests.lock().unwrap();
        let written = requests.iter().filter_map(|(path, action)| match action {
            FileAction::Write(text) => Some((path.clone(), text.clone())),
            FileAction::Read => None,
        });
        written.collect()
    }
}

async fn bench(editor: &Arc<FakeEditor>) -> Bench {
    let mut bench = Bench::with_project(Project::Writable).await;
    bench.context.client_files = Some(Arc::clone(editor) as _);
    bench
}

#[tokio::test]
async fn client_is_asked_about_project_text_files_only() {
    let editor = FakeEditor::with_text("of the editor");
    let bench = bench(&editor).await;
    bench.put("uploads/a.txt", "own");
    bench.put("/project/b.bin", b"\0\x01\x02binary");
    let secret = bench.secret();
    std::os::unix::fs::symlink(&secret, bench.real("/project/link.txt")).unwrap();
    assert!(bench.ok("read_file", json!({"path": "uploads/a.txt"})).await.contains("own"));
    bench.fails("read_file", json!({"path": "/project/b.bin"}), ToolErrorCode::Tool).await;
    let output = bench.call("read_file", json!({"path": "/project/link.txt"})).await.text;
    assert!(!output.contains(SECRET) && !output.contains("of the editor"), "{output}");
    bench.call("write_file", json!({"path": "/project/link.txt", "content": "x"})).await;
    bench.call("write_file", json!({"path": "/project/../x.txt", "content": "x"})).await;
    bench.call("write_file", json!({"path": "/project/none/at/all.txt", "content": "x"})).await;
    bench.ok("grep", json!({"pattern": "own"})).await;
    assert!(editor.requests.lock().unwrap().is_empty(), "{:?}", editor.requests.lock().unwrap());
}

#[tokio::test]
async fn client_answer_is_ignored_if_the_path_moved() {
    let folder = Arc::new(Mutex::new(None::<(std::path::PathBuf, std::path::PathBuf)>));
    let swapped = Arc::clone(&folder);
    // The fake editor reads by name while a link replaces the file.
    let editor = FakeEditor::new(move |_, _| {
        let (file, secret) = swapped.lock().unwrap().clone().unwrap();
        let aside = file.with_extension("aside");
        fs::rename(&file, &aside).unwrap();
        std::os::unix::fs::symlink(&secret, &file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        Ok(ClientFileAnswer::Text(text))
    });
    let bench = bench(&editor).await;
    let file = bench.put("/project/a.txt", "harmless");
    *folder.lock().unwrap() = Some((file, bench.secret()));
    let output = bench.ok("read_file", json!({"path": "a.txt"})).await;
    assert!(output.contains("harmless") && !output.contains(SECRET), "{output}");
    let edit = json!({"path": "/project/a.txt", "old_string": "the launch code", "new_string": "x"});
    let output = bench.fails("edit_file", edit, ToolErrorCode::Tool).await;
    assert!(output.contains("keeps changing") && !output.contains(SECRET), "{output}");
    assert!(editor.written().is_empty());
}

#[tokio::test]
async fn without_client_text_the_disk_is_read_and_not_written() {
    let refusals: [(Result<ClientFileAnswer, NoAnswer>, &str); 4] = [
        (Ok(ClientFileAnswer::Refused("private\u{1b}[2J\nmore".to_owned())), "(private"),
        (Ok(ClientFileAnswer::Written), "returned no text"),
        (Ok(ClientFileAnswer::Text("x".repeat(11 << 20))), "11"),
        (Err(NoAnswer::Late), "in time"),
    ];
    for (answer, reason) in refusals {
        let editor = FakeEditor::new(move |_, _| answer.clone());
        let bench = bench(&editor).await;
        bench.put("/project/a.txt", "saved");
        assert!(bench.ok("read_file", json!({"path": "a.txt"})).await.contains("saved"));
        let edit = json!({"path": "/project/a.txt", "old_string": "saved", "new_string": "new"});
        let output = bench.fails("edit_file", edit, ToolErrorCode::Tool).await;
        assert!(output.contains(reason) && !output.contains('\u{1b}'), "{output}");
        bench.fails("write_file", json!({"path": "/project/a.txt", "content": "x"}), ToolErrorCode::Tool).await;
        assert_eq!(bench.content("/project/a.txt"), b"saved");
        assert!(editor.written().is_empty());
        // A new file has no unsaved text.
        bench.ok("write_file", json!({"path": "/project/new.txt", "content": "x"})).await;
        assert_eq!(bench.content("/project/new.txt"), b"x");
    }
}

#[tokio::test]
async fn failed_client_write_is_reported_and_disk_is_untouched() {
    let outcomes: [(Result<ClientFileAnswer, NoAnswer>, ToolErrorCode, &str); 4] = [
        (Ok(ClientFileAnswer::Refused("read-only".to_owned())), ToolErrorCode::Tool, "read-only"),
        (Ok(ClientFileAnswer::Absent), ToolErrorCode::Tool, "unknown"),
        (Err(NoAnswer::Late), ToolErrorCode::Timeout, "unknown"),
        (Err(NoAnswer::Gone), ToolErrorCode::Tool, "disconnected"),
    ];
    for (outcome, code, expected) in outcomes {
        let editor = FakeEditor::new(move |_, action| match action {
            FileAction::Read => Ok(ClientFileAnswer::Text("unsaved".to_owned())),
            FileAction::Write(_) => outcome.clone(),
        });
        let bench = bench(&editor).await;
        bench.put("/project/a.txt", "saved");
        let edit = json!({"path": "/project/a.txt", "old_string": "unsaved", "new_string": "new"});
        let output = bench.fails("edit_file", edit, code).await;
        assert!(output.contains(expected), "{output}");
        assert_eq!(bench.content("/project/a.txt"), b"saved");
    }
}

#[tokio::test]
async fn patch_cannot_remove_a_file_with_unsaved_text() {
    let editor = FakeEditor::new(|path, action| {
        Ok(match action {
            FileAction::Read if path == "a.txt" => ClientFileAnswer::Text("unsaved".to_owned()),
            FileAction::Read => ClientFileAnswer::Absent,
            FileAction::Write(_) => ClientFileAnswer::Written,
        })
    });
    let bench = bench(&editor).await;
    bench.put("/project/a.txt", "saved");
    bench.put("/project/b.txt", "b\n");
    let patch =
        "*** Begin Patch\n*** Update File: /project/b.txt\n@@\n-b\n+c\n*** Delete File: /project/a.txt\n*** End Patch";
    let output = bench.fails("apply_patch", json!({"patch": patch}), ToolErrorCode::Tool).await;
    assert!(output.contains("unsaved changes"), "{output}");
    assert_eq!(bench.content("/project/a.txt"), b"saved");
    assert_eq!(bench.content("/project/b.txt"), b"b\n");
}

#[tokio::test]
async fn unsaved_new_file_is_read_and_written_in_the_client() {
    let editor = FakeEditor::with_text("never saved");
    let bench = bench(&editor).await;
    assert!(bench.ok("read_file", json!({"path": "new.txt"})).await.contains("never saved"));
    let edit = json!({"path": "/project/new.txt", "old_string": "never saved", "new_string": "edited"});
    bench.ok("edit_file", edit).await;
    assert_eq!(editor.written()["new.txt"], "edited");
    assert!(!bench.real("/project/new.txt").exists());
}

#[tokio::test]
async fn undo_restores_unsaved_text() {
    let editor = FakeEditor::with_text("un\nsaved\n");
    let bench = bench(&editor).await;
    let snapshots = FileSnapshots::new(bench.outside.path().join("undo"), SnapshotConfig::default());
    // The file has a byte order mark and other line ends, which the editor does not report.
    let file = bench.put("/project/a.txt", "\u{feff}on\r\ndisk\r\n");
    let paths = ["/project/a.txt".to_owned()];
    let changes_around = async |change: &dyn Fn()| {
        let call = ToolContext { call_id: agentd_core::ids::CallId::generate(), ..bench.context.clone() };
        let before = snapshots.before(&call, Some(&paths)).await.unwrap();
        change();
        before.after.await.unwrap().files
    };
    assert_eq!(changes_around(&|| ()).await, [], "an unchanged file is not reported as changed");
    let changes = changes_around(&|| fs::write(&file, "\u{feff}new\r\n").unwrap()).await;
    let context = &bench.context;
    let undone = snapshots.undo(context.session_id, &context.workspace, folded(&changes), false).await.unwrap();
    assert_eq!(undone.files[0].outcome, UndoOutcome::Done, "{undone:?}");
    assert_eq!(bench.content("/project/a.txt"), "\u{feff}un\r\nsaved\r\n".as_bytes());
}
