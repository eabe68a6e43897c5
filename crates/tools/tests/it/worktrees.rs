//! Worktrees of sessions with the host's git. No program in the repository runs, no work is lost, and the user's files
//! are not changed.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use agentd_core::{
    error::WorkspaceError,
    ports::Worktrees as _,
    worktree::{NewWorktree, WorktreeReport},
};
use agentd_worktrees::WorktreeFolders;

use super::*;

/// Repository with a commit and its worktrees.
struct World {
    root: PathBuf,
    project: PathBuf,
    worktrees: WorktreeFolders,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("project");
        fs::create_dir(&project).unwrap();
        git(&project, &["init", "--quiet", "--initial-branch=main"]);
        let world = Self { worktrees: reopen(&root), project, root, _folder: folder };
        world.commit("a.txt", b"one\ntwo\n");
        world
    }

    /// Commits a file in the main worktree.
    fn commit(&self, name: &str, content: &[u8]) {
        fs::write(self.project.join(name), content).unwrap();
        git(&self.project, &["add", "--all"]);
        git(&self.project, &["commit", "--quiet", "--message=some"]);
    }

    async fn make_for(&self, name: &str, project: &Path) -> Result<PathBuf, WorkspaceError> {
        let new = NewWorktree { session: SessionId::generate(), name: name.to_owned(), project: project.to_owned() };
        Ok(self.worktrees.make(new).await?.folder)
    }

    async fn make(&self, name: &str) -> PathBuf {
        self.make_for(name, &self.project).await.unwrap()
    }

    /// Creates a worktree in which a file has this content.
    async fn worktree_with(&self, file: &str, content: &str) -> PathBuf {
        let folder = self.make("one").await;
        fs::write(folder.join(file), content).unwrap();
        folder
    }

    async fn report(&self, name: &str) -> WorktreeReport {
        self.worktrees.report(name.to_owned()).await.unwrap()
    }

    async fn apply(&self, name: &str) -> Result<String, WorkspaceError> {
        Ok(self.worktrees.apply(name.to_owned(), "Some work".to_owned()).await?.commit)
    }

    async fn remove(&self, name: &str, force: bool) -> Result<(), WorkspaceError> {
        self.worktrees.remove(name.to_owned(), force).await
    }

    #[track_caller]
    fn assert_refused<T: std::fmt::Debug>(&self, outcome: Result<T, WorkspaceError>, parts: &[&str]) {
        let error = outcome.unwrap_err();
        let message = format!("{error} {}", error.hint().unwrap());
        assert!(parts.iter().all(|part| message.contains(part)), "{message} lacks {parts:?}");
    }

    fn head(&self) -> String {
        git(&self.project, &["rev-parse", "HEAD"])
    }
}

/// Opens the worktrees as a new daemon would.
fn reopen(root: &Path) -> WorktreeFolders {
    let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    WorktreeFolders::new(root.join("data/worktrees"), None, &environment, None)
}

