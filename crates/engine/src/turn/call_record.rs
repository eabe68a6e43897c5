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

use crate::turn::recorder::ResolvedInterrupt;

/// Record of the decision on one call, for the links around it and for the audit log.
///
/// Links write through `&Invocation`; the lock is held for one field at a time.
pub(crate) struct CallRecord<'a> {
    /// The call as the model wrote it, in the words of its tool, whatever was made of it since.
    pub(crate) written: &'a ToolCall,
    /// Note for the model about what became of its own words.
    note: Option<&'a str>,
    begun: Instant,
    entries: Mutex<Entries>,
    pub(crate) marks: CallMarks,
}

/// Marks of links on a call.
#[derive(Default)]
pub(crate) struct CallMarks {
    /// Set where the rules, or who was asked, let it through.
    pub(crate) passed: Mark<bool>,
    /// Set once the decision is in the audit log.
    pub(crate) logged: Mark<bool>,
    /// Set where the daemon does not let it run, whatever was decided: the log could not take the decision, or what a person
    /// was shown is not what would happen.
    pub(crate) shut: Mark<bool>,
    /// Set where the log could not take the decision.
    pub(crate) unwritten: Mark<bool>,
    /// Its limits by the rules alone, as of the last verdict, whatever else makes it a question.
    pub(crate) limits: Mark<Confinement>,
    /// The limits of what it runs, where no person looked at this very call.
    pub(crate) confinement: Mark<Confinement>,
    /// Paths that it cannot change.
    pub(crate) closed: Mark<Arc<[PathBuf]>>,
}

/// A value that one link sets and others read.
#[derive(Default)]
pub(crate) struct Mark<T>(Mutex<T>);

impl<T: Clone> Mark<T> {
    pub(crate) fn get(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

#[derive(Default)]
struct Entries {
    judged: Option<Explanation>,
    /// Verdict on the arguments that replaced the model's.
    judged_again: Option<Explanation>,
    /// Packages to be installed first.
    need: Option<PackageNeed>,
    look: Option<FileLook>,
    /// Reason why changes of it cannot be undone, as of the last look.
    irreversible: Option<String>,
    /// Answer to the question whether it may run.
    answered: Option<ResolvedInterrupt>,
    /// Answer to what the call asks itself.
    replied: Option<ResolvedInterrupt>,
    /// Arguments that replaced the model's.
    edited: Option<String>,
    waited: Duration,
    effects: SideEffects,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn of(written: &'a ToolCall, note: Option<&'a str>) -> Self {
        Self { written, note, begun: Instant::now(), entries: Mutex::default(), marks: CallMarks::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time that the call has taken, in milliseconds, without waits for a person.
    pub(crate) fn took(&self) -> u64 {
        millis(self.begun.elapsed()).saturating_sub(millis(self.entries().waited))
    }

    /// Adds a wait for a person.
    pub(crate) fn waited(&self, time: Duration) {
        self.entries().waited += time;
    }

    /// Records a verdict: of the call, or of what replaced it.
    pub(crate) fn judged(&self, judgement: &Explanation) {
        let mut entries = self.entries();
        let place = if entries.judged.is_none() { &mut entries.judged } else { &mut entries.judged_again };
        place.get_or_insert_with(|| judgement.clone());
    }

    /// Records that packages must be installed, which whoever lets the call run must know.
    pub(crate) fn needs(&self, need: PackageNeed) {
        self.entries().need.get_or_insert(need);
    }

    /// Packages that must be installed first.
    pub(crate) fn need(&self) -> Option<PackageNeed> {
        self.entries().need.clone()
    }

    /// Records a look at the files before it, and why its changes could not be undone.
    pub(crate) fn look(&self, look: FileLook, irreversible: Option<String>) {
        let mut entries = self.entries();
        (entries.look, entries.irreversible) = (Some(look), irreversible);
    }

    pub(crate) fn has_look(&self) -> bool {
        self.entries().look.is_some()
    }

    /// The look at the files before it, and with it what was known by it.
    pub(crate) fn take_look(&self) -> Option<FileLook> {
        let mut entries = self.entries();
        entries.irreversible = None;
        entries.look.take()
    }

    /// Reason why its changes cannot be undone.
    pub(crate) fn irreversible(&self) -> Option<String> {
        self.entries().irreversible.clone()
    }

    /// Records an answer: whether the call may run, or to what it asks.
    pub(crate) fn answer(&self, answered: &ResolvedInterrupt) {
        let mut entries = self.entries();
        entries.effects.answered |= matches!(answered.by, DecidedBy::Client(_));
        let place = if answered.is_to_a_question() { &mut entries.replied } else { &mut entries.answered };
        place.get_or_insert_with(|| answered.clone());
    }

    /// Adds what the call asks of the turn beside its output.
    pub(crate) fn affect(&self, add: impl FnOnce(&mut SideEffects)) {
        add(&mut self.entries().effects);
    }

    /// All that it asks of the turn.
    pub(crate) fn take_effects(&self) -> SideEffects {
        std::mem::take(&mut self.entries().effects)
    }

    /// The result, with the note for the model.
    pub(crate) fn noted(&self, mut output: ToolOutput) -> ToolOutput {
        if let Some(note) = self.note {
            let gap = if output.text.is_empty() { "" } else { "\n" };
            output.text.push_str(&format!("{gap}{note}"));
        }
        output
    }

    /// Records arguments that replaced the model's.
    pub(crate) fn edit(&self, arguments: &str) {
        self.entries().edited.get_or_insert_with(|| arguments.to_owned());
    }

    /// Arguments that it runs with, where they are not the model's.
    pub(crate) fn ran_with(&self) -> Option<String> {
        self.entries().edited.clone()
    }

    /// Records that the log could not take the decision, so that it does not run.
    pub(crate) fn leave_unwritten(&self) {
        self.marks.unwritten.set(true);
        self.marks.shut.set(true);
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

/// Packages that must be installed before a call does what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageNeed {
    pub(crate) missing: Vec<SkillPackages>,
}

impl PackageNeed {
    /// The judgement of a call that is to install something first: a person is asked, whatever they have allowed, and nothing
    /// of their answer is kept.
    pub(crate) fn over(&self, judgement: Explanation, mode: SessionMode) -> Explanation {
        let own = format!("it installs Python packages first, over the network: {}", self.told());
        if mode == SessionMode::Plan && !matches!(judgement.verdict, Verdict::Deny { .. }) {
            let reason = format!("the session is in plan mode, and {own}");
            let verdict = Verdict::Deny { reason };
            return Explanation { verdict, grants: Vec::new(), wider: Vec::new(), ..judgement };
        }
        asked_first(judgement, own, "skills: packages are installed with a person's consent")
    }

    /// Text for the person in front of the call itself.
    pub(crate) fn shown(&self) -> String {
        let lines = self.missing.iter().map(|wanted| {
            let SkillPackages { skill, packages, .. } = wanted;
            format!("installs for the skill {skill}, into an environment of its own: {}", packages.join(", "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn told(&self) -> String {
        let parts = self.missing.iter().map(|wanted| format!("{} for {}", wanted.packages.join(", "), wanted.skill));
        parts.collect::<Vec<_>>().join("; ")
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
