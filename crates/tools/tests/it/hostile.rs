//! Paths that try to leave the workspace. Every tool rejects each path, and no file outside is read or changed.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use agentd_testkit::hostile::{CANARY, Class, SECRET, Trap, state};

use super::*;

/// Creates a trap for the folders of this bench.
fn trap(bench: &Bench) -> Trap {
    let (root, project) = (bench.workspace().root.clone(), bench.real("/project"));
    Trap { outside: bench.outside.path().to_owned(), root, project }
}

/// Returns the paths of the corpus, and paths that are too long for the corpus file.
fn corpus(bench: &Bench) -> Vec<(Class, String)> {
    let mut paths = trap(bench).paths();
    let refused = [
        "a".repeat(5000),
        "a".repeat(64 * 1024),
        format!("uploads/{}", "b".repeat(256)),
        format!("uploads/{}", "b".repeat(64 * 1024)),
        format!("/project/{}", "\u{1f4a9}".repeat(16 * 1024)),
        "uploads/".repeat(600),
        "a/".repeat(5000),
        format!("uploads/{}a.txt", "d/".repeat(5000)),
        format!("uploads/{}a.txt", "./".repeat(5000)),
        format!("uploads{}a.txt", "/".repeat(5000)),
        "../".repeat(5000),
        format!("uploads/{}secret.txt", "../".repeat(500)),
        format!("{}{}/canary/a.txt", "../".repeat(100), bench.outside.path().display()),
        format!("uploads/{}{}/canary/a.txt", "../".repeat(64), bench.outside.path().display()),
        ".".repeat(2) + &"/..".repeat(300),
        "\0".repeat(100),
        "\\".repeat(100),
        "~".repeat(100),
    ];
    paths.extend(refused.map(|path| (Class::Refused, path)));
    paths.push((Class::Contained, format!("uploads/{}", "c".repeat(255))));
    paths.push((Class::Contained, format!("uploads/{}a.txt", "d/".repeat(1000))));
    paths
}

/// Returns the paths of one class of the corpus.
fn paths_of(bench: &Bench, wanted: Class) -> Vec<String> {
    corpus(bench).into_iter().filter(|(class, _)| *class == wanted).map(|(_, path)| path).collect()
}

/// Quotes a name as git does, with every byte escaped.
fn quoted(mark: &str, path: &str) -> String {
    let octal: String = path.bytes().map(|byte| format!("\\{byte:03o}")).collect();
    format!("\"{mark}{octal}\"")
}

/// Returns calls that change or create the file in all possible ways.
fn changing(path: &str) -> Vec<(&'static str, Value)> {
    let mut calls = vec![
        ("write_file", json!({ "path": path, "content": "overwritten" })),
        ("read_file", json!({ "path": "uploads/notes.txt", "save_to": path })),
        ("edit_file", json!({ "path": path, "old_string": "code", "new_string": "overwritten" })),
    ];
    let (old, new, bare) = (quoted("a/", path), quoted("b/", path), quoted("", path));
    let mut patches = vec![
        format!("--- {old}\n+++ {new}\n@@ -1 +1 @@\n-code\n+overwritten\n"),
        format!("--- /dev/null\n+++ {new}\n@@ -0,0 +1 @@\n+made\n"),
        format!("--- {old}\n+++ /dev/null\n@@ -1 +0,0 @@\n-code\n"),
        format!("diff --git a/x b/y\nrename from uploads/notes.txt\nrename to {bare}\n"),
        format!("diff --git a/x b/y\nrename from {bare}\nrename to outputs/taken.txt\n"),
    ];
    // This form of patch cannot represent names with line ends.
    if path.trim() == path && !path.contains(['\n', '\r']) {
        let inside = |inner: String| format!("*** Begin Patch\n{inner}*** End Patch\n");
        patches.extend([
            inside(format!("*** Update File: {path}\n@@\n-code\n+overwritten\n")),
            inside(format!("*** Add File: {path}\n+made\n")),
            inside(format!("*** Delete File: {path}\n")),
            inside(format!("*** Update File: uploads/notes.txt\n*** Move to: {path}\n@@\n-code\n+moved\n")),
            inside(format!("*** Update File: {path}\n*** Move to: outputs/taken.txt\n")),
            inside(format!("*** Add File: outputs/beside.txt\n+x\n*** Delete File: {path}\n")),
        ]);
    }
    calls.extend(patches.into_iter().map(|patch| ("apply_patch", json!({ "patch": patch }))));
    calls
}

