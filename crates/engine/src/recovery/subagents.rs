//! Subagents after the daemon stopped, and the outputs of their calls for the model that delegated.
//!
//! A subagent that had ended is not run again, and its result is used. A subagent that waits for the user continues
//! when the user answers, as does the parent's turn. For any other subagent, the model is informed that the subagent
//! was interrupted, and how to continue the subagent.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    agent::Subagent,
    event::{Event, EventKind, StateChange},
    ids::{CallId, SessionId, TurnId},
    item::{Item, ItemBody},
    tool::{FileChange, ToolErrorCode, ToolOutput},
    turn::{Denial, StopReason, TurnResult},
    undo::folded,
    usage::Usage,
    worktree::SessionWorktree,
};
use serde_json::{Value, json};

use crate::{
    config::Ports,
    error::Result,
    recovery::{Disposition, SubagentStatus, reading, recover},
    state_changes::ROOT,
    turn::{call_record::DelegatedWork, hooks::Subagents},
};

/// Returns the subagents of calls that an open turn had started but not ended, by call.
pub(crate) async fn subagent_states(
    ports: &Ports,
    subagents: &dyn Subagents,
    parent: SessionId,
    events: &[Arc<Event>],
) -> Result<HashMap<CallId, SubagentStatus>> {
    let mut outcomes = HashMap::new();
    for (call_id, subagent) in delegated_calls(events) {
        let child = subagent.session_id;
        let mut outcome = find_status(ports, subagents, subagent).await?;
        if let SubagentStatus::Ended(ended) = &mut outcome {
            let output = std::mem::take(&mut ended.output);
            ended.output = prepare_for_parent(ports, child, parent, output).await;
        }
        outcomes.insert(call_id, outcome);
    }
    Ok(outcomes)
}

/// Returns the delegated calls without a result.
fn delegated_calls(events: &[Arc<Event>]) -> HashMap<CallId, Subagent> {
    let mut subagents = HashMap::new();
    for event in events {
        match &event.kind {
            EventKind::StateChanged { change: StateChange::Subagent(subagent) } => {
                subagents.insert(subagent.call_id.clone(), subagent.clone());
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                subagents.remove(&result.call_id);
            }
            _ => {}
        }
    }
    subagents
}

/// Returns the denials in subagents whose calls have results. The turn's own journal does not repeat them.
pub(crate) async fn denials(ports: &Ports, events: &[Arc<Event>]) -> Result<Vec<Denial>> {
    let active_subagents = delegated_calls(events);
    let mut denials = Vec::new();
    for event in events {
        if let EventKind::StateChanged { change: StateChange::Subagent(subagent) } = &event.kind
            && !active_subagents.contains_key(&subagent.call_id)
        {
            let mut work = SubagentResult::new(subagent.clone());
            for event in events_after(ports, subagent.session_id, subagent.after).await? {
                work.record_event(&event.kind);
            }
            denials.extend(work.denials());
        }
    }
    Ok(denials)
}

async fn find_status(ports: &Ports, subagents: &dyn Subagents, subagent: Subagent) -> Result<SubagentStatus> {
    let Some(stored) = ports.store.session(subagent.session_id).await? else { return Ok(not_started_status()) };
    let events = events_after(ports, subagent.session_id, subagent.after).await?;
    if events.is_empty() {
        return Ok(not_started_status());
    }
    if let Some((turn, _)) = stored.open_turn
        && (continues(subagent.session_id, turn, &events) || subagents.is_alive(subagent.session_id).await)
    {
        return Ok(SubagentStatus::Continues(subagent));
    }
    Ok(SubagentStatus::Ended(Box::new(outcome(subagent, &events, stored.open_turn.is_some()))))
}

/// Returns the output of a subagent that has ended, based on its events.
fn outcome(subagent: Subagent, events: &[Arc<Event>], is_open: bool) -> SubagentOutput {
    let mut work = SubagentResult::new(subagent);
    for event in events {
        work.record_event(&event.kind);
    }
    let is_cut = |last: &TurnResult| matches!(last.stop_reason, StopReason::Interrupted | StopReason::Suspended);
    let is_cut_off = is_open || work.turns.last().is_none_or(is_cut);
    if is_cut_off && !work.has_answered() { work.into_interrupted() } else { work.output() }
}

/// Returns the output of a subagent that ended before its call could follow it again.
pub(crate) async fn ended_output(ports: &Ports, parent: SessionId, subagent: Subagent) -> Result<SubagentOutput> {
    let child = subagent.session_id;
    let events = events_after(ports, child, subagent.after).await?;
    let mut ended = outcome(subagent, &events, false);
    ended.output = prepare_for_parent(ports, child, parent, ended.output).await;
    Ok(ended)
}

/// Returns true if the subagent's open turn waits for the user, or continues automatically with the answer.
fn continues(session: SessionId, turn: TurnId, events: &[Arc<Event>]) -> bool {
    let of_turn: Vec<&Arc<Event>> =
        events.iter().filter(|event| event.turn_id == Some(turn) || event.is_damaged()).collect();
    recover(session, turn, &of_turn, &HashMap::new(), Vec::new()).disposition != Disposition::End
}

