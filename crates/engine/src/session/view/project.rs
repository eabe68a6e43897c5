//! The agents that a session has: those of the configuration, and those that its project brings along, as far as the person trusts
//! it. They are looked up when a turn begins, and a turn keeps them.

use std::{sync::Arc, time::Duration};

use agentd_core::{agent::Agents, event::EventKind};
use tokio::time::timeout;

use crate::{
    error::EngineError,
    session::{actor::Actor, view::project_agents::ProjectAgents},
};

/// Time limit for looking at a project. Where it passes, the project's agents are not there.
const PATIENCE: Duration = Duration::from_secs(5);

impl Actor {
    /// All agents of the session.
    pub(crate) fn all_agents(&self) -> Arc<Agents> {
        self.project.and(&self.shared.config().agents)
    }

    /// Looks whether the session's project is trusted, and takes its agents.
    pub(crate) async fn look_at_project(&mut self) -> Result<(), EngineError> {
        if self.state.settings.project.is_none() {
            self.project = ProjectAgents::default();
            return Ok(());
        }
        let workspace = self.workspace().await?;
        let looked = timeout(PATIENCE, self.shared.parts.workspaces.project(&workspace)).await;
        if looked.is_err() {
            tracing::warn!(session = %self.id, "the project's agents are left out: the disk did not answer in time");
        }
        let configured = Arc::clone(&self.shared.config().agents);
        self.project.follow(looked.unwrap_or_default(), &configured);
        Ok(())
    }

    /// A word to people about the project, once.
    pub(crate) fn project_warning(&mut self) -> Option<EventKind> {
        self.project.warning.take()
    }
}