#[tokio::test]
async fn filters_never_run_with_any_number_of_settings() {
    let world = World::new();
    let mark = world.root.join("ran");
    for key in ["filter.evil.smudge", "filter.evil.clean"] {
        git(&world.project, &["config", key, &format!("touch {}; cat", mark.display())]);
    }
    fs::write(world.project.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    for number in 0..4 {
        git(&world.project, &["config", &format!("filler.{}", "x".repeat(number + 1)), "1"]);
        let name = format!("w{number}");
        let folder = world.make(&name).await;
        fs::write(folder.join("a.txt"), format!("{number}\n")).unwrap();
        world.worktrees.diff(name.clone()).await.unwrap();
        world.apply(&name).await.unwrap();
        world.remove(&name, false).await.unwrap();
        assert!(!mark.exists(), "with {number} more settings");
    }
    assert_eq!(fs::read_to_string(world.project.join("a.txt")).unwrap(), "3\n");
}

#[tokio::test]
async fn git_settings_that_add_programs_are_rejected() {
    let world = World::new();
    git(&world.project, &["config", "includeIf.onbranch:agentd/**.path", "/nowhere"]);
    world.assert_refused(world.make_for("one", &world.project).await, &["includeif", ".git/config"]);
    git(&world.project, &["config", "--unset", "includeIf.onbranch:agentd/**.path"]);
    git(&world.project, &[OsStr::new("config"), OsStr::from_bytes(b"filter.\xe9vil.smudge"), OsStr::new("cat")]);
    world.assert_refused(world.make_for("one", &world.project).await, &["filter"]);
}

#[tokio::test]
async fn removal_keeps_user_lock_files() {
    let world = World::new();
    world.make("one").await;
    let locks = ["index.lock", "HEAD.lock", "refs/heads/main.lock"];
    let locks = locks.map(|lock| world.project.join(".git").join(lock));
    locks.iter().for_each(|lock| fs::write(lock, "").unwrap());
    world.remove("one", false).await.unwrap();
    assert!(locks.iter().all(|lock| lock.exists()));
    assert_eq!(git(&world.project, &["branch", "--list", "agentd/*"]), "");
}

#[tokio::test]
async fn changes_in_a_nested_repository_are_detected() {
    let world = World::new();
    let commit = world.head();
    git(&world.project, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},lib")]);
    git(&world.project, &["commit", "--quiet", "--message=lib"]);
    let folder = world.make("one").await;
    assert!(world.report("one").await.is_merged);
    git(&world.root, &["clone", "--quiet", "project", folder.join("lib").to_str().unwrap()]);
    git(&folder.join("lib"), &["checkout", "--quiet", &commit]);
    fs::write(folder.join("lib/work.txt"), "work\n").unwrap();
    let report = world.report("one").await;
    assert_eq!((report.changed, report.is_merged, &report.problem), (1, false, &None));
    world.assert_refused(world.remove("one", false).await, &["unmerged changes"]);
    // A commit that only exists in the worktree would be lost together with it.
    git(&folder.join("lib"), &["add", "--all"]);
    git(&folder.join("lib"), &["commit", "--quiet", "--message=work"]);
    world.assert_refused(world.apply("one").await, &["lib", "submodules"]);
    world.remove("one", true).await.unwrap();
}

#[tokio::test]
async fn only_merges_into_user_branches_count_as_merged() {
    let world = World::new();
    let folder = world.worktree_with("a.txt", "work\n").await;
    git(&folder, &["commit", "--quiet", "--all", "--message=work"]);
    git(&world.project, &["symbolic-ref", "refs/heads/alias", "refs/heads/agentd/one"]);
    git(&world.project, &["branch", "agentd/other", "agentd/one"]);
    git(&world.project, &["checkout", "--quiet", "--detach", "agentd/one"]);
    world.assert_refused(world.remove("one", false).await, &["unmerged changes"]);
    git(&world.project, &["checkout", "--quiet", "main"]);
    git(&world.project, &["branch", "kept", "agentd/one"]);
    world.remove("one", false).await.unwrap();
}

#[tokio::test]
async fn merge_is_rejected_mid_operation_and_ignores_settings() {
    let world = World::new();
    world.worktree_with("b.txt", "new\n").await;
    let state = world.project.join(".git/rebase-merge");
    fs::create_dir(&state).unwrap();
    world.assert_refused(world.apply("one").await, &["git rebase", "--abort"]);
    fs::remove_dir(&state).unwrap();
    // Recreates a lock file left by a killed command.
    fs::write(world.project.join(".git/worktrees/one/index.lock"), "").unwrap();
    world.apply("one").await.unwrap();

    // The merge must not be a squash, even if the settings request it.
    let world = World::new();
    git(&world.project, &["config", "branch.main.mergeOptions", "--squash"]);
    world.worktree_with("b.txt", "new\n").await;
    assert_eq!(world.apply("one").await.unwrap(), world.head());
    assert_eq!(git(&world.project, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn worktree_is_removed_without_its_main_worktree() {
    let world = World::new();
    let linked = world.root.join("linked");
    git(&world.project, &["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "side"]);
    let changed = world.make_for("changed", &linked).await.unwrap();
    world.make_for("spare", &linked).await.unwrap();
    fs::write(changed.join("a.txt"), "work\n").unwrap();
    git(&world.project, &["worktree", "remove", "--force", linked.to_str().unwrap()]);
    world.assert_refused(world.apply("changed").await, &["is gone", "by hand"]);
    assert_eq!(world.report("changed").await.problem, None);
    world.assert_refused(world.remove("changed", false).await, &["unmerged changes"]);
    world.remove("changed", true).await.unwrap();
    world.remove("spare", false).await.unwrap();
    assert_eq!(git(&world.project, &["branch", "--list", "agentd/*"]), "");
}

#[tokio::test]
async fn worktree_is_kept_while_others_derive_from_it() {
    let world = World::new();
    let parent = world.make("parent").await;
    let child = world.make_for("child", &parent).await.unwrap();
    fs::write(child.join("a.txt"), "of the child\n").unwrap();
    world.assert_refused(world.remove("parent", true).await, &["child"]);
    assert!(!world.worktrees.leave("parent".to_owned()).await.unwrap());
    world.apply("child").await.unwrap();
    world.remove("child", false).await.unwrap();
    assert_eq!(fs::read_to_string(parent.join("a.txt")).unwrap(), "of the child\n");
    world.assert_refused(world.remove("parent", false).await, &["unmerged changes"]);
}

#[tokio::test]
async fn inspecting_a_worktree_creates_nothing() {
    let world = World::new();
    let folder = world.make("one").await;
    let away = world.root.join("away");
    fs::rename(&world.project, &away).unwrap();
    let workspaces = WorkspaceFolders::new(world.root.join("data/workspaces"))
        .with_private(&[&world.root.join("data")])
        .with_worktrees(world.worktrees.clone());
    let mount = Mount { path: folder, writable: true };
    workspaces.open(SessionId::generate(), Some(mount).into()).await.unwrap();
    assert!(!world.project.exists());
}

#[tokio::test]
async fn interrupted_merge_resumes_with_any_files() {
    let world = World::new();
    let picture = |last: u8| (0..=last).cycle().take(5000).collect::<Vec<u8>>();
    for name in ["done.bin", "begun.bin", "as-it-was.bin"] {
        world.commit(name, &picture(254));
    }
    std::os::unix::fs::symlink("a.txt", world.project.join("link")).unwrap();
    git(&world.project, &["add", "link"]);
    git(&world.project, &["commit", "--quiet", "--message=link"]);
    let folder = world.make("one").await;
    for name in ["done.bin", "begun.bin", "as-it-was.bin"] {
        fs::write(folder.join(name), picture(253)).unwrap();
    }
    fs::remove_file(folder.join("link")).unwrap();
    std::os::unix::fs::symlink("done.bin", folder.join("link")).unwrap();
    git(&folder, &["commit", "--quiet", "--all", "--message=pictures"]);
    let (from, to) = (world.head(), git(&folder, &["rev-parse", "HEAD"]));
    fs::write(world.project.join("done.bin"), picture(253)).unwrap();
    fs::write(world.project.join("begun.bin"), &picture(253)[..3000]).unwrap();
    fs::remove_file(world.project.join("link")).unwrap();
    std::os::unix::fs::symlink("done.bin", world.project.join("link")).unwrap();
    fs::write(world.project.join(".git/index.lock"), "").unwrap();
    let file = world.root.join("data/worktrees/.records/one.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let at = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - 1;
    record["stage"] = serde_json::json!({ "applying": { "from": from, "to": to, "at": at } });
    fs::write(&file, record.to_string()).unwrap();
    // A merge that this daemon did not start may be someone else's work.
    reopen(&world.root).clean_up().await.unwrap();
    assert_eq!((world.head(), git(&world.project, &["status", "--porcelain"])), (to, String::new()));
    assert_eq!(fs::read(world.project.join("begun.bin")).unwrap(), picture(253));
}

#[tokio::test]
async fn pipe_in_place_of_a_git_file_is_rejected_at_once() {
    let world = World::new();
    let folder = world.make("one").await;
    fs::create_dir(folder.join("deep")).unwrap();
    mkfifo(&folder.join("deep/.gitignore"));
    let problem = world.report("one").await.problem.unwrap();
    assert!(problem.contains("deep/.gitignore"), "{problem}");
    fs::remove_file(folder.join("deep/.gitignore")).unwrap();
    assert_eq!(world.report("one").await.problem, None);
}

#[tokio::test]
async fn files_that_need_a_filter_are_not_committed() {
    let world = World::new();
    git(&world.project, &["config", "filter.secret.clean", "tr a-z b-za"]);
    git(&world.project, &["config", "filter.secret.required", "true"]);
    world.commit(".gitattributes", b"*.key filter=secret\n");
    let folder = world.make("one").await;
    fs::write(folder.join("new.key"), "plain\n").unwrap();
    fs::write(folder.join("new.txt"), "plain\n").unwrap();
    world.assert_refused(world.apply("one").await, &["new.key", "filter"]);
    fs::remove_file(folder.join("new.key")).unwrap();
    world.apply("one").await.unwrap();
}

#[tokio::test]
async fn worktree_diff_is_a_git_patch_and_empty_after_merge() {
    let world = World::new();
    let folder = world.worktree_with("b.txt", "new\n").await;
    world.commit("main.txt", b"meanwhile\n");
    world.apply("one").await.unwrap();
    let report = world.report("one").await;
    assert_eq!((report.changed, report.ahead, report.is_merged), (0, 0, true));
    assert_eq!(world.worktrees.diff("one".to_owned()).await.unwrap().files, Vec::<String>::new());
    // Changes from the main worktree are not changes of the session.
    world.commit("main.txt", b"later\n");
    git(&folder, &["merge", "--quiet", "main"]);
    fs::write(folder.join("c.txt"), "more\n").unwrap();
    assert_eq!(world.worktrees.diff("one".to_owned()).await.unwrap().files, ["c.txt"]);

    // The diff is a valid git patch unless it is marked as lossy.
    let world = World::new();
    let folder = world.make("one").await;
    fs::write(folder.join("b.bin"), [0, 159, 146, 150]).unwrap();
    fs::write(folder.join("a.txt"), "one\nTWO\n").unwrap();
    let diff = world.worktrees.diff("one".to_owned()).await.unwrap();
    assert!(!diff.is_lossy && !diff.is_cut);
    fs::write(world.root.join("patch"), diff.text).unwrap();
    git(&world.project, &["apply", "--check", world.root.join("patch").to_str().unwrap()]);
    fs::write(folder.join("latin.txt"), b"caf\xe9\n").unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"n\xe4me.txt")), "x\n").unwrap();
    let diff = world.worktrees.diff("one".to_owned()).await.unwrap();
    assert!(diff.is_lossy && diff.files.len() == 4, "{diff:?}");
    world.apply("one").await.unwrap();
    assert!(world.project.join(OsStr::from_bytes(b"n\xe4me.txt")).exists());
}

#[tokio::test]
async fn repository_with_alternates_is_rejected_with_a_hint() {
    let world = World::new();
    git(&world.root, &["clone", "--quiet", "--shared", "project", "borrows"]);
    let refused = world.make_for("one", &world.root.join("borrows")).await;
    assert_eq!(refused.as_ref().unwrap_err().kind(), ErrorKind::InvalidInput);
    world.assert_refused(refused, &["alternates", "git repack"]);
    git(&world.project, &["branch", "agentd/two/below"]);
    world.assert_refused(world.make_for("two", &world.project).await, &["there is a branch agentd/two/below"]);
}

#[tokio::test]
async fn replaced_git_object_is_detected() {
    let world = World::new();
    let folder = world.worktree_with("b.txt", "new\n").await;
    let object = |name: &str| {
        let folder = world.project.join(".git/objects");
        folder.join(&name[..2]).join(&name[2..])
    };
    let (tracked, other) = (object(&git(&world.project, &["rev-parse", "HEAD:a.txt"])), folder.join("other"));
    fs::write(&other, "something else\n").unwrap();
    let other = object(&git(&folder, &["hash-object", "-w", "other"]));
    world.worktrees.diff("one".to_owned()).await.unwrap();
    fs::remove_file(&tracked).unwrap();
    fs::copy(other, tracked).unwrap();
    world.assert_refused(world.worktrees.diff("one".to_owned()).await, &["hash-path mismatch", "git fsck"]);
    world.assert_refused(world.apply("one").await, &["hash-path mismatch"]);
}

#[tokio::test]
async fn settling_several_repositories_does_not_deadlock() {
    let world = World::new();
    let other = world.root.join("other");
    git(&world.root, &["clone", "--quiet", "project", "other"]);
    for (name, project) in [("a", &world.project), ("b", &other), ("c", &world.project)] {
        world.make_for(name, project).await.unwrap();
    }
    let settled = tokio::time::timeout(std::time::Duration::from_secs(60), reopen(&world.root).clean_up()).await;
    settled.expect("no deadlock").unwrap();
}
