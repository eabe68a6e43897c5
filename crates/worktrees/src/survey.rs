//! A survey of the folders of a worktree, before git walks through them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agentd_core::error::{ErrorKind, WorkspaceError};
use agentd_workspace::failure::refused;

use super::conflict;

/// Files that git opens wherever they are; on a pipe it would wait for good.
const OPENED: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Finds the folders below a top that hold a repository of their own, following no link.
///
/// # Errors
/// When git would wait for what is in place of one of its files.
pub(super) async fn survey(top: PathBuf) -> Result<Vec<PathBuf>, WorkspaceError> {
    tokio::task::spawn_blocking(move || look_over(&top)).await.map_err(|error| {
        WorkspaceError::new(ErrorKind::Internal, "could not look through a worktree")
            .with_hint("try again")
            .with_source(error)
    })?
}

fn look_over(top: &Path) -> Result<Vec<PathBuf>, WorkspaceError> {
    let (mut found, mut open) = (Vec::new(), vec![top.to_owned()]);
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            if OPENED.iter().any(|opened| name == *opened) && !kind.is_file() && !kind.is_symlink() && !kind.is_dir() {
                let message = format!("{} is neither a file nor a folder", entry.path().display());
                return Err(refused(message, "remove it: git would wait for it"));
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

/// Refuses a repository in which a person is in the middle of something that ends with another commit.
pub(super) fn refuse_unfinished(git_dir: &Path) -> Result<(), WorkspaceError> {
    const UNFINISHED: [(&str, &str); 6] = [
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("BISECT_LOG", "bisect"),
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
    ];
    match UNFINISHED.iter().find(|(file, _)| git_dir.join(file).symlink_metadata().is_ok()) {
        Some((_, command)) => {
            let message = format!("the main tree is in the middle of a `git {command}`");
            Err(conflict(
                message,
                format!("end it, or give it up (`git {command} --abort`, for bisect `reset`), and apply again"),
            ))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_inside_are_found_and_pipes_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path();
        for folder in [".git", "lib/deep/.git", "src"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::write(top.join("sub/.git"), "gitdir: /nowhere\n").unwrap();
        fs::write(top.join("src/.gitignore"), "x\n").unwrap();
        std::os::unix::fs::symlink("/", top.join("src/all")).unwrap();
        assert_eq!(look_over(top).unwrap(), [PathBuf::from("lib/deep"), "sub".into()]);
        nix::unistd::mkfifo(&top.join("src/.gitattributes"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(look_over(top).unwrap_err().to_string().contains(".gitattributes"));
    }
}
