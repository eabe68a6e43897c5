//! Links within the tree: writes through links are rejected, and reads report the target before the target is opened.

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::*;

/// Returns calls that would change or remove the file.
fn changing(path: &str) -> Vec<(&'static str, Value)> {
    let patch = |inner: String| ("apply_patch", json!({"patch": format!("*** Begin Patch\n{inner}*** End Patch\n")}));
    vec![
        ("write_file", json!({"path": path, "content": "changed\n"})),
        ("edit_file", json!({"path": path, "old_string": "real", "new_string": "changed"})),
        ("apply_patch", json!({"patch": format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-real\n+changed\n")})),
        patch(format!("*** Update File: {path}\n-real\n+changed\n")),
        patch(format!("*** Add File: {path}\n+changed\n")),
        patch(format!("*** Delete File: {path}\n")),
        patch(format!("*** Update File: {path}\n*** Move to: outputs/moved\n")),
        patch(format!("*** Update File: outputs/other\n*** Move to: {path}\n")),
    ]
}

/// Creates a tree in which files of `folder` can also be reached through links.
fn create_links(bench: &Bench, folder: &str) {
    bench.put("outputs/other", "other\n");
    bench.put(&format!("{folder}/.envrc"), "real\n");
    bench.put(&format!("{folder}/.git/hooks/pre-commit"), "real\n");
    fs::create_dir(bench.real(&format!("{folder}/docs"))).unwrap();
    for (target, link) in [
        ("../.envrc", "docs/a.md"),
        ("a.md", "docs/chain.md"),
        ("../docs/chain.md", "docs/longer.md"),
        ("../.git/hooks", "docs/d"),
        ("docs", "folder"),
        ("none.md", "docs/dangling.md"),
        ("../gone/x.md", "docs/far.md"),
    ] {
        symlink(target, bench.real(&format!("{folder}/{link}"))).unwrap();
    }
}

#[tokio::test]
async fn writes_through_links_are_rejected_naming_the_target() {
    for folder in ["/project", "outputs"] {
        let bench = Bench::with_project(Project::Writable).await;
        create_links(&bench, folder);
        let before = tree(bench.outside.path());
        for (path, expected) in [
            ("docs/a.md", "is a link to {}/.envrc; write to {}/.envrc itself"),
            ("docs/chain.md", "is a link to {}/.envrc; write to {}/.envrc itself"),
            ("docs/longer.md", "is a link to {}/.envrc; write to {}/.envrc itself"),
            ("folder/a.md", "is a link to {}/.envrc; write to {}/.envrc itself"),
            ("docs/d/pre-commit", "leads through a link to {}/.git/hooks/pre-commit; write to"),
            ("docs/d/new/hook", "leads through a link to {}/.git/hooks/new/hook; write to"),
            ("folder/d/pre-commit", "leads through a link to {}/.git/hooks/pre-commit; write to"),
            ("folder/new.md", "leads through a link to {}/docs/new.md; write to {}/docs/new.md itself"),
            ("docs/dangling.md", "is a link to {}/docs/none.md; write to {}/docs/none.md itself"),
            ("docs/far.md", "is a link to {}/gone/x.md; write to {}/gone/x.md itself"),
        ] {
            let expected = expected.replace("{}", folder);
            let path = format!("{folder}/{path}");
            for (tool, arguments) in changing(&path) {
                let message = bench.fails(tool, arguments.clone(), ToolErrorCode::Path).await;
                assert!(message.starts_with(&format!("{path} {expected}")), "{tool} {path}: {message}");
                assert_eq!(bench.preview(tool, arguments).await.unwrap_err().text, message, "preview");
            }
        }
        // Real paths, as printed by commands, give the same result.
        let real = bench.real(&format!("{folder}/docs/a.md"));
        let args = json!({"path": real, "content": "changed"});
        let message = bench.fails("write_file", args, ToolErrorCode::Path).await;
        assert!(message.contains(&format!("write to {folder}/.envrc itself")), "{message}");
        assert_eq!(tree(bench.outside.path()), before);
        // The file is writable by its own name.
        bench.ok("write_file", json!({"path": format!("{folder}/.envrc"), "content": "new"})).await;
        assert_eq!(bench.content(&format!("{folder}/.envrc")), b"new");
    }
}

#[tokio::test]
async fn link_target_is_reported_before_reading() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    create_links(&bench, "/project");
    symlink("~draft", bench.real("/project/docs/tilde")).unwrap();
    symlink("line\nbreak", bench.real("/project/docs/odd")).unwrap();
    symlink("../../outside", bench.real("/project/docs/out")).unwrap();
    for tool in ["read_file", "grep", "find_files", "list_workspace_files"] {
        for (path, leads_to) in [
            ("/project/docs/a.md", Some("/project/.envrc")),
            ("project/docs/longer.md", Some("/project/.envrc")),
            ("/project/folder/d", Some("/project/.git/hooks")),
            ("/project/folder", Some("/project/docs")),
            ("/project/docs/dangling.md", Some("/project/docs/none.md")),
            ("/project/docs/tilde", Some("/project/docs/~draft")),
            ("/project/docs", None),
            ("/project/none", None),
            ("/project/docs/out", None),
            ("/project/docs/odd", Some("/project/docs/line\\u{a}break")),
            ("/etc/passwd", None),
            ("../x", None),
        ] {
            let mut arguments = json!({ "path": path });
            if matches!(tool, "grep" | "find_files") {
                arguments["pattern"] = "*".into();
            }
            let followed = bench.follow(tool, arguments.clone()).await;
            let target = followed.as_ref().map(|followed| followed.leads_to.as_str());
            assert_eq!(target, leads_to, "{tool} {path}");
            if let Some(followed) = followed {
                arguments["path"] = followed.leads_to.clone().into();
                assert_eq!(serde_json::from_str::<Value>(&followed.arguments).unwrap(), arguments);
            }
        }
    }
    // Argument names from other systems are also accepted. Links are not followed for calls that change files or run
    // commands.
    let followed = bench.follow("read_file", json!({"file_path": "/project/docs/a.md"})).await.unwrap();
    assert_eq!(followed.to_string(), "/project/docs/a.md leads to /project/.envrc through a link");
    for (tool, arguments) in changing("/project/docs/a.md") {
        assert_eq!(bench.follow(tool, arguments).await, None, "{tool}");
    }
    assert_eq!(bench.follow("read_file", json!({})).await, None);
    assert_eq!(bench.follow("no_such_tool", json!({"path": "/project/docs/a.md"})).await, None);
}

#[tokio::test]
async fn read_follows_a_link_under_its_target_name() {
    let bench = Bench::with_project(Project::ReadOnly).await;
    create_links(&bench, "/project");
    bench.put("/project/AGENTS.md", "be kind\n");
    symlink("AGENTS.md", bench.real("/project/CLAUDE.md")).unwrap();
    bench.put("/project/docs/b.md", "needle\n");
    for (tool, arguments, expected) in [
        ("read_file", json!({"path": "/project/CLAUDE.md"}), "be kind\n"),
        ("grep", json!({"pattern": "needle", "path": "/project/folder"}), "/project/docs/b.md:1: needle"),
        ("find_files", json!({"pattern": "*.md", "path": "/project/folder"}), "/project/docs/b.md ("),
    ] {
        let found = bench.ok(tool, arguments).await;
        assert!(found.starts_with(expected), "{found}");
    }
    let listed = bench.ok("list_workspace_files", json!({"path": "/project/folder"})).await;
    assert!(listed.contains("/project/docs/b.md") && !listed.contains("/project/folder"), "{listed}");
    let ran = bench.preview("run_bash_command", json!({"command": "pwd", "directory": "/project/folder"})).await;
    assert!(ran.unwrap().unwrap().contains("(in /project/docs,"));
    // An ignore file that is a link is also applied.
    symlink("rules", bench.real("/project/docs/.ignore")).unwrap();
    bench.put("/project/docs/rules", "b.md\n");
    let found = bench.ok("find_files", json!({"pattern": "*.md", "path": "/project/docs"})).await;
    assert!(found.contains("No file matches"), "{found}");
    // Without a resolved path, no tool reads through a link.
    for (tool, path) in [
        ("read_file", "/project/CLAUDE.md"),
        ("list_workspace_files", "/project/CLAUDE.md"),
        ("list_workspace_files", "/project/folder"),
        ("read_file", "/project/folder/b.md"),
    ] {
        let output = bench.call_as_written(tool, &json!({ "path": path }).to_string()).await;
        assert_eq!(output.error, Some(ToolErrorCode::Path), "{}", output.text);
        assert!(output.text.contains("; read /project/") && output.text.ends_with(" itself"), "{}", output.text);
    }
}

/// Makes calls while another thread continuously exchanges two names.
async fn while_exchanging(
    bench: &Bench,
    one: PathBuf,
    two: PathBuf,
    rounds: usize,
    calls: &[(&str, Value)],
) -> Vec<String> {
    let swap = move || {
        // A call may have removed one of the two names.
        let _ = renameat2(AT_FDCWD, &one, AT_FDCWD, &two, RenameFlags::RENAME_EXCHANGE);
    };
    while_swapping(swap, async {
        let mut texts = Vec::new();
        for (tool, arguments) in calls.iter().cycle().take(rounds * calls.len()) {
            texts.push(bench.call_as_written(tool, &arguments.to_string()).await.text);
        }
        texts
    })
    .await
}

#[tokio::test]
async fn link_placed_during_a_write_is_not_followed() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/.git/hooks/a.md", "the hook\n");
    bench.put("/project/.git/hooks/sub/a.md", "the hook\n");
    bench.put("/project/.envrc", "the hook\n");
    bench.put("outputs/other", "other\n");
    let hooks = tree(&bench.real("/project/.git"));
    // Creates a file with a link to another file, a folder with a link to another folder, and a folder further up.
    bench.put("/project/docs/a.md", "real\n");
    symlink("../.envrc", bench.real("/project/docs/swap")).unwrap();
    let swaps = [bench.real("/project/docs/a.md"), bench.real("/project/docs/swap")];
    while_exchanging(&bench, swaps[0].clone(), swaps[1].clone(), 40, &changing("/project/docs/a.md")).await;
    for path in ["/project/top/a.md", "/project/top/new/a.md", "/project/top/sub/a.md"] {
        let (top, swap) = (bench.real("/project/top"), bench.real("/project/swap"));
        for place in [&top, &swap] {
            // Either path may be a link at this time.
            let _ = if place.is_symlink() { fs::remove_file(place) } else { fs::remove_dir_all(place) };
        }
        bench.put("/project/top/sub/a.md", "real\n");
        bench.put("/project/top/a.md", "real\n");
        symlink(".git/hooks", &swap).unwrap();
        while_exchanging(&bench, top, swap, 40, &changing(path)).await;
        assert_eq!(tree(&bench.real("/project/.git")), hooks, "{path}");
    }
    assert_eq!(bench.content("/project/.envrc"), b"the hook\n");
}

#[tokio::test]
async fn link_placed_during_a_read_is_not_followed() {
    let bench = Bench::with_project(Project::Writable).await;
    bench.put("/project/private/a.md", "the secret\n");
    bench.put("/project/docs/a.md", "harmless\n");
    symlink("../private/a.md", bench.real("/project/docs/swap")).unwrap();
    symlink("private", bench.real("/project/swap")).unwrap();
    let file = "/project/docs/a.md";
    let calls = [
        ("read_file", json!({ "path": file })),
        ("grep", json!({"path": file, "pattern": "secret|harm"})),
        ("grep", json!({"path": "/project/docs", "pattern": "secret|harm"})),
    ];
    for (one, two) in [(file, "/project/docs/swap"), ("/project/docs", "/project/swap")] {
        let texts = while_exchanging(&bench, bench.real(one), bench.real(two), 150, &calls).await;
        assert!(texts.iter().any(|text| text.contains("harmless")), "some reads succeed");
        for text in texts {
            assert!(!text.contains("the secret"), "{text}");
        }
        // Restores the paths for the next pair.
        if bench.real(one).is_symlink() {
            renameat2(AT_FDCWD, &bench.real(one), AT_FDCWD, &bench.real(two), RenameFlags::RENAME_EXCHANGE).unwrap();
        }
    }
}
