//! Verdicts of the rules on calls, and the effect of a proposed file of rules; the audit log, for readers.

use std::{path::PathBuf, sync::Arc};

use agentd_core::{audit::RecordQuery, ids::SessionId};
use agentd_engine::DryRunSubject;
use agentd_policy::Policy as Rules;
use agentd_proto::{
    client::{Comparison, PolicyCall, RuleText},
    convert,
    v1::{self, audit_server::Audit, policy_server::Policy},
};

use super::rehearsal::{self, PolicyDryRun};
use super::{Context, Refusal, blocking};

/// Calls that are compared in one request.
const MOST_CALLS: usize = 1000;

/// Message of a failed comparison.
const UNJUDGED: &str = "could not judge";

service! { Policy:
    async fn explain(&self, request: v1::ExplainRequest) -> v1::Explanation {
        let call: PolicyCall = convert::part(request.call, "the call")?;
        let tool = self.engine.tool(&call.tool)?;
        let arguments = self.engine.meant(&tool, call.arguments);
        let standpoint = self.standpoint(&request.session).await?;
        let policy = self.engine.policy();
        let looked_up = self.engine.look_up(&standpoint, &tool, &arguments).await;
        Ok((&blocking(UNJUDGED, move || standpoint.judge(&policy, &tool, &arguments, &looked_up)).await?).into())
    }

    async fn test(&self, request: v1::TestRulesRequest) -> v1::TestRulesResponse {
        let tried = self.tried(request.rules).await?;
        if request.calls.len() > MOST_CALLS {
            return Err(Refusal::invalid(format!("could not compare more than {MOST_CALLS} calls at once")).into());
        }
        let calls: Vec<PolicyCall> = convert::all(request.calls)?;
        let tools = calls.iter().map(|call| self.engine.tool(&call.tool)).collect::<Result<Vec<_>, _>>()?;
        let meant = |(call, tool): (PolicyCall, &_)| {
            let arguments = self.engine.meant(tool, call.arguments);
            PolicyCall { arguments, ..call }
        };
        let calls: Vec<PolicyCall> = calls.into_iter().zip(&tools).map(meant).collect();
        let standpoint = self.standpoint(&request.session).await?;
        let policy = self.engine.policy();
        let mut found = Vec::with_capacity(calls.len());
        for (call, tool) in calls.iter().zip(&tools) {
            found.push(self.engine.look_up(&standpoint, tool, &call.arguments).await);
        }
        let comparisons = blocking(UNJUDGED, move || {
            let judged = calls.into_iter().zip(&tools).zip(&found).map(|((call, tool), looked_up)| Comparison {
                now: standpoint.judge(&policy, tool, &call.arguments, looked_up),
                then: standpoint.judge(&tried, tool, &call.arguments, looked_up),
                call,
            });
            judged.map(|comparison| (&comparison).into()).collect()
        });
        Ok(v1::TestRulesResponse { comparisons: comparisons.await? })
    }

    async fn test_audit(&self, request: v1::TestAuditRequest) -> v1::TestAuditResponse {
        let tried = self.tried(request.rules).await?;
        let since = convert::optional_moment(request.since, "the time")?;
        let (context, policy, tools) = (self.clone(), self.engine.policy(), self.engine.tools());
        let runtime = tokio::runtime::Handle::current();
        let outcome = blocking(UNJUDGED, move || {
            let mut rehearsal = PolicyDryRun::new(&policy, &tried, &tools);
            // Lines of one session stand together, mostly: the last standpoint is worth keeping, and no more.
            let mut last: Option<(Option<SessionId>, DryRunSubject)> = None;
            context.control.each_audited(&mut |line| {
                let Some(decision) = rehearsal::decision(&line).filter(|_| since.is_none_or(|at| line.entry.at >= at))
                else {
                    return;
                };
                let session = line.entry.session_id;
                let known = last.take().filter(|(of, _)| *of == session);
                let (_, standpoint) =
                    last.insert(known.unwrap_or_else(|| (session, runtime.block_on(context.standpoint_of(session)))));
                rehearsal.judge(decision, standpoint);
            })?;
            Ok::<_, Refusal>(rehearsal.outcome())
        });
        Ok((&outcome.await??).into())
    }
}

service! { Audit:
    async fn list(&self, request: v1::ListAuditRequest) -> v1::ListAuditResponse {
        let session_id = match request.session.as_str() {
            "" => None,
            // What a deleted session did is still in the log; nobody but its whole id knows it.
            name => Some(match name.parse() {
                Ok(id) => id,
                Err(_) => self.session_id(name).await?,
            }),
        };
        let query = RecordQuery { session_id, ..request.try_into()? };
        let records = self.audit.records(query).await?;
        let records = records.iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(v1::ListAuditResponse { records })
    }

    async fn verify(&self, request: v1::VerifyAuditRequest) -> v1::VerifyAuditResponse {
        let noted = Some(request.noted_hash).filter(|hash| !hash.is_empty());
        Ok((&self.audit.verify(noted).await?).into())
    }
}

impl Context {
    async fn standpoint(&self, session: &str) -> Result<DryRunSubject, Refusal> {
        Ok(self.engine.standpoint(self.named_session(session).await?).await?)
    }

    /// A session's standpoint; one that is gone stood where a new one would.
    async fn standpoint_of(&self, session: Option<SessionId>) -> DryRunSubject {
        match self.engine.standpoint(session).await {
            Ok(standpoint) => standpoint,
            Err(_) => self.engine.standpoint(None).await.unwrap_or_default(),
        }
    }

    /// The rules that would hold with this file.
    async fn tried(&self, rules: Option<v1::RuleText>) -> Result<Arc<Rules>, Refusal> {
        let RuleText { text, path } = convert::part(rules, "the rules")?;
        let control = Arc::clone(&self.control);
        blocking(UNJUDGED, move || control.try_rules(text, PathBuf::from(path))).await?
    }
}
