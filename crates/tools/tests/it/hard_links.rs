//! Commands in a writable project whose files have hard links outside the project. The files outside must not change.

use std::os::unix::fs::MetadataExt as _;

use agentd_workspace::hard_links::HardLinks;
use proptest::prelude::*;

use super::*;

/// Creates a file outside the project and a hard link to it in the project. Returns both paths.
fn linked(bench: &Bench, name: &str, content: &str) -> (PathBuf, PathBuf) {
    let outside = bench.outside.path().join("store").join(name);
    fs::create_dir_all(outside.parent().unwrap()).unwrap();
    fs::write(&outside, content).unwrap();
    let inside = bench.real("/project").join(name);
    fs::create_dir_all(inside.parent().unwrap()).unwrap();
    fs::hard_link(&outside, &inside).unwrap();
    (outside, inside)
}

async fn run(bench: &Bench, command: &str) -> String {
    let text = bench.call("run_bash_command", json!({ "command": command })).await.text;
    assert!(text.starts_with("exit code 0"), "{command}: {text}");
    text
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

fn names(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().nlink()
}

#[tokio::test]
async fn command_cannot_change_outside_files_by_hard_links() {
    let mut benches = vec![Bench::with_project(Project::Writable).await];
    #[cfg(target_os = "linux")]
    benches.push(crate::sandbox::locked(Project::Writable, |_| {}).await);
    for bench in benches {
        bench.put("/project/.gitignore", "node_modules/\n");
        for name in ["linked", "node_modules/.pnpm/a/index.js", ".git/objects/ab/cd"] {
            let (outside, inside) = linked(&bench, name, "old\n");
            run(&bench, &format!("echo x >> {name}; chmod 600 {name}")).await;
            let read = |path| fs::read_to_string(path).unwrap();
            assert_eq!((read(&outside), read(&inside)), ("old\n".to_owned(), "old\nx\n".to_owned()));
            assert_eq!(mode(&outside), 0o644, "{name}");
        }
    }
}

#[tokio::test]
async fn unlinked_copy_keeps_mode_time_and_project_names() {
    let bench = Bench::with_project(Project::Writable).await;
    let (outside, inside) = linked(&bench, "bin/tool", "#!/bin/sh\n");
    let second = bench.put("/project/lib/x", "").with_file_name("tool");
    fs::hard_link(&inside, &second).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123);
    fs::File::open(&outside).unwrap().set_modified(time).unwrap();
    // Some file systems have no extended attributes.
    let attributes = rustix::fs::setxattr(&outside, "user.kept", b"yes", rustix::fs::XattrFlags::empty()).is_ok();
    chmod(&outside, 0o555);
    run(&bench, "true").await;
    assert_eq!(names(&outside), 1);
    assert_eq!((names(&inside), inode(&inside)), (2, inode(&second)), "both names are still one file");
    assert_eq!((mode(&inside), fs::metadata(&inside).unwrap().modified().unwrap()), (0o555, time));
    let mut value = [0; 3];
    let length = rustix::fs::getxattr(&inside, "user.kept", &mut value[..]);
    assert!(!attributes || (length == Ok(3) && &value == b"yes"), "{length:?}");
    assert_eq!(fs::read_dir(inside.parent().unwrap()).unwrap().count(), 1, "no draft remains");
}

#[tokio::test]
async fn read_only_commands_do_not_break_hard_links() {
    let mut bench = Bench::with_project(Project::Writable).await;
    let store = bench.outside.path().join("elsewhere");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("a"), "a").unwrap();
    fs::hard_link(store.join("a"), store.join("b")).unwrap();
    std::os::unix::fs::symlink(&store, bench.real("/project").join("way")).unwrap();
    run(&bench, "true").await;
    assert_eq!(inode(&store.join("a")), inode(&store.join("b")));
    let (outside, inside) = linked(&bench, "linked", "old");
    bench.context.confinement = agentd_core::policy::Confinement::ReadOnly;
    bench.call("run_bash_command", json!({ "command": "true" })).await;
    assert_eq!(inode(&outside), inode(&inside));
    // A read-only project is not changed.
    let bench = Bench::with_project(Project::ReadOnly).await;
    let (outside, inside) = linked(&bench, "linked", "old");
    run(&bench, "true").await;
    assert_eq!(inode(&outside), inode(&inside));
}

