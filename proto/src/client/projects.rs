//! Calls about projects and the trust in them.

use agentd_core::project::ProjectReport;

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES,
    v1::{self, projects_client::ProjectsClient},
};

impl Client {
    fn projects_service(&self) -> ProjectsClient<tonic::transport::Channel> {
        ProjectsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// All that is known of a project; its path is absolute.
    ///
    /// # Errors
    /// When there is no such folder or the connection fails.
    pub async fn project(&self, folder: &str) -> Result<ProjectReport, ClientError> {
        let request = v1::ShowProjectRequest { folder: folder.to_owned() };
        Ok(self.projects_service().show(request).await?.into_inner().try_into()?)
    }

    /// Trusts a project as it was shown with this hash, in this client's name.
    ///
    /// # Errors
    /// `Conflict` when it has another hash now, and when the connection fails.
    pub async fn trust_project(&self, folder: &str, hash: &str, client: &str) -> Result<ProjectReport, ClientError> {
        let (folder, hash, client) = (folder.to_owned(), hash.to_owned(), client.to_owned());
        let request = v1::TrustProjectRequest { folder, hash, client };
        Ok(self.projects_service().trust(request).await?.into_inner().try_into()?)
    }

    /// Trusts a project no longer, in this client's name.
    ///
    /// # Errors
    /// `NotFound` for one that is not trusted, and when the connection fails.
    pub async fn distrust_project(&self, folder: &str, client: &str) -> Result<ProjectReport, ClientError> {
        let request = v1::DistrustProjectRequest { folder: folder.to_owned(), client: client.to_owned() };
        Ok(self.projects_service().distrust(request).await?.into_inner().try_into()?)
    }
}
