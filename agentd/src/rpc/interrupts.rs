//! What waits for an answer.

use agentd_core::{ids::InterruptId, interrupt::Answer};
use agentd_proto::{
    convert::WireError,
    v1::{self, interrupts_server::Interrupts},
};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

#[tonic::async_trait]
impl Interrupts for Context {
    async fn list(
        &self,
        request: Request<v1::ListInterruptsRequest>,
    ) -> Result<Response<v1::ListInterruptsResponse>, Status> {
        let session = match request.into_inner().session {
            all if all.is_empty() => None,
            one => Some(self.session_id(&one).await?),
        };
        let pending = self.engine.interrupts(session).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ListInterruptsResponse { interrupts: pending.iter().map(Into::into).collect() }))
    }

    async fn answer(&self, request: Request<v1::AnswerRequest>) -> Result<Response<v1::AnswerResponse>, Status> {
        let request = request.into_inner();
        let (id, answer) = read_answer(&request.interrupt_id, request.answer)?;
        self.engine.answer(id, answer, request.client).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::AnswerResponse {}))
    }
}

/// An answer out of a request.
pub(super) fn read_answer(id: &str, answer: Option<v1::Answer>) -> Result<(InterruptId, Answer), Refusal> {
    let id = id.parse().map_err(WireError::Id).map_err(|error| {
        Refusal::from(error).with_hint("`agentctl interrupts` lists the interrupts that wait for an answer")
    })?;
    Ok((id, answer.ok_or(WireError::Missing("the answer"))?.try_into()?))
}
