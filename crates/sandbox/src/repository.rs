//! Finds the repository around a project by reading files. Git is only run once its access has been determined.
//!
//! A `.git` file names another folder, and a command may have written the file. The file is only trusted if that folder
//! refers back to it, since a command could not write to that folder.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
};

use agentd_core::{error::WorkspaceError, worktree::BRANCH_PREFIX};
use agentd_workspace::failure::refused;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

/// Maximum number of bytes read from a file that names a folder.
const MAX_POINTER: u64 = 16 * 1024;

/// Git tree that contains a project, and its repository, by real paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Top folder of the tree.
    pub top: PathBuf,
    /// Folder that contains the tree's HEAD and index.
    pub git_dir: PathBuf,
    /// Folder with branches and objects, which all worktrees share.
    pub common: PathBuf,
}

impl Repository {
    /// Returns true if the tree itself exists, and not only its repository.
    pub fn tree_exists(&self) -> bool {
        self.top.is_dir() && self.git_dir.join("HEAD").is_file()
    }
}

/// Finds the repository that contains a folder, given by its real path.
///
/// # Errors
/// Returns an error if there is no repository, or if it does not support worktrees.
pub fn find(project: &Path) -> Result<Repository, WorkspaceError> {
    for folder in project.ancestors() {
        let git = folder.join(".git");
        match fs::symlink_metadata(&git) {
            Ok(found) if found.is_dir() => {
                return Ok(Repository { top: folder.to_owned(), git_dir: git.clone(), common: git });
            }
            Ok(found) if found.is_file() => return linked(folder),
            Ok(_) => {
                let message = format!("{} is a link, not a repository", git.display());
                return Err(refused(message, "name the folder that contains the repository itself"));
            }
            Err(_) if is_bare(folder) => {
                let message = format!("{} is in a bare repository, which has no files to work on", project.display());
                return Err(refused(message, "clone it and work in the clone"));
            }
            Err(_) => {}
        }
    }
    let message = format!("{} is not in a git repository", project.display());
    Err(refused(message, "run `git init` and commit, or omit --worktree"))
}

/// Returns true if the folder is a repository itself.
fn is_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Returns the repository outside a tree that is a worktree or a submodule: the folder with branches and objects. All
/// paths are real paths.
pub(crate) fn repository_of(top: &Path) -> Option<PathBuf> {
    let common = of_worktree(top).map(|found| found.common).or_else(|| of_linked_submodule(top))?;
    // Only folders with these names are known to be written only by git.
    let is_named = |part: Component<'_>| {
        [".git", ".bare"].iter().any(|end| part.as_os_str().as_encoded_bytes().ends_with(end.as_bytes()))
    };
    (is_bare(&common) && common.components().any(is_named) && !common.starts_with(top)).then_some(common)
}

/// Returns true if the top of a tree has a `.git` file, which names its repository.
pub(crate) fn is_linked(top: &Path) -> bool {
    fs::symlink_metadata(top.join(".git")).is_ok_and(|found| found.is_file())
}

/// Returns the folder that the `.git` file of a tree names.
fn named(top: &Path) -> Option<PathBuf> {
    top.join(pointer(&top.join(".git"))?.strip_prefix("gitdir: ")?).canonicalize().ok()
}

/// Returns the repository of a tree that is a worktree, if the repository refers back to the tree.
fn of_worktree(top: &Path) -> Option<Repository> {
    let git_dir = named(top)?;
    let back = git_dir.join(pointer(&git_dir.join("gitdir"))?).canonicalize().ok()?;
    let common = git_dir.join(pointer(&git_dir.join("commondir"))?).canonicalize().ok()?;
    let is_own = git_dir.parent() == Some(&common.join("worktrees"));
    (back == top.join(".git") && is_own).then(|| Repository { top: top.to_owned(), git_dir, common })
}

