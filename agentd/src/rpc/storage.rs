//! Data stored on the disk.

use agentd_proto::v1::{self, storage_server::Storage};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

/// Characters of a client's name that are kept.
const LONGEST_NAME: usize = 60;

#[tonic::async_trait]
impl Storage for Context {
    async fn show(&self, _: Request<v1::ShowStorageRequest>) -> Result<Response<v1::ShowStorageResponse>, Status> {
        let view = self.retention()?.storage().await.map_err(Refusal::from)?;
        Ok(Response::new((&view).into()))
    }

    async fn clean(&self, request: Request<v1::CleanRequest>) -> Result<Response<v1::CleanResponse>, Status> {
        let v1::CleanRequest { dry_run, client } = request.into_inner();
        let client: String = client.chars().take(LONGEST_NAME).collect();
        let by = if client.is_empty() { "client" } else { client.as_str() };
        let report = self.retention()?.clean(by, dry_run).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }
}

impl Context {
    pub(super) fn retention(&self) -> Result<std::sync::Arc<crate::retention::Retention>, Status> {
        self.control.retention().ok_or_else(|| Status::unimplemented("nothing is kept on a disk here"))
    }
}
