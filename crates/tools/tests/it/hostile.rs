//! Paths that try to leave. Every tool refuses every one of them, and nothing outside is read or changed.

use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt as _, symlink},
        net::UnixListener,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::tool::ToolErrorCode;
use serde_json::{Value, json};

use crate::bench::{Bench, Project, SECRET, mkfifo};

/// Paths that are refused whatever is on the disk, or lead to what the trap below has laid.
fn corpus() -> Vec<String> {
    let mut paths: Vec<String> = [
        "..",
        "../",
        "../secret.txt",
        "../../secret.txt",
        "uploads/..",
        "uploads/../../secret.txt",
        "uploads/../../../secret.txt",
        "uploads/./../..//secret.txt",
        "uploads/a/../../..",
        "./../secret.txt",
        ".//..//..//secret.txt",
        "/..",
        "/../secret.txt",
        "/uploads/../../secret.txt",
        "/project/..",
        "/project/../secret.txt",
        "/project/../../secret.txt",
        "/project/./../secret.txt",
        "project/../secret.txt",
        "//..//secret.txt",
        "uploads//..//..//..//secret.txt",
        "outputs/../.metadata.json/..",
        "/etc/passwd",
        "//etc/passwd",
        "/./etc/passwd",
        "///etc///passwd",
        "/etc",
        "/root/.ssh/id_rsa",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/fd/0",
        "/dev/zero",
        "/dev/stdin",
        "/dev/null",
        "/tmp/x",
        "/home",
        "/projects/x",
        "/Project/x",
        "/UPLOADS/x",
        "~",
        "~/secret.txt",
        "~root/.bashrc",
        "~/../secret.txt",
        "..\\secret.txt",
        "uploads\\..\\..\\secret.txt",
        "C:\\Windows\\system.ini",
        "\\\\server\\share",
        "uploads/..\\..\\secret.txt",
        "uploads\\notes.txt",
        "uploads/a\0.txt",
        "\0",
        "uploads/a.txt\0/../../secret.txt",
        "uploads/a\nb.txt",
        "uploads/\u{1b}[2Ja.txt",
        "uploads/\r",
        "uploads/\u{7f}",
        "uploads/\u{85}",
        // Laid by the trap.
        "uploads/link-absolute",
        "uploads/link-relative",
        "uploads/link-etc/passwd",
        "uploads/link-proc/etc/passwd",
        "uploads/link-chain",
        "uploads/link-circle",
        "uploads/link-base/secret.txt",
        "uploads/link-up/../secret.txt",
        "uploads/hard-link",
        "uploads/pipe",
        "uploads/socket",
        "uploads/link-zero",
        "uploads/link-null",
        "uploads/link-fd/0",
        "/project/link-absolute",
        "/project/link-relative",
        "/project/link-etc/passwd",
        "/project/pipe",
    ]
    .map(str::to_owned)
    .into();
    paths.push("a".repeat(5000));
    paths.push(format!("uploads/{}", "b".repeat(300)));
    paths.push("uploads/".repeat(600));
    paths.push(format!("uploads/{}secret.txt", "../".repeat(500)));
    paths
}

fn lay_trap(bench: &Bench) {
    let secret = bench.secret();
    let link = |target: &str, name: &str| symlink(target, bench.real(name)).unwrap();
    link(secret.to_str().unwrap(), "uploads/link-absolute");
    link("../../../secret.txt", "uploads/link-relative");
    link("/etc", "uploads/link-etc");
    link("/proc/self/root", "uploads/link-proc");
    link("link-absolute", "uploads/link-chain");
    link("link-circle", "uploads/link-circle");
    link("../../..", "uploads/link-base");
    link("../..", "uploads/link-up");
    link("/dev/zero", "uploads/link-zero");
    link("/dev/null", "uploads/link-null");
    link("/proc/self/fd", "uploads/link-fd");
    link(secret.to_str().unwrap(), "/project/link-absolute");
    link("../secret.txt", "/project/link-relative");
    link("/etc", "/project/link-etc");
    fs::hard_link(&secret, bench.real("uploads/hard-link")).unwrap();
    mkfifo(&bench.real("uploads/pipe"));
    mkfifo(&bench.real("/project/pipe"));
    drop(UnixListener::bind(bench.real("uploads/socket")).unwrap());
}

#[tokio::test]
async fn no_path_leads_out() {
    let bench = Bench::with_project(Project::Writable).await;
    lay_trap(&bench);
    let paths = corpus();
    assert!(paths.len() >= 60);
    for path in &paths {
        let calls = [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "overwritten" })),
            ("edit_file", json!({ "path": path, "old_string": "code", "new_string": "overwritten" })),
            ("grep", json!({ "path": path, "pattern": "launch" })),
            ("find_files", json!({ "path": path, "pattern": "*" })),
            ("list_workspace_files", json!({ "path": path })),
            ("run_bash_command", json!({ "command": "echo ran", "directory": path })),
        ];
        for (tool, arguments) in calls {
            let output = bench.call(tool, arguments.clone()).await;
            assert_eq!(output.error, Some(ToolErrorCode::Path), "{tool} {path:?}: {}", output.text);
            assert!(!output.text.contains(SECRET) && !output.text.contains("ran\n"), "{tool} {path:?}");
            assert!(output.text.len() < 600 && output.text.lines().count() == 1, "one sentence: {}", output.text);
            if matches!(tool, "write_file" | "edit_file" | "run_bash_command") {
                assert_eq!(bench.preview(tool, arguments).await, Err(output), "{tool} {path:?}: foreseen");
            }
        }
    }
    assert_eq!(fs::read_to_string(bench.outside.path().join("secret.txt")).unwrap(), SECRET);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let beside: Vec<_> = fs::read_dir(bench.outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 3, "workspaces, code and secret.txt, nothing new: {beside:?}");
}

