//! Records every call in the audit log: the decision before the call takes effect, and its outcome.
//!
//! Two links record calls. [`AuditLogger`] is the outermost link, and records how a call ended and why a rejected call
//! did not run. [`AuditGate`] comes after the approvals: calls that reach it may run, but calls that change or execute
//! anything run only once the decision is on disk. Fails closed: without the log, such calls do not run.
//!
//! If an unreviewed command writes files that other programs execute or follow, these changes are reverted when the
//! command ends. The user is then asked whether to restore them. The question is asked while the call runs, so a
//! restart withdraws it and the files stay reverted.

use agentd_core::{
    audit::{AuditFact, CallEnd, DecidedBy, Decision, Requester, VerdictName},
    error::AuditError,
    interrupt::{Answer, Ask},
    policy::{Explanation, Layer, Risk, Verdict},
    tool::{Effect, FileChange, FileKind, ToolCall, ToolErrorCode, ToolOutput},
    turn::{OnInterrupt, StopReason},
    undo::{FilesReverted, UndoOutcome, UndoneFile},
};
use agentd_policy::is_shallow;
use serde_json::Value;

use crate::turn::{
    Flow, TurnExit,
    call_record::CallRecord,
    hooks::{Hook, Invocation, Link, Next},
};

/// Records how calls ended, and the decisions on calls that never reached the gate.
pub(crate) struct AuditLogger;

/// Blocks calls whose decision is not in the log.
pub(crate) struct AuditGate;

impl Link for AuditLogger {
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        Box::pin(async move {
            let outcome = next.run(call).await;
            // If the outcome cannot be stored, the end of the call is unknown. The entry is left open, as after a
            // crash.
            if let Some(end) = call_end(call, &outcome) {
                let context = call.context;
                if !call.record.entries().logged {
                    let (allowed, by) = unlogged_decision(call, &outcome);
                    context.ports.audit.note(context.audit_entry(call.call, decision_of(call, allowed, by))).await;
                }
                context.ports.audit.note(context.audit_entry(call.call, AuditFact::CallEnded(end))).await;
            }
            outcome
        })
    }
}

impl Link for AuditGate {
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        Box::pin(async move {
            let audit = &call.context.ports.audit;
            let is_own = call.context.tools.chain.own(&call.call.name).is_some();
            if is_own && (is_read_only(call) || call.context.is_in_flight(call.call)) {
                // A link answers the call, perhaps by asking the user. The decision is recorded together with the end.
                return next.run(call).await;
            }
            let decision = call.context.audit_entry(call.call, decision_of(call, true, admitted_by(call)));
            if is_read_only(call) {
                audit.note(decision).await;
            } else if let Err(error) = audit.record(decision).await {
                return refuse(call, &error).await;
            }
            call.record.entries().logged = true;
            next.run(call).await
        })
    }
}

/// Returns true if the tool only reads or changes session state. An unknown tool could do anything.
fn is_read_only(call: &Invocation<'_>) -> bool {
    let effect = call.tool().map(|tool| tool.effect_of(&call.call.arguments));
    matches!(effect, Some(Effect::Read | Effect::State))
}

/// Rejects a call because the log cannot be written, and warns the user.
async fn refuse(call: &Invocation<'_>, error: &AuditError) -> Flow<ToolOutput> {
    call.record.entries().log_failed = true;
    call.record.entries().blocked = true;
    let tool = &call.call.name;
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let message = format!("{tool} did not run: could not write the audit log: {error}{hint}");
    call.context.recorder.warn("audit_unavailable", message).await?;
    Ok(ToolOutput::error(
        ToolErrorCode::NotRun,
        format!(
            "it did not run: {error}. Changes and commands require a working audit log. Tell the user, and do not \
             retry before they have fixed it"
        ),
    ))
}

fn tool_name(call: &Invocation<'_>) -> String {
    call.tool().map_or_else(|| call.call.name.clone(), |tool| tool.name.clone())
}

