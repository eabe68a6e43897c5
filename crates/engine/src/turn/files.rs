//! The session's folders, made before the first tool needs them: a turn that only talks does not wait for the disk.

use std::sync::Arc;

use agentd_context::ToolSet;
use agentd_core::{
    error::WorkspaceError,
    files::{Picture, PreparedPicture},
    ids::SessionId,
    ports::{Artifact, ArtifactDir, Workspace, Workspaces},
    turn::TurnError,
};
use tokio::sync::OnceCell;

use crate::{
    attachments,
    large_input::{self, InputRoom, UserInput},
    turn::TurnExit,
};

/// Folders that are made when they are first needed.
pub(crate) struct SessionFiles {
    session: SessionId,
    workspaces: Arc<dyn Workspaces>,
    made: OnceCell<()>,
}

impl SessionFiles {
    pub(crate) fn new(session: SessionId, workspaces: Arc<dyn Workspaces>) -> Self {
        Self { session, workspaces, made: OnceCell::new() }
    }

    /// Makes them where they are missing. Without them no tool may run.
    pub(crate) async fn make(&self, workspace: &Workspace) -> Result<(), TurnExit> {
        let open = || async { self.workspaces.open(self.session, workspace.mounts()).await.map(drop) };
        self.made.get_or_try_init(open).await.map(drop).map_err(|error| TurnExit::Failed(failure(&error)))
    }

    /// Adds to a text of the daemon's own behind its first bytes.
    pub(crate) async fn keep_on(
        &self,
        area: ArtifactDir,
        name: String,
        from: Option<u64>,
        content: Vec<u8>,
    ) -> Result<Artifact, WorkspaceError> {
        self.workspaces.keep_on(self.session, area, name, from, content).await
    }

    /// The input in so much room: all of it is in a file where it does not fit.
    pub(crate) async fn keep_input(
        &self,
        tools: &ToolSet,
        input: UserInput,
        room: InputRoom,
    ) -> Result<UserInput, WorkspaceError> {
        large_input::keep(&*self.workspaces, self.session, tools, input, room).await
    }

    /// Keeps a picture as models are shown it.
    pub(crate) async fn keep_picture(&self, ready: PreparedPicture) -> Result<Picture, WorkspaceError> {
        attachments::keep_picture(&*self.workspaces, self.session, ready).await
    }

    /// Keeps a text of the daemon's own where tools can read it, and returns the path under which they find it.
    pub(crate) async fn keep(
        &self,
        area: ArtifactDir,
        name: String,
        content: Vec<u8>,
    ) -> Result<String, WorkspaceError> {
        self.workspaces.keep(self.session, area, name, content).await
    }
}

fn failure(error: &WorkspaceError) -> TurnError {
    TurnError { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
}
