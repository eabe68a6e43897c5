//! What the rules say of calls that nobody makes: for people who want to know beforehand.

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    grant::Grant,
    ids::{CallId, SessionId, TurnId},
    policy::Explanation,
    ports::{ToolContext, Workspace},
    session::SessionSettings,
    tool::{Effect, Followed, ToolCall, ToolSpec},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::{
    error::EngineError,
    policy::{self, Facts, Policy},
};

/// Where a call would be made: all that a verdict depends on, besides the call and the rules.
#[derive(Debug, Clone, Default)]
pub struct Standpoint {
    settings: SessionSettings,
    workspace: Option<Arc<Workspace>>,
    kept: Arc<[Grant]>,
}

impl Standpoint {
    /// What a policy says of a call. Of one that reads through a link it says it of both names, where
    /// [`Engine::follow`] has found the second.
    #[must_use]
    pub fn judge(&self, rules: &Policy, tool: &ToolSpec, arguments: &str, followed: Option<&Followed>) -> Explanation {
        let roots = self.workspace.as_deref().map(policy::roots).unwrap_or_default();
        let memories = self.workspace.as_ref().and_then(|workspace| workspace.memories.as_deref());
        let settings = &self.settings;
        rules.judge(&Facts { tool, arguments, followed, settings, roots: &roots, memories, kept: &self.kept })
    }
}

impl Engine {
    /// The rules in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.shared.config().policy)
    }

    /// The standpoint of a session, or of a new one that has no project.
    ///
    /// # Errors
    /// When there is no such session, or the journal does not answer.
    pub async fn standpoint(&self, session: Option<SessionId>) -> Result<Standpoint, EngineError> {
        let kept = self.shared.kept.now();
        let Some(id) = session else {
            let settings = self.shared.config().session_defaults.clone();
            return Ok(Standpoint { settings, workspace: None, kept });
        };
        let stored = self.shared.parts.store.session(id).await?;
        let stored =
            stored.ok_or_else(|| EngineError::new(ErrorKind::NotFound, format!("there is no session {id}")))?;
        let settings = stored.settings;
        // Nothing is made for it: whoever asks only wants to know. Where the project is gone no rule reaches into it, and
        // what the session is set to and what it was granted hold all the same.
        let workspace = match self.shared.parts.workspaces.locate(id, settings.project.clone()).await {
            Ok(workspace) => Some(Arc::new(workspace)),
            Err(error) => {
                tracing::debug!(session = %id, "calls are judged without the session's folders: {error}");
                None
            }
        };
        Ok(Standpoint { settings, workspace, kept })
    }

    /// The form of a call that names what it would read, where a path in it leads through a link as the files stand now.
    /// None from a standpoint without folders.
    pub async fn follow(&self, at: &Standpoint, tool: &ToolSpec, arguments: &str) -> Option<Followed> {
        let call_id = CallId::generate();
        let call = ToolCall { call_id: call_id.clone(), name: tool.name.clone(), arguments: arguments.to_owned() };
        let context = ToolContext {
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id,
            workspace: at.workspace.clone()?,
            state_files: Arc::default(),
            reading: Default::default(),
            environment: Arc::default(),
            progress: Default::default(),
            person: Default::default(),
            sampler: Default::default(),
            stands_for: None,
            now: self.shared.parts.clock.now(),
            cancel: CancellationToken::new(),
        };
        self.shared.parts.toolbox.follow(&context, &call).await
    }

    /// A tool by its name.
    ///
    /// # Errors
    /// When there is none.
    pub fn tool(&self, name: &str) -> Result<ToolSpec, EngineError> {
        self.tools().into_iter().find(|tool| tool.name == name).ok_or_else(|| {
            EngineError::new(ErrorKind::NotFound, format!("there is no tool {name:?}"))
                .with_hint("`agentctl tools` lists them; a command line stands behind `--`")
        })
    }
}

/// A tool that is not there any more, as one that may do anything.
#[must_use]
pub fn unknown_tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}), effect: Effect::Execute }
}
