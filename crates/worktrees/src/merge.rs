//! Merges the changes in a worktree into the main worktree, all or nothing.
//!
//! Uncommitted changes are committed to the worktree's branch. The merge is computed without changing any file. The
//! main worktree is fast-forwarded to the merge only if the merge has no conflicts and changes no file that has
//! uncommitted changes in the main worktree.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use agentd_core::{
    Timestamp,
    worktree::{BRANCH_PREFIX, WorktreeApplied},
};
use agentd_sandbox::repository::{self, Repository, create_branch_folders};
use agentd_workspace::failure::refused;

use crate::{
    Inner,
    changes::{FILES_AT_ONCE, Objects, WorktreeState, overlap, refuse_unfinished},
    first_names, git,
    record::{GitPlace, Result, Stage, WorktreeRecord, conflict, missing, storage},
};

impl Inner {
    pub(super) async fn apply(&self, name: &str, message: &str) -> Result<WorktreeApplied> {
        let record = self.ready(name)?;
        if !record.repository.tree_exists() {
            let message = format!("the main worktree {} of {name} is gone", record.repository.top.display());
            let hint = format!("commit in {}, and merge {} by hand", self.records.top(name).display(), record.branch());
            return Err(missing(message, hint));
        }
        refuse_unfinished(&record.repository.git_dir)?;
        let state = self.state_of(&record, Objects::Stored).await?;
        if state.checked_out != record.reference() {
            let checked_out = state.checked_out.trim_start_matches("refs/heads/");
            let checked_out = if checked_out.is_empty() { "a commit without a branch" } else { checked_out };
            let message = format!("the worktree {name} has {checked_out} checked out instead of {}", record.branch());
            let hint = format!("run `git checkout -B {}` in {}", record.branch(), self.records.top(name).display());
            return Err(conflict(message, hint));
        }
        self.refuse_replaced(&record).await?;
        self.refuse_inner_repositories(&record, &state).await?;
        self.refuse_filtered(&record, &state).await?;
        let tip = self.commit_changes(record.clone(), state, message).await?;
        self.merge_into_main(record, &tip, message).await
    }

    /// Rejects repositories inside the worktree. They would be merged as references to commits that are removed with
    /// the worktree. A submodule is allowed if the main worktree has its commit.
    async fn refuse_inner_repositories(&self, record: &WorktreeRecord, state: &WorktreeState) -> Result<()> {
        let args = ["diff-tree", "-r", "--raw", "-z", "--no-abbrev", "--no-renames", "--end-of-options"];
        let args: Vec<&str> = args.into_iter().chain([state.base.as_str(), &state.tree]).collect();
        let changed = git::changes(&self.git.succeeds(&state.place, &args, "compare files").await?)?;
        let mut inner = Vec::new();
        for change in changed.into_iter().filter(|change| change.wanted.is_repository()) {
            let known = repository::of_submodule(&record.repository.top.join(&change.path));
            let is_known = match known.filter(|_| change.initial.is_repository()) {
                Some(known) => {
                    let place = GitPlace::branches(&Repository { common: known, ..record.repository.clone() });
                    self.git.run(&place, &["cat-file", "-e", &change.wanted.object]).await?.code == 0
                }
                None => false,
            };
            if !is_known {
                inner.push(change.path);
            }
        }
        if inner.is_empty() {
            return Ok(());
        }
        let message = format!("the worktree {} contains other repositories: {}", record.name, first_names(&inner));
        let hint = "remove `.git` from them, or fetch their commits in the main worktree's submodules, and apply again";
        Err(conflict(message, hint))
    }

