//! Tests of `/state` through the tools: the same calls as for other files, but the files are not on disk.

use agentd_core::state_files::{StateFileChange, StateFiles};

use super::*;

impl Bench {
    /// Calls a tool like the engine, and applies the state changes for the next call.
    async fn step(&mut self, tool: &str, arguments: Value) -> ToolOutput {
        let output = self.call(tool, arguments).await;
        let mut files: StateFiles = self.context.state_files.as_ref().clone();
        output.state_files.iter().for_each(|change| files.apply(change, self.context.now));
        self.context.state_files = Arc::new(files);
        output
    }

    async fn step_ok(&mut self, tool: &str, arguments: Value) -> ToolOutput {
        let output = self.step(tool, arguments).await;
        assert_eq!(output.error, None, "{}", output.text);
        output
    }
}

fn written(path: &str, content: &str) -> StateFileChange {
    StateFileChange { path: path.to_owned(), content: Some(content.to_owned()) }
}

#[tokio::test]
async fn file_tools_work_on_state_files() {
    let mut bench = Bench::new().await;
    let output = bench.step_ok("write_file", json!({"path": "/state/notes/plan.md", "content": "one\ntwo\n"})).await;
    assert_eq!(output.state_files, [written("notes/plan.md", "one\ntwo\n")]);
    assert!(output.files.is_empty(), "a state file is not on disk");
    assert_eq!(bench.ok("read_file", json!({"path": "//state/./notes//plan.md"})).await, "one\ntwo\n");
    assert!(bench.ok("read_file", json!({"path": "/state/notes/plan.md", "offset": 2})).await.ends_with("two\n"));

    let edit = json!({"path": "/state/notes/plan.md", "old_string": "two", "new_string": "three"});
    let preview = bench.preview("edit_file", edit.clone()).await.unwrap().unwrap();
    assert!(preview.contains("-two") && preview.contains("+three"), "{preview}");
    let output = bench.step_ok("edit_file", edit).await;
    assert_eq!(output.state_files, [written("notes/plan.md", "one\nthree\n")]);

    // A patch may change both kinds of files and move a file from one kind to the other.
    bench.put("outputs/a.txt", "a\n");
    let patch = "*** Begin Patch\n*** Update File: /state/notes/plan.md\n@@\n-one\n+1\n*** Update File: outputs/a.txt\n\
                 *** Move to: /state/a.txt\n@@\n-a\n+b\n*** Add File: /state/new.txt\n+n\n*** End Patch";
    let output = bench.step_ok("apply_patch", json!({ "patch": patch })).await;
    let paths: Vec<&str> = output.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["outputs/a.txt"]);
    assert!(!bench.real("outputs/a.txt").exists());
    let changed = [written("notes/plan.md", "1\nthree\n"), written("a.txt", "b\n"), written("new.txt", "n\n")];
    assert_eq!(output.state_files, changed);

    let listed = bench.ok("list_workspace_files", json!({})).await;
    assert!(listed.ends_with("/state/\n/state/a.txt (2 bytes)\n/state/new.txt (2 bytes)\n/state/notes/"), "{listed}");
    let listed = bench.ok("list_workspace_files", json!({"path": "/state"})).await;
    assert!(listed.contains("/state/notes/plan.md (8 bytes)"), "{listed}");
    let found = bench.ok("find_files", json!({"pattern": "*.md", "path": "/state"})).await;
    assert!(found.contains("/state/notes/plan.md"), "{found}");
    let hits = bench.ok("grep", json!({"pattern": "thr", "path": "/state"})).await;
    assert!(hits.contains("/state/notes/plan.md:2: three"), "{hits}");
    assert!(!fs::exists(bench.real("state")).unwrap(), "no state file is on disk");

    let patch = "*** Begin Patch\n*** Delete File: /state/new.txt\n*** End Patch";
    bench.step_ok("apply_patch", json!({ "patch": patch })).await;
    bench.step_ok("write_file", json!({"path": "/state/.hidden", "content": "h"})).await;
    assert_eq!(bench.ok("read_file", json!({"path": "/state/.hidden"})).await, "h");
    let listed = bench.ok("list_workspace_files", json!({"path": "/state"})).await;
    assert!(!listed.contains("new.txt") && !listed.contains(".hidden"), "{listed}");
    for (path, part) in [("/state/new.txt", "does not exist"), ("/state/notes", "is a folder")] {
        let text = bench.fails("read_file", json!({ "path": path }), ToolErrorCode::Path).await;
        assert!(text.contains(part), "{text}");
    }
    bench.fails("write_file", json!({"path": "/state/a.txt/x", "content": "x"}), ToolErrorCode::Path).await;
    assert_eq!(bench.ok("read_file", json!({"path": "/state/a.txt"})).await, "b\n");
}

#[tokio::test]
async fn failed_call_changes_no_state_file() {
    let mut bench = Bench::new().await;
    bench.step_ok("write_file", json!({"path": "/state/a.txt", "content": "a\n"})).await;
    let patch = "*** Begin Patch\n*** Update File: /state/a.txt\n@@\n-a\n+b\n*** Add File: skills/x\n+x\n*** End Patch";
    let output = bench.step("apply_patch", json!({ "patch": patch })).await;
    assert_eq!((output.error, output.state_files), (Some(ToolErrorCode::Path), vec![]));
    assert_eq!(bench.ok("read_file", json!({"path": "/state/a.txt"})).await, "a\n");
    for (arguments, part) in [
        (json!({"path": "/state/a.txt/b", "content": "x"}), "the same name"),
        (json!({"path": "/state", "content": "x"}), "folder"),
        (json!({"path": "/state/b", "content": "x".repeat(256 * 1024 + 1)}), "outputs/"),
        (json!({"path": "/state/../b", "content": "x"}), "`..`"),
        // The call may refer to the project's folder with that name.
        (json!({"path": "state/b", "content": "x"}), "/state"),
    ] {
        let output = bench.step("write_file", arguments).await;
        assert!(output.text.contains(part) && output.state_files.is_empty(), "{}", output.text);
        assert_eq!(output.error, Some(ToolErrorCode::Path));
    }
    let text =
        bench.fails("run_bash_command", json!({"command": "ls", "directory": "/state"}), ToolErrorCode::Path).await;
    assert!(text.contains("not on the disk"), "{text}");
}

#[tokio::test]
async fn state_paths_are_excluded_from_disk_snapshots() {
    use agentd_core::{ids::CallId, ports::Toolbox as _, tool::ToolCall};
    let bench = Bench::new().await;
    let changes = |tool: &str, arguments: Value| {
        let call = ToolCall { call_id: CallId::generate(), name: tool.to_owned(), arguments: arguments.to_string() };
        bench.toolbox.changes(&bench.context, &call)
    };
    assert_eq!(changes("write_file", json!({"path": "/state/a", "content": "x"})), Some(Vec::new()));
    let patch = "*** Begin Patch\n*** Add File: /state/a\n+x\n*** Add File: outputs/b\n+x\n*** End Patch";
    assert_eq!(changes("apply_patch", json!({ "patch": patch })), Some(vec!["outputs/b".to_owned()]));
}
