//! `write_file` and `edit_file`, run and foreseen.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use agentd_core::tool::{FileChange, FileChangeKind, ToolErrorCode};
use serde_json::json;

use crate::bench::{Bench, Project, limits};

fn change(path: &str, change: FileChangeKind) -> Vec<FileChange> {
    vec![FileChange::new(path, change)]
}

#[tokio::test]
async fn a_file_is_made_replaced_and_left_alone() {
    let bench = Bench::new().await;
    let write =
        |content: &'static str| bench.call("write_file", json!({"path": "outputs/new/a.md", "content": content}));
    let made = write("one\ntwo\n").await;
    assert_eq!(made.text, "Created outputs/new/a.md (8 bytes, 2 lines).");
    assert_eq!(made.files, change("outputs/new/a.md", FileChangeKind::Created));
    let replaced = write("three").await;
    assert_eq!(replaced.text, "Replaced outputs/new/a.md (5 bytes, 1 line).");
    assert_eq!(replaced.files, change("outputs/new/a.md", FileChangeKind::Modified));
    let same = write("three").await;
    assert_eq!((same.error, same.files), (None, vec![]));
    assert_eq!(bench.content("outputs/new/a.md"), b"three");
    let left: Vec<_> = fs::read_dir(bench.real("outputs/new")).unwrap().collect();
    assert_eq!(left.len(), 1, "no draft stays");
}

#[tokio::test]
async fn mode_is_kept_without_what_gives_power() {
    let bench = Bench::new().await;
    let real = bench.put("outputs/run.sh", "#!/bin/sh\n");
    for (before, after) in [(0o750, 0o750), (0o600, 0o600), (0o4755, 0o755)] {
        fs::set_permissions(&real, fs::Permissions::from_mode(before)).unwrap();
        bench.ok("write_file", json!({"path": "outputs/run.sh", "content": format!("#!/bin/sh\n# {before}\n")})).await;
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, after);
    }
}

#[tokio::test]
async fn only_some_folders_are_writable() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    bench.put("skills/x/SKILL.md", "skill");
    bench.put("/project/a.txt", "a");
    symlink("../skills/x/SKILL.md", bench.real("outputs/s.md")).unwrap();
    symlink("../skills", bench.real("outputs/skills")).unwrap();
    for path in [
        "notes.txt",
        ".metadata.json",
        "skills/x/SKILL.md",
        "skills/new.md",
        "other/a.txt",
        "/project/a.txt",
        "/project/new.txt",
        "outputs/s.md",
        "outputs/skills/x/SKILL.md",
        ".",
        "",
        "/",
        "outputs",
        "uploads/",
        "/project",
    ] {
        let write = json!({"path": path, "content": "x"});
        let text = bench.fails("write_file", write.clone(), ToolErrorCode::Path).await;
        assert_eq!(bench.preview("write_file", write).await.unwrap_err().text, text, "{path}");
        bench
            .fails("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"}), ToolErrorCode::Path)
            .await;
    }
    assert_eq!(bench.content("skills/x/SKILL.md"), b"skill");
    assert_eq!(bench.content("/project/a.txt"), b"a");
    let text = bench.fails("write_file", json!({"path": "a/notes.txt", "content": ""}), ToolErrorCode::Path).await;
    assert!(
        text.contains("/project/a/notes.txt") && text.contains("read-only") && text.contains("-C DIR:rw"),
        "{text}"
    );
    let without = Bench::new().await;
    let text = without.fails("write_file", json!({"path": "a/notes.txt", "content": ""}), ToolErrorCode::Path).await;
    assert!(text.ends_with("write to outputs/notes.txt instead"), "{text}");

    let bench = Bench::with_project(Project::Writable).await;
    let made = bench.call("write_file", json!({"path": "/project/src/new.rs", "content": "x"})).await;
    assert_eq!(made.files, change("/project/src/new.rs", FileChangeKind::Created));
    assert_eq!(bench.content("/project/src/new.rs"), b"x");
}

#[tokio::test]
async fn a_folder_or_file_in_the_way_is_said() {
    let bench = Bench::new().await;
    bench.put("outputs/file", "x");
    fs::create_dir(bench.real("outputs/folder")).unwrap();
    for path in ["outputs/folder", "outputs/file/below.txt"] {
        bench.fails("write_file", json!({"path": path, "content": "x"}), ToolErrorCode::Path).await;
    }
}

