//! The `.agentd/` folders of projects, and the person's trust in them.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{agent::Agents, error::WorkspaceError, project::ProjectReport, project::ProjectTrust};

/// The part of a project's `.agentd/` that sessions take their agents from.
#[derive(Debug, Clone, Default)]
pub struct ProjectStanding {
    /// The trust in it now.
    pub trust: ProjectTrust,
    /// Its agents; none unless it is trusted. The same value as long as nothing has changed.
    pub agents: Option<Arc<Agents>>,
}

/// Knows the `.agentd/` folders of projects, and which of them the person trusts. No tool reaches this port.
pub trait Projects: Send + Sync {
    /// All that is known of a project. Texts of commands are told only where it is trusted.
    ///
    /// # Errors
    /// When there is no such folder, or it cannot be read.
    fn show(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;

    /// Trusts a project as long as its content has this hash, on behalf of a client.
    ///
    /// # Errors
    /// When its content has another hash, there is nothing to trust, or the trust cannot be stored.
    fn trust(
        &self,
        project: PathBuf,
        hash: String,
        client: String,
    ) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;

    /// Trusts a project no longer. The project need not be there any more.
    ///
    /// # Errors
    /// When it is not trusted, or that cannot be stored.
    fn distrust(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;
}
