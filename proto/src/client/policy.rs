//! Calls about the rules of what may run.

use agentd_core::{Timestamp, policy::Explanation};

use super::{AuditComparison, Client, ClientError, Comparison, PolicyCall, RuleText};
use crate::{
    MAX_MESSAGE_BYTES,
    convert::{self, to_moment},
    v1::{self, policy_client::PolicyClient},
};

impl Client {
    fn policy(&self) -> PolicyClient<tonic::transport::Channel> {
        PolicyClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Explains the verdict of the rules in force on a call: in the session with this id or unique prefix, or in a new
    /// one.
    ///
    /// # Errors
    /// When there is no such tool or session, or the connection fails.
    pub async fn explain(&self, call: &PolicyCall, session: Option<&str>) -> Result<Explanation, ClientError> {
        let session = session.unwrap_or_default().to_owned();
        let request = v1::ExplainRequest { call: Some(call.into()), session };
        Ok(self.policy().explain(request).await?.into_inner().try_into()?)
    }

    /// Verdicts of a file of rules on calls, beside those of the rules in force.
    ///
    /// # Errors
    /// When the file has a mistake, there is no such tool or session, or the connection fails.
    pub async fn test_rules(
        &self,
        rules: &RuleText,
        calls: &[PolicyCall],
        session: Option<&str>,
    ) -> Result<Vec<Comparison>, ClientError> {
        let session = session.unwrap_or_default().to_owned();
        let calls = calls.iter().map(Into::into).collect();
        let request = v1::TestRulesRequest { rules: Some(rules.into()), calls, session };
        Ok(convert::all(self.policy().test(request).await?.into_inner().comparisons)?)
    }

    /// Verdicts of a file of rules on the calls in the audit log.
    ///
    /// # Errors
    /// When the file has a mistake, the log cannot be read, or the connection fails.
    pub async fn test_rules_on_audit(
        &self,
        rules: &RuleText,
        since: Option<Timestamp>,
    ) -> Result<AuditComparison, ClientError> {
        let request = v1::TestAuditRequest { rules: Some(rules.into()), since: since.map(to_moment) };
        Ok(self.policy().test_audit(request).await?.into_inner().try_into()?)
    }
}
