//! Changes in a worktree: its commits, and files that differ from the last one, new ones among them. They are found with an index
//! of the daemon's own, so that nothing that is marked in the session's hides a change.

use std::{fs, path::Path, path::PathBuf};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    worktree::{WorktreeDiff, WorktreeReport},
};

use super::{
    Inner,
    git::GitPlace,
    making::index_name,
    record::{Stage, WorktreeRecord},
    refused,
};

/// Characters of a patch that are told at the most.
const MAX_PATCH: usize = 8 << 20;

/// State of a worktree's files and branch.
#[derive(Debug)]
pub(super) struct WorktreeState {
    /// A place in which the tree below can be read.
    pub(super) place: GitPlace,
    /// The commit that is checked out.
    pub(super) head: String,
    /// The branch that is checked out; empty where there is none.
    pub(super) on: String,
    /// The commit of the worktree's own branch, where that is there.
    pub(super) tip: Option<String>,
    /// All files as they are, as a tree.
    pub(super) tree: String,
    /// True if they differ from the commit.
    pub(super) is_dirty: bool,
}

/// Use of the objects that a look makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objects {
    /// They are for a commit.
    Kept,
    /// They are in a folder that goes.
    Dropped,
}

impl Inner {
    /// The record of a worktree that is whole.
    pub(super) fn ready(&self, name: &str) -> Result<WorktreeRecord, WorkspaceError> {
        let record = self.records.get(name)?;
        if record.stage == Stage::Ready {
            return Ok(record);
        }
        Err(WorkspaceError::new(
            ErrorKind::Conflict,
            format!("an earlier operation on the worktree {name} is not over"),
        )
        .with_hint("the daemon's log says what is in its way"))
    }

    /// The top of a worktree, by its real path.
    pub(super) fn real_top(&self, record: &WorktreeRecord) -> Result<PathBuf, WorkspaceError> {
        let top = self.records.real_base()?.join(&record.name);
        if top.symlink_metadata().is_ok_and(|found| found.is_dir()) && record.repository.common.is_dir() {
            return Ok(top);
        }
        let gone = if record.repository.common.is_dir() { &top } else { &record.repository.common };
        let message = format!("the folder {} of the worktree {} is gone", gone.display(), record.name);
        Err(WorkspaceError::new(ErrorKind::NotFound, message)
            .with_hint("put it back, or remove what is left: agentctl worktree remove --force"))
    }

    /// Looks at the files and the branch.
    pub(super) async fn look(
        &self,
        record: &WorktreeRecord,
        objects: Objects,
    ) -> Result<WorktreeState, WorkspaceError> {
        let top = self.real_top(record)?;
        let index = self.git.scratch_file(&index_name(&record.name))?;
        // Nobody else has it, so a lock is what an earlier end has left.
        let _ = fs::remove_file(self.git.scratch_file(&(index_name(&record.name) + ".lock"))?);
        let place = self.git.own_programs(GitPlace::worktree(record, &top)?).await?.with_index(index.clone());
        let place = match objects {
            Objects::Kept => place.writing(&[&record.repository.common.join("objects")]),
            Objects::Dropped => place.trying(self.fresh_objects(&record.name)?),
        };
        let git = &self.git;
        let commit = |name: String| {
            let place = &place;
            async move {
                let found =
                    git.run(place, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).await?;
                Ok::<_, WorkspaceError>(Some(found.line()).filter(|_| found.code == 0))
            }
        };
        let head = commit("HEAD".to_owned()).await?.ok_or_else(|| {
            let message = format!("the worktree {} has no commit checked out", record.name);
            refused(message, format!("check out its branch there: git checkout {}", record.branch()))
        })?;
        let tip = commit(record.reference()).await?;
        let on = git.run(&place, &["symbolic-ref", "--quiet", "HEAD"]).await?.line();
        // Of a file that is as it was, the index knows so; one that was damaged is made anew.
        let read = ["read-tree", "-m", &head];
        if git.run(&place, &read).await?.code != 0 {
            let _ = fs::remove_file(&index);
            git.succeeds(&place, &read, "read the last commit of the worktree").await?;
        }
        git.succeeds(&place, &["add", "--all"], "look at the files of the worktree").await?;
        let tree = git.succeeds(&place, &["write-tree"], "look at the files of the worktree").await?.line();
        let of_head = git.succeeds(&place, &["rev-parse", &format!("{head}^{{tree}}")], "read the last commit").await?;
        let is_dirty = of_head.line() != tree;
        Ok(WorktreeState { place, head, on, tip, tree, is_dirty })
    }

