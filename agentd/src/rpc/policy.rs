//! Pending questions, grants, rule verdicts for calls, the effect of a proposed rule file, and reading the audit log.
//!
//! The dry run evaluates proposed rules on the calls in the audit log. It is pure: its input is calls, its output is
//! counted changes.

use std::{
    borrow::Cow,
    collections::HashMap,
    mem::{Discriminant, discriminant},
    sync::Arc,
};

use agentd_core::{
    Timestamp,
    audit::{AuditFact, Decision, RecordQuery},
    ids::{InterruptId, SessionId},
    interrupt::{Answer, Ask, Interrupt},
    policy::Verdict,
    ports::AuditReader,
    tool::{FollowedLink, ToolSpec},
};
use agentd_engine::{DryRunSubject, LookedUp, unknown_tool};
use agentd_policy::Policy as Rules;
use agentd_proto::{
    MAX_MESSAGE_BYTES,
    client::{AuditChange, AuditComparison, Comparison, PolicyCall, RuleText},
    convert::{self, Wire, WireError},
    v1::{self, audit_server::Audit, grants_server::Grants, interrupts_server::Interrupts, policy_server::Policy},
};
use prost::Message as _;
use serde_json::Value;

use crate::{
    config::rules_with_user_file,
    failure::{Failure, blocking},
    rpc::{Context, Refusal},
};

/// Maximum number of calls compared in one request.
const MAX_CALLS: usize = 1000;

/// Error message of a failed comparison.
const EVALUATION_FAILED: &str = "could not evaluate the policy";

service! { Policy:
    async fn explain(&self, request: v1::ExplainRequest) -> v1::Explanation {
        let call: PolicyCall = convert::part(request.call, "the call")?;
        let tool = self.engine.tool(&call.tool)?;
        let arguments = self.engine.adapted_arguments(&tool, call.arguments);
        let dry_run_subject = self.dry_run_subject(&request.session).await?;
        let config = self.engine.config();
        let looked_up = self.engine.look_up(&dry_run_subject, &tool, &arguments).await;
        let explanation =
            blocking(EVALUATION_FAILED, move || dry_run_subject.judge(&config.policy, &tool, &arguments, &looked_up));
        Ok((&explanation.await?).into())
    }

    async fn test(&self, request: v1::TestRulesRequest) -> v1::TestRulesResponse {
        let proposed = self.proposed(request.rules).await?;
        if request.calls.len() > MAX_CALLS {
            return Err(Refusal::invalid(format!("too many calls (at most {MAX_CALLS} at once)")).into());
        }
        let calls: Vec<PolicyCall> = convert::all(request.calls)?;
        let tools = calls.iter().map(|call| self.engine.tool(&call.tool)).collect::<Result<Vec<_>, _>>()?;
        let adapted_arguments = |(call, tool): (PolicyCall, &_)| {
            let arguments = self.engine.adapted_arguments(tool, call.arguments);
            PolicyCall { arguments, ..call }
        };
        let calls: Vec<PolicyCall> = calls.into_iter().zip(&tools).map(adapted_arguments).collect();
        let dry_run_subject = self.dry_run_subject(&request.session).await?;
        let config = self.engine.config();
        let mut found = Vec::with_capacity(calls.len());
        for (call, tool) in calls.iter().zip(&tools) {
            found.push(self.engine.look_up(&dry_run_subject, tool, &call.arguments).await);
        }
        let comparisons = blocking(EVALUATION_FAILED, move || {
            let judged = calls.into_iter().zip(&tools).zip(&found).map(|((call, tool), looked_up)| Comparison {
                now: dry_run_subject.judge(&config.policy, tool, &call.arguments, looked_up),
                then: dry_run_subject.judge(&proposed, tool, &call.arguments, looked_up),
                call,
            });
            judged.map(|comparison| (&comparison).into()).collect()
        });
        Ok(v1::TestRulesResponse { comparisons: comparisons.await? })
    }

    async fn test_audit(&self, request: v1::TestAuditRequest) -> v1::TestAuditResponse {
        let proposed = self.proposed(request.rules).await?;
        let since: Option<Timestamp> = Wire::from_wire(request.since, "the time")?;
        let (context, config, tools) = (self.clone(), self.engine.config(), self.engine.tools());
        let runtime = tokio::runtime::Handle::current();
        let outcome = blocking(EVALUATION_FAILED, move || {
            let mut dry_run = PolicyDryRun::new(&config.policy, &proposed, &tools);
            // Most consecutive lines belong to the same session, so caching the last subject suffices.
            let mut last: Option<(Option<SessionId>, DryRunSubject)> = None;
            context.control.for_each_audit_line(&mut |line| {
                let AuditFact::CallDecided(decision) = &line.entry.fact else { return };
                if since.is_some_and(|at| line.entry.at < at) {
                    return;
                }
                let session = line.entry.session_id;
                let cached = last.take().filter(|(of, _)| *of == session);
                let (_, dry_run_subject) = last.insert(
                    cached.unwrap_or_else(|| (session, runtime.block_on(context.subject_of_session(session)))),
                );
                dry_run.judge(decision, dry_run_subject);
            })?;
            Ok::<_, Refusal>(dry_run.outcome())
        });
        Ok((&outcome.await??).into())
    }
}

