//! Records the file changes of all calls, and implements `undo_patch`, which reverts the last edit.

use std::sync::Arc;

use agentd_core::{
    error::WorkspaceError,
    item::ItemBody,
    policy::{Confinement, Explanation, Layer, Verdict},
    ports::{FilesBefore, ToolContext},
    tool::{
        Effect, FileChange, FileChangeKind, READ_TOOL, ToolDetails, ToolErrorCode, ToolOutput, ToolResult, ToolSpec,
    },
    turn::OnInterrupt,
    undo::{FilesReverted, UndoOutcome, UndoneFile, folded, inverse_change},
};
use agentd_policy::deletes;
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    links::gates::audit::{report_interrupted, report_unchecked, settle_reverted},
    state_changes::{self, FORK_NOTICE, RevertPlan},
    turn::{
        Flow,
        call_record::FileSnapshot,
        dispatch,
        hooks::{Hook, Invocation, Link, Next, Preview},
    },
};

pub(crate) const NAME: &str = "undo_patch";

/// Maximum length of a file's diff shown to the model, in characters.
const MAX_SHOWN: usize = 4000;

pub(crate) struct Undo;

/// Reverts your last call of a tool that edits files (apply_patch, edit_file, write_file) in this session, completely or
/// not at all: the files are again as they were before that call. Call it again to revert the one before. It does not
/// revert changes by commands.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    /// Revert the last call that changed this file instead of the last of all.
    path: Option<String>,
}

impl Link for Undo {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(NAME, Effect::Write)]
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        (call.call.name == NAME).then(|| preview_undo(call).boxed())
    }

    fn affected_paths(&self, call: &Invocation<'_>) -> Vec<String> {
        if call.call.name != NAME {
            return Vec::new();
        }
        let edit = arguments(call).ok().and_then(|arguments| selected_edit(call, arguments.path.as_deref()));
        edit.map(|edit| edit.files.iter().map(|file| file.path.clone()).collect()).unwrap_or_default()
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name == NAME {
            return revert(call).boxed();
        }
        if call.record.entries().confinement == Confinement::ReadOnly {
            // The call cannot change files, so there is nothing to record.
            return next.run(call);
        }
        if is_recorded(call) { record(call, next).boxed() } else { next.run(call) }
    }
}

/// Returns true if the call may change files, and no link implements its tool.
fn is_recorded(call: &Invocation<'_>) -> bool {
    let effect = call.context.tool(&call.call.name).map(|tool| tool.effect_of(&call.call.arguments));
    matches!(effect, Some(Effect::Write | Effect::Execute))
}

/// Returns the reason why a call needs approval: its changes cannot be undone, or other programs execute the files that
/// it writes.
pub(crate) async fn irreversible(call: &Invocation<'_>, judgement: &Explanation) -> Flow<Option<String>> {
    // Neither the user nor a rule written by the user allowed the call.
    let is_unreviewed = judgement.verdict == Verdict::Allow && !matches!(judgement.layer, Layer::Global | Layer::Tool);
    let limits = match judgement.confinement() {
        // Rules judge only the name of a path. Whether a link or a git configuration leads to a guarded file is known
        // only after checking the files.
        Confinement::Usual if is_unreviewed && paths(call).is_some() => Confinement::Guarded,
        limits => limits,
    };
    call.record.entries().limits = limits;
    if matches!(judgement.verdict, Verdict::Deny { .. }) || limits == Confinement::ReadOnly {
        return Ok(None);
    }
    record_before(call, limits).await?;
    Ok(call.record.entries().irreversible.clone())
}

/// Returns the paths that the call changes, if known before it runs.
fn paths(call: &Invocation<'_>) -> Option<Vec<String>> {
    let context = call.context;
    let link_paths = || Some(context.tools.chain.affected_paths(call)).filter(|paths| !paths.is_empty());
    context.ports.toolbox.changes(&context.tool_context(call.call), call.call).or_else(link_paths)
}

