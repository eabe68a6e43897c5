//! Git worktrees of sessions: each has a checkout and a branch of its own, so that several agents work on one repository at
//! the same time.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    error::{ErrorKind, WorkspaceError},
    ids::SessionId,
};

/// Beginning of the names of branches that are made for worktrees.
pub const BRANCHES: &str = "agentd/";
/// Bytes of a worktree's name at the most.
pub const MAX_WORKTREE_NAME: usize = 40;

/// The worktree that is a session's project; in the settings of a session to be, the wish for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWorktree {
    /// Its name. A wish without one leaves it to the daemon.
    pub name: String,
    /// Its branch; empty in a wish.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// The folder of the main tree that it stands for; empty in a wish.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub project: PathBuf,
    /// Number of files of the main tree with changes that were not committed when it was made: they are not in it.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub left_out: u64,
}

impl SessionWorktree {
    /// The wish for a worktree of that name.
    pub fn wish(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A worktree to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorktree {
    /// The session that it is for.
    pub session: SessionId,
    /// Its name; empty for one that comes from the session.
    pub name: String,
    /// The project, in a repository.
    pub project: PathBuf,
}

/// A worktree that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeWorktree {
    /// The part that the session keeps.
    pub worktree: SessionWorktree,
    /// The folder in it that is the session's project.
    pub folder: PathBuf,
}

/// A worktree that is recorded, whatever has become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWorktree {
    /// Its name.
    pub name: String,
    /// The session that it was made for.
    pub session: SessionId,
    /// The top of its tree, by its real path where it is there.
    pub top: PathBuf,
    /// The top of the main tree, which it is merged into.
    pub main: PathBuf,
}

/// The part of a repository that commands in one of its worktrees need, by real paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeAccess {
    /// Its name.
    pub name: String,
    /// The folder of the main tree that the project stands for.
    pub project: PathBuf,
    /// The top of the worktree.
    pub top: PathBuf,
    /// The folder that all worktrees of the repository share.
    pub common: PathBuf,
    /// The worktree's own folder in it.
    pub admin: PathBuf,
}

/// State of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeReport {
    /// Its name.
    pub name: String,
    /// Its branch.
    pub branch: String,
    /// The session that it was made for.
    pub session: SessionId,
    /// True if that session is there no more.
    pub is_orphan: bool,
    /// Its folder.
    pub folder: PathBuf,
    /// The folder of the main tree that it stands for.
    pub project: PathBuf,
    /// The commit that it is compared with: the newest one that its main tree has as well, at first the one that it began from.
    pub base: String,
    /// Number of files that differ from that commit, those among them that are not committed, and of repositories in it.
    pub changed: u64,
    /// Number of commits since.
    pub ahead: u64,
    /// True if the main tree, or another branch, has all of it.
    pub is_merged: bool,
    /// Reason why its state is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Difference of a worktree from the newest commit that its main tree has as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeDiff {
    /// Its name.
    pub name: String,
    /// That commit.
    pub base: String,
    /// The files that differ.
    pub files: Vec<String>,
    /// The patch.
    pub text: String,
    /// True if the patch was too long and lacks its end.
    pub is_cut: bool,
    /// True if the patch has text that is no UTF-8, which is not exact in it.
    #[serde(default)]
    pub is_lossy: bool,
}

/// Changes of a worktree that were brought into the main tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeApplied {
    /// Its name.
    pub name: String,
    /// The commit that the main tree is at now.
    pub commit: String,
    /// The branch that the main tree has checked out; empty where it has none.
    pub onto: String,
    /// The files of the main tree that changed; none where it had all of it already.
    pub files: Vec<String>,
}

/// Checks that a text can name a worktree: it is a part of a path and of a branch, and says nothing else in a shell.
///
/// # Errors
/// Of kind `InvalidInput`.
pub fn check_name(name: &str) -> Result<(), WorkspaceError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_sound = !name.is_empty()
        && name.len() <= MAX_WORKTREE_NAME
        && name.chars().all(is_plain)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && !name.ends_with(".lock")
        && !name.contains("..");
    if is_sound {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_WORKTREE_NAME).collect();
    Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("{shown:?} cannot be the name of a worktree")).with_hint(
        format!(
            "give 1 to {MAX_WORKTREE_NAME} of the letters a-z, A-Z, digits, `-`, `_` and `.`; it begins with none of `-` \
             and `.`, and ends in neither `.` nor `.lock`"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_paths_and_of_branches() {
        for name in ["fix", "Fix-2", "a.b_c", "0", &"x".repeat(40)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in
            ["", ".", "..", "-f", ".git", "a/b", "a b", "a..b", "a.lock", "a.", "ä", "a~1", "a@{1}", &"x".repeat(41)]
        {
            let error = check_name(name).unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidInput && error.hint().is_some(), "{name}");
        }
    }
}