fn decision_of(call: &Invocation<'_>, allowed: bool, by: DecidedBy) -> AuditFact {
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

fn requester(call: &Invocation<'_>) -> Requester {
    let context = call.context;
    Requester { model: context.models.model.info().id.clone(), agent: context.active_agent.name().to_owned() }
}

/// Returns the grants that let the call run: the grants in the verdict, or grants added since.
fn granted_by(judgement: &Explanation, by: &DecidedBy) -> Vec<String> {
    if judgement.granted_by.is_empty() && *by == DecidedBy::Grant {
        judgement.grants.clone()
    } else {
        judgement.granted_by.clone()
    }
}

/// Returns the author of the decision on a call that reached the gate.
fn admitted_by(call: &Invocation<'_>) -> DecidedBy {
    match (call.record.judgement(), call.record.answered()) {
        (_, Some(answered)) => answered.by,
        (Some(Explanation { verdict: Verdict::Ask { .. }, .. }), None) => {
            DecidedBy::OnInterrupt(call.context.rules.answering.on_interrupt)
        }
        (Some(judgement), None) if !judgement.granted_by.is_empty() => DecidedBy::Grant,
        _ => DecidedBy::Rules,
    }
}

/// Returns the decision on a call that did not reach the gate or that the gate blocked.
fn unlogged_decision(call: &Invocation<'_>, outcome: &Flow<ToolOutput>) -> (bool, DecidedBy) {
    if call.record.entries().blocked {
        return (false, DecidedBy::Daemon);
    }
    let by = match (call.record.judgement().map(|judgement| judgement.verdict), call.record.answered(), outcome) {
        (_, _, Err(TurnExit::Denied(_))) => DecidedBy::OnInterrupt(call.context.rules.answering.on_interrupt),
        // A link answered a call to its own tool.
        _ if call.record.entries().passed => return (true, admitted_by(call)),
        (Some(Verdict::Deny { .. }), _, _) => DecidedBy::Rules,
        (_, Some(answered), _) => answered.by,
        (Some(Verdict::Ask { .. }), None, Ok(ToolOutput { error: Some(ToolErrorCode::Denied), .. })) => {
            DecidedBy::OnInterrupt(call.context.rules.answering.on_interrupt)
        }
        (_, None, Ok(_)) => DecidedBy::Tool,
        (_, None, Err(_)) => DecidedBy::Daemon,
    };
    (false, by)
}

fn call_end(call: &Invocation<'_>, outcome: &Flow<ToolOutput>) -> Option<CallEnd> {
    let nothing = ToolOutput::default();
    let (output, error) = match outcome {
        Ok(output) => (output, output.error),
        // `Unanswered` is never the outcome of a call.
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
        duration_ms: call.record.duration_ms(),
        files: output.files.iter().map(Into::into).collect(),
        output: output.text.clone(),
        output_bytes: 0,
        output_sha256: None,
    })
}

/// Returns the arguments for users and programs: parsed JSON if valid, and otherwise the raw text. Deeply nested JSON
/// also stays text, because a document that contains it could not be parsed again.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(args) if is_shallow(&args) => args,
        _ => Value::String(call.arguments.clone()),
    }
}

/// Maximum size of a preview, in bytes. A longer preview cannot be shown in full, so the question is not asked.
const MAX_PREVIEW_BYTES: usize = 6 * 1024 * 1024;

/// Maximum number of file names in a sentence.
const MAX_NAMES: usize = 5;

/// Rule of the question, shown to users and in the audit log.
const GUARDED_RULE: &str = "a guarded name, written by a command that no user reviewed";