service! { Audit:
    async fn list(&self, request: v1::ListAuditRequest) -> v1::ListAuditResponse {
        let session_id = match request.session.as_str() {
            "" => None,
            // The log may contain entries of deleted sessions, which can only be found by their full ID.
            name => Some(match name.parse() {
                Ok(id) => id,
                Err(_) => self.session_id(name).await?,
            }),
        };
        let query = RecordQuery { session_id, ..request.try_into()? };
        let records = AuditReader::records(&*self.parts().audit, query).await?;
        let records = records.iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(v1::ListAuditResponse { records })
    }

    async fn verify(&self, request: v1::VerifyAuditRequest) -> v1::VerifyAuditResponse {
        let noted = Some(request.noted_hash).filter(|hash| !hash.is_empty());
        Ok((&AuditReader::verify(&*self.parts().audit, noted).await?).into())
    }
}

impl Context {
    async fn dry_run_subject(&self, session: &str) -> Result<DryRunSubject, Refusal> {
        Ok(self.engine.dry_run_subject(self.named_session(session).await?).await?)
    }

    /// Returns the subject for calls in a session. For a deleted session, returns the subject for a new session.
    async fn subject_of_session(&self, session: Option<SessionId>) -> DryRunSubject {
        match self.engine.dry_run_subject(session).await {
            Ok(dry_run_subject) => dry_run_subject,
            Err(_) => self.engine.dry_run_subject(None).await.unwrap_or_default(),
        }
    }

    /// Compiles the rules with `rules` in place of the user's file.
    async fn proposed(&self, rules: Option<v1::RuleText>) -> Result<Arc<Rules>, Refusal> {
        let RuleText { text, path } = convert::part(rules, "the rules")?;
        let control = Arc::clone(&self.control);
        let compile = move || -> Result<_, Refusal> {
            Ok(rules_with_user_file(&control.source.sources()?, text, path.into()).map_err(Failure::from)?.policy)
        };
        blocking(EVALUATION_FAILED, compile).await?
    }
}

/// Maximum number of distinct kinds of changes. Further kinds are merged by verdict.
const MAX_KINDS: usize = 200;
/// Marker for truncated text in the log.
const TRUNCATION_MARK: &str = "[cut: ";

/// Comparison of two sets of rules.
pub(crate) struct PolicyDryRun<'a> {
    now: &'a Rules,
    then: &'a Rules,
    tools: &'a [ToolSpec],
    calls: u64,
    skipped: u64,
    kinds: HashMap<Kind, AuditChange>,
}

/// Properties shared by all changes of one kind: the tool, the verdicts, and the deciding rule.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Kind {
    tool: String,
    now: Discriminant<Verdict>,
    then: Discriminant<Verdict>,
    rule: String,
}

impl<'a> PolicyDryRun<'a> {
    /// Creates a comparison of two rule sets for these tools.
    pub(crate) fn new(now: &'a Rules, then: &'a Rules, tools: &'a [ToolSpec]) -> Self {
        Self { now, then, tools, calls: 0, skipped: 0, kinds: HashMap::new() }
    }

