//! The audit log, for readers.

use agentd_core::audit::RecordQuery;
use agentd_proto::v1::{self, audit_server::Audit};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

#[tonic::async_trait]
impl Audit for Context {
    async fn list(&self, request: Request<v1::ListAuditRequest>) -> Result<Response<v1::ListAuditResponse>, Status> {
        let request = request.into_inner();
        let session_id = match request.session.as_str() {
            "" => None,
            // What a deleted session did is still in the log; nobody but its whole id knows it.
            name => Some(match name.parse() {
                Ok(id) => id,
                Err(_) => self.session_id(name).await?,
            }),
        };
        let query = RecordQuery { session_id, ..request.try_into().map_err(Refusal::from)? };
        let records = self.audit.records(query).await.map_err(Refusal::from)?;
        let records = records.iter().map(TryInto::try_into).collect::<Result<_, _>>().map_err(Refusal::from)?;
        Ok(Response::new(v1::ListAuditResponse { records }))
    }

    async fn verify(
        &self,
        request: Request<v1::VerifyAuditRequest>,
    ) -> Result<Response<v1::VerifyAuditResponse>, Status> {
        let noted = Some(request.into_inner().noted_hash).filter(|hash| !hash.is_empty());
        let report = self.audit.verify(noted).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }
}
