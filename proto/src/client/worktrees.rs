//! Calls about git worktrees of sessions. A worktree is named by its name, or by a session that works in it.

use agentd_core::worktree::{WorktreeApplied, WorktreeDiff, WorktreeReport};

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES, convert,
    v1::{self, worktrees_client::WorktreesClient},
};

impl Client {
    fn worktrees_service(&self) -> WorktreesClient<tonic::transport::Channel> {
        WorktreesClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// All worktrees, sorted by name.
    ///
    /// # Errors
    /// When they cannot be listed, or the connection fails.
    pub async fn worktrees(&self) -> Result<Vec<WorktreeReport>, ClientError> {
        let listed = self.worktrees_service().list(v1::ListWorktreesRequest {}).await?.into_inner();
        Ok(convert::all(listed.worktrees)?)
    }

    /// Difference of a worktree from the commit that it began from.
    ///
    /// # Errors
    /// When there is none of that name, git fails, or the connection does.
    pub async fn diff_worktree(&self, name: &str) -> Result<WorktreeDiff, ClientError> {
        let request = v1::DiffWorktreeRequest { worktree: name.to_owned() };
        Ok(self.worktrees_service().diff(request).await?.into_inner().into())
    }

    /// Merges a worktree into what the main tree has checked out.
    ///
    /// # Errors
    /// `Conflict` with the files in the way, `Busy` while a turn runs in it, and when git or the connection fails.
    pub async fn apply_worktree(&self, name: &str) -> Result<WorktreeApplied, ClientError> {
        let request = v1::ApplyWorktreeRequest { worktree: name.to_owned() };
        Ok(self.worktrees_service().apply(request).await?.into_inner().into())
    }

    /// Removes a worktree and its branch, and returns its name.
    ///
    /// # Errors
    /// `Conflict` where it has changes that are merged nowhere and it is not forced, and when the connection fails.
    pub async fn remove_worktree(&self, name: &str, force: bool) -> Result<String, ClientError> {
        let request = v1::RemoveWorktreeRequest { worktree: name.to_owned(), force };
        Ok(self.worktrees_service().remove(request).await?.into_inner().name)
    }
}
