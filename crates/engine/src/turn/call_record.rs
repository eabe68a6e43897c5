//! What is known of the decision on a call, gathered on its way through the chain, for the audit log; and the changes of the turn
//! that it asks for beside its output. Only links ask for them: a tool behind a port cannot.

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
    /// The call as the model wrote it, in the words of its tool, whatever was made of it since.
    pub(crate) written: &'a ToolCall,
    /// Note for the model about what became of its own words.
    note: Option<&'a str>,
    begun: Instant,
    entries: Mutex<CallEntries>,
}

/// Findings of links about a call, each for those that come after it.
#[derive(Default)]
pub(crate) struct CallEntries {
    /// Set where the rules, or who was asked, let it through.
    pub(crate) passed: bool,
    /// Set once the decision is in the audit log.
    pub(crate) logged: bool,
    /// Set where the daemon does not let it run, whatever was decided: the log could not take the decision, or what a person
    /// was shown is not what would happen.
    pub(crate) shut: bool,
    /// Set where the log could not take the decision.
    pub(crate) unwritten: bool,
    /// Its limits by the rules alone, as of the last verdict, whatever else makes it a question.
    pub(crate) limits: Confinement,
    /// The limits of what it runs, where no person looked at this very call.
    pub(crate) confinement: Confinement,
    /// Paths that it cannot change.
    pub(crate) closed: Arc<[PathBuf]>,
    judged: Option<Explanation>,
    /// Verdict on the arguments that replaced the model's.
    judged_again: Option<Explanation>,
    /// Packages to be installed before the call does what it says, which whoever lets it run must know.
    pub(crate) packages: Vec<SkillPackages>,
    /// The look at the files before it.
    pub(crate) look: Option<FileLook>,
    /// Reason why changes of it cannot be undone, as of the last look.
    pub(crate) irreversible: Option<String>,
    /// Answer to the question whether it may run.
    answered: Option<ResolvedInterrupt>,
    /// Answer to what the call asks itself.
    replied: Option<ResolvedInterrupt>,
    /// Arguments that replaced the model's.
    pub(crate) ran_with: Option<String>,
    /// Time that a person was waited for.
    pub(crate) waited: Duration,
    /// Its wishes to the turn beside its output.
    pub(crate) effects: SideEffects,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn of(written: &'a ToolCall, note: Option<&'a str>) -> Self {
        Self { written, note, begun: Instant::now(), entries: Mutex::default() }
    }

    /// The entries. Links write through `&Invocation`; nobody holds the lock for more than a statement.
    pub(crate) fn entries(&self) -> MutexGuard<'_, CallEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time that the call has taken, in milliseconds, without waits for a person.
    pub(crate) fn took(&self) -> u64 {
        milliseconds(self.begun.elapsed()).saturating_sub(milliseconds(self.entries().waited))
    }

    /// Records a verdict: of the call, or of what replaced it.
    pub(crate) fn judged(&self, judgement: &Explanation) {
        let mut entries = self.entries();
        let place = if entries.judged.is_none() { &mut entries.judged } else { &mut entries.judged_again };
        place.get_or_insert_with(|| judgement.clone());
    }

    /// The look at the files before it, and with it what was known by it.
    pub(crate) fn take_look(&self) -> Option<FileLook> {
        let mut entries = self.entries();
        entries.irreversible = None;
        entries.look.take()
    }

    /// Records an answer: whether the call may run, or to what it asks.
    pub(crate) fn answer(&self, answered: &ResolvedInterrupt) {
        let mut entries = self.entries();
        entries.effects.answered |= matches!(answered.by, DecidedBy::Client(_));
        let place = if answered.is_to_a_question() { &mut entries.replied } else { &mut entries.answered };
        place.get_or_insert_with(|| answered.clone());
    }

    /// The result, with the note for the model.
    pub(crate) fn noted(&self, mut output: ToolOutput) -> ToolOutput {
        if let Some(note) = self.note {
            let gap = if output.text.is_empty() { "" } else { "\n" };
            output.text.push_str(&format!("{gap}{note}"));
        }
        output
    }