/// Returns the worktree of a subagent if it differs from its parent's worktree.
pub(crate) async fn own_worktree(ports: &Ports, subagent: SessionId, parent: SessionId) -> Option<SessionWorktree> {
    let own = ports.store.session(subagent).await.ok()??.settings.worktree?;
    let of_parent = ports.store.session(parent).await.ok()??.settings.worktree;
    (of_parent.as_ref() != Some(&own)).then_some(own)
}

/// Prepares a subagent's output for its parent, with changes that the parent can revert or with the worktree that
/// contains the changes.
pub(crate) async fn prepare_for_parent(
    ports: &Ports,
    subagent: SessionId,
    parent: SessionId,
    mut output: ToolOutput,
) -> ToolOutput {
    let Some(SessionWorktree { name, branch, .. }) = own_worktree(ports, subagent, parent).await else {
        // The changes can then be reverted with the parent's turn.
        let changes = std::mem::take(&mut output.files);
        let adopted = ports.snapshots.adopt(subagent, parent, changes.clone()).await;
        output.files = adopted.unwrap_or_else(|error| {
            tracing::warn!(session = %parent, "changes of the subagent {subagent} can only be undone there: {error}");
            changes.into_iter().map(|change| FileChange::new(change.path, change.change)).collect()
        });
        return output;
    };
    let note = format!(
        "the changes are on the branch {branch}, not in your /project; the user merges them with: agentctl worktree \
         apply {name}"
    );
    with_note(output, note)
}

/// Prepares the output of a subagent whose worktree was removed because it contained no changes.
pub(crate) fn note_removed_worktree(output: ToolOutput) -> ToolOutput {
    let note = "it changed nothing, so its worktree was removed: for more work, start a new subagent without \
        context_id";
    with_note(output, note.to_owned())
}

fn with_note(mut output: ToolOutput, note: String) -> ToolOutput {
    output.files = Vec::new();
    if let Ok(Value::Object(mut details)) = serde_json::from_str(&output.text) {
        details.insert("worktree".to_owned(), note.into());
        output.text = Value::Object(details).to_string();
    }
    output
}

fn not_started_status() -> SubagentStatus {
    let text = "the daemon stopped before the subagent began: it did nothing; retry if still needed";
    let output = ToolOutput::error(ToolErrorCode::NotRun, text);
    SubagentStatus::Ended(Box::new(SubagentOutput { output, delegated: DelegatedWork::default() }))
}

async fn events_after(ports: &Ports, session: SessionId, after: u64) -> Result<Vec<Arc<Event>>> {
    let mut events = Vec::new();
    let keep = |event| {
        events.push(event);
        Ok(())
    };
    reading::each_after(&*ports.store, session, after, keep).await?;
    Ok(events)
}

/// Output of a subagent's call, and the effects of its work on the turn.
#[derive(Debug)]
pub(crate) struct SubagentOutput {
    pub(crate) output: ToolOutput,
    pub(crate) delegated: DelegatedWork,
}

/// Result of a subagent's work on one call, based on the events so far.
#[derive(Debug)]
pub(crate) struct SubagentResult {
    pub(crate) subagent: Subagent,
    /// Results of the subagent's turns, in order.
    turns: Vec<TurnResult>,
    files: Vec<FileChange>,
    usage: Usage,
    steps: u32,
    /// Reason why the parent stopped the subagent.
    pub(crate) stopped: Option<StopReason>,
    /// Reason why the subagent's end is unknown.
    pub(crate) lost: Option<String>,
}

impl SubagentResult {
    pub(crate) fn new(subagent: Subagent) -> Self {
        Self {
            subagent,
            turns: Vec::new(),
            files: Vec::new(),
            usage: Usage::default(),
            steps: 0,
            stopped: None,
            lost: None,
        }
    }

    /// Records an event of the subagent's journal.
    pub(crate) fn record_event(&mut self, fact: &EventKind) {
        match fact {
            EventKind::UsageUpdated { usage, .. } => {
                self.usage += *usage;
                self.steps = self.steps.saturating_add(1);
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                // The parent cannot access files in the subagent's own state. A change stays marked as late only after
                // a crash, because it does not matter to the parent's turn which subagent changed a file.
                let is_cut_off = result.error == Some(ToolErrorCode::UnknownOutcome);
                let shared = result.files.iter().filter(|file| !file.path.starts_with(ROOT));
                self.files.extend(shared.map(|file| FileChange { late: file.late && is_cut_off, ..file.clone() }));
            }
            EventKind::TurnEnded { result } => self.turns.push((**result).clone()),
            _ => {}
        }
    }

    /// Returns true if the subagent has given an answer, even if the request for detail failed.
    fn has_answered(&self) -> bool {
        self.turns.iter().any(|turn| turn.stop_reason == StopReason::Completed)
    }

