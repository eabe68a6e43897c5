//! Worktrees of sessions with the git of this machine. No program of the repository runs, no work is lost, and user
//! files are not touched.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use agentd_core::{
    error::WorkspaceError,
    ports::Worktrees as _,
    worktree::{NewWorktree, WorktreeReport},
};
use agentd_worktrees::WorktreeFolders;

use super::*;

/// Repository with a commit and its worktrees.
struct Field {
    root: PathBuf,
    project: PathBuf,
    worktrees: WorktreeFolders,
    _folder: tempfile::TempDir,
}

impl Field {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("project");
        fs::create_dir(&project).unwrap();
        git(&project, &["init", "--quiet", "--initial-branch=main"]);
        let field = Self { worktrees: life(&root), project, root, _folder: folder };
        field.commit("a.txt", b"one\ntwo\n");
        field
    }

    /// Commits a file in the main tree.
    fn commit(&self, name: &str, content: &[u8]) {
        fs::write(self.project.join(name), content).unwrap();
        git(&self.project, &["add", "--all"]);
        git(&self.project, &["commit", "--quiet", "--message=some"]);
    }

    async fn make_of(&self, name: &str, project: &Path) -> Result<PathBuf, WorkspaceError> {
        let new = NewWorktree { session: SessionId::generate(), name: name.to_owned(), project: project.to_owned() };
        Ok(self.worktrees.make(new).await?.folder)
    }

    async fn make(&self, name: &str) -> PathBuf {
        self.make_of(name, &self.project).await.unwrap()
    }

    /// Creates a worktree in which a file has this content.
    async fn worked(&self, file: &str, content: &str) -> PathBuf {
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
    fn refused<T: std::fmt::Debug>(&self, outcome: Result<T, WorkspaceError>, parts: &[&str]) {
        let error = outcome.unwrap_err();
        let told = format!("{error} {}", error.hint().unwrap());
        assert!(parts.iter().all(|part| told.contains(part)), "{told} has not {parts:?}");
    }

    fn head(&self) -> String {
        git(&self.project, &["rev-parse", "HEAD"])
    }
}

/// Opens the worktrees like a new daemon.
fn life(root: &Path) -> WorktreeFolders {
    let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    WorktreeFolders::new(root.join("data/worktrees"), None, &environment, None)
}

