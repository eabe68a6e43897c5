//! Files that others run or obey, written by a command that nobody looked at. They were taken back when it ended; here a
//! person is asked whether they may come into their place.
//!
//! The question is asked while the call runs, so a restart withdraws it and the files stay taken back.

use agentd_core::{
    audit::DecidedBy,
    interrupt::{Answer, Ask},
    policy::{Layer, Risk},
    tool::{FileChange, FileKind, ToolErrorCode, ToolOutput},
    turn::{Denial, OnInterrupt},
    undo::{FilesReverted, UndoOutcome, UndoneFile},
};
use serde_json::Value;

use crate::{
    links::gates::audit,
    turn::{TurnExit, hooks::Invocation},
};

/// Maximum size of what a person is shown, in bytes. What is longer could not be shown whole, and is not asked.
const LONGEST_SHOWN: usize = 6 * 1024 * 1024;

/// Names that a sentence has.
const NAMED: usize = 5;

/// Rule of the question, for people and the audit log.
const RULE: &str = "a guarded name, and a command that nobody looked at";

/// Asks about what was set aside, does what the person says, and adds it to the result.
pub(crate) async fn settle(
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
        let what = format!("could not be taken back, although others run or obey it: {}", stays.join(", "));
        deny(call, format!("{what}. Look at it before you go on"), output).await?;
    }
    let gone = set_aside.files.iter().filter(|file| file.outcome == UndoOutcome::Done).map(|file| file.path.as_str());
    let names = named(gone);
    if names.is_empty() {
        return Ok(());
    }
    let what = format!("the command also wrote {names}, which others run or obey without being asked to");
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
            let lost = named(kept.files.iter().filter(|file| !is_done(file)).map(|file| file.path.as_str()));
            output.files.extend(kept.changes);
            if !lost.is_empty() {
                let why = "its place was changed, or could not be written";
                return deny(call, format!("the person wanted to keep {lost}, which is not there: {why}"), output)
                    .await;
            }
            output.text.push_str(&format!("\n[{what}; the person kept it]"));
            Ok(())
        }
        Err(why) => deny(call, format!("{what}; it was taken back: {why}"), output).await,
    }
}

/// Reports what was taken back of a call that was interrupted, about which nothing is asked.
pub(crate) async fn interrupted(call: &Invocation<'_>, set_aside: &FilesReverted) {
    let names = named(set_aside.files.iter().map(|file| file.path.as_str()));
    if !names.is_empty() {
        let message = format!("the interrupted command also wrote {names}, which was taken back");
        if call.context.recorder.warn("guarded_files", message).await.is_err() {
            tracing::debug!(call = %call.call.call_id, "the turn ended before a warning about guarded files");
        }
    }
}

/// Reports a failed look after a command: guarded files may be left.
pub(crate) async fn unchecked(call: &Invocation<'_>, why: &str, output: &mut ToolOutput) -> Result<(), TurnExit> {
    let what = "the command may have left files that others run or obey: what it left behind could not be checked";
    deny(call, format!("{what}: {why}"), output).await
}

/// Lets a person decide, if one is there and can see all of it. Fails with the reason for which nothing is kept; without a line in
/// the audit log nothing is.
async fn decide(call: &Invocation<'_>, what: &str, way_back: &[FileChange]) -> Result<(), String> {
    let answering = &call.context.rules.answering;
    let args = serde_json::json!({ "paths": way_back.iter().map(|file| &file.path).collect::<Vec<_>>() });
    let (by, answer, decided) = match answering.now() {
        OnInterrupt::Approve => (DecidedBy::OnInterrupt(answering.said), None, Ok(())),
        OnInterrupt::Deny | OnInterrupt::Fail => {
            let why = "this run cannot ask anybody. Do not write it another way".to_owned();
            (DecidedBy::OnInterrupt(answering.said), None, Err(why))
        }
        OnInterrupt::Wait if call.context.control.calls.is_cancelled() => {
            (DecidedBy::Daemon, None, Err("the turn ended before anybody could be asked".to_owned()))
        }
        OnInterrupt::Wait => match preview(call, way_back).await {
            Ok(preview) => ask(call, what, args.clone(), preview).await,
            Err(why) => (DecidedBy::Daemon, None, Err(why)),
        },
    };
    let logged = audit::record_kept(call, args, (what, RULE), decided.is_ok(), by, answer).await;
    logged.map_err(|error| format!("the audit log could not be written: {error}")).and(decided)
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
        reason: format!("{what}. It was taken back; approve puts it in its place"),
        preview: Some(preview),
        layer: Some(Layer::Checker),
        rule: Some(RULE.to_owned()),
        grants: Vec::new(),
        wider: Vec::new(),
        for_good: Vec::new(),
        owner: None,
    };
    // Where the turn ends first, the result of the call still says what was taken back.
    let Ok(answered) = call.ask(ask).await else {
        return (DecidedBy::Daemon, None, Err("the question was not answered".to_owned()));
    };
    let decided = match &answered.answer {
        Answer::Approve => Ok(()),
        Answer::Reject { reason: Some(reason) } => Err(format!("the person said: {reason}")),
        _ => Err("the person does not want it".to_owned()),
    };
    (answered.by, Some(answered.answer), decided)
}

/// All that would come into its place, path by path.
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
            None => format!("{} goes", file.path),
            Some(FileKind::Folder) => format!("{} (folder)", file.path),
            Some(FileKind::Link) => format!("{} (link)", file.path),
            Some(FileKind::File) => format!("{} (mode {mode:04o})", file.path),
        };
        match &file.diff {
            Some(diff) => shown.push(format!("{head}\n{diff}")),
            None if kind == Some(FileKind::File) && after.is_some_and(|state| state.size > 0) => {
                return Err(format!("{} is too large to be shown to a person", file.path));
            }
            None => shown.push(head),
        }
    }
    let shown = showable(Some(shown.join("\n"))).map_err(|output| output.text)?;
    Ok(shown.unwrap_or_default())
}

/// Reports a denial to the model, the person and the result of the turn.
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

/// The first of these names, and how many more there are.
fn named<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let files: Vec<&str> = paths.filter(|path| !path.ends_with('/')).collect();
    let more = files.len().saturating_sub(NAMED);
    let shown = files[..files.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// The preview, if all of it can be shown to a person: nobody approves what they could not see.
pub(crate) fn showable(shown: Option<String>) -> Result<Option<String>, ToolOutput> {
    match shown.as_deref().map_or(0, str::len) {
        ..=LONGEST_SHOWN => Ok(shown),
        size => Err(ToolOutput::error(
            ToolErrorCode::Denied,
            format!(
                "it did not run: a person would have to approve it, and what it changes ({size} bytes of text) is too much \
                 to be shown. Do it in smaller steps"
            ),
        )),
    }
}
