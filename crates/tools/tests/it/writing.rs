//! Tests of `write_file` and `edit_file`, and of their previews.

use super::*;

fn change(path: &str, change: FileChangeKind) -> Vec<FileChange> {
    vec![FileChange::new(path, change)]
}

#[tokio::test]
async fn write_creates_replaces_or_skips_equal_content() {
    let bench = Bench::new().await;
    let write =
        |content: &'static str| bench.call("write_file", json!({"path": "outputs/new/a.md", "content": content}));
    let creation = write("one\ntwo\n").await;
    assert_eq!(creation.text, "Created outputs/new/a.md (8 bytes, 2 lines).");
    assert_eq!(creation.files, change("outputs/new/a.md", FileChangeKind::Created));
    let replaced = write("three").await;
    assert_eq!(replaced.text, "Replaced outputs/new/a.md (5 bytes, 1 line).");
    assert_eq!(replaced.files, change("outputs/new/a.md", FileChangeKind::Modified));
    let same = write("three").await;
    assert_eq!((same.error, same.files), (None, vec![]));
    assert_eq!(bench.content("outputs/new/a.md"), b"three");
    let left: Vec<_> = fs::read_dir(bench.real("outputs/new")).unwrap().collect();
    assert_eq!(left.len(), 1, "no draft remains");
}

#[tokio::test]
async fn write_keeps_mode_without_setuid() {
    let bench = Bench::new().await;
    let real = bench.put("outputs/run.sh", "#!/bin/sh\n");
    for (before, after) in [(0o750, 0o750), (0o600, 0o600), (0o4755, 0o755)] {
        chmod(&real, before);
        bench.ok("write_file", json!({"path": "outputs/run.sh", "content": format!("#!/bin/sh\n# {before}\n")})).await;
        assert_eq!(mode(&real), after);
    }
    chmod(&real, 0o755);
    let text = "*** Begin Patch\n*** Update File: outputs/run.sh\n*** Move to: outputs/bin/go.sh\n*** End Patch";
    bench.ok("apply_patch", json!({ "patch": text })).await;
    assert_eq!(mode(&bench.real("outputs/bin/go.sh")), 0o755, "a moved file keeps its mode, too");
}

#[tokio::test]
async fn only_some_folders_are_writable() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    bench.put("skills/x/SKILL.md", "skill");
    bench.put("/project/a.txt", "a");
    symlink("../skills/x/SKILL.md", bench.real("outputs/s.md")).unwrap();
    symlink("../skills", bench.real("outputs/skills")).unwrap();
    bench.put("outputs/file", "x");
    let below_skills = ["skills/x/SKILL.md", "skills/new.md", "outputs/s.md", "outputs/skills/x/SKILL.md"];
    let unwritable_paths = ["notes.txt", ".metadata.json", "other/a.txt", "/project/a.txt", "/project/new.txt"];
    let obstructed = [".", "", "/", "outputs", "uploads/", "/project", "outputs/file/below.txt"];
    for path in [&below_skills[..], &unwritable_paths, &obstructed].concat() {
        let write = json!({"path": path, "content": "x"});
        let text = bench.fails("write_file", write.clone(), ToolErrorCode::Path).await;
        assert_eq!(bench.preview("write_file", write).await.unwrap_err().text, text, "{path}");
        let edit = json!({"path": path, "old_string": "a", "new_string": "b"});
        bench.fails("edit_file", edit, ToolErrorCode::Path).await;
    }
    assert_eq!(bench.content("skills/x/SKILL.md"), b"skill");
    assert_eq!(bench.content("/project/a.txt"), b"a");
    let write = json!({"path": "a/notes.txt", "content": ""});
    let text = bench.fails("write_file", write.clone(), ToolErrorCode::Path).await;
    for part in ["/project/a/notes.txt", "read-only", "-C DIR:rw"] {
        assert!(text.contains(part), "{text}");
    }
    let text = Bench::new().await.fails("write_file", write, ToolErrorCode::Path).await;
    assert!(text.ends_with("write to outputs/notes.txt instead"), "{text}");

    let bench = Bench::with_project(Project::Writable).await;
    let creation = bench.call("write_file", json!({"path": "/project/src/new.rs", "content": "x"})).await;
    assert_eq!(creation.files, change("/project/src/new.rs", FileChangeKind::Created));
    assert_eq!(bench.content("/project/src/new.rs"), b"x");
}