    /// Rejects files with required filters, such as encryption. Filters are not run here, so such files must not be
    /// committed.
    async fn refuse_filtered(&self, record: &WorktreeRecord, state: &WorktreeState) -> Result<()> {
        // The repository requires these filters for commits.
        let names = state.place.settings.iter().map(|(name, _)| name);
        let required: Vec<&str> =
            names.filter_map(|name| name.strip_prefix("filter.")?.strip_suffix(git::REQUIRED)).collect();
        if required.is_empty() {
            return Ok(());
        }
        let mut filtered = BTreeSet::new();
        let files = self.files_between(&state.place, &state.base, &state.tree).await?;
        // Checks both the attributes changed by a session and the original attributes.
        for place in [&state.place, &GitPlace::main(&record.repository)] {
            for some in files.chunks(FILES_AT_ONCE) {
                let mut args: Vec<&OsStr> = ["check-attr", "-z", "filter", "--"].map(OsStr::new).into();
                args.extend(some.iter().map(|file| file.as_os_str()));
                let attributes = self.git.succeeds(place, &args, "look for filters").await?;
                for of_file in attributes.parts()?.chunks(3) {
                    if of_file.get(2).is_some_and(|filter| required.iter().any(|known| known.as_bytes() == *filter)) {
                        filtered.insert(git::path(of_file[0]));
                    }
                }
            }
        }
        if filtered.is_empty() {
            return Ok(());
        }
        let filtered: Vec<PathBuf> = filtered.into_iter().collect();
        let (name, filtered) = (&record.name, first_names(&filtered));
        let message = format!("the repository requires its own filters for files of the worktree {name}: {filtered}");
        let top = self.records.top(name);
        let hint =
            format!("the daemon does not run filters: commit them yourself in {}, then apply again", top.display());
        Err(conflict(message, hint))
    }

    /// Commits everything in the worktree to its branch, and returns the commit.
    async fn commit_changes(&self, mut record: WorktreeRecord, state: WorktreeState, message: &str) -> Result<String> {
        if !state.is_dirty {
            return Ok(state.head);
        }
        let git = &self.git;
        let author = git.author(&state.place).await?;
        let place = state.place.by(author);
        let args = ["commit-tree", "-p", &state.head, "-m", message, &state.tree];
        let commit = git.succeeds(&place, &args, "commit the changes").await?.line();
        // No command of the session is running, so this lock is a leftover.
        let _ = fs::remove_file(record.admin()?.join("index.lock"));
        // Git may only write to the worktree's own branch and index, regardless of links in their paths.
        let common = &record.repository.common;
        create_branch_folders(common).map_err(|error| storage("create the folders of branches", error))?;
        let top = self.real_top(&record)?;
        let place = git.override_programs(GitPlace::worktree(&record, &top)?).await?;
        let [branches, logs] = own_branches(common);
        let place = place.writing(&[record.admin()?, &branches, &logs]);
        let moved = async {
            // The index is written first: until the branch is updated, the index correctly lists the commit's files as
            // staged.
            git.succeeds(&place, &["read-tree", "--end-of-options", &commit], "write the index of the worktree")
                .await?;
            let args = ["update-ref", "--no-deref", "-m", "agentd: apply", &record.reference(), &commit, &state.head];
            git.succeeds(&place, &args, "move the branch of the worktree").await
        };
        // An interruption from this point on leaves locks behind.
        self.records.store(&WorktreeRecord { stage: Stage::Committing { at: now() }, ..record.clone() })?;
        let moved = moved.await;
        record.stage = Stage::Ready;
        self.records.store(&record)?;
        moved?;
        Ok(commit)
    }

