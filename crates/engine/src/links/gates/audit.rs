//! Records every call in the audit log: the decision before the call takes effect, and its outcome.
//!
//! Two links do this. [`AuditLogger`] is the outermost: it records how a call ended, and why a rejected call did not
//! run. [`AuditGate`] comes after the approvals: calls that reach it may run, but those that change or execute anything
//! run only once the decision is on disk. Fails closed: without the log, they do not run.
//!
//! If an unreviewed command writes files that other programs run or obey, these changes are reverted when the command
//! ends. The user is then asked whether to restore them. The question is asked while the call runs, so a restart
//! withdraws it and the files stay reverted.

use agentd_core::{
    audit::{AuditFact, CallEnd, DecidedBy, Decision, Requester, VerdictName},
    error::AuditError,
    interrupt::{Answer, Ask},
    policy::{Explanation, Layer, Risk, Verdict},
    tool::{Effect, FileChange, FileKind, ToolCall, ToolErrorCode, ToolOutput},
    turn::{Denial, OnInterrupt, StopReason},
    undo::{FilesReverted, UndoOutcome, UndoneFile},
};
use agentd_policy::is_shallow;
use futures_util::FutureExt as _;
use serde_json::Value;

use crate::turn::{
    TurnExit,
    call_record::CallRecord,
    hooks::{Hook, Invocation, Link, Next},
};

/// Records how calls ended, and the decision on calls that never reached the gate.
pub(crate) struct AuditLogger;

/// Blocks calls whose decision is not in the log.
pub(crate) struct AuditGate;

impl Link for AuditLogger {
    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        async move {
            let outcome = next.run(call).await;
            // If the outcome cannot be stored, the end is unknown. The entry is left open, as after a crash.
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
                // A link answers it, perhaps by asking the user. The decision is recorded together with the end.
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

/// Returns true if the tool only reads or changes session state. An unknown tool could do anything.
fn only_looks(call: &Invocation<'_>) -> bool {
    matches!(call.tool().map(|tool| tool.effect), Some(Effect::Read | Effect::State))
}

/// Rejects a call because the log cannot be written, and warns the user.
async fn refuse(call: &Invocation<'_>, error: &AuditError) -> Result<ToolOutput, TurnExit> {
    call.record.entries().unwritten = true;
    call.record.entries().shut = true;
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

/// Records the decision on restoring files that a call left.
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
    Requester { model: context.models.model.info().id.clone(), agent: context.active_agent.name().to_owned() }
}

/// Grants that let it run: those of the verdict, or those added since.
fn granted_by(judgement: &Explanation, by: &DecidedBy) -> Vec<String> {
    if judgement.granted_by.is_empty() && *by == DecidedBy::Grant {
        judgement.grants.clone()
    } else {
        judgement.granted_by.clone()
    }
}

/// Author of the decision on a call that reached the gate.
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

/// Decision on a call that did not reach the gate or was blocked by it.
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
        // `Unanswered` does not come from calls.
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

/// Arguments for users and programs: parsed JSON if valid, else the raw text. Deeply nested JSON also stays text,
/// because what contains it could not be parsed again.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(args) if is_shallow(&args) => args,
        _ => Value::String(call.arguments.clone()),
    }
}

/// Maximum size of a preview, in bytes. A longer one cannot be shown in full, so the question is not asked.
const LONGEST_SHOWN: usize = 6 * 1024 * 1024;

/// Maximum number of file names in a sentence.
const NAMED: usize = 5;

/// Rule of the question, shown to users and in the audit log.
const RULE: &str = "a guarded name, written by a command that no user reviewed";

/// Asks about the reverted files, carries out the answer, and appends it to the output.
pub(crate) async fn settle_set_aside(
    call: &Invocation<'_>,
    set_aside: FilesReverted,
    output: &mut ToolOutput,
) -> Result<(), TurnExit> {
    let context = call.context;
    let stays =
        set_aside.files.iter().filter(|file| matches!(file.outcome, UndoOutcome::Conflict | UndoOutcome::Failed));
    let stays: Vec<String> =
        stays.map(|file| format!("{} ({})", file.path, file.reason.as_deref().unwrap_or_default())).collect();
    if !stays.is_empty() {
        let what = format!("could not be reverted, although other programs run or load it: {}", stays.join(", "));
        deny(call, format!("{what}. Check it before you continue"), output).await?;
    }
    let gone = set_aside.files.iter().filter(|file| file.outcome == UndoOutcome::Done).map(|file| file.path.as_str());
    let names = first_names(gone);
    if names.is_empty() {
        return Ok(());
    }
    let what = format!("the command also wrote {names}, which other programs run or load automatically");
    let kept = match decide(call, &what, &set_aside.changes).await {
        Ok(()) => {
            let kept =
                context.ports.snapshots.undo(context.ids.session, &context.files.workspace, set_aside.changes, false);
            kept.await.map_err(|error| error.to_string())
        }
        Err(why) => Err(why),
    };
    match kept {
        Ok(kept) => {
            let is_done = |file: &&UndoneFile| matches!(file.outcome, UndoOutcome::Done | UndoOutcome::Already);
            let lost = first_names(kept.files.iter().filter(|file| !is_done(file)).map(|file| file.path.as_str()));
            output.files.extend(kept.changes);
            if !lost.is_empty() {
                let why = "its path was changed, or could not be written";
                return deny(call, format!("the user kept {lost}, but it could not be restored: {why}"), output).await;
            }
            output.text.push_str(&format!("\n[{what}; the user kept it]"));
            Ok(())
        }
        Err(why) => deny(call, format!("{what}; it was reverted: {why}"), output).await,
    }
}

