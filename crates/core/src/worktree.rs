//! Git worktrees of sessions. Each worktree has its own checkout and branch, so that several agents can work on one
//! repository at the same time.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    error::{ErrorKind, WorkspaceError},
    ids::SessionId,
};

/// Prefix of the branches that are created for worktrees.
pub const BRANCH_PREFIX: &str = "agentd/";
/// Maximum length of a worktree's name, in bytes.
pub const MAX_WORKTREE_NAME: usize = 40;

/// The worktree that is a session's project or, in the settings of a new session, the request for a worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWorktree {
    /// Name of the worktree. In a request, an empty name lets the daemon choose the name.
    pub name: String,
    /// Branch of the worktree; empty in a request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// Folder of the main worktree that the worktree replaces; empty in a request.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub project: PathBuf,
    /// Number of files in the main worktree with uncommitted changes when the worktree was created. The worktree does
    /// not have these changes.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub left_out: u64,
}

impl SessionWorktree {
    /// Creates a request for a worktree with that name.
    pub fn request(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A worktree to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorktree {
    /// Session for which the worktree is created.
    pub session: SessionId,
    /// Name of the worktree; empty to derive it from the session.
    pub name: String,
    /// Project folder, in a repository.
    pub project: PathBuf,
}

/// A worktree that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeWorktree {
    /// Part of the result that the session stores.
    pub worktree: SessionWorktree,
    /// Folder in the worktree that is the session's project.
    pub folder: PathBuf,
}

/// A recorded worktree, regardless of its state on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWorktree {
    /// Name of the worktree.
    pub name: String,
    /// Session for which the worktree was created.
    pub session: SessionId,
    /// Top folder of the worktree, as a real path if it exists.
    pub top: PathBuf,
    /// Top folder of the main worktree, into which the worktree is merged.
    pub main: PathBuf,
}

/// Paths of a repository that commands in one of its worktrees need, as real paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeAccess {
    /// Name of the worktree.
    pub name: String,
    /// Folder of the main worktree that the project replaces.
    pub project: PathBuf,
    /// Top folder of the worktree.
    pub top: PathBuf,
    /// Git folder shared by all worktrees of the repository.
    pub common: PathBuf,
    /// Folder of this worktree in the shared git folder.
    pub admin: PathBuf,
}

/// State of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeReport {
    /// Name of the worktree.
    pub name: String,
    /// Branch of the worktree.
    pub branch: String,
    /// Session for which the worktree was created.
    pub session: SessionId,
    /// True if the worktree's session no longer exists.
    pub is_orphan: bool,
    /// Folder of the worktree.
    pub folder: PathBuf,
    /// Folder of the main worktree that the worktree replaces.
    pub project: PathBuf,
    /// Base commit of the comparison: the newest commit shared with the main worktree. Initially, this is the commit
    /// from which the worktree was created.
    pub base: String,
    /// Number of files that differ from the base, including uncommitted ones, plus the number of nested repositories.
    pub changed: u64,
    /// Number of commits since the base.
    pub ahead: u64,
    /// True if the main worktree or another branch has all of the worktree's changes.
    pub is_merged: bool,
    /// Reason why the worktree's state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Differences between a worktree and the newest commit shared with the main worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeDiff {
    /// Name of the worktree.
    pub name: String,
    /// Hash of the shared commit.
    pub base: String,
    /// Paths of the files that differ.
    pub files: Vec<String>,
    /// The differences as a patch.
    pub text: String,
    /// True if the patch was truncated because it was too long.
    pub is_cut: bool,
    /// True if the patch is inexact because some text is not UTF-8.
    #[serde(default)]
    pub is_lossy: bool,
}

/// Worktree changes that were merged into the main worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeApplied {
    /// Name of the worktree.
    pub name: String,
    /// Current commit of the main worktree.
    pub commit: String,
    /// Branch that the main worktree has checked out; empty if no branch is checked out.
    pub onto: String,
    /// Files of the main worktree that changed; empty if the main worktree already had all changes.
    pub files: Vec<String>,
}

/// Checks that `name` is a valid worktree name. The name becomes a part of a path and of a branch name, and must have
/// no special meaning in a shell.
///
/// # Errors
/// Fails with kind `InvalidInput`.
pub fn check_name(name: &str) -> Result<(), WorkspaceError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_valid = !name.is_empty()
        && name.len() <= MAX_WORKTREE_NAME
        && name.chars().all(is_plain)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && !name.ends_with(".lock")
        && !name.contains("..");
    if is_valid {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_WORKTREE_NAME).collect();
    Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("invalid worktree name {shown:?}")).with_hint(format!(
        "use 1 to {MAX_WORKTREE_NAME} of a-z, A-Z, digits, `-`, `_` and `.`, not beginning with `-` or `.`, and \
             not ending in `.` or `.lock`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktree_names_are_valid_in_paths_and_branches() {
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