#[tokio::test]
async fn too_much_content_is_refused_before_anything_happens() {
    let bench = Bench::with(Project::None, limits(|limits| limits.write_bytes = 100)).await;
    let write = |size: usize| json!({"path": "outputs/a", "content": "x".repeat(size)});
    bench.fails("write_file", write(101), ToolErrorCode::InvalidArgs).await;
    assert!(!bench.real("outputs/a").exists());
    bench.ok("write_file", write(100)).await;
    let grow = json!({"path": "outputs/a", "old_string": "x", "new_string": "xy", "replace_all": true});
    bench.fails("edit_file", grow, ToolErrorCode::Tool).await;
    // A larger file can be replaced as a whole, and the preview says what is lost.
    bench.put("outputs/a", "y".repeat(5000));
    let shown = bench.preview("write_file", write(10)).await.unwrap().unwrap();
    let (before, after) = shown.split_once(" (last changed ").expect("it tells which version it is about");
    assert_eq!(before, "--- a/outputs/a\n+++ b/outputs/a\n(4.9 KB");
    let (_, after) = after.split_once(") ").unwrap();
    assert_eq!(after, "are replaced)\n@@ -0,0 +1 @@\n+xxxxxxxxxx\n\\ No newline at end of file\n");
    bench.ok("write_file", write(10)).await;
}

#[tokio::test]
async fn previews_are_diffs_and_change_nothing() {
    let bench = Bench::new().await;
    let new = json!({"path": "outputs/deep/a.txt", "content": "one\n"});
    assert_eq!(
        bench.preview("write_file", new).await.unwrap().unwrap(),
        "--- /dev/null\n+++ b/outputs/deep/a.txt\n@@ -0,0 +1 @@\n+one\n"
    );
    assert!(!bench.real("outputs/deep").exists());
    bench.put("outputs/b.txt", "one\ntwo\nthree\n");
    let edit = json!({"path": "outputs/b.txt", "old_string": "two", "new_string": "2"});
    assert_eq!(
        bench.preview("edit_file", edit).await.unwrap().unwrap(),
        "--- a/outputs/b.txt\n+++ b/outputs/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    );
    assert_eq!(bench.content("outputs/b.txt"), b"one\ntwo\nthree\n");
    assert_eq!(bench.preview("read_file", json!({"path": "outputs/b.txt"})).await, Ok(None));
}

/// No approval covers content after the place at which a preview was cut.
#[tokio::test]
async fn all_that_would_be_written_is_in_the_preview() {
    let bench = Bench::new().await;
    let long: String = (1..=900).map(|number| format!("line {number}\n")).collect::<String>() + "rm -rf ~/hidden\n";
    let wide = "x".repeat(30_000) + "; rm -rf ~/hidden\n";
    bench.put("outputs/there", "something\n");
    bench.put("outputs/other", "something\n");
    for content in [&long, &wide] {
        let added = content.lines().map(|line| format!("+{line}\n")).collect::<String>();
        let patch = |head: &str| format!("*** Begin Patch\n*** {head}\n{added}*** End Patch");
        for (tool, arguments) in [
            ("write_file", json!({"path": "outputs/new", "content": content})),
            ("write_file", json!({"path": "outputs/there", "content": content})),
            ("edit_file", json!({"path": "outputs/there", "old_string": "something\n", "new_string": content})),
            ("apply_patch", json!({"patch": patch("Add File: outputs/new")})),
            ("apply_patch", json!({"patch": patch("Update File: outputs/there\n@@\n-something")})),
        ] {
            let shown = bench.preview(tool, arguments).await.unwrap().unwrap();
            assert!(shown.contains(&added), "{tool}: {} of {}", shown.len(), added.len());
        }
        let heredoc = format!("cat > a <<'END'\n{content}END");
        let shown = bench.preview("run_bash_command", json!({"command": heredoc})).await.unwrap().unwrap();
        assert!(shown.contains(&heredoc), "{}", shown.len());
    }
    let patch = "*** Begin Patch\n*** Delete File: outputs/there\n*** Delete File: outputs/other\n*** End Patch";
    bench.put("outputs/there", format!("{}\n", "x".repeat(450)).repeat(450));
    let mut shown = Vec::new();
    for version in ["one\n", "two\n", "one\n"] {
        bench.put("outputs/other", version);
        shown.push(bench.preview("apply_patch", json!({ "patch": patch })).await.unwrap().unwrap());
    }
    assert_ne!(shown[0], shown[1]);
    assert_eq!(shown[0], shown[2]);
}

#[tokio::test]
async fn edits_leave_every_other_byte_alone() {
    let bench = Bench::new().await;
    for (before, old, new, all, after) in [
        ("a b a", "b", "c", false, "a c a"),
        ("a b a", "a", "", true, " b "),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2", false, "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "two", "2\n3", false, "one\r\n2\r\n3\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", false, "1\r\n2\r\n"),
        ("x\none\r\ntwo\r\n", "one\ntwo", "1\n2", false, "x\n1\r\n2\r\n"),
        ("x\none\r\n", "x", "y\nz", false, "y\nz\none\r\n"),
        ("\u{feff}head\ntail", "head", "HEAD", false, "\u{feff}HEAD\ntail"),
        ("no newline at end", "end", "the end", false, "no newline at the end"),
        ("aaa", "aa", "b", false, "ba"),
        ("tab\there", "\t", "  ", false, "tab  here"),
    ] {
        bench.put("outputs/e.txt", before);
        let arguments = json!({"path": "outputs/e.txt", "old_string": old, "new_string": new, "replace_all": all});
        let output = bench.call("edit_file", arguments).await;
        assert_eq!(output.error, None, "{}", output.text);
        assert_eq!(output.files, change("outputs/e.txt", FileChangeKind::Modified));
        assert_eq!(String::from_utf8(bench.content("outputs/e.txt")).unwrap(), after, "{before:?}");
    }
}

