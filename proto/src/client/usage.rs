//! Calls about tokens and money.

use agentd_core::spending::{UsageQuery, UsageReport};

use super::{Client, ClientError};
use crate::{convert::usage_query_to_wire, v1::spending_client::SpendingClient};

impl Client {
    /// Tokens and money of model calls, by model, session, day or slot.
    ///
    /// # Errors
    /// When the days make no sense, the journal cannot be read, or the connection fails.
    pub async fn usage(&self, query: &UsageQuery) -> Result<UsageReport, ClientError> {
        let mut spending = SpendingClient::new(self.channel.clone());
        Ok(spending.show(usage_query_to_wire(query)).await?.into_inner().try_into()?)
    }
}