/// Records the state of the files before a call is approved, unless already recorded. The approver must be shown which
/// changes could not be undone. Foreign tools are not expected to be undoable.
pub(crate) async fn record_before(call: &Invocation<'_>, confinement: Confinement) -> Flow {
    if !is_recorded(call) || call.record.entries().snapshot.is_some() {
        return Ok(());
    }
    let files = call.context.or_cancelled(before(call, confinement)).await?;
    let reasons = match &files {
        _ if is_foreign(call) => Vec::new(),
        Ok(looked) => {
            let named = deletes(&call.call.arguments, &looked.unstored);
            let named =
                (!named.is_empty()).then(|| format!("the earlier content of {} is not stored", named.join(", ")));
            looked.gaps.iter().cloned().chain(named).collect()
        }
        Err(error) => vec![error.to_string()],
    };
    let unchecked = files.as_ref().ok().and_then(|looked| looked.unchecked.clone());
    let irreversible = (!reasons.is_empty()).then(|| format!("its changes cannot be undone: {}", reasons.join("; ")));
    let reasons: Vec<String> = irreversible.into_iter().chain(unchecked).collect();
    let mut entries = call.record.entries();
    entries.irreversible = (!reasons.is_empty()).then(|| reasons.join("; "));
    entries.snapshot = Some(FileSnapshot { confinement, files });
    Ok(())
}

fn is_foreign(call: &Invocation<'_>) -> bool {
    call.tool().is_some_and(|tool| call.context.foreign(tool).is_some())
}

async fn before(call: &Invocation<'_>, confinement: Confinement) -> Result<FilesBefore, WorkspaceError> {
    let context = call.context;
    let paths = paths(call);
    // Foreign tools run outside of the sandbox, so their changes are not checked.
    let confinement = if is_foreign(call) { Confinement::Usual } else { confinement };
    let reading = context.quote_rules();
    let tool_context = ToolContext { confinement, reading, ..context.tool_context(call.call) };
    context.ports.snapshots.before(&tool_context, paths.as_deref()).await
}

/// Runs the call, and compares the files before and after the call.
async fn record<'a>(call: &'a Invocation<'a>, next: Next<'a>) -> Flow<ToolOutput> {
    let context = call.context;
    let confinement = call.record.entries().confinement;
    let tool_context = ToolContext { confinement, ..context.tool_context(call.call) };
    let paths = context.ports.toolbox.changes(&tool_context, call.call);
    let before_call = call.record.take_snapshot().filter(|look| look.confinement == confinement);
    let before_call = match before_call {
        Some(look) => look.files,
        None => before(call, confinement).await,
    };
    // Foreign tools run outside of the sandbox, so their changes are not checked.
    let is_checked = confinement.is_checked() && paths.is_none() && !is_foreign(call);
    let runs_all = context.rules.answering.now() == OnInterrupt::Approve;
    if is_checked
        && !runs_all
        && let Some(reason) = uncheckable_reason(&before_call)
    {
        return Ok(ToolOutput::error(
            ToolErrorCode::Denied,
            format!("it did not run: no user reviewed it, and its changes could not be checked: {reason}"),
        ));
    }
    let before_call = before_call.map(|mut files| {
        call.record.entries().closed = std::mem::take(&mut files.closed).into();
        files
    });
    let output = next.run(call).await;
    let changes = match before_call {
        Ok(before_call) => before_call.after.await,
        Err(error) => Err(error),
    };
    if let (Err(_), Ok(changes)) = (&output, &changes) {
        report_interrupted(call, &changes.set_aside).await;
    }
    let mut output = output?;
    let (notes, reverted) = match changes {
        Ok(changes) => {
            output.files = merged_changes(changes.files, output.files, paths.as_deref());
            // Only commands have an exit code. Other tools show their changes themselves.
            if let Some(diff) = changes.diff.filter(|_| output.exit_code.is_some()) {
                output.details.get_or_insert_default().diff = ToolDetails::of_diff(&diff).diff;
            }
            (changes.notes, changes.set_aside)
        }
        Err(error) => {
            let message = format!("the changes of {} are not recorded and cannot be undone: {error}", call.call.name);
            context.recorder.warn("not_recorded", message).await?;
            if is_checked {
                report_unchecked(call, &error.to_string(), &mut output).await?;
            }
            (vec![error.to_string()], FilesReverted::default())
        }
    };
    settle_reverted(call, reverted, &mut output).await?;
    output.files.extend(state_changes::changes_of(&tool_context.state_files, &output.state_files));
    if !notes.is_empty() {
        output.text.push_str(&format!("\n[not recorded and cannot be undone: {}]", notes.join("; ")));
    }
    Ok(output)
}

