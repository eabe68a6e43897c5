//! What a stop of the daemon left of the subagents that worked for a turn.
//!
//! One that had come to its end is not run again: its result is used. One that waits for a person goes on when it has the
//! answer, and the parent's turn with it. Of any other the model is told that it was cut off, and how it can go on.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    agent::Subagent,
    event::{Event, EventKind, StateChange},
    ids::{CallId, SessionId, TurnId},
    item::{Item, ItemBody},
    ports::{Snapshots, Store},
    tool::{FileChange, ToolErrorCode, ToolOutput},
    turn::{Denial, StopReason},
    worktree::SessionWorktree,
};
use serde_json::Value;

use super::{
    Disposition, SubagentStatus, recover,
    subagent_result::{SubagentOutput, SubagentResult},
};
use crate::{
    error::EngineError,
    turn::{hooks::Subagents, side_effects::DelegatedWork},
};

/// Events that are read from the journal at once.
const PAGE: usize = 1000;

/// The subagents of those calls that an open turn had begun and not ended, by their calls.
pub(crate) async fn of_turn(
    store: &dyn Store,
    snapshots: &dyn Snapshots,
    subagents: &dyn Subagents,
    parent: SessionId,
    events: &[Arc<Event>],
) -> Result<HashMap<CallId, SubagentStatus>, EngineError> {
    let mut fates = HashMap::new();
    for (call_id, subagent) in under_way(events) {
        let child = subagent.session_id;
        let mut fate = find_out(store, subagents, subagent).await?;
        if let SubagentStatus::Ended(ended) = &mut fate {
            let output = std::mem::take(&mut ended.output);
            ended.output = handed_up(store, snapshots, child, parent, output).await;
        }
        fates.insert(call_id, fate);
    }
    Ok(fates)
}

/// The calls of delegated work that have no result yet.
fn under_way(events: &[Arc<Event>]) -> HashMap<CallId, Subagent> {
    let mut known = HashMap::new();
    for event in events {
        match &event.kind {
            EventKind::StateChanged { change: StateChange::Subagent(subagent) } => {
                known.insert(subagent.call_id.clone(), subagent.clone());
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                known.remove(&result.call_id);
            }
            _ => {}
        }
    }
    known
}

/// Denials of subagents whose calls have their results. The journal of the turn does not repeat them.
pub(crate) async fn denials(store: &dyn Store, events: &[Arc<Event>]) -> Result<Vec<Denial>, EngineError> {
    let at_work = under_way(events);
    let mut denials = Vec::new();
    for event in events {
        if let EventKind::StateChanged { change: StateChange::Subagent(subagent) } = &event.kind
            && !at_work.contains_key(&subagent.call_id)
        {
            let mut work = SubagentResult::new(subagent.clone());
            for event in events_after(store, subagent.session_id, subagent.after).await? {
                work.take_in(&event.kind);
            }
            denials.extend(work.denials());
        }
    }
    Ok(denials)
}

async fn find_out(
    store: &dyn Store,
    subagents: &dyn Subagents,
    subagent: Subagent,
) -> Result<SubagentStatus, EngineError> {
    let Some(stored) = store.session(subagent.session_id).await? else { return Ok(never_began()) };
    let events = events_after(store, subagent.session_id, subagent.after).await?;
    if events.is_empty() {
        return Ok(never_began());
    }
    if let Some((turn, _)) = stored.open_turn
        && (goes_on(subagent.session_id, turn, &events) || subagents.is_alive(subagent.session_id).await)
    {
        return Ok(SubagentStatus::GoesOn(subagent));
    }
    Ok(SubagentStatus::Ended(Box::new(outcome(subagent, &events, stored.open_turn.is_some()))))
}

/// Output of one that has ended, from its events.
fn outcome(subagent: Subagent, events: &[Arc<Event>], is_open: bool) -> SubagentOutput {
    let mut work = SubagentResult::new(subagent);
    for event in events {
        work.take_in(&event.kind);
    }
    let is_cut_off = is_open
        || work.last().is_none_or(|last| matches!(last.stop_reason, StopReason::Interrupted | StopReason::Suspended));
    if is_cut_off && !work.has_answered() { work.cut_off() } else { work.output() }
}

