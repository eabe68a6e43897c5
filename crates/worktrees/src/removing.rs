//! Removes worktrees: the folder, what git knows of it, its branch, and the record last, so that a removal that is cut off goes on.

use std::{fs, io, path::Path};

use agentd_core::error::WorkspaceError;
use agentd_sandbox::repository;
use agentd_workspace::remove;
use cap_std::fs::Dir;

use crate::{
    Inner,
    applying::now,
    changes::Objects,
    conflict,
    making::index_name,
    place::GitPlace,
    record::{Stage, WorktreeRecord, storage},
};

impl Inner {
    pub(super) async fn removed(&self, name: &str, force: bool) -> Result<(), WorkspaceError> {
        let record = self.records.get(name)?;
        let children = self.children(&record)?;
        if !children.is_empty() {
            let message = format!(
                "worktrees were made from the worktree {name}, and are merged into it: {}",
                children.join(", ")
            );
            return Err(conflict(message, "apply or remove those first"));
        }
        if !force && !self.is_spare(&record).await? {
            let message = format!("the worktree {name} has changes that are merged nowhere");
            let hint = format!(
                "`agentctl worktree diff {name}` shows them, `agentctl worktree apply {name}` merges them, and --force \
                 removes them for good"
            );
            return Err(conflict(message, hint));
        }
        self.take_away(record).await
    }

    /// Removes a worktree that has nothing to be lost, and says whether it did.
    pub(super) async fn left(&self, name: &str) -> Result<bool, WorkspaceError> {
        let Some(record) = self.records.find(name)? else { return Ok(true) };
        if !self.children(&record)?.is_empty() || !self.is_spare(&record).await? {
            return Ok(false);
        }
        self.take_away(record).await.map(|()| true)
    }

    /// Names of the worktrees whose main tree is this one.
    fn children(&self, record: &WorktreeRecord) -> Result<Vec<String>, WorkspaceError> {
        let top = self.records.real_base()?.join(&record.name);
        let is_child = |other: &WorktreeRecord| other.name != record.name && other.repository.top == top;
        Ok(self.records.all()?.into_iter().filter(is_child).map(|other| other.name).collect())
    }

    /// True if nothing is lost with a worktree.
    async fn is_spare(&self, record: &WorktreeRecord) -> Result<bool, WorkspaceError> {
        let record = self.ready(&record.name)?;
        let found = async {
            let state = self.look(&record, Objects::Dropped).await?;
            self.is_merged(&record, &state).await
        };
        let found = found.await;
        self.drop_objects(&record.name);
        found
    }

    async fn take_away(&self, mut record: WorktreeRecord) -> Result<(), WorkspaceError> {
        let branches = GitPlace::branches(&record.repository);
        let mut tip = None;
        if record.repository.common.is_dir() {
            let reference = format!("{}^{{commit}}", record.reference());
            let found = self.git.run(&branches, &["rev-parse", "--verify", "--quiet", &reference]).await?;
            tip = Some(found.line()).filter(|_| found.code == 0);
        }
        record.stage = Stage::Removing { tip, at: now() };
        self.records.store(&record)?;
        self.finish_removal(&record).await
    }

    /// Removes what is left of a worktree.
    pub(super) async fn finish_removal(&self, record: &WorktreeRecord) -> Result<(), WorkspaceError> {
        let Stage::Removing { tip, .. } = &record.stage else { return Ok(()) };
        self.remove_files(record)?;
        // Of locks, only its own go: in the main tree a person may be at work.
        let _ = fs::remove_file(record.repository.common.join(record.reference() + ".lock"));
        if let Some(tip) = tip
            && record.repository.common.is_dir()
        {
            self.remove_branch(record, tip).await;
        }
        self.records.forget(&record.name)
    }

    /// Removes a worktree that was only half made; nobody has seen it.
    pub(super) async fn clear(&self, name: &str) -> Result<(), WorkspaceError> {
        let Some(mut record) = self.records.find(name)? else { return Ok(()) };
        record.stage = Stage::Removing { tip: Some(record.base.clone()), at: record.at.as_second() };
        self.records.store(&record)?;
        self.finish_removal(&record).await
    }

    fn remove_files(&self, record: &WorktreeRecord) -> Result<(), WorkspaceError> {
        let (base, common) = (self.records.real_base()?, &record.repository.common);
        let top = base.join(&record.name);
        let failed = |error| storage(&format!("remove the worktree {}", record.name), error);
        // Found before the folder goes which it names.
        let admin = record.admin.clone().or_else(|| repository::admin_for(&top, common));
        remove_folder(&base, &top).map_err(failed)?;
        let all = common.join("worktrees");
        if let Some(admin) = admin.filter(|admin| admin.parent() == Some(all.as_path())) {
            remove_folder(&all, &admin).map_err(failed)?;
            // As git does with the last one.
            let _ = fs::remove_dir(&all);
        }
        if let Ok(index) = self.git.scratch_file(&index_name(&record.name)) {
            let _ = fs::remove_file(index);
        }
        if let Ok(merge) = self.git.merge_folder(&record.name) {
            let _ = fs::remove_dir(merge);
        }
        Ok(())
    }

    /// Removes the branch, unless somebody has moved it.
    async fn remove_branch(&self, record: &WorktreeRecord, tip: &str) {
        let removed = async {
            let place = self.git.own_programs(GitPlace::branches(&record.repository)).await?;
            let place = place.writing(&[&record.repository.common]);
            self.git.run(&place, &["update-ref", "--no-deref", "-d", &record.reference(), tip]).await
        };
        let removed: Result<_, WorkspaceError> = removed.await;
        match removed {
            Ok(output) if output.code == 0 => {}
            Ok(output) => tracing::warn!("the branch {} is left: {}", record.branch(), output.told()),
            Err(error) => tracing::warn!("the branch {} is left: {error}", record.branch()),
        }
    }
}

/// Removes a folder, following no link.
fn remove_folder(parent: &Path, folder: &Path) -> io::Result<()> {
    let Some(name) = folder.file_name() else { return Ok(()) };
    let parent = match Dir::open_ambient_dir(parent, cap_std::ambient_authority()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    match remove::folder(&parent, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