#[tokio::test]
async fn hard_linked_git_clone_works_and_keeps_its_origin() {
    if !Path::new("/usr/bin/git").exists() {
        return;
    }
    let bench = Bench::with_project(Project::Writable).await;
    let origin = bench.outside.path().join("origin");
    fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q"]);
    fs::write(origin.join("a"), "a").unwrap();
    git(&origin, &["add", "a"]);
    git(&origin, &["commit", "-qm", "first"]);
    let project = bench.real("/project");
    git(&origin, &["clone", "-q", "--local", ".", project.to_str().unwrap()]);
    let overwrite = "for f in $(find .git/objects -type f | head -n 1); do cp $f /dev/null; chmod u+w $f; done";
    run(&bench, &format!("git fsck --full && git log && git status && {overwrite}")).await;
    git(&origin, &["fsck", "--full", "--strict"]);
    for folder in fs::read_dir(origin.join(".git/objects")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            assert_eq!(mode(&file.unwrap().path()) & 0o200, 0, "the origin's modes stay");
        }
    }
}

#[tokio::test]
async fn too_many_outside_hard_links_reject_the_command() {
    let bench = Bench::with_project(Project::Writable).await;
    let (outside, inside) = linked(&bench, "node_modules/.pnpm/large", "");
    fs::File::options().write(true).open(&outside).unwrap().set_len(1100 << 20).unwrap();
    let output = bench.call("run_bash_command", json!({ "command": "touch ran" })).await;
    if names(&outside) == 1 {
        // The file system shares the data of copies, so no file was too large.
        return;
    }
    assert_eq!(output.error, Some(ToolErrorCode::Tool));
    for part in ["1 file", "1.1 GB", "node_modules/.pnpm", "sandbox.hard_links", "never ran"] {
        assert!(output.text.contains(part), "{part}: {}", output.text);
    }
    assert_eq!((inode(&outside), bench.real("/project").join("ran").exists()), (inode(&inside), false));
}

#[tokio::test]
async fn hard_link_setting_rejects_or_allows_commands() {
    for treatment in [HardLinks::Refuse, HardLinks::Allow] {
        let bench = Bench::with(Project::Writable, |config| config.hard_links = treatment).await;
        let (outside, inside) = linked(&bench, "a/linked", "old");
        let output = bench.call("run_bash_command", json!({ "command": "touch ran" })).await;
        assert_eq!(inode(&outside), inode(&inside));
        let ran = bench.real("/project").join("ran").exists();
        assert_eq!((ran, output.error), (treatment == HardLinks::Allow, (!ran).then_some(ToolErrorCode::Tool)));
        assert!(ran || output.text.contains("/project/a (1)"), "{}", output.text);
        fs::remove_file(&outside).unwrap();
        run(&bench, "true").await;
    }
}

/// Folders for links. The last two are outside the project.
const FOLDERS: [&str; 8] = ["", "a", "a/b", ".git/objects", "node_modules/.pnpm", "c", "../store", "../store/a"];
/// Number of linked files. The last two only have links outside if the generated case contains such links.
const FILES: usize = 6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// No project file has a link outside after the command. Links within the project still share one file, and files
    /// whose links are all in the project are unchanged.
    #[test]
    fn project_files_have_no_outside_links_afterwards(
        links in prop::collection::vec((0..FILES, 0..FOLDERS.len()), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(after_any_links(&links));
    }
}

async fn after_any_links(links: &[(usize, usize)]) {
    let bench = Bench::with_project(Project::Writable).await;
    let project = bench.real("/project");
    let first = |file: usize| bench.outside.path().join(format!("first{file}"));
    for file in 0..FILES {
        fs::write(first(file), file.to_string()).unwrap();
    }
    let mut inside = Vec::new();
    for (index, (file, at)) in links.iter().enumerate() {
        let folder = project.join(FOLDERS[*at]);
        fs::create_dir_all(&folder).unwrap();
        let name = folder.join(format!("name{index}"));
        fs::hard_link(first(*file), &name).unwrap();
        if *at < FOLDERS.len() - 2 {
            inside.push((*file, name));
        }
    }
    for file in FILES - 2..FILES {
        fs::remove_file(first(file)).unwrap();
    }
    let names_inside = |file: usize| inside.iter().filter(|(other, _)| *other == file).count() as u64;
    let before: Vec<(u64, bool)> =
        inside.iter().map(|(file, name)| (inode(name), names(name) == names_inside(*file))).collect();
    run(&bench, "true").await;
    for ((file, name), (was, was_inside)) in inside.iter().zip(before) {
        assert_eq!(names(name), names_inside(*file), "{}", name.display());
        assert!(inside.iter().all(|(other, second)| other != file || inode(second) == inode(name)));
        assert_eq!(inode(name) == was, was_inside, "{}", name.display());
        assert_eq!(fs::read(name).unwrap(), file.to_string().as_bytes());
    }
}