    /// The verdict, the strictest where there are two; none where the rules were not asked.
    pub(crate) fn judgement(&self) -> Option<Explanation> {
        let entries = self.entries();
        match (&entries.judged, &entries.judged_again) {
            (Some(first), Some(again)) if again.verdict > first.verdict => Some(again.clone()),
            (first, _) => first.clone(),
        }
    }

    /// Target of the path that the model had written, if that led through a link.
    pub(crate) fn leads_to(&self) -> Option<String> {
        self.entries().judged.as_ref()?.leads_to.clone()
    }

    /// The answer that decided: whether it may run, where that was asked, else to what it asks.
    pub(crate) fn answered(&self) -> Option<ResolvedInterrupt> {
        let entries = self.entries();
        entries.answered.clone().or_else(|| entries.replied.clone())
    }

    /// The answer to what the call asks, where another had let it run.
    pub(crate) fn replied(&self) -> Option<ResolvedInterrupt> {
        let entries = self.entries();
        entries.answered.as_ref().and(entries.replied.clone())
    }
}

/// The judgement of a call that a person is asked about for this reason, whatever they have allowed; nothing of their answer
/// is kept.
pub(crate) fn asked_first(judgement: Explanation, own: String, rule: &str) -> Explanation {
    let (risk, reason) = match judgement.verdict {
        Verdict::Deny { .. } => return judgement,
        Verdict::Allow => (Risk::High, own),
        Verdict::Ask { risk, reason } => (risk.max(Risk::High), format!("{own}; and {reason}")),
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

/// Look at the files before a call.
pub(crate) struct FileLook {
    /// Limits of the call that it was made for.
    pub(crate) confinement: Confinement,
    /// The files, or why they could not be recorded.
    pub(crate) files: Result<FilesBefore, WorkspaceError>,
}

/// The judgement of a call that is to install packages first: a person is asked, whatever they have allowed, and nothing
/// of their answer is kept.
pub(crate) fn over_packages(packages: &[SkillPackages], judgement: Explanation, mode: SessionMode) -> Explanation {
    let told = packages.iter().map(|wanted| format!("{} for {}", wanted.packages.join(", "), wanted.skill));
    let told = told.collect::<Vec<_>>().join("; ");
    let own = format!("it installs Python packages first, over the network: {told}");
    if mode == SessionMode::Plan && !matches!(judgement.verdict, Verdict::Deny { .. }) {
        let verdict = Verdict::Deny { reason: format!("the session is in plan mode, and {own}") };
        return Explanation { verdict, grants: Vec::new(), wider: Vec::new(), ..judgement };
    }
    asked_first(judgement, own, "skills: packages are installed with a person's consent")
}

/// Changes of the turn that one call asks for, gathered in its [record](super::call_record::CallRecord).
#[derive(Debug, Default)]
pub(crate) struct SideEffects {
    /// A new todo list.
    pub(crate) todos: Option<Vec<Todo>>,
    /// The call whose edit it took back, or found to be taken back already.
    pub(crate) takes_back: Option<CallId>,
    /// The tools that it found for the model.
    pub(crate) found: Vec<String>,
    /// Words of the person for it: an answer, or a reason.
    pub(crate) said: Option<String>,
    /// Set if a person answered a question about it.
    pub(crate) answered: bool,
    /// Fingerprint of its text, where an earlier result shows the same.
    pub(crate) unchanged: Option<u64>,
    /// The history is compacted in this way before the model's next words.
    pub(crate) compact: Option<CompactionStrategy>,
    /// Another agent works in the session behind this step.
    pub(crate) changes_agent: bool,
    /// Work of another session for it.
    pub(crate) delegated: DelegatedWork,
    /// Usage of the model that it asked.
    pub(crate) sampled: Usage,
    /// Pictures that it returned, for models that see.
    pub(crate) pictures: Vec<Picture>,
}

/// Work of another session for a call, as far as it concerns the turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DelegatedWork {
    /// Usage of the model calls for it.
    pub(crate) usage: Usage,
    /// Denials there.
    pub(crate) denials: Vec<Denial>,
    /// Set if the turn ends with the last of these, because it asks nobody and shall fail then.
    pub(crate) fails: bool,
}