/// Returns the repository whose configuration names this tree as its own.
fn of_linked_submodule(top: &Path) -> Option<PathBuf> {
    let git_dir = named(top)?;
    let names_top = |settings: &str| {
        let text = pointer(&git_dir.join(settings)).unwrap_or_default();
        let mut entries = text.lines().filter_map(|line| line.split_once('='));
        entries.any(|(key, value)| {
            let value = value.trim().trim_matches('"').replace("\\\"", "\"").replace("\\\\", "\\");
            key.trim().eq_ignore_ascii_case("worktree")
                && git_dir.join(value).canonicalize().is_ok_and(|tree| tree == top)
        })
    };
    let is_whole = fs::symlink_metadata(git_dir.join("commondir")).is_err();
    (is_whole && ["config", "config.worktree"].into_iter().any(names_top)).then_some(git_dir)
}

/// Returns the repository of a tree, or an error if the tree is not a worktree.
fn linked(top: &Path) -> Result<Repository, WorkspaceError> {
    of_worktree(top).ok_or_else(|| {
        let message = format!("{} is not a main repository: its .git file points to another folder", top.display());
        refused(message, "name the main folder of the repository; worktrees of submodules are not supported")
    })
}

/// Reads the line in a file that names a folder or a branch. Does not block if the path is a named pipe.
pub fn pointer(path: &Path) -> Option<String> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_POINTER).read_to_string(&mut text).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty())
}

/// Returns the repository of the submodule in this folder, if there is one.
pub fn of_submodule(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.symlink_metadata().ok()?.is_dir() { git.canonicalize().ok() } else { named(folder) }
}

/// Returns the worktree's own folder in a repository, as named by the `.git` file that git has just created at `top`.
pub fn admin_of(top: &Path, common: &Path) -> Option<PathBuf> {
    let admin = named(top)?;
    (admin.parent() == Some(&common.join("worktrees"))).then_some(admin)
}

/// Finds the worktree's own folder in a repository. Each such folder names the top folder of its worktree.
pub fn admin_for(top: &Path, common: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    let entries = fs::read_dir(common.join("worktrees")).ok()?.flatten();
    let mut all = entries.map(|entry| entry.path());
    all.find(|admin| pointer(&admin.join("gitdir")).is_some_and(|named| Path::new(&named) == git))
}

/// Creates the folders in which git stores the branches of worktrees. A command may write in these folders but not
/// create them, and git removes them when they are empty. Also creates the folders that a command may not write to,
/// because the command could create them if they were missing. Does nothing if the repository no longer exists.
pub fn create_branch_folders(common: &Path) -> io::Result<()> {
    if !common.join("HEAD").is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let branches = BRANCH_PREFIX.trim_end_matches('/');
    for path in ["refs/heads", "logs/refs/heads"] {
        fs::create_dir_all(common.join(path).join(branches))?;
    }
    for path in ["objects/pack", "objects/info"] {
        fs::create_dir_all(common.join(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gitdir_file_is_trusted_only_if_its_target_names_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (app, other) = (root.join("app"), root.join("other"));
        fs::create_dir_all(app.join(".git/worktrees/one")).unwrap();
        fs::create_dir_all(app.join("src/deep")).unwrap();
        fs::create_dir_all(&other).unwrap();
        assert_eq!(find(&app.join("src/deep")).unwrap().top, app);
        let admin = app.join(".git/worktrees/one");
        fs::write(other.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        fs::write(admin.join("commondir"), "../..\n").unwrap();
        assert!(find(&other).is_err(), "a repository without a back reference was accepted");
        fs::write(admin.join("gitdir"), format!("{}\n", root.join("elsewhere/.git").display())).unwrap();
        assert!(find(&other).is_err());
        fs::write(admin.join("gitdir"), format!("{}\n", other.join(".git").display())).unwrap();
        let found = find(&other).unwrap();
        assert_eq!((found.git_dir, found.common), (admin, app.join(".git")));
        assert!(find(&root).unwrap_err().hint().is_some());
        for name in ["bare.git/objects", "bare.git/refs"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert!(find(&root.join("bare.git")).unwrap_err().to_string().contains("bare"));
        std::os::unix::fs::symlink(app.join(".git"), root.join(".git")).unwrap();
        assert!(find(&root).unwrap_err().to_string().contains("is a link"));
    }
}
