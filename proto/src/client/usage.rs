//! Calls about tokens and money.

use agentd_core::{
    Date,
    counters::DayCounters,
    spending::{UsageQuery, UsageReport},
};

use super::{Client, ClientError};
use crate::{
    convert::usage_query_to_wire,
    v1::{self, spending_client::SpendingClient},
};

impl Client {
    /// Tokens and money of model calls, by model, session, day or slot.
    ///
    /// # Errors
    /// When the days make no sense, the journal cannot be read, or the connection fails.
    pub async fn usage(&self, query: &UsageQuery) -> Result<UsageReport, ClientError> {
        let mut spending = SpendingClient::new(self.channel.clone());
        Ok(spending.show(usage_query_to_wire(query)).await?.into_inner().try_into()?)
    }

    /// Counters of what happened from one day to another, day by day.
    ///
    /// # Errors
    /// When the journal cannot be read, or the connection fails.
    pub async fn counters(&self, since: Option<Date>, until: Option<Date>) -> Result<Vec<DayCounters>, ClientError> {
        let text = |day: Option<Date>| day.map(|day| day.to_string());
        let request = v1::CountersRequest { since: text(since), until: text(until) };
        let response = SpendingClient::new(self.channel.clone()).counters(request).await?.into_inner();
        Ok(response.days.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?)
    }
}
