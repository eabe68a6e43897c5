//! Calls about skills.

use agentd_core::guide::SkillReport;

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES, convert,
    v1::{self, check_skill_request::What, skills_client::SkillsClient},
};

impl Client {
    fn skills_service(&self) -> SkillsClient<tonic::transport::Channel> {
        SkillsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// All skills, sorted by name: those of a session's project too, where one is named.
    ///
    /// # Errors
    /// When there is no such session or the connection fails.
    pub async fn skills(&self, session: &str) -> Result<Vec<SkillReport>, ClientError> {
        let request = v1::ListSkillsRequest { session: session.to_owned() };
        Ok(convert::all(self.skills_service().list(request).await?.into_inner().skills)?)
    }

    /// One skill by its name, with the words of its `SKILL.md`.
    ///
    /// # Errors
    /// When there is no such skill or session, or the connection fails.
    pub async fn skill(&self, session: &str, name: &str) -> Result<SkillReport, ClientError> {
        self.check(session, What::Name(name.to_owned())).await
    }

    /// Checks a folder as a skill; its path is absolute.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn check_skill(&self, folder: &str) -> Result<SkillReport, ClientError> {
        self.check("", What::Folder(folder.to_owned())).await
    }

    async fn check(&self, session: &str, what: What) -> Result<SkillReport, ClientError> {
        let request = v1::CheckSkillRequest { session: session.to_owned(), what: Some(what) };
        Ok(self.skills_service().check(request).await?.into_inner().try_into()?)
    }

    /// Takes a folder, by its absolute path, into the person's own skills.
    ///
    /// # Errors
    /// When it is no sound skill, one of its name is there and shall not be replaced, or the connection fails.
    pub async fn add_skill(&self, folder: &str, replace: bool) -> Result<SkillReport, ClientError> {
        let request = v1::AddSkillRequest { folder: folder.to_owned(), replace };
        Ok(self.skills_service().add(request).await?.into_inner().try_into()?)
    }
}