/// Returns calls that read the path.
fn reading(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({ "path": path })),
        ("read_file", json!({ "path": path, "save_to": "temp/copy.txt" })),
        ("grep", json!({ "path": path, "pattern": "launch|canary|root" })),
        ("find_files", json!({ "path": path, "pattern": "**/*" })),
        ("list_workspace_files", json!({ "path": path, "depth": 20 })),
    ]
}

/// Checks that an output contains no content from outside the workspace.
fn check_output(text: &str, tool: &str, path: &str) {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let first = passwd.lines().next().unwrap_or("no such file");
    for secret in [CANARY, SECRET, first] {
        assert!(!text.contains(secret), "{tool} {path:?}: {text}");
    }
}

#[tokio::test]
async fn no_path_leaves_the_workspace() {
    let bench = Bench::with_project(Project::Writable).await;
    trap(&bench).create_entries();
    let before = state(bench.outside.path(), &[]);
    for path in &paths_of(&bench, Class::Refused) {
        let command = ("run_bash_command", json!({ "command": "echo ran", "directory": path }));
        for (tool, arguments) in reading(path).into_iter().chain([command]) {
            let output = bench.call(tool, arguments.clone()).await;
            assert_eq!(output.error, Some(ToolErrorCode::Path), "{tool} {path:?}: {}", output.text);
            assert!(output.text.len() < 600 && output.text.lines().count() == 1, "one sentence: {}", output.text);
            check_output(&output.text, tool, path);
            if tool == "run_bash_command" {
                assert_eq!(bench.preview(tool, arguments).await, Err(output), "{tool} {path:?}: preview");
            }
        }
        for (tool, arguments) in changing(path) {
            let output = bench.call(tool, arguments.clone()).await;
            let is_patch = tool == "apply_patch" && output.error == Some(ToolErrorCode::InvalidArgs);
            assert!(is_patch || output.error == Some(ToolErrorCode::Path), "{tool} {arguments}: {}", output.text);
            assert!(output.files.is_empty() && output.text.lines().count() == 1, "one sentence: {}", output.text);
            check_output(&output.text, tool, path);
            assert_eq!(bench.preview(tool, arguments).await, Err(output), "{tool} {path:?}: preview");
        }
    }
    assert_eq!(state(bench.outside.path(), &[]), before, "no file changed, inside or outside");
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[tokio::test]
async fn unwritable_paths_are_not_written() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    trap(&bench).create_entries();
    let before = state(bench.outside.path(), &[]);
    for path in paths_of(&bench, Class::Unwritable) {
        for (tool, arguments) in reading(&path) {
            check_output(&bench.call(tool, arguments).await.text, tool, &path);
        }
        for (tool, arguments) in changing(&path) {
            let output = bench.call(tool, arguments.clone()).await;
            assert_eq!(output.error, Some(ToolErrorCode::Path), "{tool} {arguments}: {}", output.text);
            assert_eq!(bench.preview(tool, arguments).await, Err(output), "{tool} {path:?}: preview");
        }
    }
    assert_eq!(state(bench.outside.path(), &[]), before, "no file changed, inside or outside");
}