/// Reports the files reverted after an interrupted call. The user is not asked about them.
pub(crate) async fn report_interrupted(call: &Invocation<'_>, set_aside: &FilesReverted) {
    let names = first_names(set_aside.files.iter().map(|file| file.path.as_str()));
    if !names.is_empty() {
        let message = format!("the interrupted command also wrote {names}; this was reverted");
        if call.context.recorder.warn("guarded_files", message).await.is_err() {
            tracing::debug!(call = %call.call.call_id, "the turn ended before a warning about guarded files");
        }
    }
}

/// Reports that the check after a command failed, so guarded files may remain.
pub(crate) async fn report_unchecked(
    call: &Invocation<'_>,
    why: &str,
    output: &mut ToolOutput,
) -> Result<(), TurnExit> {
    let what = "the command may have left files that other programs run or load: its changes could not be checked";
    deny(call, format!("{what}: {why}"), output).await
}

/// Lets the user decide, if they are present and can be shown all of it. The error is the reason for restoring nothing.
/// Nothing is restored without an audit entry.
async fn decide(call: &Invocation<'_>, what: &str, way_back: &[FileChange]) -> Result<(), String> {
    let answering = &call.context.rules.answering;
    let args = serde_json::json!({ "paths": way_back.iter().map(|file| &file.path).collect::<Vec<_>>() });
    let (by, answer, decided) = match answering.now() {
        OnInterrupt::Approve => (DecidedBy::OnInterrupt(answering.said), None, Ok(())),
        OnInterrupt::Deny | OnInterrupt::Fail => {
            let why = "this run cannot ask the user. Do not write it another way".to_owned();
            (DecidedBy::OnInterrupt(answering.said), None, Err(why))
        }
        OnInterrupt::Wait if call.context.control.calls.is_cancelled() => {
            (DecidedBy::Daemon, None, Err("the turn ended before the user could be asked".to_owned()))
        }
        OnInterrupt::Wait => match preview(call, way_back).await {
            Ok(preview) => ask(call, what, args.clone(), preview).await,
            Err(why) => (DecidedBy::Daemon, None, Err(why)),
        },
    };
    let logged = record_kept(call, args, (what, RULE), decided.is_ok(), by, answer).await;
    logged.map_err(|error| format!("could not write the audit log: {error}")).and(decided)
}

async fn ask(
    call: &Invocation<'_>,
    what: &str,
    args: Value,
    preview: String,
) -> (DecidedBy, Option<Answer>, Result<(), String>) {
    let ask = Ask::Approval {
        tool: Ask::KEEP.to_owned(),
        args,
        risk: Risk::High,
        reason: format!("{what}. It was reverted; approving restores it"),
        preview: Some(preview),
        layer: Some(Layer::Checker),
        rule: Some(RULE.to_owned()),
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

/// Preview of everything that would be restored, file by file.
async fn preview(call: &Invocation<'_>, way_back: &[FileChange]) -> Result<String, String> {
    let context = call.context;
    let (session, workspace) = (context.ids.session, &context.files.workspace);
    let foreseen = context.ports.snapshots.undo(session, workspace, way_back.to_vec(), true).await;
    let foreseen = foreseen.map_err(|error| error.to_string())?;
    let mut shown = Vec::new();
    for file in &foreseen.files {
        let after = way_back.iter().find(|change| change.path == file.path).and_then(|change| change.before.as_ref());
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
    let shown = showable(Some(shown.join("\n"))).map_err(|output| output.text)?;
    Ok(shown.unwrap_or_default())
}

/// Reports a denial to the model, to the user and in the result of the turn.
async fn deny(call: &Invocation<'_>, reason: String, output: &mut ToolOutput) -> Result<(), TurnExit> {
    output.text.push_str(&format!("\n[{reason}]"));
    let fails = call.context.rules.answering.now() == OnInterrupt::Fail;
    let denial = Denial { call_id: call.call.call_id.clone(), tool: call.call.name.clone(), reason: reason.clone() };
    {
        let mut entries = call.record.entries();
        entries.effects.delegated.denials.push(denial);
        entries.effects.delegated.fails |= fails;
    }
    call.context.recorder.warn("guarded_files", reason).await
}

/// The first few names, and the number of the others.
fn first_names<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let files: Vec<&str> = paths.filter(|path| !path.ends_with('/')).collect();
    let more = files.len().saturating_sub(NAMED);
    let shown = files[..files.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Returns the preview, unless it is too long to be shown in full: what cannot be seen must not be approved.
pub(crate) fn showable(shown: Option<String>) -> Result<Option<String>, ToolOutput> {
    match shown.as_deref().map_or(0, str::len) {
        ..=LONGEST_SHOWN => Ok(shown),
        size => Err(ToolOutput::error(
            ToolErrorCode::Denied,
            format!(
                "it did not run: it requires approval, and its changes ({size} bytes of text) are too large to show. \
                 Use smaller steps"
            ),
        )),
    }
}
