//! Record of the decision on a call, filled for the audit log on the call's way through the chain. Also contains the
//! changes to the turn that a call requests in addition to its output. Only links can request such changes, because a
//! tool is called through a port.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentd_core::{
    audit::DecidedBy,
    context::CompactionStrategy,
    error::WorkspaceError,
    files::Picture,
    ids::CallId,
    policy::{Confinement, Explanation, Layer, Risk, Verdict},
    ports::{FilesBefore, SkillPackages},
    session::{SessionMode, Todo},
    tool::{ToolCall, ToolOutput},
    turn::Denial,
    usage::Usage,
};
use tokio::time::Instant;

use crate::turn::{recorder::ResolvedInterrupt, stopwatch::milliseconds};

/// Record of the decision on one call, for the links around it and for the audit log.
pub(crate) struct CallRecord<'a> {
    /// The call as written by the model, with the argument names of its tool, before any later change.
    pub(crate) written: &'a ToolCall,
    /// Note for the model on how the call's arguments were adapted.
    note: Option<&'a str>,
    begun: Instant,
    entries: Mutex<CallEntries>,
}

/// Findings of the links about a call, for later links.
#[derive(Default)]
pub(crate) struct CallEntries {
    /// True if the rules or an approval let the call run.
    pub(crate) passed: bool,
    /// True once the decision is in the audit log.
    pub(crate) logged: bool,
    /// True if the daemon blocks the call regardless of the decision, because the decision could not be logged, or the
    /// call would no longer do what the user was shown.
    pub(crate) blocked: bool,
    /// True if the decision could not be logged.
    pub(crate) log_failed: bool,
    /// Confinement by the rules alone as of the last verdict, even if another reason requires a question.
    pub(crate) limits: Confinement,
    /// Confinement of the call's processes, if no user has approved this particular call.
    pub(crate) confinement: Confinement,
    /// Paths that the call cannot change.
    pub(crate) closed: Arc<[PathBuf]>,
    judgement: Option<Explanation>,
    /// Verdict on the arguments that replaced the model's.
    second_judgement: Option<Explanation>,
    /// Packages that must be installed before the call, and that must be shown to its approver.
    pub(crate) packages: Vec<SkillPackages>,
    /// State of the files before the call.
    pub(crate) snapshot: Option<FileSnapshot>,
    /// Reason why the call's changes cannot be undone, as of the last check of the files.
    pub(crate) irreversible: Option<String>,
    /// Answer to the approval question.
    answered: Option<ResolvedInterrupt>,
    /// Answer to the question that the call itself asks.
    replied: Option<ResolvedInterrupt>,
    /// Arguments that replaced the model's.
    pub(crate) ran_with: Option<String>,
    /// Time spent waiting for users.
    pub(crate) waited: Duration,
    /// Changes to the turn that the call requests in addition to its output.
    pub(crate) effects: SideEffects,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn of(written: &'a ToolCall, note: Option<&'a str>) -> Self {
        Self { written, note, begun: Instant::now(), entries: Mutex::default() }
    }

    /// Locks the entries. Links write through `&Invocation`; the lock is never held for longer than a statement.
    pub(crate) fn entries(&self) -> MutexGuard<'_, CallEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the duration of the call without time spent waiting for users, in milliseconds.
    pub(crate) fn duration_ms(&self) -> u64 {
        milliseconds(self.begun.elapsed()).saturating_sub(milliseconds(self.entries().waited))
    }

    /// Records a verdict on the call, or on its replacement.
    pub(crate) fn record_judgement(&self, judgement: &Explanation) {
        let mut entries = self.entries();
        let slot = if entries.judgement.is_none() { &mut entries.judgement } else { &mut entries.second_judgement };
        slot.get_or_insert_with(|| judgement.clone());
    }

    /// Takes the snapshot of the files before the call, and clears everything derived from it.
    pub(crate) fn take_snapshot(&self) -> Option<FileSnapshot> {
        let mut entries = self.entries();
        entries.irreversible = None;
        entries.snapshot.take()
    }

    /// Records an answer to the approval question, or to the call's own question.
    pub(crate) fn answer(&self, answered: &ResolvedInterrupt) {
        let mut entries = self.entries();
        entries.effects.answered |= matches!(answered.by, DecidedBy::Client(_));
        let slot = if answered.answers_question() { &mut entries.replied } else { &mut entries.answered };
        slot.get_or_insert_with(|| answered.clone());
    }

    /// Appends the note for the model to the output.
    pub(crate) fn with_note(&self, mut output: ToolOutput) -> ToolOutput {
        if let Some(note) = self.note {
            let separator = if output.text.is_empty() { "" } else { "\n" };
            output.text.push_str(&format!("{separator}{note}"));
        }
        output
    }

