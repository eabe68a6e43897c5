//! Files of sessions, for people and programs: what they upload, list, read and write.

use agentd_core::{
    files::{FileListing, FilePiece, SessionTree, UploadReceipt},
    guide::{Skill, SkillListing},
    ids::SessionId,
    knowledge::DocumentPage,
    model::Slot,
    ports::Workspace,
};

use crate::{attachments, config::Ports, error::EngineError, front::Engine, instructions::skills};

impl Engine {
    /// Puts a file into a session's `uploads/`, and a copy that models are shown beside it where it is a picture. The next
    /// turn tells its model of it.
    ///
    /// # Errors
    /// When there is no such session or the file cannot be written.
    pub async fn upload(
        &self,
        session: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> Result<UploadReceipt, EngineError> {
        let handle = self.session(session).await?;
        // Until it is there and told of, the session stays.
        let _lease = handle.lease().await?;
        let view = handle.show().await?;
        let workspaces = &self.shared.ports.workspaces;
        let settings = view.session.settings;
        let files_of = settings.files_of(session);
        workspaces.open(files_of, settings.mounts()).await?;
        let uploaded = attachments::take(&self.shared.ports, files_of, name, content).await?;
        // It is there, whether the session can be told or not.
        if let Err(error) = handle.uploaded(uploaded.path.clone(), uploaded.picture.clone()).await {
            tracing::warn!(session = %session, "the next turn will not see a notice of {}: {error}", uploaded.path);
        }
        Ok(uploaded)
    }

    /// Content of a folder of a session's files, or one file, by the paths that tools use.
    ///
    /// # Errors
    /// When there is no such session or file.
    pub async fn list_files(&self, session: SessionId, path: String) -> Result<FileListing, EngineError> {
        let tree = self.tree(session).await?;
        Ok(self.shared.ports.workspaces.list_files(tree, path).await?)
    }

    /// The documents of a session, open: the file of that path, or those in that folder; all of them where it is empty.
    /// They come in pages: without the first `skip`, and no more than `most`.
    ///
    /// # Errors
    /// As of [`Self::list_files`].
    pub async fn open_documents(
        &self,
        session: SessionId,
        path: String,
        skip: usize,
        most: usize,
    ) -> Result<DocumentPage, EngineError> {
        let tree = self.tree(session).await?;
        Ok(self.shared.ports.workspaces.open_documents(tree, path, skip, most).await?)
    }

    /// A piece of a file, from that byte on.
    ///
    /// # Errors
    /// As of [`Self::list_files`].
    pub async fn read_file(
        &self,
        session: SessionId,
        path: String,
        offset: u64,
        most: usize,
    ) -> Result<FilePiece, EngineError> {
        let tree = self.tree(session).await?;
        Ok(self.shared.ports.workspaces.read_file(tree, path, offset, most).await?)
    }

    /// Writes a whole file wherever tools may write, and returns its path. It is a person's own act, so nobody is asked.
    ///
    /// # Errors
    /// When there is no such session, or tools may not write there.
    pub async fn write_file(&self, session: SessionId, path: String, content: Vec<u8>) -> Result<String, EngineError> {
        let handle = self.session(session).await?;
        let _lease = handle.lease().await?;
        let tree = self.tree(session).await?;
        let now = self.shared.ports.clock.now();
        let written = self.shared.ports.workspaces.write_file(tree, path, content, now).await?;
        if let Some(change) = written.state {
            handle.change_state_file(change).await?;
        }
        Ok(written.path)
    }

    /// Workspace of a session.
    ///
    /// # Errors
    /// When there is no such session, or its project is gone.
    pub async fn workspace(&self, session: SessionId) -> Result<Workspace, EngineError> {
        let (_, tree) = self.session(session).await?.tree().await?;
        Ok(Workspace::clone(&tree.workspace))
    }

    /// Skills that a session can use, or those of all sessions, with the form in which models are shown each now.
    ///
    /// # Errors
    /// As of [`Self::workspace`].
    pub async fn skills(&self, session: Option<SessionId>) -> Result<Vec<(Skill, SkillListing)>, EngineError> {
        let Ports { workspaces, models, .. } = &*self.shared.ports;
        let Some(shelf) = workspaces.skills() else { return Ok(Vec::new()) };
        let of = |slot| self.shared.windows.of(models.get(slot).info());
        let (workspace, window) = match session {
            Some(session) => {
                let window = self.session(session).await?.context().await?.window;
                (Some(self.workspace(session).await?), window)
            }
            None => (None, of(Slot::Base).min(of(Slot::Chat))),
        };
        let skills = shelf.usable(workspace.as_ref()).await;
        let (listed, others): (Vec<&Skill>, Vec<&Skill>) =
            skills.iter().partition(|skill| skill.enabled && self.shared.config().guides.skills);
        let forms = skills::listings(&listed, window);
        let others = others.into_iter().map(|skill| (skill.clone(), SkillListing::None));
        Ok(listed.into_iter().cloned().zip(forms).chain(others).collect())
    }

    /// The files of a session, with its folders made.
    async fn tree(&self, session: SessionId) -> Result<SessionTree, EngineError> {
        let (files_of, tree) = self.session(session).await?.tree().await?;
        self.shared.ports.workspaces.open(files_of, tree.workspace.mounts()).await?;
        Ok(tree)
    }
}
