//! The audit log hears of every call: what was decided before it takes effect, and what came of it.
//!
//! Two links stand around all that answer calls. [`AuditLogger`] is the outermost: it tells how a call ended, and of a call that
//! was not let through why. [`AuditGate`] stands behind the approvals: what reaches it may run, and what changes or runs anything
//! runs only when the decision is on the disk. Fails closed: without the log, it does not run.

use agentd_core::{
    audit::{AuditFact, CallEnd, DecidedBy, Decision, Requester, VerdictName},
    error::AuditError,
    interrupt::{Answer, Ask},
    policy::{Explanation, Layer, Risk, Verdict},
    tool::{Effect, ToolCall, ToolErrorCode, ToolOutput},
    turn::StopReason,
};
use agentd_policy::is_shallow;
use futures_util::FutureExt as _;
use serde_json::Value;

use crate::turn::{
    TurnExit,
    call_record::CallRecord,
    hooks::{Hook, Invocation, Link, Next},
};

/// Tells how a call ended, and of calls that never came to the gate what was decided.
pub(crate) struct AuditLogger;

/// Lets nothing through that is not in the log.
pub(crate) struct AuditGate;

impl Link for AuditLogger {
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        async move {
            let outcome = next.run(call).await;
            // What cannot be stored has no end that anybody knows: it is left open, as after a crash.
            if let Some(end) = ended(call, &outcome) {
                if !call.record.entries().logged {
                    let (allowed, by) = left(call, &outcome);
                    call.context.ports.audit.note(call.context.audited(call.call, decided(call, allowed, by))).await;
                }
                call.context.ports.audit.note(call.context.audited(call.call, AuditFact::CallEnded(end))).await;
            }
            outcome
        }
        .boxed()
    }
}

impl Link for AuditGate {
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        async move {
            let audit = &call.context.ports.audit;
            let is_own = call.context.tools.chain.own(&call.call.name).is_some();
            if is_own && (only_looks(call) || call.context.is_under_way(call.call)) {
                // A link answers it, and perhaps a person: it is told with that, at its end.
                return next.run(call).await;
            }
            let decision = call.context.audited(call.call, decided(call, true, admitted_by(call)));
            if only_looks(call) {
                audit.note(decision).await;
            } else if let Err(error) = audit.record(decision).await {
                return refuse(call, &error).await;
            }
            call.record.entries().logged = true;
            next.run(call).await
        }
        .boxed()
    }
}

/// A tool that nobody knows could do anything.
fn only_looks(call: &Invocation<'_>) -> bool {
    matches!(call.tool().map(|tool| tool.effect), Some(Effect::Read | Effect::State))
}

/// The log cannot be written: the model and the person are told, and nothing runs.
async fn refuse(call: &Invocation<'_>, error: &AuditError) -> Result<ToolOutput, TurnExit> {
    call.record.entries().unwritten = true;
    call.record.entries().shut = true;
    let tool = &call.call.name;
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let message = format!("{tool} did not run, because the audit log could not be written: {error}{hint}");
    call.context.recorder.warn("audit_unavailable", message).await?;
    Ok(ToolOutput::error(
        ToolErrorCode::NotRun,
        format!(
            "it did not run: {error}. Nothing that changes or runs anything does so before it is in the audit log; tell \
             the person, and do not try again before they have mended it"
        ),
    ))
}

fn tool_name(call: &Invocation<'_>) -> String {
    call.tool().map_or_else(|| call.call.name.clone(), |tool| tool.name.clone())
}

fn decided(call: &Invocation<'_>, allowed: bool, by: DecidedBy) -> AuditFact {
    let CallRecord { written, .. } = call.record;
    let judgement = call.record.judgement();
    let judgement = judgement.as_ref();
    let (verdict, risk, reason) = match judgement.map(|judgement| &judgement.verdict) {
        None | Some(Verdict::Allow) => (VerdictName::Allow, None, None),
        Some(Verdict::Ask { risk, reason }) => (VerdictName::Ask, Some(*risk), Some(reason.clone())),
        Some(Verdict::Deny { reason }) => (VerdictName::Deny, None, Some(reason.clone())),
    };
    AuditFact::CallDecided(Box::new(Decision {
        tool: tool_name(call),
        args: arguments(written),
        leads_to: call.record.leads_to(),
        asked_by: requester(call),
        verdict,
        layer: judgement.map(|judgement| judgement.layer.as_str().to_owned()),
        rule: judgement.map(|judgement| judgement.rule.clone()),
        risk,
        reason,
        allowed,
        granted_by: judgement.map(|judgement| granted_by(judgement, &by)).unwrap_or_default(),
        by,
        answer: call.record.answered().map(|answered| answered.answer),
        reply: call.record.replied().map(|replied| replied.answer),
    }))
}

