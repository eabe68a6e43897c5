//! Git worktrees of sessions.

use futures_util::future::BoxFuture;

use crate::{
    error::WorkspaceError,
    ids::SessionId,
    worktree::{KnownWorktree, MadeWorktree, NewWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

/// Makes, shows, merges and removes worktrees. All are found again on the disk: each is recorded before it is made. No tool
/// reaches this port.
pub trait Worktrees: Send + Sync {
    /// Makes a worktree from the last commit of the project's repository.
    ///
    /// # Errors
    /// When the project is in no repository or in one without a commit, git is missing or fails, or the name is taken or
    /// none.
    fn make(&self, new: NewWorktree) -> BoxFuture<'_, Result<MadeWorktree, WorkspaceError>>;

    /// All worktrees, sorted by name.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn known(&self) -> BoxFuture<'_, Result<Vec<KnownWorktree>, WorkspaceError>>;

    /// State of a worktree. What cannot be found out of it is told as its problem.
    ///
    /// # Errors
    /// When there is none of that name.
    fn report(&self, name: String) -> BoxFuture<'_, Result<WorktreeReport, WorkspaceError>>;

    /// Its difference from the newest commit that its main tree has as well: commits, changes that are not committed, and new files.
    ///
    /// # Errors
    /// When there is none of that name, or git fails.
    fn diff(&self, name: String) -> BoxFuture<'_, Result<WorktreeDiff, WorkspaceError>>;

    /// Commits what is not committed in it, with this message, and merges its branch into what the main tree has checked out:
    /// all of it, or nothing.
    ///
    /// # Errors
    /// Of kind `Conflict`, with the files, where they cannot be merged or are changed in the main tree.
    fn apply(&self, name: String, message: String) -> BoxFuture<'_, Result<WorktreeApplied, WorkspaceError>>;

    /// Removes a worktree and its branch; unless forced, one without changes that nothing else has.
    ///
    /// # Errors
    /// Of kind `Conflict` where it has such changes.
    fn remove(&self, name: String, force: bool) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Removes a worktree whose session is gone, where it has no changes that nothing else has. Says whether it did.
    ///
    /// # Errors
    /// When it cannot be looked at or removed.
    fn leave(&self, name: String) -> BoxFuture<'_, Result<bool, WorkspaceError>>;

    /// Gives a worktree to another session, which uses it too.
    ///
    /// # Errors
    /// When the record cannot be written.
    fn hand_over(&self, name: String, heir: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Finishes or clears what a stop of the daemon cut off.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn settle(&self) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}
