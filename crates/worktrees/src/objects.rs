//! Objects of a repository, of which commands in worktrees can write those that are not packed.

use agentd_core::error::WorkspaceError;

use super::{Inner, conflict, place::GitPlace, record::WorktreeRecord};

/// Words of git for an object that has not the content of its name.
const REPLACED: [&str; 2] = ["hash-path mismatch", "object corrupt"];

impl Inner {
    /// Refuses a repository in which an object that is not packed was replaced. Git believes its name, so no difference shows it,
    /// and what is checked out later has the content.
    pub(super) async fn refuse_replaced(&self, record: &WorktreeRecord) -> Result<(), WorkspaceError> {
        // What is packed is left out, and nothing is walked through but what is not.
        let args =
            ["fsck", "--no-full", "--no-dangling", "--no-reflogs", "--no-progress", "--end-of-options", &record.base];
        let checked = self.git.run(&GitPlace::branches(&record.repository), &args).await?;
        let told = checked.complaints(&REPLACED);
        if told.is_empty() {
            return Ok(());
        }
        let common = record.repository.common.display();
        let message = format!("objects of the repository {common} do not have the content of their names: {told}");
        Err(conflict(message, "move them away, and fetch them from another clone or a backup: `git fsck` names them"))
    }
}
