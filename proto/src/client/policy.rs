//! Calls about the rules of what may run, those that a person keeps, and the questions that they raise.

use agentd_core::{
    Timestamp,
    grant::HeldGrant,
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    policy::Explanation,
};
use serde_json::Value;

use super::{AuditComparison, Client, ClientError, Comparison, PolicyCall, RuleText};
use crate::{
    convert::{self, Wire as _, WireError},
    v1,
};

impl Client {
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
        let request = v1::TestAuditRequest { rules: Some(rules.into()), since: since.to_wire() };
        Ok(self.policy().test_audit(request).await?.into_inner().try_into()?)
    }

    /// The rules that are kept: all that hold in the session with this id or unique prefix, or those of all sessions.
    /// Those for good come first.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn grants(&self, session: Option<&str>) -> Result<Vec<HeldGrant>, ClientError> {
        let request = v1::ListGrantsRequest { session: session.unwrap_or_default().to_owned() };
        Ok(convert::all(self.grants_client().list(request).await?.into_inner().grants)?)
    }

    /// Keeps a rule for a session, or for good, in this client's name.
    ///
    /// # Errors
    /// `InvalidInput` for a rule that could never hold, and when the connection fails.
    pub async fn add_grant(&self, rule: &str, session: Option<&str>, client: &str) -> Result<(), ClientError> {
        let request = v1::AddGrantRequest {
            rule: rule.to_owned(),
            session: session.unwrap_or_default().to_owned(),
            client: client.to_owned(),
        };
        self.grants_client().add(request).await?;
        Ok(())
    }

    /// Takes a rule back that a session keeps, or that is kept for good, in this client's name.
    ///
    /// # Errors
    /// `NotFound` for one that is not kept there, and when the connection fails.
    pub async fn revoke_grant(&self, rule: &str, session: Option<&str>, client: &str) -> Result<(), ClientError> {
        let request = v1::RevokeGrantRequest {
            rule: rule.to_owned(),
            session: session.unwrap_or_default().to_owned(),
            client: client.to_owned(),
        };
        self.grants_client().revoke(request).await?;
        Ok(())
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
