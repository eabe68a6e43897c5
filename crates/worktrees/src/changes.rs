//! Changes in a worktree: its commits, and uncommitted and new files. Changes are detected with the daemon's own index,
//! so that flags in the session's index cannot hide a change. The folders of a worktree are scanned before git walks
//! them, and the repository's loose objects, to which commands in worktrees can write, are verified.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    worktree::{BRANCH_PREFIX, WorktreeDiff, WorktreeReport},
};
use agentd_sandbox::repository;
use agentd_workspace::failure::refused;

use crate::{
    Inner,
    create::index_name,
    git,
    record::{GitPlace, Result, Stage, WorktreeRecord, conflict, missing},
};

/// Maximum number of files passed to one git call.
pub(super) const FILES_AT_ONCE: usize = 100;
/// Maximum size of a returned patch, in bytes.
const MAX_PATCH: usize = 8 << 20;

/// State of a worktree's files and branch.
#[derive(Debug)]
pub(super) struct WorktreeState {
    /// Location from which `tree` can be read.
    pub(super) place: GitPlace,
    /// Commit to which `HEAD` points.
    pub(super) head: String,
    /// Full name of the branch that is checked out; empty for a detached `HEAD`.
    pub(super) checked_out: String,
    /// Commit of the worktree's own branch, if it exists.
    pub(super) tip: Option<String>,
    /// Tree of all files in their current state.
    pub(super) tree: String,
    /// True if the files differ from the commit.
    pub(super) is_dirty: bool,
    /// Folders of other repositories, such as submodules, whose contents are not part of the tree.
    pub(super) inner: Vec<PathBuf>,
    /// Commit to compare with: the newest commit that the main worktree also has.
    pub(super) base: String,
}

/// Destination for new objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objects {
    /// The repository, for a commit.
    Stored,
    /// A temporary folder, for comparisons.
    Temporary,
}

impl Inner {
    /// Returns the record of a worktree without a pending operation.
    pub(super) fn ready(&self, name: &str) -> Result<WorktreeRecord> {
        let record = self.records.get(name)?;
        if record.stage == Stage::Ready {
            return Ok(record);
        }
        let message = format!("an earlier operation on the worktree {name} is not finished");
        Err(conflict(message, "see the daemon's log for what blocks it"))
    }

    /// Returns the real path of a worktree's top folder.
    pub(super) fn real_top(&self, record: &WorktreeRecord) -> Result<PathBuf> {
        let top = self.records.real_base()?.join(&record.name);
        if top.symlink_metadata().is_ok_and(|found| found.is_dir()) && record.repository.common.is_dir() {
            return Ok(top);
        }
        let gone = if record.repository.common.is_dir() { &top } else { &record.repository.common };
        let message = format!("the folder {} of the worktree {} is gone", gone.display(), record.name);
        Err(missing(message, "restore it, or remove the rest: agentctl worktree remove --force"))
    }

