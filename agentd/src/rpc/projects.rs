//! Projects, for people: what they bring along, and whether that is trusted.

use agentd_proto::v1::{self, projects_server::Projects};
use tonic::{Request, Response, Status};

use super::{Context, Refusal, absolute};

#[tonic::async_trait]
impl Projects for Context {
    async fn show(&self, request: Request<v1::ShowProjectRequest>) -> Result<Response<v1::Project>, Status> {
        let folder = absolute(request.into_inner().folder)?;
        let report = self.engine.show_project(folder).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }

    async fn trust(&self, request: Request<v1::TrustProjectRequest>) -> Result<Response<v1::Project>, Status> {
        let v1::TrustProjectRequest { folder, hash, client } = request.into_inner();
        let report = self.engine.trust_project(absolute(folder)?, hash, client).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }

    async fn distrust(&self, request: Request<v1::DistrustProjectRequest>) -> Result<Response<v1::Project>, Status> {
        let v1::DistrustProjectRequest { folder, client } = request.into_inner();
        let report = self.engine.distrust_project(absolute(folder)?, client).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }
}
