//! Verdicts of the rules on calls, and the effect of a proposed file of rules.

use std::{path::PathBuf, sync::Arc};

use agentd_core::ids::SessionId;
use agentd_engine::DryRunSubject;
use agentd_policy::Policy as Rules;
use agentd_proto::{
    client::{Comparison, PolicyCall, RuleText},
    convert,
    v1::{self, policy_server::Policy},
};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};
use crate::rehearsal::{self, PolicyDryRun};

/// Calls that are compared in one request.
const MOST_CALLS: usize = 1000;

#[tonic::async_trait]
impl Policy for Context {
    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::Explanation>, Status> {
        let request = request.into_inner();
        let call: PolicyCall = convert::part(request.call, "the call").map_err(Refusal::from)?;
        let tool = self.engine.tool(&call.tool).map_err(Refusal::from)?;
        let arguments = self.engine.meant(&tool, call.arguments);
        let standpoint = self.standpoint(&request.session).await?;
        let policy = self.engine.policy();
        let looked_up = self.engine.look_up(&standpoint, &tool, &arguments).await;
        let judged = move || standpoint.judge(&policy, &tool, &arguments, &looked_up);
        let said = blocking(judged).await?;
        Ok(Response::new((&said).into()))
    }

    async fn test(&self, request: Request<v1::TestRulesRequest>) -> Result<Response<v1::TestRulesResponse>, Status> {
        let request = request.into_inner();
        let tried = self.tried(request.rules).await?;
        if request.calls.len() > MOST_CALLS {
            return Err(Refusal::invalid(format!("could not compare more than {MOST_CALLS} calls at once")).into());
        }
        let calls: Vec<PolicyCall> = convert::all(request.calls).map_err(Refusal::from)?;
        let tools = calls.iter().map(|call| self.engine.tool(&call.tool)).collect::<Result<Vec<_>, _>>();
        let tools = tools.map_err(Refusal::from)?;
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
        let comparisons = blocking(move || {
            let judged = calls.into_iter().zip(&tools).zip(&found).map(|((call, tool), looked_up)| Comparison {
                now: standpoint.judge(&policy, tool, &call.arguments, looked_up),
                then: standpoint.judge(&tried, tool, &call.arguments, looked_up),
                call,
            });
            judged.map(|comparison| (&comparison).into()).collect()
        });
        Ok(Response::new(v1::TestRulesResponse { comparisons: comparisons.await? }))
    }

    async fn test_audit(
        &self,
        request: Request<v1::TestAuditRequest>,
    ) -> Result<Response<v1::TestAuditResponse>, Status> {
        let request = request.into_inner();
        let tried = self.tried(request.rules).await?;
        let since = convert::optional_moment(request.since, "the time").map_err(Refusal::from)?;
        let (context, policy, tools) = (self.clone(), self.engine.policy(), self.engine.tools());
        let runtime = tokio::runtime::Handle::current();
        let outcome = blocking(move || {
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
        Ok(Response::new((&outcome.await??).into()))
    }
}

impl Context {
    async fn standpoint(&self, session: &str) -> Result<DryRunSubject, Refusal> {
        let session = match session {
            "" => None,
            prefix => Some(self.session_id(prefix).await?),
        };
        Ok(self.engine.standpoint(session).await?)
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
        blocking(move || control.try_rules(text, PathBuf::from(path))).await?
    }
}

/// Judging takes its time where there are many calls, and reading rules where there are many patterns.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Refusal {
        kind: agentd_core::error::ErrorKind::Internal,
        message: format!("could not judge: {error}"),
        hint: None,
    })
}