#[tokio::test]
async fn filters_never_run_with_any_number_of_settings() {
    let field = Field::new();
    let mark = field.root.join("ran");
    for key in ["filter.evil.smudge", "filter.evil.clean"] {
        git(&field.project, &["config", key, &format!("touch {}; cat", mark.display())]);
    }
    fs::write(field.project.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    for number in 0..4 {
        git(&field.project, &["config", &format!("filler.{}", "x".repeat(number + 1)), "1"]);
        let name = format!("w{number}");
        let folder = field.make(&name).await;
        fs::write(folder.join("a.txt"), format!("{number}\n")).unwrap();
        field.worktrees.diff(name.clone()).await.unwrap();
        field.apply(&name).await.unwrap();
        field.remove(&name, false).await.unwrap();
        assert!(!mark.exists(), "with {number} more settings");
    }
    assert_eq!(fs::read_to_string(field.project.join("a.txt")).unwrap(), "3\n");
}

#[tokio::test]
async fn git_settings_that_add_programs_are_rejected() {
    let field = Field::new();
    git(&field.project, &["config", "includeIf.onbranch:agentd/**.path", "/nowhere"]);
    field.refused(field.make_of("one", &field.project).await, &["includeif", ".git/config"]);
    git(&field.project, &["config", "--unset", "includeIf.onbranch:agentd/**.path"]);
    git(&field.project, &[OsStr::new("config"), OsStr::from_bytes(b"filter.\xe9vil.smudge"), OsStr::new("cat")]);
    field.refused(field.make_of("one", &field.project).await, &["filter"]);
}

#[tokio::test]
async fn removal_keeps_user_lock_files() {
    let field = Field::new();
    field.make("one").await;
    let locks = ["index.lock", "HEAD.lock", "refs/heads/main.lock"];
    let locks = locks.map(|lock| field.project.join(".git").join(lock));
    locks.iter().for_each(|lock| fs::write(lock, "").unwrap());
    field.remove("one", false).await.unwrap();
    assert!(locks.iter().all(|lock| lock.exists()));
    assert_eq!(git(&field.project, &["branch", "--list", "agentd/*"]), "");
}

#[tokio::test]
async fn changes_in_a_nested_repository_count() {
    let field = Field::new();
    let commit = field.head();
    git(&field.project, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},lib")]);
    git(&field.project, &["commit", "--quiet", "--message=lib"]);
    let folder = field.make("one").await;
    assert!(field.report("one").await.is_merged);
    git(&field.root, &["clone", "--quiet", "project", folder.join("lib").to_str().unwrap()]);
    git(&folder.join("lib"), &["checkout", "--quiet", &commit]);
    fs::write(folder.join("lib/work.txt"), "work\n").unwrap();
    let report = field.report("one").await;
    assert_eq!((report.changed, report.is_merged, &report.problem), (1, false, &None));
    field.refused(field.remove("one", false).await, &["unmerged changes"]);
    // A commit that exists only in the worktree would be lost with it.
    git(&folder.join("lib"), &["add", "--all"]);
    git(&folder.join("lib"), &["commit", "--quiet", "--message=work"]);
    field.refused(field.apply("one").await, &["lib", "submodules"]);
    field.remove("one", true).await.unwrap();
}

#[tokio::test]
async fn merged_work_counts_on_user_branches_only() {
    let field = Field::new();
    let folder = field.worked("a.txt", "work\n").await;
    git(&folder, &["commit", "--quiet", "--all", "--message=work"]);
    git(&field.project, &["symbolic-ref", "refs/heads/alias", "refs/heads/agentd/one"]);
    git(&field.project, &["branch", "agentd/other", "agentd/one"]);
    git(&field.project, &["checkout", "--quiet", "--detach", "agentd/one"]);
    field.refused(field.remove("one", false).await, &["unmerged changes"]);
    git(&field.project, &["checkout", "--quiet", "main"]);
    git(&field.project, &["branch", "kept", "agentd/one"]);
    field.remove("one", false).await.unwrap();
}

#[tokio::test]
async fn merge_is_rejected_mid_operation_and_ignores_settings() {
    let field = Field::new();
    field.worked("b.txt", "new\n").await;
    let state = field.project.join(".git/rebase-merge");
    fs::create_dir(&state).unwrap();
    field.refused(field.apply("one").await, &["git rebase", "--abort"]);
    fs::remove_dir(&state).unwrap();
    // Left by a killed command.
    fs::write(field.project.join(".git/worktrees/one/index.lock"), "").unwrap();
    field.apply("one").await.unwrap();

    // It must be a merge even if the settings change that.
    let field = Field::new();
    git(&field.project, &["config", "branch.main.mergeOptions", "--squash"]);
    field.worked("b.txt", "new\n").await;
    assert_eq!(field.apply("one").await.unwrap(), field.head());
    assert_eq!(git(&field.project, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn worktree_is_removed_without_its_main_tree() {
    let field = Field::new();
    let linked = field.root.join("linked");
    git(&field.project, &["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "side"]);
    let changed = field.make_of("changed", &linked).await.unwrap();
    field.make_of("spare", &linked).await.unwrap();
    fs::write(changed.join("a.txt"), "work\n").unwrap();
    git(&field.project, &["worktree", "remove", "--force", linked.to_str().unwrap()]);
    field.refused(field.apply("changed").await, &["is gone", "by hand"]);
    assert_eq!(field.report("changed").await.problem, None);
    field.refused(field.remove("changed", false).await, &["unmerged changes"]);
    field.remove("changed", true).await.unwrap();
    field.remove("spare", false).await.unwrap();
    assert_eq!(git(&field.project, &["branch", "--list", "agentd/*"]), "");
}

#[tokio::test]
async fn worktree_is_kept_while_others_derive_from_it() {
    let field = Field::new();
    let parent = field.make("parent").await;
    let child = field.make_of("child", &parent).await.unwrap();
    fs::write(child.join("a.txt"), "of the child\n").unwrap();
    field.refused(field.remove("parent", true).await, &["child"]);
    assert!(!field.worktrees.leave("parent".to_owned()).await.unwrap());
    field.apply("child").await.unwrap();
    field.remove("child", false).await.unwrap();
    assert_eq!(fs::read_to_string(parent.join("a.txt")).unwrap(), "of the child\n");
    field.refused(field.remove("parent", false).await, &["unmerged changes"]);
}

#[tokio::test]
async fn inspecting_a_worktree_creates_nothing() {
    let field = Field::new();
    let folder = field.make("one").await;
    let away = field.root.join("away");
    fs::rename(&field.project, &away).unwrap();
    let workspaces = WorkspaceFolders::new(field.root.join("data/workspaces"))
        .with_private(&[&field.root.join("data")])
        .with_worktrees(field.worktrees.clone());
    let mount = Mount { path: folder, writable: true };
    workspaces.open(SessionId::generate(), Some(mount).into()).await.unwrap();
    assert!(!field.project.exists());
}

#[tokio::test]
async fn interrupted_merge_resumes_with_any_files() {
    let field = Field::new();
    let picture = |last: u8| (0..=last).cycle().take(5000).collect::<Vec<u8>>();
    for name in ["done.bin", "begun.bin", "as-it-was.bin"] {
        field.commit(name, &picture(254));
    }
    std::os::unix::fs::symlink("a.txt", field.project.join("link")).unwrap();
    git(&field.project, &["add", "link"]);
    git(&field.project, &["commit", "--quiet", "--message=link"]);
    let folder = field.make("one").await;
    for name in ["done.bin", "begun.bin", "as-it-was.bin"] {
        fs::write(folder.join(name), picture(253)).unwrap();
    }
    fs::remove_file(folder.join("link")).unwrap();
    std::os::unix::fs::symlink("done.bin", folder.join("link")).unwrap();
    git(&folder, &["commit", "--quiet", "--all", "--message=pictures"]);
    let (from, to) = (field.head(), git(&folder, &["rev-parse", "HEAD"]));
    fs::write(field.project.join("done.bin"), picture(253)).unwrap();
    fs::write(field.project.join("begun.bin"), &picture(253)[..3000]).unwrap();
    fs::remove_file(field.project.join("link")).unwrap();
    std::os::unix::fs::symlink("done.bin", field.project.join("link")).unwrap();
    fs::write(field.project.join(".git/index.lock"), "").unwrap();
    let file = field.root.join("data/worktrees/.records/one.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let at = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - 1;
    record["stage"] = serde_json::json!({ "applying": { "from": from, "to": to, "at": at } });
    fs::write(&file, record.to_string()).unwrap();
    // A merge that this daemon did not begin may be the work of someone else.
    life(&field.root).clean_up().await.unwrap();
    assert_eq!((field.head(), git(&field.project, &["status", "--porcelain"])), (to, String::new()));
    assert_eq!(fs::read(field.project.join("begun.bin")).unwrap(), picture(253));
}

#[tokio::test]
async fn pipe_in_place_of_a_git_file_is_rejected_at_once() {
    let field = Field::new();
    let folder = field.make("one").await;
    fs::create_dir(folder.join("deep")).unwrap();
    mkfifo(&folder.join("deep/.gitignore"));
    let problem = field.report("one").await.problem.unwrap();
    assert!(problem.contains("deep/.gitignore"), "{problem}");
    fs::remove_file(folder.join("deep/.gitignore")).unwrap();
    assert_eq!(field.report("one").await.problem, None);
}

#[tokio::test]
async fn files_that_need_a_filter_are_not_committed() {
    let field = Field::new();
    git(&field.project, &["config", "filter.secret.clean", "tr a-z b-za"]);
    git(&field.project, &["config", "filter.secret.required", "true"]);
    field.commit(".gitattributes", b"*.key filter=secret\n");
    let folder = field.make("one").await;
    fs::write(folder.join("new.key"), "plain\n").unwrap();
    fs::write(folder.join("new.txt"), "plain\n").unwrap();
    field.refused(field.apply("one").await, &["new.key", "filter"]);
    fs::remove_file(folder.join("new.key")).unwrap();
    field.apply("one").await.unwrap();
}

#[tokio::test]
async fn worktree_diff_is_a_git_patch_and_empty_after_merge() {
    let field = Field::new();
    let folder = field.worked("b.txt", "new\n").await;
    field.commit("main.txt", b"meanwhile\n");
    field.apply("one").await.unwrap();
    let report = field.report("one").await;
    assert_eq!((report.changed, report.ahead, report.is_merged), (0, 0, true));
    assert_eq!(field.worktrees.diff("one".to_owned()).await.unwrap().files, Vec::<String>::new());
    // Changes from the main tree are not changes of the session.
    field.commit("main.txt", b"later\n");
    git(&folder, &["merge", "--quiet", "main"]);
    fs::write(folder.join("c.txt"), "more\n").unwrap();
    assert_eq!(field.worktrees.diff("one".to_owned()).await.unwrap().files, ["c.txt"]);

    // The diff is a valid git patch unless it is marked as lossy.
    let field = Field::new();
    let folder = field.make("one").await;
    fs::write(folder.join("b.bin"), [0, 159, 146, 150]).unwrap();
    fs::write(folder.join("a.txt"), "one\nTWO\n").unwrap();
    let diff = field.worktrees.diff("one".to_owned()).await.unwrap();
    assert!(!diff.is_lossy && !diff.is_cut);
    fs::write(field.root.join("patch"), diff.text).unwrap();
    git(&field.project, &["apply", "--check", field.root.join("patch").to_str().unwrap()]);
    fs::write(folder.join("latin.txt"), b"caf\xe9\n").unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"n\xe4me.txt")), "x\n").unwrap();
    let diff = field.worktrees.diff("one".to_owned()).await.unwrap();
    assert!(diff.is_lossy && diff.files.len() == 4, "{diff:?}");
    field.apply("one").await.unwrap();
    assert!(field.project.join(OsStr::from_bytes(b"n\xe4me.txt")).exists());
}

#[tokio::test]
async fn repository_with_alternates_is_rejected_with_a_hint() {
    let field = Field::new();
    git(&field.root, &["clone", "--quiet", "--shared", "project", "borrows"]);
    let refused = field.make_of("one", &field.root.join("borrows")).await;
    assert_eq!(refused.as_ref().unwrap_err().kind(), ErrorKind::InvalidInput);
    field.refused(refused, &["alternates", "git repack"]);
    git(&field.project, &["branch", "agentd/two/below"]);
    field.refused(field.make_of("two", &field.project).await, &["there is a branch agentd/two/below"]);
}

#[tokio::test]
async fn replaced_git_object_is_detected() {
    let field = Field::new();
    let folder = field.worked("b.txt", "new\n").await;
    let object = |name: &str| {
        let folder = field.project.join(".git/objects");
        folder.join(&name[..2]).join(&name[2..])
    };
    let (known, other) = (object(&git(&field.project, &["rev-parse", "HEAD:a.txt"])), folder.join("other"));
    fs::write(&other, "something else\n").unwrap();
    let other = object(&git(&folder, &["hash-object", "-w", "other"]));
    field.worktrees.diff("one".to_owned()).await.unwrap();
    fs::remove_file(&known).unwrap();
    fs::copy(other, known).unwrap();
    field.refused(field.worktrees.diff("one".to_owned()).await, &["hash-path mismatch", "git fsck"]);
    field.refused(field.apply("one").await, &["hash-path mismatch"]);
}

#[tokio::test]
async fn settling_several_repositories_does_not_deadlock() {
    let field = Field::new();
    let other = field.root.join("other");
    git(&field.root, &["clone", "--quiet", "project", "other"]);
    for (name, project) in [("a", &field.project), ("b", &other), ("c", &field.project)] {
        field.make_of(name, project).await.unwrap();
    }
    let settled = tokio::time::timeout(std::time::Duration::from_secs(60), life(&field.root).clean_up()).await;
    settled.expect("they do not wait for each other").unwrap();
}