#[tokio::test]
async fn edits_that_cannot_be_meant_are_refused_with_a_hint() {
    let bench = Bench::new().await;
    let content = "fn main() {\n    let x = 1;\n    let y = 1;\n}\n";
    bench.put("outputs/e.rs", content);
    bench.put("outputs/latin.txt", b"caf\xe9 noir");
    bench.put("outputs/nul.bin", b"x\0\0\x01");
    for (path, old, new, code, expected) in [
        ("outputs/e.rs", "= 1", "= 2", ToolErrorCode::Tool, "occurs 2 times in outputs/e.rs (lines 2, 3)"),
        ("outputs/e.rs", "let x =  1;", "", ToolErrorCode::Tool, "the nearest place is line 2:\n    let x = 1;"),
        ("outputs/e.rs", "\tlet y = 1;\n}", "", ToolErrorCode::Tool, "the white space or a later line differs"),
        ("outputs/e.rs", "something else", "", ToolErrorCode::Tool, "nor anything like it"),
        (
            "outputs/e.rs",
            "let y \u{2013} 1;",
            "",
            ToolErrorCode::Tool,
            "has '=' (U+003D) where old_string has '–' (U+2013)",
        ),
        ("outputs/e.rs", "   \n \n", "", ToolErrorCode::Tool, "only white space"),
        ("outputs/e.rs", "", "x", ToolErrorCode::InvalidArgs, "is empty"),
        ("outputs/e.rs", "x", "x", ToolErrorCode::InvalidArgs, "are the same"),
        ("outputs/latin.txt", "noir", "n\u{f6}\u{4e2d}r", ToolErrorCode::Tool, "nothing was changed"),
        ("outputs/e.rs", "{\n", "{\r\n", ToolErrorCode::InvalidArgs, "differ only in line ends"),
        ("outputs/nul.bin", "x", "y", ToolErrorCode::Tool, "is binary data, not text"),
        ("outputs/f.rs", "x", "y", ToolErrorCode::Path, "did you mean outputs/e.rs?"),
    ] {
        let arguments = json!({"path": path, "old_string": old, "new_string": new});
        let text = bench.fails("edit_file", arguments.clone(), code).await;
        assert!(text.contains(expected), "{text}");
        assert_eq!(bench.preview("edit_file", arguments).await.unwrap_err().text, text);
    }
    assert_eq!(bench.content("outputs/e.rs"), content.as_bytes());
}

