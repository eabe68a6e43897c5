//! Links and folders are swapped while tools run. No file outside is ever read or changed.

use std::ffi::OsString;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::*;

/// Calls the tools while another thread swaps part of the path, and checks that no content from outside is read.
async fn call_while_swapping(bench: &Bench, rounds: usize, calls: &[(&str, Value)], swap: impl Fn() + Send + 'static) {
    while_swapping(swap, async {
        for (tool, arguments) in calls.iter().cycle().take(rounds * calls.len()) {
            let output = bench.call(tool, arguments.clone()).await;
            assert!(!output.text.contains(SECRET), "{tool}: {}", output.text);
        }
    })
    .await;
}

/// Exchanges two names atomically, so that both always exist.
pub(crate) fn exchange(one: &Path, two: &Path) {
    renameat2(AT_FDCWD, one, AT_FDCWD, two, RenameFlags::RENAME_EXCHANGE).unwrap();
}

/// Returns calls to every tool for a file in `folder`.
fn all_tools(folder: &str) -> Vec<(&'static str, Value)> {
    let file = format!("{folder}/a.txt");
    let patch = |inner: String| json!({"patch": format!("*** Begin Patch\n{inner}*** End Patch\n")});
    vec![
        ("read_file", json!({"path": file})),
        ("write_file", json!({"path": file, "content": "harmless again\n"})),
        ("write_file", json!({"path": format!("{folder}/new/deep.txt"), "content": "harmless"})),
        ("edit_file", json!({"path": file, "old_string": "harmless again", "new_string": "changed"})),
        ("apply_patch", patch(format!("*** Update File: {file}\n-changed\n+changed again\n"))),
        ("apply_patch", patch(format!("*** Add File: {folder}/b.txt\n+b\n*** Add File: {folder}/c/d.txt\n+d\n"))),
        ("apply_patch", patch(format!("*** Delete File: {folder}/b.txt\n"))),
        ("apply_patch", patch(format!("*** Delete File: {folder}/kept.txt\n"))),
        ("apply_patch", patch(format!("*** Update File: {folder}/c/d.txt\n*** Move to: {folder}/b.txt\n"))),
        ("apply_patch", patch(format!("*** Update File: {folder}/a.txt\n*** Move to: outputs/out.txt\n"))),
        ("apply_patch", patch(format!("*** Update File: outputs/out.txt\n*** Move to: {folder}/a.txt\n"))),
        ("grep", json!({"pattern": "launch", "path": folder})),
        ("grep", json!({"pattern": "launch"})),
        ("find_files", json!({"pattern": "**/*", "path": folder})),
        ("list_workspace_files", json!({"path": folder, "depth": 5})),
    ]
}

/// Files that must not be read or changed, in a folder in which no file may be created. A link points to this folder.
struct Away {
    folder: PathBuf,
    before: Vec<(OsString, String, SystemTime)>,
}

impl Away {
    fn beside(bench: &Bench, link: &Path) -> Self {
        let folder = bench.outside.path().join("away");
        for name in ["c", "folder"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for name in ["a.txt", "b.txt", "kept.txt", "c/d.txt", "folder/a.txt"] {
            fs::write(folder.join(name), SECRET).unwrap();
        }
        symlink(&folder, link).unwrap();
        let before = Self::snapshot(&folder);
        Self { folder, before }
    }

    fn snapshot(folder: &Path) -> Vec<(OsString, String, SystemTime)> {
        let mut snapshot: Vec<_> = [folder.to_path_buf(), folder.join("c"), folder.join("folder")]
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| {
                let entry = entry.unwrap();
                let modified = entry.metadata().unwrap().modified().unwrap();
                (entry.file_name(), fs::read_to_string(entry.path()).unwrap_or_default(), modified)
            })
            .collect();
        snapshot.sort();
        snapshot
    }

    fn check(&self) {
        assert_eq!(Self::snapshot(&self.folder), self.before, "no file outside was changed, created or removed");
    }
}

/// Checks that no file in the workspace contains content from outside.
fn check_inside(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            check_inside(&path);
        } else if metadata.is_file() {
            assert!(
                !fs::read_to_string(&path).unwrap().contains(SECRET),
                "{} has content from outside",
                path.display()
            );
        }
    }
}

#[tokio::test]
async fn folder_exchanged_with_a_link_is_not_followed() {
    // Exchanges the folder itself or its parent folder. In the second case, the link points to a folder that has a
    // subfolder with the same name.
    for (exchanged, folder) in [
        ("outputs/folder", "outputs/folder"),
        ("/project/folder", "/project/folder"),
        ("outputs/top", "outputs/top/folder"),
    ] {
        let bench = Bench::with_project(Project::Writable).await;
        bench.put(&format!("{folder}/a.txt"), "harmless\n");
        let path = bench.real(exchanged);
        let link = bench.real(&format!("{exchanged}-link"));
        let away = Away::beside(&bench, &link);
        call_while_swapping(&bench, 60, &all_tools(folder), move || exchange(&path, &link)).await;
        away.check();
        check_inside(&bench.real("outputs"));
        check_inside(&bench.real("/project"));
    }
}

#[tokio::test]
async fn file_exchanged_with_a_link_is_not_followed() {
    let bench = Bench::new().await;
    bench.put("outputs/folder/a.txt", "harmless\n");
    let link = bench.real("outputs/folder/link");
    let away = Away::beside(&bench, &bench.real("outputs/elsewhere"));
    symlink(away.folder.join("a.txt"), &link).unwrap();
    let path = bench.real("outputs/folder/a.txt");
    // A tool may have moved or removed one of the two names.
    let swap = move || {
        let _ = renameat2(AT_FDCWD, &path, AT_FDCWD, &link, RenameFlags::RENAME_EXCHANGE);
    };
    call_while_swapping(&bench, 60, &all_tools("outputs/folder"), swap).await;
    away.check();
    check_inside(&bench.real("outputs"));
}

#[tokio::test]
async fn file_replaced_by_a_link_is_not_followed() {
    let bench = Bench::new().await;
    let secret = bench.secret();
    let path = bench.real("outputs/a.txt");
    // The link count must never drop to one, because a hard link is only recognised by its count.
    fs::hard_link(&secret, bench.outside.path().join("other-name.txt")).unwrap();
    let calls = [
        ("read_file", json!({"path": "outputs/a.txt"})),
        ("write_file", json!({"path": "outputs/a.txt", "content": "harmless"})),
        ("grep", json!({"pattern": "launch", "path": "outputs/a.txt"})),
    ];
    call_while_swapping(&bench, 200, &calls, {
        let secret = secret.clone();
        move || {
            let _ = fs::remove_file(&path);
            let _ = symlink(&secret, &path);
            let _ = fs::remove_file(&path);
            let _ = fs::hard_link(&secret, &path);
            let _ = fs::remove_file(&path);
            let _ = fs::write(&path, "harmless");
        }
    })
    .await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
}