/// Asks about the reverted files, applies the answer, and appends the outcome to the output.
pub(crate) async fn settle_reverted(call: &Invocation<'_>, reverted: FilesReverted, output: &mut ToolOutput) -> Flow {
    let context = call.context;
    let not_reverted =
        reverted.files.iter().filter(|file| matches!(file.outcome, UndoOutcome::Conflict | UndoOutcome::Failed));
    let not_reverted: Vec<String> =
        not_reverted.map(|file| format!("{} ({})", file.path, file.reason.as_deref().unwrap_or_default())).collect();
    if !not_reverted.is_empty() {
        let message = format!(
            "these files could not be reverted, although other programs run or load them: {}",
            not_reverted.join(", ")
        );
        deny(call, format!("{message}. Check them before you continue"), output).await?;
    }
    let reverted_paths =
        reverted.files.iter().filter(|file| file.outcome == UndoOutcome::Done).map(|file| file.path.as_str());
    let names = first_names(reverted_paths);
    if names.is_empty() {
        return Ok(());
    }
    let message = format!("the command also wrote {names}, which other programs run or load automatically");
    let restored = match confirm_restore(call, &message, &reverted.changes).await {
        Ok(()) => {
            let restored =
                context.ports.snapshots.undo(context.ids.session, &context.files.workspace, reverted.changes, false);
            restored.await.map_err(|error| error.to_string())
        }
        Err(reason) => Err(reason),
    };
    match restored {
        Ok(restored) => {
            let is_done = |file: &&UndoneFile| matches!(file.outcome, UndoOutcome::Done | UndoOutcome::Already);
            let not_restored =
                first_names(restored.files.iter().filter(|file| !is_done(file)).map(|file| file.path.as_str()));
            output.files.extend(restored.changes);
            if !not_restored.is_empty() {
                let reason = "its path was changed, or could not be written";
                let message = format!("the user kept {not_restored}, but it could not be restored: {reason}");
                return deny(call, message, output).await;
            }
            output.text.push_str(&format!("\n[{message}; the user kept it]"));
            Ok(())
        }
        Err(reason) => deny(call, format!("{message}; it was reverted: {reason}"), output).await,
    }
}

/// Reports the files reverted after an interrupted call. The user is not asked about these files.
pub(crate) async fn report_interrupted(call: &Invocation<'_>, reverted: &FilesReverted) {
    let names = first_names(reverted.files.iter().map(|file| file.path.as_str()));
    if !names.is_empty() {
        let message = format!("the interrupted command also wrote {names}; this was reverted");
        if call.context.recorder.warn("guarded_files", message).await.is_err() {
            tracing::debug!(call = %call.call.call_id, "the turn ended before a warning about guarded files");
        }
    }
}

/// Reports that the check after a command failed, so guarded files may remain.
pub(crate) async fn report_unchecked(call: &Invocation<'_>, reason: &str, output: &mut ToolOutput) -> Flow {
    let message = "the command may have left files that other programs run or load: its changes could not be checked";
    deny(call, format!("{message}: {reason}"), output).await
}

/// Asks the user whether to restore the files, if a user is present and can be shown the whole preview. The error is
/// the reason why nothing is restored. Nothing is restored without an audit entry.
async fn confirm_restore(call: &Invocation<'_>, message: &str, changes: &[FileChange]) -> Result<(), String> {
    let answering = &call.context.rules.answering;
    let args = serde_json::json!({ "paths": changes.iter().map(|file| &file.path).collect::<Vec<_>>() });
    let (by, answer, decided) = match answering.now() {
        OnInterrupt::Approve => (DecidedBy::OnInterrupt(answering.on_interrupt), None, Ok(())),
        OnInterrupt::Deny | OnInterrupt::Fail => {
            let reason = "this run cannot ask the user. Do not write the files by other means".to_owned();
            (DecidedBy::OnInterrupt(answering.on_interrupt), None, Err(reason))
        }
        OnInterrupt::Wait if call.context.control.calls.is_cancelled() => {
            (DecidedBy::Daemon, None, Err("the turn ended before the user could be asked".to_owned()))
        }
        OnInterrupt::Wait => match preview(call, changes).await {
            Ok(preview) => ask(call, message, args.clone(), preview).await,
            Err(reason) => (DecidedBy::Daemon, None, Err(reason)),
        },
    };
    let decision = AuditFact::CallDecided(Box::new(Decision {
        tool: Ask::KEEP.to_owned(),
        args,
        leads_to: None,
        asked_by: requester(call),
        verdict: VerdictName::Ask,
        layer: Some(Layer::Checker.as_str().to_owned()),
        rule: Some(GUARDED_RULE.to_owned()),
        risk: Some(Risk::High),
        reason: Some(message.to_owned()),
        allowed: decided.is_ok(),
        granted_by: Vec::new(),
        by,
        answer,
        reply: None,
    }));
    let logged = call.context.ports.audit.record(call.context.audit_entry(call.call, decision)).await;
    logged.map_err(|error| format!("could not write the audit log: {error}")).and(decided)
}