    /// Determines the state of the files and the branch.
    pub(super) async fn state_of(&self, record: &WorktreeRecord, objects: Objects) -> Result<WorktreeState> {
        let top = self.real_top(record)?;
        let index = self.git.scratch_file(&index_name(&record.name))?;
        // Only the daemon uses this index, so an existing lock is a leftover.
        let _ = fs::remove_file(self.git.scratch_file(&(index_name(&record.name) + ".lock"))?);
        // A command may have replaced `HEAD` with a pipe, which would block git.
        if repository::pointer(&record.admin()?.join("HEAD")).is_none() {
            let message = format!("the worktree {} has no valid commit: its HEAD is damaged", record.name);
            return Err(refused(message, "copy what you need, then remove the worktree with --force"));
        }
        let scanned = top.clone();
        let inner = tokio::task::spawn_blocking(move || find_repositories(&scanned)).await.map_err(|error| {
            WorkspaceError::new(ErrorKind::Internal, "could not scan a worktree")
                .with_hint("try again")
                .with_source(error)
        })??;
        let place = self.git.override_programs(GitPlace::worktree(record, &top)?).await?;
        let place = GitPlace { index: Some(index.clone()), ..place };
        let place = match objects {
            Objects::Stored => place.writing(&[&record.repository.common.join("objects")]),
            Objects::Temporary => GitPlace { objects: Some(self.git.objects_folder(&record.name)?), ..place },
        };
        let git = &self.git;
        let head = git.commit(&place, "HEAD").await?.ok_or_else(|| {
            let message = format!("the worktree {} has no commit checked out", record.name);
            refused(message, format!("check out its branch there: git checkout {}", record.branch()))
        })?;
        let tip = git.commit(&place, &record.reference()).await?;
        let checked_out = git.run(&place, &["symbolic-ref", "--quiet", "HEAD"]).await?.line();
        // The index has the state of unchanged files. A damaged index is recreated.
        let read = ["read-tree", "-m", &head];
        if git.run(&place, &read).await?.code != 0 {
            let _ = fs::remove_file(&index);
            git.succeeds(&place, &read, "read the last commit of the worktree").await?;
        }
        git.succeeds(&place, &["add", "--all"], "read the files of the worktree").await?;
        let tree = git.succeeds(&place, &["write-tree"], "read the files of the worktree").await?.line();
        let of_head = git.succeeds(&place, &["rev-parse", &format!("{head}^{{tree}}")], "read the last commit").await?;
        let is_dirty = of_head.line() != tree;
        let inner = self.tracked_repositories(&place, inner).await?;
        let base = self.common_base(record, &place, &head).await?;
        Ok(WorktreeState { place, head, checked_out, tip, tree, is_dirty, inner, base })
    }

    /// Returns the folders that the index tracks as repositories. Ignored folders are omitted.
    async fn tracked_repositories(&self, place: &GitPlace, folders: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        let mut tracked_repositories = Vec::new();
        for some in folders.chunks(FILES_AT_ONCE) {
            let mut args: Vec<&OsStr> = ["ls-files", "--stage", "-z", "--"].map(OsStr::new).into();
            args.extend(some.iter().map(|folder| folder.as_os_str()));
            let listed = self.git.succeeds(place, &args, "look for repositories in the worktree").await?;
            for entry in listed.parts()? {
                let named = entry.iter().position(|byte| *byte == b'\t').map(|tab| git::path(&entry[tab + 1..]));
                tracked_repositories.extend(named.filter(|path| entry.starts_with(b"160000 ") && some.contains(path)));
            }
        }
        Ok(tracked_repositories)
    }

    /// Returns the newest common commit of a worktree and its main worktree, unless the commit from which the worktree
    /// started is newer.
    async fn common_base(&self, record: &WorktreeRecord, place: &GitPlace, head: &str) -> Result<String> {
        let repository = &record.repository;
        if !repository.tree_exists() {
            return Ok(record.base.clone());
        }
        let git = &self.git;
        let main = git.commit(&GitPlace::main(repository), "HEAD").await?.unwrap_or_default();
        let found = git.run(place, &["merge-base", &main, head]).await?;
        let is_newer = found.code == 0 && self.git.is_ancestor(place, &record.base, &found.line()).await?;
        Ok(if is_newer { found.line() } else { record.base.clone() })
    }

