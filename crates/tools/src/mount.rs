//! Checks the user's folders that a session mounts: its project, and the added folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    folder::{AddedFolder, Mounts},
    session::Mount,
    worktree::WorktreeAccess,
};
use agentd_worktrees::WorktreeFolders;

/// Folders that no session may use, except worktrees that were created for sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct PrivateFolders {
    pub(super) paths: Vec<PathBuf>,
    pub(super) worktrees: Option<WorktreeFolders>,
}

/// Adds folders to a session's folders, by their real paths.
pub(super) fn add_folders(
    private: &PrivateFolders,
    mounts: Mounts,
    added: Vec<Mount>,
) -> Result<Vec<AddedFolder>, WorkspaceError> {
    let project = mounts.project.map(|mount| check_mount("project folder", private, mount)).transpose()?;
    let added = added.into_iter().map(|mount| {
        let mount = check_mount("folder", private, mount)?;
        // Reports an unreadable folder now, instead of in the first tool that reads it.
        fs::read_dir(&mount.path).map_err(|error| {
            let message = format!("the folder {} cannot be read", mount.path.display());
            WorkspaceError::new(ErrorKind::InvalidInput, message)
                .with_hint("make it readable for the user that runs agentd, or leave it out")
                .with_source(error)
        })?;
        Ok(mount)
    });
    let added = added.collect::<Result<_, WorkspaceError>>()?;
    Mounts { project, folders: mounts.folders }.with(added)
}

/// Resolves the folders of a turn to their real paths, and finds the worktree of the project.
pub(super) fn check_mounts(
    private: &PrivateFolders,
    mounts: Mounts,
) -> Result<(Mounts, Option<WorktreeAccess>), WorkspaceError> {
    let project = mounts.project.map(|mount| check_mount("project folder", private, mount)).transpose()?;
    for folder in &mounts.folders {
        let found = check_mount("added folder", private, folder.mount());
        let found = found.map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.with_hint("restore it, or remove the added folders with `--add-dir none`"),
            _ => error,
        })?;
        // The folder was added by its real path. If that path is a link now, the link leads to a folder that was never
        // added.
        if found.path != folder.path {
            let shown = folder.path.display();
            let message = format!("the added folder {shown} is now a link to {}", found.path.display());
            return Err(WorkspaceError::new(ErrorKind::InvalidInput, message)
                .with_hint("remove the added folders with `--add-dir none`, and add the right ones again"));
        }
    }
    let mounts = Mounts { project, folders: mounts.folders };
    mounts.check()?;
    let worktrees = private.worktrees.as_ref();
    let worktree = worktrees.and_then(|worktrees| worktrees.of_folder(&mounts.project.as_ref()?.path));
    Ok((mounts, worktree))
}

/// Resolves a folder to its real path. Rejects a folder that contains a private folder of the daemon, or is inside such
/// a folder. `role` describes the folder in error messages.
fn check_mount(role: &str, private: &PrivateFolders, mount: Mount) -> Result<Mount, WorkspaceError> {
    let shown = mount.path.display();
    let path = mount.path.canonicalize().map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::InvalidInput };
        let is_below = |worktrees: &WorktreeFolders| mount.path.starts_with(resolved(worktrees.base()));
        let hint = match private.worktrees.as_ref().is_some_and(is_below) {
            true => "its worktree was removed: choose another folder with -C, such as the main worktree",
            false => "choose an existing, readable folder",
        };
        WorkspaceError::new(kind, format!("the {role} {shown} cannot be opened")).with_hint(hint).with_source(error)
    })?;
    if !path.is_dir() {
        let role = role.trim_end_matches(" folder");
        return Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("the {role} {shown} is not a folder"))
            .with_hint("choose a folder, and add single files as uploads"));
    }
    let is_private = |private: &PathBuf| {
        let private = resolved(private);
        private.starts_with(&path) || path.starts_with(&private)
    };
    let is_worktree = || private.worktrees.as_ref().is_some_and(|worktrees| worktrees.of_folder(&path).is_some());
    if let Some(private) = private.paths.iter().find(|private| is_private(private))
        && !is_worktree()
    {
        let message = format!("the {role} {shown} overlaps {}, which belongs to the daemon", private.display());
        return Err(WorkspaceError::new(ErrorKind::InvalidInput, message)
            .with_hint("choose a folder outside the daemon's data and configuration"));
    }
    Ok(Mount { path, writable: mount.writable })
}

/// Returns the real path of a file that may not exist yet.
fn resolved(path: &Path) -> PathBuf {
    let missing = |path: &Path| Some((path.parent()?.to_path_buf(), path.file_name()?.to_owned()));
    match (path.canonicalize(), missing(path)) {
        (Ok(real), _) => real,
        (Err(_), Some((parent, name))) => resolved(&parent).join(name),
        (Err(_), None) => path.to_path_buf(),
    }
}