    fn fresh_objects(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        let folder = self.git.scratch_file(&format!("{name}.objects"))?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| super::storage("make a folder for git's work", error))?;
        Ok(folder)
    }

    /// Removes the objects of a look.
    pub(super) fn drop_objects(&self, name: &str) {
        if let Ok(folder) = self.git.scratch_file(&format!("{name}.objects")) {
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// Files that differ between two trees or commits.
    pub(super) async fn between(&self, place: &GitPlace, from: &str, to: &str) -> Result<Vec<String>, WorkspaceError> {
        let args = ["diff-tree", "-r", "--name-only", "-z", "--no-renames", "--end-of-options", from, to];
        Ok(self.git.succeeds(place, &args, "compare files").await?.parts())
    }

    /// Files of the main tree that differ from its commit, and new ones.
    pub(super) async fn dirty(&self, main: &GitPlace) -> Result<Vec<String>, WorkspaceError> {
        let args =
            ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"];
        let listed = self.git.succeeds(main, &args, "look at the main tree").await?.parts();
        Ok(listed.into_iter().filter_map(|line| line.get(3..).map(str::to_owned)).collect())
    }

    /// True if nothing is lost with the worktree and its branch.
    pub(super) async fn is_merged(
        &self,
        record: &WorktreeRecord,
        state: &WorktreeState,
    ) -> Result<bool, WorkspaceError> {
        if state.is_dirty {
            return Ok(false);
        }
        let main = GitPlace::main(&record.repository);
        for commit in [Some(&state.head), state.tip.as_ref()].into_iter().flatten() {
            if *commit != record.base && !self.has(&main, record, commit).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if what the main tree has checked out, or another branch, has a commit.
    async fn has(&self, main: &GitPlace, record: &WorktreeRecord, commit: &str) -> Result<bool, WorkspaceError> {
        let ancestor = ["merge-base", "--is-ancestor", commit, "HEAD"];
        if self.git.run(main, &ancestor).await?.code == 0 {
            return Ok(true);
        }
        let contains = format!("--contains={commit}");
        let args = ["for-each-ref", &contains, "--format=%(refname)", "refs/heads", "refs/tags", "refs/remotes"];
        let holders = self.git.succeeds(main, &args, "look for branches").await?;
        Ok(holders.text.lines().any(|holder| holder != record.reference()))
    }

    /// Number of commits since the one that the worktree began from.
    async fn ahead(&self, place: &GitPlace, record: &WorktreeRecord, head: &str) -> Result<u64, WorkspaceError> {
        let range = format!("{}..{head}", record.base);
        let counted =
            self.git.succeeds(place, &["rev-list", "--count", "--end-of-options", &range], "count commits").await?;
        Ok(counted.line().parse().unwrap_or_default())
    }

    pub(super) async fn reported(&self, name: &str) -> Result<WorktreeReport, WorkspaceError> {
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
            let state = self.look(&record, Objects::Dropped).await?;
            report.changed = self.between(&state.place, &record.base, &state.tree).await?.len() as u64;
            report.ahead = self.ahead(&state.place, &record, &state.head).await?;
            report.is_merged = self.is_merged(&record, &state).await?;
            Ok::<_, WorkspaceError>(())
        };
        if let Err(error) = found.await {
            report.problem = Some(error.to_string());
        }
        self.drop_objects(name);
        Ok(report)
    }

    pub(super) async fn difference(&self, name: &str) -> Result<WorktreeDiff, WorkspaceError> {
        let record = self.ready(name)?;
        let found = self.difference_of(&record).await;
        self.drop_objects(name);
        found
    }

    async fn difference_of(&self, record: &WorktreeRecord) -> Result<WorktreeDiff, WorkspaceError> {
        let state = self.look(record, Objects::Dropped).await?;
        let files = self.between(&state.place, &record.base, &state.tree).await?;
        let args = [
            "diff-tree",
            "-r",
            "-p",
            "-M",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--end-of-options",
            &record.base,
            &state.tree,
        ];
        let patch = self.git.succeeds(&state.place, &args, "show the changes").await?;
        let mut text = patch.text;
        let is_cut = patch.is_cut || text.len() > MAX_PATCH;
        if text.len() > MAX_PATCH {
            text.truncate(text.floor_char_boundary(MAX_PATCH));
        }
        Ok(WorktreeDiff { name: record.name.clone(), base: record.base.clone(), files, text, is_cut })
    }
}

/// True if one of the paths is the other, or a folder around it.
pub(super) fn overlap(left: &str, right: &str) -> bool {
    Path::new(left).starts_with(right) || Path::new(right).starts_with(left)
}