#[tokio::test]
async fn oversized_content_is_rejected_before_writing() {
    let bench = Bench::with(Project::None, limits(|limits| limits.write_bytes = 100)).await;
    let write = |size: usize| json!({"path": "outputs/a", "content": "x".repeat(size)});
    bench.fails("write_file", write(101), ToolErrorCode::InvalidArgs).await;
    assert!(!bench.real("outputs/a").exists());
    bench.ok("write_file", write(100)).await;
    let grow = json!({"path": "outputs/a", "old_string": "x", "new_string": "xy", "replace_all": true});
    bench.fails("edit_file", grow, ToolErrorCode::Tool).await;
    // A larger file can be replaced as a whole. The preview only shows its size.
    bench.put("outputs/a", "y".repeat(5000));
    let shown = bench.preview("write_file", write(10)).await.unwrap().unwrap();
    let (before, after) = shown.split_once(" (last changed ").expect("the preview names the replaced version");
    assert_eq!(before, "--- a/outputs/a\n+++ b/outputs/a\n(4.9 KB");
    let (_, after) = after.split_once(") ").unwrap();
    assert_eq!(after, "are replaced)\n@@ -0,0 +1 @@\n+xxxxxxxxxx\n\\ No newline at end of file\n");
    bench.ok("write_file", write(10)).await;
}