async fn ask(
    call: &Invocation<'_>,
    message: &str,
    args: Value,
    preview: String,
) -> (DecidedBy, Option<Answer>, Result<(), String>) {
    let ask = Ask::Approval {
        tool: Ask::KEEP.to_owned(),
        args,
        risk: Risk::High,
        reason: format!("{message}. It was reverted; approving restores it"),
        preview: Some(preview),
        layer: Some(Layer::Checker),
        rule: Some(GUARDED_RULE.to_owned()),
        grants: Vec::new(),
        wider: Vec::new(),
        for_good: Vec::new(),
        owner: None,
    };
    // If the turn ends first, the output of the call still reports what was reverted.
    let Ok(answered) = call.ask(ask).await else {
        return (DecidedBy::Daemon, None, Err("the question was not answered".to_owned()));
    };
    let decided = match &answered.answer {
        Answer::Approve => Ok(()),
        Answer::Reject { reason: Some(reason) } => Err(format!("the user said: {reason}")),
        _ => Err("the user rejected it".to_owned()),
    };
    (answered.by, Some(answered.answer), decided)
}

/// Returns the preview of everything that would be restored, file by file.
async fn preview(call: &Invocation<'_>, changes: &[FileChange]) -> Result<String, String> {
    let context = call.context;
    let (session, workspace) = (context.ids.session, &context.files.workspace);
    let dry_run = context.ports.snapshots.undo(session, workspace, changes.to_vec(), true).await;
    let dry_run = dry_run.map_err(|error| error.to_string())?;
    let mut shown = Vec::new();
    for file in &dry_run.files {
        let after = changes.iter().find(|change| change.path == file.path).and_then(|change| change.before.as_ref());
        let (kind, mode) = after.map_or((None, 0), |state| (Some(state.kind), state.mode));
        let head = match kind {
            None => format!("{} is deleted", file.path),
            Some(FileKind::Folder) => format!("{} (folder)", file.path),
            Some(FileKind::Link) => format!("{} (link)", file.path),
            Some(FileKind::File) => format!("{} (mode {mode:04o})", file.path),
        };
        match &file.diff {
            Some(diff) => shown.push(format!("{head}\n{diff}")),
            None if kind == Some(FileKind::File) && after.is_some_and(|state| state.size > 0) => {
                return Err(format!("{} is too large to show", file.path));
            }
            None => shown.push(head),
        }
    }
    let shown = check_preview_size(Some(shown.join("\n"))).map_err(|output| output.text)?;
    Ok(shown.unwrap_or_default())
}

/// Reports a denial to the model, to the user and in the result of the turn.
async fn deny(call: &Invocation<'_>, reason: String, output: &mut ToolOutput) -> Flow {
    output.text.push_str(&format!("\n[{reason}]"));
    let is_fatal = call.context.rules.answering.now() == OnInterrupt::Fail;
    let denial = call.denial(&call.call.name, reason.as_str());
    {
        let mut entries = call.record.entries();
        entries.effects.delegated.denials.push(denial);
        entries.effects.delegated.fails |= is_fatal;
    }
    call.context.recorder.warn("guarded_files", reason).await
}

/// Returns the first few names, and the number of other names.
fn first_names<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let files: Vec<&str> = paths.filter(|path| !path.ends_with('/')).collect();
    let more = files.len().saturating_sub(MAX_NAMES);
    let shown = files[..files.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Returns the preview, or an error if it is too long to be shown in full: content that cannot be seen must not be
/// approved.
pub(crate) fn check_preview_size(shown: Option<String>) -> Result<Option<String>, ToolOutput> {
    match shown.as_deref().map_or(0, str::len) {
        ..=MAX_PREVIEW_BYTES => Ok(shown),
        size => Err(ToolOutput::error(
            ToolErrorCode::Denied,
            format!(
                "it did not run: it requires approval, and its changes ({size} bytes of text) are too large to show. \
                 Use smaller steps"
            ),
        )),
    }
}