/// Records whether files that a call left may come into their place.
pub(crate) async fn record_kept(
    call: &Invocation<'_>,
    args: Value,
    (reason, rule): (&str, &str),
    allowed: bool,
    by: DecidedBy,
    answer: Option<Answer>,
) -> Result<(), AuditError> {
    let decision = Decision {
        tool: Ask::KEEP.to_owned(),
        args,
        leads_to: None,
        asked_by: requester(call),
        verdict: VerdictName::Ask,
        layer: Some(Layer::Checker.as_str().to_owned()),
        rule: Some(rule.to_owned()),
        risk: Some(Risk::High),
        reason: Some(reason.to_owned()),
        allowed,
        granted_by: Vec::new(),
        by,
        answer,
        reply: None,
    };
    call.context.ports.audit.record(call.context.audited(call.call, AuditFact::CallDecided(Box::new(decision)))).await
}

fn requester(call: &Invocation<'_>) -> Requester {
    let context = call.context;
    Requester { model: context.models.model.info().id.clone(), agent: context.acting.name().to_owned() }
}

/// The kept rules that let it run: those that the judgement names, or those that somebody kept since.
fn granted_by(judgement: &Explanation, by: &DecidedBy) -> Vec<String> {
    if judgement.granted_by.is_empty() && *by == DecidedBy::Grant {
        judgement.grants.clone()
    } else {
        judgement.granted_by.clone()
    }
}

/// Decider of a call that came to the gate.
fn admitted_by(call: &Invocation<'_>) -> DecidedBy {
    match (call.record.judgement(), call.record.answered()) {
        (_, Some(answered)) => answered.by,
        (Some(Explanation { verdict: Verdict::Ask { .. }, .. }), None) => {
            DecidedBy::OnInterrupt(call.context.rules.answering.said)
        }
        (Some(judgement), None) if !judgement.granted_by.is_empty() => DecidedBy::Grant,
        _ => DecidedBy::Rules,
    }
}

/// Decision on a call that did not come to the gate, or for which it did not open.
fn left(call: &Invocation<'_>, outcome: &Result<ToolOutput, TurnExit>) -> (bool, DecidedBy) {
    if call.record.entries().shut {
        return (false, DecidedBy::Daemon);
    }
    let by = match (call.record.judgement().map(|judgement| judgement.verdict), call.record.answered(), outcome) {
        (_, _, Err(TurnExit::Denied(_))) => DecidedBy::OnInterrupt(call.context.rules.answering.said),
        // A link answered its own tool.
        _ if call.record.entries().passed => return (true, admitted_by(call)),
        (Some(Verdict::Deny { .. }), _, _) => DecidedBy::Rules,
        (_, Some(answered), _) => answered.by,
        (Some(Verdict::Ask { .. }), None, Ok(ToolOutput { error: Some(ToolErrorCode::Denied), .. })) => {
            DecidedBy::OnInterrupt(call.context.rules.answering.said)
        }
        (_, None, Ok(_)) => DecidedBy::Tool,
        (_, None, Err(_)) => DecidedBy::Daemon,
    };
    (false, by)
}

fn ended(call: &Invocation<'_>, outcome: &Result<ToolOutput, TurnExit>) -> Option<CallEnd> {
    let nothing = ToolOutput::default();
    let (output, error) = match outcome {
        Ok(output) => (output, output.error),
        // The last comes from no call.
        Err(TurnExit::SessionGone | TurnExit::Handoff | TurnExit::Unanswered(_)) => return None,
        Err(TurnExit::Denied(_)) => (&nothing, Some(ToolErrorCode::Denied)),
        Err(TurnExit::Finished(StopReason::Cancelled)) => (&nothing, Some(ToolErrorCode::Cancelled)),
        Err(TurnExit::Finished(_) | TurnExit::Failed(_)) => (&nothing, Some(ToolErrorCode::NotRun)),
    };
    Some(CallEnd {
        tool: tool_name(call),
        ran: call.started.get().is_some(),
        error,
        exit_code: output.exit_code,
        duration_ms: call.record.took(),
        files: output.files.iter().map(Into::into).collect(),
        output: output.text.clone(),
        output_bytes: 0,
        output_sha256: None,
    })
}

/// The arguments for people and programs: JSON where they are JSON, the raw text where not, or where they nest so
/// deeply that what holds them could not be read back.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(args) if is_shallow(&args) => args,
        _ => Value::String(call.arguments.clone()),
    }
}