#[tokio::test]
async fn relative_paths_mean_the_project_where_there_is_one() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/src/main.rs", "one\n");
    bench.put("/project/setup.py", "setup\n");
    let told = bench.ok("write_file", json!({"path": "schedule/new.py", "content": "x"})).await;
    assert!(told.contains("/project/schedule/new.py"), "{told}");
    assert_eq!(bench.content("/project/schedule/new.py"), b"x");
    bench.ok("edit_file", json!({"path": "./src/main.rs", "old_string": "one", "new_string": "two"})).await;
    bench
        .ok("apply_patch", json!({"patch": "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1 +1 @@\n-two\n+three\n"}))
        .await;
    assert_eq!(bench.ok("read_file", json!({"path": "src/main.rs"})).await, "three\n");
    assert!(bench.ok("grep", json!({"pattern": "three", "path": "src"})).await.contains("/project/src/main.rs"));
    assert!(bench.ok("find_files", json!({"pattern": "*.rs", "path": "."})).await.contains("/project/src/main.rs"));
    assert!(bench.ok("list_workspace_files", json!({"path": "src"})).await.contains("/project/src/main.rs"));
    // The names of the session's tree go on to mean it, with a slash and without.
    for (path, real) in [("outputs/a.md", "outputs/a.md"), ("/outputs/b.md", "outputs/b.md"), ("./temp/c", "temp/c")] {
        bench.ok("write_file", json!({ "path": path, "content": "own" })).await;
        assert_eq!(bench.content(real), b"own");
        assert_eq!(bench.ok("read_file", json!({ "path": path })).await, "own");
    }
    // What is not there is told with what may be meant.
    for (path, near) in [
        ("main.rs", "/project/src/main.rs"),
        ("/setup.py", "/project/setup.py"),
        ("stup.py", "/project/setup.py"),
        ("uploads/setup.py", "/project/setup.py"),
        ("src/mian.rs", "/project/src/main.rs"),
    ] {
        let text = bench.fails("read_file", json!({ "path": path }), ToolErrorCode::Path).await;
        assert!(text.contains(&format!("did you mean {near}?")), "{path}: {text}");
    }
    let edit = json!({"path": "main.rs", "old_string": "a", "new_string": "b"});
    let text = bench.fails("edit_file", edit, ToolErrorCode::Path).await;
    assert!(text.contains("did you mean /project/src/main.rs?"), "{text}");
}

#[tokio::test]
async fn a_path_that_may_mean_two_files_is_written_to_neither() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/outputs/of-project.txt", "project");
    bench.put("/project/project/settings.py", "settings");
    bench.put("outputs/of-session.txt", "session");
    bench.put("outputs/both.txt", "session");
    bench.put("/project/outputs/both.txt", "project");
    for path in ["outputs/new.txt", "./outputs/of-session.txt", "outputs/of-project.txt", "project/settings.py"] {
        let text = bench.fails("write_file", json!({ "path": path, "content": "x" }), ToolErrorCode::Path).await;
        assert!(text.contains("write the whole path"), "{path}: {text}");
    }
    assert_eq!(bench.ok("read_file", json!({"path": "outputs/of-session.txt"})).await, "session");
    assert_eq!(bench.ok("read_file", json!({"path": "outputs/of-project.txt"})).await, "project");
    assert_eq!(bench.ok("read_file", json!({"path": "project/settings.py"})).await, "settings");
    let text = bench.fails("read_file", json!({"path": "outputs/both.txt"}), ToolErrorCode::Path).await;
    assert!(text.contains("/outputs/both.txt or /project/outputs/both.txt"), "{text}");
    // The rules hear of a file of the project that is meant by a name of the session's tree.
    let followed = bench.follow("read_file", json!({"path": "outputs/of-project.txt"})).await.unwrap();
    assert_eq!(followed.leads_to, "/project/outputs/of-project.txt");
    bench.ok("write_file", json!({"path": "/outputs/new.txt", "content": "x"})).await;
    assert!(!bench.real("/project/outputs/new.txt").exists());
}
