//! Calls about rules that a person keeps.

use agentd_core::grant::HeldGrant;

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES, convert,
    v1::{self, grants_client::GrantsClient},
};

impl Client {
    fn grants_client(&self) -> GrantsClient<tonic::transport::Channel> {
        GrantsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The rules that are kept: all that hold in the session with this id or unique prefix, or those of all sessions.
    /// Those for good come first.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn grants(&self, session: Option<&str>) -> Result<Vec<HeldGrant>, ClientError> {
        let request = v1::ListGrantsRequest { session: session.unwrap_or_default().to_owned() };
        Ok(convert::all(self.grants_client().list(request).await?.into_inner().grants)?)
    }

    /// Keeps a rule for a session, or for good, in this client's name.
    ///
    /// # Errors
    /// `InvalidInput` for a rule that could never hold, and when the connection fails.
    pub async fn add_grant(&self, rule: &str, session: Option<&str>, client: &str) -> Result<(), ClientError> {
        let request = v1::AddGrantRequest {
            rule: rule.to_owned(),
            session: session.unwrap_or_default().to_owned(),
            client: client.to_owned(),
        };
        self.grants_client().add(request).await?;
        Ok(())
    }

    /// Takes a rule back that a session keeps, or that is kept for good, in this client's name.
    ///
    /// # Errors
    /// `NotFound` for one that is not kept there, and when the connection fails.
    pub async fn revoke_grant(&self, rule: &str, session: Option<&str>, client: &str) -> Result<(), ClientError> {
        let request = v1::RevokeGrantRequest {
            rule: rule.to_owned(),
            session: session.unwrap_or_default().to_owned(),
            client: client.to_owned(),
        };
        self.grants_client().revoke(request).await?;
        Ok(())
    }
}