    /// Returns true if the subagent should be asked for detail, because it completed with fewer than `short` characters
    /// and has not been asked yet.
    pub(crate) fn wants_detail(&self, short: usize) -> bool {
        let [only] = self.turns.as_slice() else { return false };
        self.stopped.is_none()
            && self.lost.is_none()
            && only.stop_reason == StopReason::Completed
            && only.text.trim().chars().nth(short - 1).is_none()
    }

    /// Returns the calls that were denied to the subagent, with its name.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        let named = |denial: &Denial| {
            let tool = format!("{} of {}", denial.tool, self.subagent.name);
            Denial { tool, ..denial.clone() }
        };
        self.turns.iter().flat_map(|turn| &turn.denials).map(named).collect()
    }

    /// Returns the effects on the parent's turn. A turn that fails on questions fails together with its subagent.
    fn delegated(&self) -> DelegatedWork {
        let denials = self.denials();
        let fails = !denials.is_empty() && self.turns.last().is_some_and(|last| last.stop_reason == StopReason::Denied);
        DelegatedWork { usage: self.usage, denials, fails }
    }

    /// Converts the work into the call's output.
    pub(crate) fn output(self) -> SubagentOutput {
        let reason = self.stopped.or(self.turns.last().map(|last| last.stop_reason));
        let error = self.error(reason);
        self.build_output(self.answer().unwrap_or_default(), error)
    }

    fn build_output(&self, answer: &str, error: Option<(ToolErrorCode, String)>) -> SubagentOutput {
        let mut result = json!({
            "ok": error.is_none(),
            "result": answer,
            "context_id": self.subagent.session_id,
            "loops": self.steps,
        });
        if let Some((_, reason)) = &error {
            result["error"] = reason.as_str().into();
        }
        let (error, files) = (error.map(|(code, _)| code), folded(&self.files));
        let output = ToolOutput { text: result.to_string(), error, files, ..ToolOutput::default() };
        SubagentOutput { output, delegated: self.delegated() }
    }

    /// Returns the subagent's answer or, if a request for detail failed, the previous answer.
    fn answer(&self) -> Option<&str> {
        let completed_turns = self.turns.iter().rev().filter(|turn| turn.stop_reason == StopReason::Completed);
        let any = self.turns.iter().rev();
        completed_turns.chain(any).map(|turn| turn.text.as_str()).find(|text| !text.trim().is_empty())
    }

    fn error(&self, reason: Option<StopReason>) -> Option<(ToolErrorCode, String)> {
        use ToolErrorCode::{Cancelled, Tool, UnknownOutcome};
        if let (Some(reason_text), None) = (&self.lost, self.stopped) {
            return Some((Tool, format!("the outcome of the subagent is unknown: {reason_text}")));
        }
        let stopped = |code, problem: &str| Some((code, format!("{problem}; {CONTINUE_HINT}")));
        let unfinished = |problem: &str| stopped(Tool, &format!("{problem}; its output so far is in `result`"));
        match reason? {
            StopReason::Completed => None,
            StopReason::Cancelled | StopReason::Suspended => {
                stopped(Cancelled, "the subagent was cancelled; its changes so far remain")
            }
            // The subagent could not give more detail, so its first answer is valid.
            _ if self.has_answered() && self.stopped.is_none() => None,
            StopReason::MaxSteps => unfinished("the subagent reached its step limit"),
            StopReason::TimeLimit => unfinished("the turn's time limit was reached before the subagent ended"),
            StopReason::Budget => unfinished("the turn's token budget was spent before the subagent ended"),
            StopReason::Loop => unfinished("the subagent repeated the same calls with the same results"),
            StopReason::NoAnswer => unfinished("the subagent's model gave no answer"),
            StopReason::Cut => unfinished("the subagent's answer was cut off"),
            StopReason::WrongForm => unfinished("the subagent's answer is in the wrong form"),
            StopReason::Filtered => unfinished("the provider withheld the subagent's answer"),
            StopReason::Interrupted => stopped(UnknownOutcome, INTERRUPTED),
            StopReason::Denied => stopped(Tool, "the subagent asked a question that was not answered"),
            StopReason::Failed => {
                let reason_text =
                    self.turns.last().and_then(|last| last.error.as_ref()).map_or("", |error| &error.message);
                let text = format!("the subagent failed: {reason_text}; {CONTINUE_HINT}, or try a different approach");
                Some((Tool, text))
            }
        }
    }

    /// Returns the output for a subagent that was interrupted because the daemon stopped.
    pub(crate) fn into_interrupted(self) -> SubagentOutput {
        self.build_output("", Some((ToolErrorCode::UnknownOutcome, format!("{INTERRUPTED}; {CONTINUE_HINT}"))))
    }
}

const CONTINUE_HINT: &str = "call delegate_task with this context_id to continue it";
const INTERRUPTED: &str = "the daemon stopped while the subagent worked; its work so far remains in its history";

/// Returns the start of a text on one line, with at most `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if line.chars().count() + word.chars().count() >= max {
            let left = max.saturating_sub(line.chars().count() + 1);
            line.extend(word.chars().take(left));
            line.push('…');
            return line.trim_start().to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    line.trim_start().to_owned()
}
