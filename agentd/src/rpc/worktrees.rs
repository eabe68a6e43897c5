//! Git worktrees of sessions.

use agentd_proto::v1::{self, worktrees_server::Worktrees};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

#[tonic::async_trait]
impl Worktrees for Context {
    async fn list(&self, _: Request<v1::ListWorktreesRequest>) -> Result<Response<v1::ListWorktreesResponse>, Status> {
        let all = self.engine.worktrees().await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ListWorktreesResponse { worktrees: all.iter().map(Into::into).collect() }))
    }

    async fn diff(&self, request: Request<v1::DiffWorktreeRequest>) -> Result<Response<v1::WorktreeDiff>, Status> {
        let diff = self.engine.diff_worktree(&request.into_inner().worktree).await.map_err(Refusal::from)?;
        Ok(Response::new((&diff).into()))
    }

    async fn apply(&self, request: Request<v1::ApplyWorktreeRequest>) -> Result<Response<v1::AppliedWorktree>, Status> {
        let worktree = request.into_inner().worktree;
        let engine = self.engine.clone();
        // Once begun it goes on, also where the client leaves.
        let applied = tokio::spawn(async move { engine.apply_worktree(&worktree).await }).await;
        let applied = applied.map_err(|error| Status::internal(error.to_string()))?.map_err(Refusal::from)?;
        Ok(Response::new((&applied).into()))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveWorktreeRequest>,
    ) -> Result<Response<v1::RemoveWorktreeResponse>, Status> {
        let v1::RemoveWorktreeRequest { worktree, force } = request.into_inner();
        let engine = self.engine.clone();
        let removed = tokio::spawn(async move { engine.remove_worktree(&worktree, force).await }).await;
        let name = removed.map_err(|error| Status::internal(error.to_string()))?.map_err(Refusal::from)?;
        Ok(Response::new(v1::RemoveWorktreeResponse { name }))
    }
}
