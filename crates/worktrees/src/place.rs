//! The places that git works in: explicit folders, of which it reaches no others.

use std::path::{Path, PathBuf};

use agentd_core::{
    error::WorkspaceError,
    folder::{AddedFolder, FOLDERS},
    ports::Workspace,
};
use agentd_sandbox::repository::Repository;

use super::record::WorktreeRecord;

/// The folders and settings of a call.
#[derive(Debug, Clone)]
pub(super) struct GitPlace {
    pub(super) git_dir: PathBuf,
    pub(super) common: PathBuf,
    pub(super) work_tree: PathBuf,
    pub(super) index: Option<PathBuf>,
    /// New objects go there, and are not kept.
    pub(super) objects: Option<PathBuf>,
    /// Folders that it may change.
    pub(super) writes: Vec<PathBuf>,
    /// Name and address of the author of a commit.
    pub(super) author: Option<(String, String)>,
    /// Settings that turn programs off which the repository names.
    pub(super) settings: Vec<(String, &'static str)>,
}

impl GitPlace {
    /// The main tree. Nothing of it may be changed.
    pub(super) fn main(repository: &Repository) -> Self {
        Self {
            git_dir: repository.git_dir.clone(),
            common: repository.common.clone(),
            work_tree: repository.top.clone(),
            index: None,
            objects: None,
            writes: Vec::new(),
            author: None,
            settings: Vec::new(),
        }
    }

    /// The branches and commits, without a tree: whatever has become of that.
    pub(super) fn branches(repository: &Repository) -> Self {
        let common = repository.common.clone();
        Self { git_dir: common.clone(), work_tree: common, ..Self::main(repository) }
    }

    /// A worktree. Nothing of it may be changed.
    pub(super) fn worktree(record: &WorktreeRecord, top: &Path) -> Result<Self, WorkspaceError> {
        let (git_dir, work_tree) = (record.admin()?.to_owned(), top.to_owned());
        Ok(Self { git_dir, work_tree, ..Self::main(&record.repository) })
    }

    pub(super) fn writing(mut self, folders: &[&Path]) -> Self {
        self.writes.extend(folders.iter().map(|folder| folder.to_path_buf()));
        self
    }

    pub(super) fn with_index(self, index: PathBuf) -> Self {
        Self { index: Some(index), ..self }
    }

    /// New objects go to this folder, which is not kept.
    pub(super) fn trying(self, objects: PathBuf) -> Self {
        Self { objects: Some(objects), ..self }
    }

    /// Files of git's work are in this folder, and none of the tree is seen.
    pub(super) fn apart_in(self, folder: PathBuf) -> Self {
        Self { work_tree: folder.clone(), ..self }.writing(&[&folder])
    }

    pub(super) fn by(self, author: (String, String)) -> Self {
        Self { author: Some(author), ..self }
    }
}

/// The folders that a call reaches, as those of a workspace.
pub(super) fn reached(place: &GitPlace, scratch: PathBuf) -> Workspace {
    let mut folders: Vec<(PathBuf, bool)> = Vec::new();
    for folder in [&place.work_tree, &place.common, &place.git_dir].into_iter().chain(&place.writes) {
        let writable = place.writes.contains(folder);
        if !folders.iter().any(|(known, _)| known == folder) {
            folders.push((folder.clone(), writable));
        }
    }
    let folders = folders.into_iter().enumerate().map(|(number, (path, writable))| AddedFolder {
        at: format!("{FOLDERS}/{number}"),
        path,
        writable,
    });
    Workspace { root: scratch, project: None, folders: folders.collect(), memories: None, worktree: None }
}