    /// Returns the verdict, or the stricter one if there are two. `None` if the rules were not consulted.
    pub(crate) fn judgement(&self) -> Option<Explanation> {
        let entries = self.entries();
        match (&entries.judgement, &entries.second_judgement) {
            (Some(first), Some(again)) if again.verdict > first.verdict => Some(again.clone()),
            (first, _) => first.clone(),
        }
    }

    /// Returns the target of the path that the model wrote, if the path led through a link.
    pub(crate) fn leads_to(&self) -> Option<String> {
        self.entries().judgement.as_ref()?.leads_to.clone()
    }

    /// Returns the decisive answer: the answer to the approval question if there was one, or otherwise to the call's
    /// own question.
    pub(crate) fn answered(&self) -> Option<ResolvedInterrupt> {
        let entries = self.entries();
        entries.answered.clone().or_else(|| entries.replied.clone())
    }

    /// Returns the answer to the call's own question, provided that an approval had allowed the call.
    pub(crate) fn replied(&self) -> Option<ResolvedInterrupt> {
        let entries = self.entries();
        entries.answered.as_ref().and(entries.replied.clone())
    }
}

/// Converts a verdict into a verdict that asks the user for this reason, regardless of grants. The answer cannot become
/// a grant.
pub(crate) fn require_approval(judgement: Explanation, own_reason: String, rule: &str) -> Explanation {
    let (risk, reason) = match judgement.verdict {
        Verdict::Deny { .. } => return judgement,
        Verdict::Allow => (Risk::High, own_reason),
        Verdict::Ask { risk, reason } => (risk.max(Risk::High), format!("{own_reason}; and {reason}")),
    };
    Explanation {
        verdict: Verdict::Ask { risk, reason },
        layer: Layer::Checker,
        rule: rule.to_owned(),
        granted_by: Vec::new(),
        grants: Vec::new(),
        wider: Vec::new(),
        ..judgement
    }
}

/// State of the files before a call.
pub(crate) struct FileSnapshot {
    /// Confinement of the call for which the state was recorded.
    pub(crate) confinement: Confinement,
    /// The files, or the reason why they could not be recorded.
    pub(crate) files: Result<FilesBefore, WorkspaceError>,
}

/// Converts the verdict on a call that first installs packages into a verdict that asks the user, regardless of grants.
/// The answer cannot become a grant. In plan mode, the call is denied.
pub(crate) fn require_package_approval(
    packages: &[SkillPackages],
    judgement: Explanation,
    mode: SessionMode,
) -> Explanation {
    let listed = packages.iter().map(|wanted| format!("{} for {}", wanted.packages.join(", "), wanted.skill));
    let listed = listed.collect::<Vec<_>>().join("; ");
    let reason = format!("it installs Python packages first, over the network: {listed}");
    if mode == SessionMode::Plan && !matches!(judgement.verdict, Verdict::Deny { .. }) {
        let verdict = Verdict::Deny { reason: format!("the session is in plan mode, and {reason}") };
        return Explanation { verdict, grants: Vec::new(), wider: Vec::new(), ..judgement };
    }
    require_approval(judgement, reason, "skills: installing packages requires approval")
}

/// Changes to the turn that one call requests, collected in its [record](super::call_record::CallRecord).
#[derive(Debug, Default)]
pub(crate) struct SideEffects {
    /// A new todo list.
    pub(crate) todos: Option<Vec<Todo>>,
    /// The call whose edit was undone, or found to be already undone.
    pub(crate) takes_back: Option<CallId>,
    /// Tools that the call found for the model.
    pub(crate) found: Vec<String>,
    /// Text from the user for this call: an answer or a reason.
    pub(crate) user_text: Option<String>,
    /// True if a user answered a question about the call.
    pub(crate) answered: bool,
    /// Fingerprint of the result's text, if an earlier result shows the same text.
    pub(crate) unchanged: Option<u64>,
    /// Compaction of the history requested before the next model call.
    pub(crate) compact: Option<CompactionStrategy>,
    /// True if another agent takes over after this step.
    pub(crate) changes_agent: bool,
    /// Work of a subagent for the call.
    pub(crate) delegated: DelegatedWork,
    /// Usage of the model that the tool called.
    pub(crate) sampled: Usage,
    /// Usage of the vision slot's model, which described pictures.
    pub(crate) described: Usage,
    /// Pictures in the result, for models with vision.
    pub(crate) pictures: Vec<Picture>,
}

/// Parts of a subagent's work on a call that affect the turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DelegatedWork {
    /// Usage of the subagent's model calls.
    pub(crate) usage: Usage,
    /// Denials within the subagent.
    pub(crate) denials: Vec<Denial>,
    /// True if the turn fails with the last denial, because it runs unattended and fails on questions.
    pub(crate) fails: bool,
}