#[tokio::test]
async fn odd_names_stay_inside() {
    let bench = Bench::with_project(Project::Writable).await;
    trap(&bench).create_entries();
    let all = corpus(&bench);
    assert!(all.len() >= 400, "{} paths", all.len());
    let (root, project) = (bench.workspace().root.clone(), bench.real("/project"));
    let outside = || state(bench.outside.path(), &[&root, &project]);
    let before = outside();
    let mut succeeded = 0;
    for (_, path) in all.iter().filter(|(class, _)| *class == Class::Contained) {
        // Restores the files that the calls for the previous path moved.
        bench.put("uploads/notes.txt", "code\n");
        let _ = fs::remove_file(bench.real("outputs/taken.txt"));
        for (tool, arguments) in changing(path).into_iter().chain(reading(path)) {
            let output = bench.call(tool, arguments).await;
            succeeded += usize::from(output.error.is_none());
            check_output(&output.text, tool, path);
        }
    }
    assert!(succeeded > 100, "most of these names are usable: {succeeded}");
    for (tool, arguments) in reading(".").into_iter().chain(reading("uploads")).chain(reading("/project")) {
        check_output(&bench.call(tool, arguments).await.text, tool, "all of it");
    }
    assert_eq!(outside(), before, "no file outside changed");
    for place in [root, project] {
        for (path, entry) in state(&place, &[]) {
            let is_copy = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
                && fs::read_to_string(&path).is_ok_and(|text| text.contains(CANARY) || text.contains(SECRET));
            assert!(!is_copy, "{path} copies a file from outside: {entry}");
        }
    }
}

#[tokio::test]
async fn path_rejections_have_a_hint() {
    let bench = Bench::with_project(Project::Writable).await;
    trap(&bench).create_entries();
    for (path, expected) in [
        ("../x", "write the path from the workspace root"),
        ("/etc/passwd", "use a path below uploads/"),
        ("~/x", "use a path below uploads/"),
        ("uploads\\x", "use `/` between folders"),
        ("uploads/a\0", "remove it"),
        ("uploads/link-absolute", "work on a copy"),
        ("uploads/hard-link", "copy it to a new file"),
        ("uploads/pipe", "only regular files can be used"),
        ("uploads/socket", "use a regular file"),
    ] {
        let text = bench.fails("read_file", json!({ "path": path }), ToolErrorCode::Path).await;
        assert!(text.contains(expected), "{path}: {text}");
    }
}

#[tokio::test]
async fn project_hard_links_are_readable_but_not_writable() {
    let bench = Bench::with_project(Project::Writable).await;
    let real = bench.put("/project/store.txt", "shared by a package manager");
    fs::hard_link(&real, bench.real("/project/linked.txt")).unwrap();
    assert_eq!(bench.ok("read_file", json!({"path": "/project/linked.txt"})).await, "shared by a package manager");
    for (tool, arguments) in [
        ("write_file", json!({"path": "/project/linked.txt", "content": "x"})),
        ("edit_file", json!({"path": "/project/linked.txt", "old_string": "shared", "new_string": "x"})),
        ("apply_patch", json!({"patch": "*** Begin Patch\n*** Delete File: /project/linked.txt\n*** End Patch"})),
    ] {
        let text = bench.fails(tool, arguments, ToolErrorCode::Path).await;
        assert!(text.contains("is a hard link"), "{text}");
    }
}

#[tokio::test]
async fn area_or_root_replaced_by_a_link_is_rejected() {
    let bench = Bench::new().await;
    let away = bench.outside.path().join("away");
    fs::create_dir(&away).unwrap();
    // A missing area is recreated.
    fs::remove_dir(bench.real("outputs")).unwrap();
    bench.ok("write_file", json!({"path": "outputs/a.txt", "content": "x"})).await;
    fs::remove_dir_all(bench.real("outputs")).unwrap();
    symlink("skills", bench.real("outputs")).unwrap();
    bench.fails("write_file", json!({"path": "outputs/a.txt", "content": "x"}), ToolErrorCode::Path).await;
    assert_eq!(fs::read_dir(bench.real("skills")).unwrap().count(), 0);

    let root = bench.workspace().root.clone();
    fs::rename(&root, bench.outside.path().join("moved")).unwrap();
    symlink(&away, &root).unwrap();
    for (tool, arguments) in [
        ("list_workspace_files", json!({})),
        ("run_bash_command", json!({"command": "touch here"})),
        ("write_file", json!({"path": "temp/a", "content": "x"})),
    ] {
        bench.fails(tool, arguments, ToolErrorCode::Tool).await;
    }
    assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
}
