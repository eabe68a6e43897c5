//! Calls about interrupts.

use agentd_core::{
    ids::InterruptId,
    interrupt::{Answer, Interrupt},
};

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES, convert,
    v1::{self, interrupts_client::InterruptsClient},
};

impl Client {
    fn interrupts_client(&self) -> InterruptsClient<tonic::transport::Channel> {
        InterruptsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// What waits for an answer, oldest first: in the session with this id or unique prefix, or in all.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn interrupts(&self, session: Option<&str>) -> Result<Vec<Interrupt>, ClientError> {
        let request = v1::ListInterruptsRequest { session: session.unwrap_or_default().to_owned() };
        Ok(convert::all(self.interrupts_client().list(request).await?.into_inner().interrupts)?)
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