    /// Evaluates a logged decision again, using the model's original arguments, the recorded link target, and the
    /// session's current state. Lines from earlier versions do not record link targets.
    pub(crate) fn judge(&mut self, decision: &Decision, dry_run_subject: &DryRunSubject) {
        let arguments = match &decision.args {
            Value::String(text) => text.clone(),
            args => args.to_string(),
        };
        let leads_to = decision.leads_to.as_deref();
        if [Some(arguments.as_str()), leads_to].into_iter().flatten().any(|text| text.contains(TRUNCATION_MARK)) {
            self.skipped += 1;
            return;
        }
        self.calls += 1;
        let tool = self.tools.iter().find(|tool| tool.name == decision.tool);
        let tool = tool.map_or_else(|| Cow::Owned(unknown_tool(&decision.tool)), Cow::Borrowed);
        let followed = leads_to.and_then(|leads_to| FollowedLink::reconstruct(&arguments, leads_to));
        // The log does not record the folder in which a command was started.
        let looked_up = LookedUp { followed, start: None };
        let comparison = Comparison {
            now: dry_run_subject.judge(self.now, &tool, &arguments, &looked_up),
            then: dry_run_subject.judge(self.then, &tool, &arguments, &looked_up),
            call: PolicyCall { tool: decision.tool.clone(), arguments },
        };
        if comparison.changes() {
            self.count(comparison);
        }
    }

    fn count(&mut self, comparison: Comparison) {
        let (now, then) = (discriminant(&comparison.now.verdict), discriminant(&comparison.then.verdict));
        let rule = comparison.then.rule.clone();
        let mut kind = Kind { tool: comparison.call.tool.clone(), now, then, rule };
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind) {
            // Beyond the limit, kinds are only distinguished by their verdicts, and there are few combinations of
            // verdicts.
            kind.tool.clear();
            kind.rule.clear();
        }
        let change = self.kinds.entry(kind).or_insert_with(|| AuditChange { count: 0, example: comparison.clone() });
        change.count += 1;
        change.example = comparison;
    }

    /// Returns the changes, most frequent first.
    #[must_use]
    pub(crate) fn outcome(self) -> AuditComparison {
        let mut changes: Vec<AuditChange> = self.kinds.into_values().collect();
        changes.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.example.then.rule.cmp(&b.example.then.rule)));
        AuditComparison { calls: self.calls, skipped: self.skipped, changes }
    }
}

/// Maximum size of a list in bytes. A single interrupt may exceed this size.
const MAX_LIST_BYTES: usize = MAX_MESSAGE_BYTES / 2;

service! { Interrupts:
    async fn list(&self, request: v1::ListInterruptsRequest) -> v1::ListInterruptsResponse {
        let session = self.named_session(&request.session).await?;
        let after = if request.after.is_empty() { None } else { Some(read_id(&request.after)?) };
        let mut pending = self.engine.interrupts(session).await?;
        // IDs are ordered by creation time.
        pending.sort_by_key(|interrupt| interrupt.id);
        pending.retain(|interrupt| after.is_none_or(|after| interrupt.id > after));
        Ok(page(&pending))
    }

    async fn foresee(&self, request: v1::ForeseeRequest) -> v1::ForeseeResponse {
        let args = convert::json(&request.args_json, "the arguments of an answer")?;
        let ask = self.engine.foresee(read_id(&request.interrupt_id)?, args).await?;
        let approval = match v1::interrupt::Ask::from(&ask) {
            v1::interrupt::Ask::Approval(approval) => Some(approval),
            v1::interrupt::Ask::Question(_) => None,
        };
        Ok(v1::ForeseeResponse { approval })
    }

    async fn answer(&self, request: v1::AnswerRequest) -> v1::AnswerResponse {
        let (id, answer) = read_answer(&request.interrupt_id, request.answer)?;
        self.engine.answer(id, answer, request.client).await?;
        Ok(v1::AnswerResponse {})
    }
}

service! { Grants:
    async fn list(&self, request: v1::ListGrantsRequest) -> v1::ListGrantsResponse {
        let session = self.named_session(&request.session).await?;
        let grants = self.engine.grants(session).await?;
        Ok(v1::ListGrantsResponse { grants: grants.iter().map(Into::into).collect() })
    }

    async fn add(&self, request: v1::AddGrantRequest) -> v1::AddGrantResponse {
        let session = self.named_session(&request.session).await?;
        self.engine.add_grant(session, request.rule, request.client).await?;
        Ok(v1::AddGrantResponse {})
    }

    async fn revoke(&self, request: v1::RevokeGrantRequest) -> v1::RevokeGrantResponse {
        let session = self.named_session(&request.session).await?;
        self.engine.revoke_grant(session, request.rule, request.client).await?;
        Ok(v1::RevokeGrantResponse {})
    }
}

/// Parses the answer in a request.
pub(super) fn read_answer(id: &str, answer: Option<v1::Answer>) -> Result<(InterruptId, Answer), Refusal> {
    Ok((read_id(id)?, answer.ok_or(WireError::Missing("the answer"))?.try_into()?))
}