    /// Removes the temporary objects.
    pub(super) fn drop_objects(&self, name: &str) {
        if let Ok(folder) = self.git.scratch_file(&format!("{name}.objects")) {
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// Returns the files that differ between two trees or commits.
    pub(super) async fn files_between(&self, place: &GitPlace, from: &str, to: &str) -> Result<Vec<PathBuf>> {
        let args = ["diff-tree", "-r", "--name-only", "-z", "--no-renames", "--end-of-options", from, to];
        self.git.succeeds(place, &args, "compare files").await?.paths()
    }

    /// Returns the files in a worktree that differ from its base, and the repositories inside the worktree.
    async fn changed(&self, state: &WorktreeState) -> Result<Vec<PathBuf>> {
        let mut files = self.files_between(&state.place, &state.base, &state.tree).await?;
        files.extend(state.inner.iter().cloned());
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Returns the uncommitted and new files in the main worktree.
    pub(super) async fn dirty(&self, main: &GitPlace) -> Result<Vec<PathBuf>> {
        let args =
            ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"];
        let listed = self.git.succeeds(main, &args, "inspect the main worktree").await?;
        Ok(listed.parts()?.into_iter().filter_map(|line| line.get(3..).map(git::path)).collect())
    }

    /// Returns true if no changes are lost by removing the worktree and its branch.
    pub(super) async fn is_merged(&self, record: &WorktreeRecord, state: &WorktreeState) -> Result<bool> {
        if state.is_dirty || !state.inner.is_empty() {
            return Ok(false);
        }
        for commit in [Some(&state.head), state.tip.as_ref()].into_iter().flatten() {
            if *commit != record.base && !self.is_in_a_branch(record, commit).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the checked-out branch of the main worktree, or another branch, contains a commit. A detached
    /// `HEAD` does not count, because its commit could soon be lost. Symbolic names are ignored, as are branches of
    /// worktrees, which belong to sessions.
    async fn is_in_a_branch(&self, record: &WorktreeRecord, commit: &str) -> Result<bool> {
        let repository = &record.repository;
        if repository.tree_exists() {
            let main = GitPlace::main(repository);
            let checked_out = self.git.run(&main, &["symbolic-ref", "--quiet", "HEAD"]).await?;
            let is_other = checked_out.code == 0 && checked_out.line() != record.reference();
            if is_other && self.git.is_ancestor(&main, commit, "HEAD").await? {
                return Ok(true);
            }
        }
        let contains = format!("--contains={commit}");
        // Prints nothing for symbolic references.
        let format = "--format=%(if)%(symref)%(then)%(else)%(refname)%(end)";
        let args = ["for-each-ref", &contains, format, "refs/heads", "refs/tags", "refs/remotes"];
        let holders = self.git.succeeds(&GitPlace::branches(repository), &args, "look for branches").await?;
        let own = format!("refs/heads/{BRANCH_PREFIX}").into_bytes();
        Ok(holders.bytes.split(|byte| *byte == b'\n').any(|holder| !holder.is_empty() && !holder.starts_with(&own)))
    }

    /// Counts the commits since the base of a worktree.
    async fn ahead(&self, state: &WorktreeState) -> Result<u64> {
        let range = format!("{}..{}", state.base, state.head);
        let args = ["rev-list", "--count", "--end-of-options", &range];
        let commit_count = self.git.succeeds(&state.place, &args, "count commits").await?;
        Ok(commit_count.line().parse().unwrap_or_default())
    }

    pub(super) async fn report(&self, name: &str) -> Result<WorktreeReport> {
        let record = self.records.get(name)?;
        let mut report = WorktreeReport {
            name: record.name.clone(),
            branch: record.branch(),
            session: record.session,
            is_orphan: false,
            folder: self.records.top(name),
            project: record.project.clone(),
            base: record.base.clone(),
            changed: 0,
            ahead: 0,
            is_merged: false,
            problem: None,
        };
        let found = async {
            let record = self.ready(name)?;
            let state = self.state_of(&record, Objects::Temporary).await?;
            report.changed = self.changed(&state).await?.len() as u64;
            report.ahead = self.ahead(&state).await?;
            report.base.clone_from(&state.base);
            report.is_merged = self.is_merged(&record, &state).await?;
            Ok::<_, WorkspaceError>(())
        };
        if let Err(error) = found.await {
            report.problem = Some(error.to_string());
        }
        self.drop_objects(name);
        Ok(report)
    }

    pub(super) async fn diff(&self, name: &str) -> Result<WorktreeDiff> {
        let record = self.ready(name)?;
        self.refuse_replaced(&record).await?;
        let found = self.diff_of(&record).await;
        self.drop_objects(name);
        found
    }

    async fn diff_of(&self, record: &WorktreeRecord) -> Result<WorktreeDiff> {
        let state = self.state_of(record, Objects::Temporary).await?;
        let files = self.changed(&state).await?;
        let args = ["diff-tree", "-r", "-p", "-M", "--binary", "--full-index", "--no-ext-diff", "--no-textconv"];
        let args = [&args[..], &["--no-color", "--end-of-options", &state.base, &state.tree]].concat();
        let patch = self.git.succeeds(&state.place, &args, "show the changes").await?;
        let (name, is_cut) = (record.name.clone(), patch.is_cut || patch.bytes.len() > MAX_PATCH);
        let (mut text, is_lossy) = match String::from_utf8(patch.bytes) {
            Ok(text) => (text, false),
            // Truncated text may end in the middle of a character.
            Err(error) => {
                let is_lossy = !is_cut || error.utf8_error().error_len().is_some();
                (String::from_utf8_lossy(error.as_bytes()).into_owned(), is_lossy)
            }
        };
        text.truncate(text.floor_char_boundary(MAX_PATCH));
        let files = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        Ok(WorktreeDiff { name, base: state.base, files, text, is_cut, is_lossy })
    }
}

/// Returns true if the paths are equal, or one contains the other.
pub(super) fn overlap(left: &Path, right: &Path) -> bool {
    left.starts_with(right) || right.starts_with(left)
}

/// Files that git opens in any folder; a pipe with such a name would block git forever.
const OPENED_FILES: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Finds the folders below a top folder that contain a repository, without following links.
///
/// # Errors
/// Fails if one of the files that git opens in these folders would block git.
fn find_repositories(top: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![top.to_owned()]);
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            if OPENED_FILES.iter().any(|opened| name == *opened)
                && !kind.is_file()
                && !kind.is_symlink()
                && !kind.is_dir()
            {
                let message = format!("{} is neither a file nor a folder", entry.path().display());
                return Err(refused(message, "remove it: git would block on it"));
            }
            if name == ".git" {
                if folder != top {
                    found.extend(folder.strip_prefix(top).map(Path::to_owned));
                }
            } else if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Rejects a repository in which the user has an unfinished operation, such as a rebase or a merge, that ends with
/// another commit.
pub(super) fn refuse_unfinished(git_dir: &Path) -> Result<()> {
    const UNFINISHED: [(&str, &str); 6] = [
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("BISECT_LOG", "bisect"),
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
    ];
    let found = UNFINISHED.iter().find(|(file, _)| git_dir.join(file).symlink_metadata().is_ok());
    let Some((_, command)) = found else { return Ok(()) };
    let message = format!("a `git {command}` is in progress in the main worktree");
    let hint = format!("finish or abort it (`git {command} --abort`, for bisect `reset`), and apply again");
    Err(conflict(message, hint))
}

/// Messages from git for an object whose content does not match its name.
const REPLACED_MESSAGES: [&str; 2] = ["hash-path mismatch", "object corrupt"];

impl Inner {
    /// Rejects a repository in which a loose object was replaced. Git trusts an object's name, so no diff shows the
    /// change, but later checkouts contain the replacement.
    pub(super) async fn refuse_replaced(&self, record: &WorktreeRecord) -> Result<()> {
        // Checks loose objects only and skips packed ones.
        let args =
            ["fsck", "--no-full", "--no-dangling", "--no-reflogs", "--no-progress", "--end-of-options", &record.base];
        let checked = self.git.run(&GitPlace::branches(&record.repository), &args).await?;
        let matching_messages = checked.matching_messages(&REPLACED_MESSAGES);
        if matching_messages.is_empty() {
            return Ok(());
        }
        let common = record.repository.common.display();
        let message = format!("objects of the repository {common} do not match their names: {matching_messages}");
        Err(conflict(message, "move them away, and fetch them from another clone or a backup: `git fsck` lists them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_repositories_are_found_and_pipes_rejected() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path();
        for folder in [".git", "lib/deep/.git", "src"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::write(top.join("sub/.git"), "gitdir: /nowhere\n").unwrap();
        fs::write(top.join("src/.gitignore"), "x\n").unwrap();
        std::os::unix::fs::symlink("/", top.join("src/all")).unwrap();
        assert_eq!(find_repositories(top).unwrap(), [PathBuf::from("lib/deep"), "sub".into()]);
        nix::unistd::mkfifo(&top.join("src/.gitattributes"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(find_repositories(top).unwrap_err().to_string().contains(".gitattributes"));
    }
}