#[tokio::test]
async fn every_refusal_says_how_to_do_it_right() {
    let bench = Bench::with_project(Project::Writable).await;
    lay_trap(&bench);
    for (path, expected) in [
        ("../x", "write the path from the workspace root"),
        ("/etc/passwd", "use a path below uploads/"),
        ("~/x", "use a path below uploads/"),
        ("uploads\\x", "put `/` between folders"),
        ("uploads/a\0", "write it without"),
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
async fn hard_links_of_a_project_can_be_read_but_not_written() {
    let bench = Bench::with_project(Project::Writable).await;
    let real = bench.put("/project/store.txt", "shared by a package manager");
    fs::hard_link(&real, bench.real("/project/linked.txt")).unwrap();
    assert_eq!(bench.ok("read_file", json!({"path": "/project/linked.txt"})).await, "shared by a package manager");
    for (tool, arguments) in [
        ("write_file", json!({"path": "/project/linked.txt", "content": "x"})),
        ("edit_file", json!({"path": "/project/linked.txt", "old_string": "shared", "new_string": "x"})),
    ] {
        let text = bench.fails(tool, arguments, ToolErrorCode::Path).await;
        assert!(text.contains("is a hard link"), "{text}");
    }
}

/// Calls the tools while another thread swaps what the path leads through, and looks whether anything got out.
async fn race(bench: &Bench, rounds: usize, calls: &[(&str, Value)], swap: impl Fn() + Send + 'static) {
    let over = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            while !over.load(Ordering::Relaxed) {
                swap();
            }
        }
    });
    for _ in 0..rounds {
        for (tool, arguments) in calls {
            let output = bench.call(tool, arguments.clone()).await;
            assert!(!output.text.contains(SECRET), "{tool}: {}", output.text);
        }
    }
    over.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
}

#[tokio::test]
async fn a_link_swapped_in_during_the_call_leads_nowhere() {
    let bench = Bench::new().await;
    let away = bench.outside.path().join("away");
    fs::create_dir(&away).unwrap();
    fs::write(away.join("a.txt"), SECRET).unwrap();
    let place = bench.real("outputs/folder");
    let aside = bench.real("outputs/aside");
    bench.put("outputs/folder/a.txt", "harmless");
    let link = bench.real("outputs/link");
    symlink(&away, &link).unwrap();
    let calls = [
        ("read_file", json!({"path": "outputs/folder/a.txt"})),
        ("write_file", json!({"path": "outputs/folder/a.txt", "content": "harmless again"})),
        ("write_file", json!({"path": "outputs/folder/new/deep.txt", "content": "harmless"})),
        ("edit_file", json!({"path": "outputs/folder/a.txt", "old_string": "harmless", "new_string": "changed"})),
        ("grep", json!({"pattern": "launch", "path": "outputs"})),
        ("list_workspace_files", json!({"path": "outputs/folder"})),
    ];
    race(&bench, 150, &calls, move || {
        // The real folder and the link take turns at the same name.
        let _ = fs::rename(&place, &aside);
        let _ = fs::rename(&link, &place);
        let _ = fs::rename(&place, &link);
        let _ = fs::rename(&aside, &place);
    })
    .await;
    assert_eq!(fs::read_to_string(away.join("a.txt")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(&away).unwrap().count(), 1, "nothing was put outside");
}

#[tokio::test]
async fn a_file_swapped_for_a_link_during_the_call_leads_nowhere() {
    let bench = Bench::new().await;
    let secret = bench.secret();
    let place = bench.real("outputs/a.txt");
    // The count of links never falls to one, since that alone tells a hard link.
    fs::hard_link(&secret, bench.outside.path().join("other-name.txt")).unwrap();
    let calls = [
        ("read_file", json!({"path": "outputs/a.txt"})),
        ("write_file", json!({"path": "outputs/a.txt", "content": "harmless"})),
        ("grep", json!({"pattern": "launch", "path": "outputs/a.txt"})),
    ];
    race(&bench, 200, &calls, {
        let secret = secret.clone();
        move || {
            let _ = fs::remove_file(&place);
            let _ = symlink(&secret, &place);
            let _ = fs::remove_file(&place);
            let _ = fs::hard_link(&secret, &place);
            let _ = fs::remove_file(&place);
            let _ = fs::write(&place, "harmless");
        }
    })
    .await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
}

#[tokio::test]
async fn an_area_or_root_replaced_by_a_link_is_refused() {
    let bench = Bench::new().await;
    let away = bench.outside.path().join("away");
    fs::create_dir(&away).unwrap();
    fs::remove_dir(bench.real("outputs")).unwrap();
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

#[tokio::test]
async fn a_missing_area_is_made_again() {
    let bench = Bench::new().await;
    fs::remove_dir(bench.real("outputs")).unwrap();
    bench.ok("write_file", json!({"path": "outputs/a.txt", "content": "x"})).await;
}