/// Returns the reason, known before the call, why its changes cannot be checked.
fn uncheckable_reason(looked: &Result<FilesBefore, WorkspaceError>) -> Option<String> {
    match looked {
        Ok(found) => {
            let reasons: Vec<&str> = found.gaps.iter().chain(&found.unchecked).map(String::as_str).collect();
            (!reasons.is_empty()).then(|| reasons.join("; "))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Merges observed and reported changes. A tool's own report is used only for paths that were not observed, because
/// observation is more accurate.
fn merged_changes(seen: Vec<FileChange>, reported: Vec<FileChange>, paths: Option<&[String]>) -> Vec<FileChange> {
    let is_unseen = |file: &FileChange| match paths {
        Some(paths) => !paths.contains(&file.path) && !seen.iter().any(|seen| seen.path == file.path),
        None => seen.is_empty(),
    };
    let reported: Vec<FileChange> = reported.into_iter().filter(is_unseen).collect();
    seen.into_iter().chain(reported).collect()
}

/// An edit, and the changes that revert it.
struct Plan<'a> {
    edit: &'a ToolResult,
    on_disk: Vec<FileChange>,
    of_state: RevertPlan,
}

async fn preview_undo(call: &Invocation<'_>) -> Result<Option<String>, ToolOutput> {
    let plan = plan(call, true).await?;
    let undone = apply_plan(call, &plan, true).await?;
    Ok(Some(undone.files.iter().map(|file| describe(file, str::to_owned)).collect::<Vec<_>>().join("\n")))
}

/// Reverts the selected edit, either completely or not at all. Changes to the session's own state are reverted by
/// storing new changes.
async fn revert(call: &Invocation<'_>) -> Flow<ToolOutput> {
    dispatch::begin(call).await?;
    let undone = async {
        let plan = plan(call, false).await?;
        apply_plan(call, &plan, true).await?;
        Ok((apply_plan(call, &plan, false).await?, plan))
    };
    let (FilesReverted { files, changes }, plan) = match undone.await {
        Ok(undone) => undone,
        Err(output) => return Ok(output),
    };
    let reported: Vec<String> = files.iter().map(|file| format!("{}: {}", file.path, outcome_text(file))).collect();
    let outcome = if changes.is_empty() {
        "Nothing changed: that edit was already reverted. Call it again to revert the one before."
    } else {
        "Reverted."
    };
    // Even if no file had to change, the edit counts as reverted, so that the next call reverts another edit.
    call.record.entries().effects.takes_back = Some(plan.edit.call_id.clone());
    let text = format!("{outcome}\n{}", reported.join("\n"));
    Ok(ToolOutput { files: changes, state_files: plan.of_state.facts, ..ToolOutput::ok(text) })
}

/// Finds the selected edit, and the changes that revert it.
async fn plan<'a>(call: &Invocation<'a>, shows_all: bool) -> Result<Plan<'a>, ToolOutput> {
    let context = call.context;
    let arguments = arguments(call)?;
    let Some(edit) = selected_edit(call, arguments.path.as_deref()) else {
        let suffix = arguments.path.map(|path| format!(" of {path}")).unwrap_or_default();
        return Err(ToolOutput::error(ToolErrorCode::Tool, format!("there is no edit{suffix} left to revert")));
    };
    if edit.files.is_empty() {
        let text = format!(
            "nothing was reverted: the effect of your last call of {} is unknown. Check its files; to revert an \
             earlier edit, pass its file as path",
            edit.name
        );
        return Err(ToolOutput::error(ToolErrorCode::Tool, text));
    }
    let (on_disk, of_state) = state_changes::split_state(folded(&edit.files));
    let now = Arc::clone(&context.files.state.borrow());
    let of_state = RevertPlan::find(&*context.ports.store, context.ids.session, &of_state, &now, shows_all).await;
    let of_state = of_state.map_err(|error| ToolOutput::error(ToolErrorCode::Tool, error.to_string()))?;
    Ok(Plan { edit, on_disk, of_state })
}

/// Reverts the plan's changes on disk, or only previews the result.
async fn apply_plan(call: &Invocation<'_>, plan: &Plan<'_>, preview: bool) -> Result<FilesReverted, ToolOutput> {
    let context = call.context;
    let state_plan = &plan.of_state;
    let preview = preview || !state_plan.is_whole();
    let (session, workspace) = (context.ids.session, &context.files.workspace);
    let undone = context.ports.snapshots.undo(session, workspace, plan.on_disk.clone(), preview).await;
    let mut undone = undone.map_err(|error| ToolOutput::error(ToolErrorCode::Tool, error.to_string()))?;
    undone.files.extend(state_plan.undone.files.iter().cloned());
    let is_refused = |file: &&UndoneFile| matches!(file.outcome, UndoOutcome::Conflict | UndoOutcome::Failed);
    let refused: Vec<String> = undone.files.iter().filter(is_refused).map(|file| describe(file, shortened)).collect();
    if refused.is_empty() {
        undone.changes.extend(state_plan.undone.changes.iter().cloned());
        return Ok(undone);
    }
    let outcome = if undone.changes.is_empty() { "nothing was reverted" } else { "not everything was reverted" };
    let text = format!("{outcome}; edit the files yourself if still needed\n{}", refused.join("\n"));
    Err(ToolOutput { files: undone.changes, ..ToolOutput::error(ToolErrorCode::Tool, text) })
}