/// An approval never applies to content that a truncated preview omits.
#[tokio::test]
async fn preview_contains_all_written_content() {
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
async fn edits_keep_all_other_bytes() {
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
        // With mixed line ends, the line ends of the edited lines are used.
        ("a\r\nb\nc\r\n", "a\nb\nc", "A\nB\nC", false, "A\r\nB\nC\r\n"),
        ("a\r\nb\nc\r\n", "b", "b\nb", false, "a\r\nb\nb\nc\r\n"),
        ("a\r\nb\nc\r\n", "c", "c\nd", false, "a\r\nb\nc\r\nd\r\n"),
        ("a\nb\r\nc", "c", "c\nd", false, "a\nb\r\nc\r\nd"),
        ("a\rb\rc", "b", "b\nd", false, "a\rb\rd\rc"),
        ("50%\r100%\n", "50%\r", "", false, "100%\n"),
        ("a\r\nb\r\n", "a\nb\n", "a\n", false, "a\r\n"),
        ("one", "one", "1\n2\r\n3", false, "1\n2\n3"),
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
async fn ambiguous_edits_are_rejected_with_a_hint() {
    let bench = Bench::new().await;
    let content = "fn main() {\n    let x = 1;\n    let y = 1;\n}\n";
    bench.put("outputs/e.rs", content);
    bench.put("outputs/latin.txt", b"caf\xe9 noir");
    bench.put("outputs/nul.bin", b"x\0\0\x01");
    use ToolErrorCode::{InvalidArgs, Path, Tool};
    for (path, old, new, code, expected) in [
        ("outputs/e.rs", "= 1", "= 2", Tool, "occurs 2 times in outputs/e.rs (lines 2, 3)"),
        ("outputs/e.rs", "let x =  1;", "", Tool, "the closest match is at line 2:\n    let x = 1;"),
        ("outputs/e.rs", "\tlet y = 1;\n}", "", Tool, "the white space or a later line differs"),
        ("outputs/e.rs", "something else", "", Tool, "nor any similar text"),
        ("outputs/e.rs", "let y \u{2013} 1;", "", Tool, "has '=' (U+003D) where old_string has '–' (U+2013)"),
        ("outputs/e.rs", "   \n \n", "", Tool, "only white space"),
        ("outputs/e.rs", "", "x", InvalidArgs, "is empty"),
        ("outputs/e.rs", "x", "x", InvalidArgs, "are the same"),
        ("outputs/latin.txt", "noir", "n\u{f6}\u{4e2d}r", Tool, "nothing was changed"),
        ("outputs/e.rs", "{\n", "{\r\n", InvalidArgs, "differ only in line endings"),
        ("outputs/nul.bin", "x", "y", Tool, "is binary data, not text"),
        ("outputs/f.rs", "x", "y", Path, "did you mean outputs/e.rs?"),
    ] {
        let arguments = json!({"path": path, "old_string": old, "new_string": new});
        let text = bench.fails("edit_file", arguments.clone(), code).await;
        assert!(text.contains(expected), "{text}");
        assert_eq!(bench.preview("edit_file", arguments).await.unwrap_err().text, text);
    }
    assert_eq!(bench.content("outputs/e.rs"), content.as_bytes());
}

#[tokio::test]
async fn relative_paths_resolve_to_the_project_if_any() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/src/main.rs", "one\n");
    bench.put("/project/setup.py", "setup\n");
    let output = bench.ok("write_file", json!({"path": "schedule/new.py", "content": "x"})).await;
    assert!(output.contains("/project/schedule/new.py"), "{output}");
    assert_eq!(bench.content("/project/schedule/new.py"), b"x");
    bench.ok("edit_file", json!({"path": "./src/main.rs", "old_string": "one", "new_string": "two"})).await;
    let patch = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1 +1 @@\n-two\n+three\n";
    bench.ok("apply_patch", json!({ "patch": patch })).await;
    assert_eq!(bench.ok("read_file", json!({"path": "src/main.rs"})).await, "three\n");
    for (tool, arguments) in [
        ("grep", json!({"pattern": "three", "path": "src"})),
        ("find_files", json!({"pattern": "*.rs", "path": "."})),
        ("list_workspace_files", json!({"path": "src"})),
    ] {
        assert!(bench.ok(tool, arguments).await.contains("/project/src/main.rs"), "{tool}");
    }
    // Names in the session's tree keep their meaning, with and without a slash.
    for (path, real) in [("outputs/a.md", "outputs/a.md"), ("/outputs/b.md", "outputs/b.md"), ("./temp/c", "temp/c")] {
        bench.ok("write_file", json!({ "path": path, "content": "own" })).await;
        assert_eq!(bench.content(real), b"own");
        assert_eq!(bench.ok("read_file", json!({ "path": path })).await, "own");
    }
    // Errors for missing files suggest similar paths.
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
async fn ambiguous_path_is_not_written() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/outputs/of-project.txt", "project");
    bench.put("/project/project/settings.py", "settings");
    bench.put("outputs/of-session.txt", "session");
    bench.put("outputs/both.txt", "session");
    bench.put("/project/outputs/both.txt", "project");
    for path in ["outputs/new.txt", "./outputs/of-session.txt", "outputs/of-project.txt", "project/settings.py"] {
        let text = bench.fails("write_file", json!({ "path": path, "content": "x" }), ToolErrorCode::Path).await;
        assert!(text.contains("use the full path"), "{path}: {text}");
    }
    for (path, content) in [
        ("outputs/of-session.txt", "session"),
        ("outputs/of-project.txt", "project"),
        ("project/settings.py", "settings"),
    ] {
        assert_eq!(bench.ok("read_file", json!({ "path": path })).await, content);
    }
    let text = bench.fails("read_file", json!({"path": "outputs/both.txt"}), ToolErrorCode::Path).await;
    assert!(text.contains("/outputs/both.txt or /project/outputs/both.txt"), "{text}");
    // The rules apply to a project file that is addressed by a name in the session's tree.
    let followed = bench.follow("read_file", json!({"path": "outputs/of-project.txt"})).await.unwrap();
    assert_eq!(followed.leads_to, "/project/outputs/of-project.txt");
    bench.ok("write_file", json!({"path": "/outputs/new.txt", "content": "x"})).await;
    assert!(!bench.real("/project/outputs/new.txt").exists());
}