    async fn merge_into_main(&self, mut record: WorktreeRecord, tip: &str, message: &str) -> Result<WorktreeApplied> {
        let git = &self.git;
        let main = git.override_programs(GitPlace::main(&record.repository)).await?;
        let read = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let from = git.succeeds(&main, &read, "find the main worktree's commit").await?.line();
        let onto = git.run(&main, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await?.line();
        let name = record.name.clone();
        if git.is_ancestor(&main, tip, &from).await? {
            return Ok(WorktreeApplied { name, commit: from, onto, files: Vec::new() });
        }
        let writing = main.clone().writing(&[&record.repository.common.join("objects")]);
        let to = if git.is_ancestor(&main, &from, tip).await? {
            tip.to_owned()
        } else {
            self.merge_commit(&record, &writing, &from, tip, message).await?
        };
        let files = self.files_between(&main, &from, &to).await?;
        let dirty = self.dirty(&main).await?;
        let blocking: Vec<PathBuf> =
            files.iter().filter(|file| dirty.iter().any(|dirty| overlap(file, dirty))).cloned().collect();
        if !blocking.is_empty() {
            let message = format!(
                "the main worktree {} has uncommitted changes to files that are also changed in the worktree {name}: {}",
                record.repository.top.display(),
                first_names(&blocking)
            );
            return Err(conflict(message, "commit or stash these changes, and apply again; nothing was changed"));
        }
        if record.repository.git_dir.join("index.lock").exists() {
            let message = format!("another git process is running in {}", record.repository.top.display());
            let hint =
                "wait for it to end; if none runs, remove index.lock from the repository's .git, and apply again";
            return Err(conflict(message, hint));
        }
        record.stage = Stage::Applying { from: from.clone(), to: to.clone(), at: now() };
        self.records.store(&record)?;
        let moved = self.fast_forward(&record, &main, &to).await;
        record.stage = Stage::Ready;
        self.records.store(&record)?;
        moved?;
        let files = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        Ok(WorktreeApplied { name, commit: to, onto, files })
    }

    /// Fast-forwards the main worktree to a commit. Git checks all files before it changes any of them.
    pub(super) async fn fast_forward(&self, record: &WorktreeRecord, main: &GitPlace, to: &str) -> Result<()> {
        let repository = &record.repository;
        let place = self.writable_main(main, repository);
        let args = ["merge", "--ff-only", "--quiet", "--no-stat", "--no-autostash", "--no-overwrite-ignore"];
        let merge_args = ["--commit", "--no-squash", "--no-verify-signatures", to];
        let doing = format!("fast-forward the main worktree {} to the merge", repository.top.display());
        self.git.succeeds(&place, &[&args[..], &merge_args].concat(), &doing).await?;
        let head = self.git.succeeds(main, &["rev-parse", "HEAD"], "find the main worktree's commit").await?.line();
        if head == to {
            return Ok(());
        }
        let message = format!("git reported a merge, but {} is at {head}", repository.top.display());
        Err(conflict(message, "check `git status` there, and settings that affect `git merge`"))
    }

    /// Returns the main worktree with write access. If the main worktree is itself the worktree of a session, a model
    /// may have redirected its index and branch, so other branches and the settings remain read-only.
    pub(super) fn writable_main(&self, main: &GitPlace, repository: &Repository) -> GitPlace {
        let Repository { top, git_dir, common } = repository;
        let is_of_session = self.records.real_base().is_ok_and(|base| top.starts_with(base));
        if !is_of_session {
            return main.clone().writing(&[top, common, git_dir]);
        }
        let [branches, logs] = own_branches(common);
        main.clone().writing(&[top, git_dir, &common.join("objects"), &branches, &logs])
    }

    /// Creates a merge commit to which no branch points yet.
    async fn merge_commit(
        &self,
        record: &WorktreeRecord,
        main: &GitPlace,
        from: &str,
        tip: &str,
        message: &str,
    ) -> Result<String> {
        const CONFLICTS: i32 = 1;
        let git = &self.git;
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", from, tip];
        // A merge driver would write into the current folder.
        let merged = git.run(&main.clone().with_separate_folder(git.merge_folder(&record.name)?), &args).await?;
        let mut parts = merged.paths()?;
        if merged.code == CONFLICTS && !parts.is_empty() {
            parts.remove(0);
            parts.sort();
            parts.dedup();
            let message = format!(
                "the worktree {} and the main worktree have changed the same lines of {}; nothing was changed",
                record.name,
                first_names(&parts)
            );
            let hint = format!(
                "merge by hand: run `git merge {}` in {}; or have the session do it: `git merge {from}` in its worktree, then apply again",
                record.branch(),
                record.repository.top.display(),
            );
            return Err(conflict(message, hint));
        }
        if merged.code != 0 || parts.is_empty() {
            let message = format!("git could not merge the worktree {}: {}", record.name, merged.last_lines());
            return Err(refused(message, "git 2.38 or newer and a common commit are required"));
        }
        let author = git.author(main).await?;
        let message = format!("Merge worktree {}: {message}", record.name);
        let tree = parts[0].to_string_lossy();
        let args = ["commit-tree", "-p", from, "-p", tip, "-m", &message, &tree];
        Ok(git.succeeds(&main.clone().by(author), &args, "commit the merge").await?.line())
    }
}

/// Returns the current time for records, in seconds since the epoch.
pub(super) fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Returns the folders for the branches of worktrees, and for their logs.
fn own_branches(common: &Path) -> [PathBuf; 2] {
    ["refs/heads", "logs/refs/heads"].map(|folder| common.join(folder).join(BRANCH_PREFIX.trim_end_matches('/')))
}
