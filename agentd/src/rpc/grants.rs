//! Rules that a person keeps.

use agentd_core::ids::SessionId;
use agentd_proto::v1::{self, grants_server::Grants};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

#[tonic::async_trait]
impl Grants for Context {
    async fn list(&self, request: Request<v1::ListGrantsRequest>) -> Result<Response<v1::ListGrantsResponse>, Status> {
        let session = self.named_session(&request.into_inner().session).await?;
        let grants = self.engine.grants(session).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ListGrantsResponse { grants: grants.iter().map(Into::into).collect() }))
    }

    async fn add(&self, request: Request<v1::AddGrantRequest>) -> Result<Response<v1::AddGrantResponse>, Status> {
        let v1::AddGrantRequest { rule, session, client } = request.into_inner();
        let session = self.named_session(&session).await?;
        self.engine.add_grant(session, rule, client).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::AddGrantResponse {}))
    }

    async fn revoke(
        &self,
        request: Request<v1::RevokeGrantRequest>,
    ) -> Result<Response<v1::RevokeGrantResponse>, Status> {
        let v1::RevokeGrantRequest { rule, session, client } = request.into_inner();
        let session = self.named_session(&session).await?;
        self.engine.revoke_grant(session, rule, client).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::RevokeGrantResponse {}))
    }
}

impl Context {
    /// The session that is named, if one is.
    async fn named_session(&self, name: &str) -> Result<Option<SessionId>, Refusal> {
        match name {
            "" => Ok(None),
            one => self.session_id(one).await.map(Some),
        }
    }
}