/// The same of one that ended before its call could follow it again.
pub(crate) async fn ended(
    store: &dyn Store,
    snapshots: &dyn Snapshots,
    parent: SessionId,
    subagent: Subagent,
) -> Result<SubagentOutput, EngineError> {
    let child = subagent.session_id;
    let events = events_after(store, child, subagent.after).await?;
    let mut ended = outcome(subagent, &events, false);
    ended.output = handed_up(store, snapshots, child, parent, ended.output).await;
    Ok(ended)
}

/// Returns whether its open turn waits for a person, or goes on by itself with the answer.
fn goes_on(session: SessionId, turn: TurnId, events: &[Arc<Event>]) -> bool {
    let of_turn: Vec<&Arc<Event>> =
        events.iter().filter(|event| event.turn_id == Some(turn) || event.is_damaged()).collect();
    recover(session, turn, &of_turn, &HashMap::new(), Vec::new()).disposition != Disposition::End
}

/// The worktree of a subagent that works in one of its own.
pub(crate) async fn apart(store: &dyn Store, subagent: SessionId, parent: SessionId) -> Option<SessionWorktree> {
    let own = store.session(subagent).await.ok()??.settings.worktree?;
    let of_parent = store.session(parent).await.ok()??.settings.worktree;
    (of_parent.as_ref() != Some(&own)).then_some(own)
}

/// Output of a subagent as the session has it that it worked for: with changes that can be reverted there, or with the worktree
/// that has them.
pub(crate) async fn handed_up(
    store: &dyn Store,
    snapshots: &dyn Snapshots,
    subagent: SessionId,
    parent: SessionId,
    mut output: ToolOutput,
) -> ToolOutput {
    let Some(SessionWorktree { name, branch, .. }) = apart(store, subagent, parent).await else {
        output.files = adopted(snapshots, subagent, parent, output.files).await;
        return output;
    };
    let note = format!(
        "the changes are on the branch {branch} and not in your /project; the user merges them with: agentctl worktree \
         apply {name}"
    );
    with_note(output, note)
}

/// The same of one whose worktree is gone, since nothing was changed in it.
pub(crate) fn without_changes(output: ToolOutput) -> ToolOutput {
    let note = "it changed nothing, so its worktree is gone: for more, start a new subagent and leave context_id out";
    with_note(output, note.to_owned())
}

fn with_note(mut output: ToolOutput, note: String) -> ToolOutput {
    output.files = Vec::new();
    if let Ok(Value::Object(mut told)) = serde_json::from_str(&output.text) {
        told.insert("worktree".to_owned(), note.into());
        output.text = Value::Object(told).to_string();
    }
    output
}

/// Changes of a subagent, so that they can be reverted with the turn that it worked for.
async fn adopted(
    snapshots: &dyn Snapshots,
    subagent: SessionId,
    parent: SessionId,
    changes: Vec<FileChange>,
) -> Vec<FileChange> {
    let told = || changes.iter().map(|change| FileChange::new(change.path.clone(), change.change)).collect();
    match snapshots.adopt(subagent, parent, changes.clone()).await {
        Ok(adopted) => adopted,
        Err(error) => {
            tracing::warn!(session = %parent, "what the subagent {subagent} changed can be undone only there: {error}");
            told()
        }
    }
}

fn never_began() -> SubagentStatus {
    let text = "the daemon stopped before the subagent began: it did nothing; call again if it is still wanted";
    let output = ToolOutput::error(ToolErrorCode::NotRun, text);
    SubagentStatus::Ended(Box::new(SubagentOutput { output, delegated: DelegatedWork::default() }))
}

async fn events_after(store: &dyn Store, session: SessionId, mut after: u64) -> Result<Vec<Arc<Event>>, EngineError> {
    let mut events = Vec::new();
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(events) };
        after = last.seq;
        events.extend(page);
    }
}
