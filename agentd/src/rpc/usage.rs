//! Tokens and money of model calls.

use agentd_proto::{
    convert::{counter_days, usage_query},
    v1::{self, spending_server::Spending},
};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

#[tonic::async_trait]
impl Spending for Context {
    async fn show(
        &self,
        request: Request<v1::ShowSpendingRequest>,
    ) -> Result<Response<v1::ShowSpendingResponse>, Status> {
        let query = usage_query(request.get_ref()).map_err(Refusal::from)?;
        let report = self.engine.usage(query).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }

    async fn counters(&self, request: Request<v1::CountersRequest>) -> Result<Response<v1::CountersResponse>, Status> {
        let (since, until) = counter_days(request.get_ref()).map_err(Refusal::from)?;
        let days = self.engine.counters(since, until).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::CountersResponse { days: days.iter().map(Into::into).collect() }))
    }
}
