//! Calls about interrupts.

use agentd_core::{
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
};
use serde_json::Value;

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES,
    convert::{self, WireError},
    v1::{self, interrupts_client::InterruptsClient},
};

impl Client {
    fn interrupts_client(&self) -> InterruptsClient<tonic::transport::Channel> {
        InterruptsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Pending interrupts, oldest first: of the session with this id or unique prefix, or of all.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn interrupts(&self, session: Option<&str>) -> Result<Vec<Interrupt>, ClientError> {
        let mut pending: Vec<Interrupt> = Vec::new();
        loop {
            let after = pending.last().map(|last| last.id.to_string()).unwrap_or_default();
            let request = v1::ListInterruptsRequest { session: session.unwrap_or_default().to_owned(), after };
            let v1::ListInterruptsResponse { interrupts, more } =
                self.interrupts_client().list(request).await?.into_inner();
            let is_end = !more || interrupts.is_empty();
            pending.extend(convert::all::<_, Interrupt>(interrupts)?);
            if is_end {
                return Ok(pending);
            }
        }
    }

    /// Preview of a call that waits for an approval, with other arguments, as a person would be asked for it.
    ///
    /// # Errors
    /// `NotFound` where no approval of that id waits, `InvalidInput` for arguments that the rules deny or with which it
    /// would fail, and when the connection fails.
    pub async fn foresee(&self, id: InterruptId, args: &Value) -> Result<Ask, ClientError> {
        let request = v1::ForeseeRequest { interrupt_id: id.to_string(), args_json: args.to_string() };
        let approval = self.interrupts_client().foresee(request).await?.into_inner().approval;
        let approval = approval.ok_or(WireError::Missing("what a call would do"))?;
        Ok(v1::interrupt::Ask::Approval(approval).try_into()?)
    }

    /// Answers an interrupt in this client's name.
    ///
    /// # Errors
    /// `NotFound` for an unknown one, `Conflict` for one that has its answer, `InvalidInput` for an answer that does
    /// not fit, and when the connection fails.
    pub async fn answer(&self, id: InterruptId, answer: &Answer, client: &str) -> Result<(), ClientError> {
        let request =
            v1::AnswerRequest { interrupt_id: id.to_string(), answer: Some(answer.into()), client: client.to_owned() };
        self.interrupts_client().answer(request).await?;
        Ok(())
    }
}