fn arguments(call: &Invocation<'_>) -> Result<Arguments, ToolOutput> {
    let written = if call.call.arguments.trim().is_empty() { "{}" } else { &call.call.arguments };
    serde_json::from_str(written).map_err(|error| {
        ToolOutput::error(ToolErrorCode::InvalidArgs, format!("{NAME} takes {{}} or {{\"path\": \"…\"}}: {error}"))
    })
}

/// Finds the edit that a call would revert: the last edit that no later call reverted or found to be reverted.
fn selected_edit<'a>(call: &Invocation<'a>, path: Option<&str>) -> Option<&'a ToolResult> {
    let context = call.context;
    let is_edit = |name: &str| name != NAME && context.tool(name).is_some_and(|tool| tool.effect == Effect::Write);
    // A file that a read has saved, which only the result shows.
    let has_saved = |name: &str| context.tool(name).is_some_and(|tool| tool.name == READ_TOOL);
    let mut edits: Vec<&ToolResult> = Vec::new();
    for item in &call.state.history {
        let result = match &item.body {
            ItemBody::ToolResult(result) => result,
            // Earlier items were copied from another session. That session made their edits, and may still depend on
            // them.
            ItemBody::Notice { text, .. } if text.starts_with(FORK_NOTICE) => {
                edits.clear();
                continue;
            }
            _ => continue,
        };
        if let Some(reverted_id) = &result.takes_back {
            edits.retain(|edit| edit.call_id != *reverted_id);
            continue;
        }
        if result.files.is_empty() {
            // The call may have made unrecorded changes. In this case, the call is the last edit, and no earlier edit
            // may be reverted instead.
            if is_edit(&result.name) && result.error == Some(ToolErrorCode::UnknownOutcome) {
                edits.push(result);
            }
            continue;
        }
        if result.name == NAME {
            // The result does not name the edit, because it was incomplete or comes from an older version. The edit is
            // found by its changes.
            let is_reverse = |edit: &&ToolResult| {
                let reverse: Vec<FileChange> = folded(&edit.files).iter().map(inverse_change).collect();
                result.files.iter().all(|file| reverse.contains(file))
            };
            if let Some(index) = edits.iter().rposition(is_reverse) {
                edits.remove(index);
            }
        } else if is_edit(&result.name) || has_saved(&result.name) {
            edits.push(result);
        }
    }
    let plain = |path: &str| path.trim_start_matches("./").trim_matches('/').to_owned();
    let is_match = |edit: &&ToolResult| match path {
        Some(path) => edit.files.iter().any(|file| plain(&file.path) == plain(path)),
        None => true,
    };
    edits.into_iter().rev().find(is_match)
}

/// Returns a file's diff in this format if there is one, and otherwise a sentence.
fn describe(file: &UndoneFile, form: fn(&str) -> String) -> String {
    let reason = file.reason.as_deref().map(|reason| format!("{}: {reason}", file.path));
    let diff = file.diff.as_deref().map(form);
    match (reason, diff) {
        (Some(reason), Some(diff)) => format!("{reason}\n{diff}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => format!("{}: {}", file.path, outcome_text(file)),
    }
}

/// Returns a diff shortened for the model, with the size of the omitted part. Users are shown the whole diff.
fn shortened(diff: &str) -> String {
    let Some((end, _)) = diff.char_indices().nth(MAX_SHOWN) else { return diff.to_owned() };
    let more = diff[end..].chars().count();
    format!("{}\n… ({more} more characters of this diff are left out)\n", &diff[..end])
}

fn outcome_text(file: &UndoneFile) -> String {
    let outcome_phrase = match (file.outcome, file.change) {
        (UndoOutcome::Already, _) => "was already in its earlier state",
        (_, FileChangeKind::Created) => "is restored",
        (_, FileChangeKind::Modified) => "is restored",
        (_, FileChangeKind::Deleted) => "is removed",
    };
    let reason = file.reason.as_deref().map(|reason| format!(", but {reason}")).unwrap_or_default();
    format!("{outcome_phrase}{reason}")
}