fn read_id(id: &str) -> Result<InterruptId, Refusal> {
    id.parse()
        .map_err(WireError::Id)
        .map_err(|error| Refusal::from(error).with_hint("`agentctl interrupts` lists the pending questions"))
}

/// Returns the interrupts that fit into one message, but at least one.
fn page(pending: &[Interrupt]) -> v1::ListInterruptsResponse {
    let mut page = v1::ListInterruptsResponse::default();
    let mut bytes = 0;
    for interrupt in pending {
        let interrupt = v1::Interrupt::from(interrupt);
        bytes += interrupt.encoded_len();
        if bytes > MAX_LIST_BYTES && !page.interrupts.is_empty() {
            page.more = true;
            break;
        }
        page.interrupts.push(interrupt);
    }
    page
}

/// Limits the size of pending interrupts for the view of a whole session. Omits previews that exceed the message size
/// limit; they are available from the list of interrupts.
pub(super) fn limit_previews(mut pending: Vec<Interrupt>) -> Vec<Interrupt> {
    let mut bytes = 0;
    for interrupt in &mut pending {
        if let Ask::Approval { preview, .. } = &mut interrupt.ask {
            bytes += preview.as_ref().map_or(0, String::len);
            preview.take_if(|_| bytes > MAX_LIST_BYTES);
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{SessionId, TurnId},
        interrupt::AskedBy,
        policy::Risk,
    };
    use agentd_policy::{Policy, RuleFile, Rules, SHELL_TOOL, file::ToolRules};
    use serde_json::json;

    use super::*;

    fn rules_denying(program: &str) -> Policy {
        let shell = ToolRules { deny: Some(vec![program.to_owned()]), ..ToolRules::default() };
        let file = RuleFile { tools: Some([(SHELL_TOOL.to_owned(), shell)].into()), ..RuleFile::default() };
        Policy::new(Rules::compile(&file).unwrap())
    }

    #[test]
    fn number_of_reported_kinds_is_bounded() {
        let (now, then) = (rules_denying("x"), rules_denying("y"));
        let mut dry_run = PolicyDryRun::new(&now, &then, &[]);
        let comparison = |number: usize| {
            let explanation = DryRunSubject::default().judge(&now, &unknown_tool("t"), "{}", &LookedUp::default());
            let call = PolicyCall { tool: format!("t{number}"), arguments: "{}".to_owned() };
            Comparison { call, now: explanation.clone(), then: explanation }
        };
        (0..10 * MAX_KINDS).for_each(|number| dry_run.count(comparison(number)));
        let outcome = dry_run.outcome();
        assert_eq!(outcome.changes.len(), MAX_KINDS + 1);
        assert_eq!(outcome.changes.iter().map(|change| change.count).sum::<u64>(), 10 * MAX_KINDS as u64);
    }

    fn interrupt(preview: usize) -> Interrupt {
        Interrupt {
            id: InterruptId::generate(),
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: AskedBy::default(),
            ask: Ask::Approval {
                tool: "write_file".to_owned(),
                args: json!({}),
                risk: Risk::Medium,
                reason: "it changes a file".to_owned(),
                preview: Some("x".repeat(preview)),
                layer: None,
                rule: None,
                grants: Vec::new(),
                wider: Vec::new(),
                for_good: Vec::new(),
                owner: None,
            },
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        }
    }

    /// Many questions of one session must not hide the questions of another.
    #[test]
    fn interrupt_pages_fit_a_message_and_cover_all() {
        let pending: Vec<Interrupt> = (0..9).map(|_| interrupt(6 << 20)).chain([interrupt(1)]).collect();
        let (mut rest, mut listed) = (pending.as_slice(), 0);
        loop {
            let page = page(rest);
            assert!(page.encoded_len() < MAX_MESSAGE_BYTES && !page.interrupts.is_empty());
            assert!(page.interrupts.iter().zip(rest).all(|(shown, pending)| shown.id == pending.id.to_string()));
            listed += page.interrupts.len();
            rest = &rest[page.interrupts.len()..];
            assert_eq!(page.more, !rest.is_empty());
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(listed, 10);
        let view = v1::ListInterruptsResponse {
            interrupts: limit_previews(pending).iter().map(Into::into).collect(),
            more: false,
        };
        assert!(view.interrupts.len() == 10 && view.encoded_len() < MAX_MESSAGE_BYTES);
    }
}
