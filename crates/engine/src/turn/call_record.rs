//! What is known of the decision on a call, gathered on its way through the chain, for the audit log.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    policy::{Explanation, Layer, Risk, Verdict},
    ports::SkillPackages,
    tool::{ToolCall, ToolOutput},
};
use tokio::time::Instant;

use super::recorder::ResolvedInterrupt;

/// What is known of the decision on one call.
pub(crate) struct CallRecord<'a> {
    /// The call as the model made it, in the words of its tool, whatever somebody made of it since.
    pub(crate) written: &'a ToolCall,
    /// What the model is told of what became of its own words.
    note: Option<&'a str>,
    judged: OnceLock<Explanation>,
    /// What must be installed first.
    need: OnceLock<PackageNeed>,
    /// What was said of the arguments that somebody put in place of the model's.
    judged_again: OnceLock<Explanation>,
    answered: OnceLock<ResolvedInterrupt>,
    /// The arguments that somebody put in place of the model's.
    edited: OnceLock<String>,
    /// The answer to what the call asks itself.
    replied: OnceLock<ResolvedInterrupt>,
    passed: OnceLock<()>,
    told: OnceLock<()>,
    shut: OnceLock<()>,
    unwritten: OnceLock<()>,
    held: OnceLock<()>,
    begun: Instant,
    /// The time in which a person was asked, in milliseconds.
    waited: AtomicU64,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn of(written: &'a ToolCall, note: Option<&'a str>) -> Self {
        Self {
            written,
            note,
            judged: OnceLock::new(),
            need: OnceLock::new(),
            judged_again: OnceLock::new(),
            answered: OnceLock::new(),
            edited: OnceLock::new(),
            replied: OnceLock::new(),
            passed: OnceLock::new(),
            told: OnceLock::new(),
            shut: OnceLock::new(),
            unwritten: OnceLock::new(),
            held: OnceLock::new(),
            begun: Instant::now(),
            waited: AtomicU64::new(0),
        }
    }

    /// The time that the call has taken, in milliseconds, without that in which a person was asked.
    pub(crate) fn took(&self) -> u64 {
        millis(self.begun.elapsed()).saturating_sub(self.waited.load(Ordering::Relaxed))
    }

    /// A person was asked for so long.
    pub(crate) fn waited(&self, time: Duration) {
        self.waited.fetch_add(millis(time), Ordering::Relaxed);
    }

    /// The rules have spoken: of the call, and perhaps again of what was put in its place.
    pub(crate) fn judged(&self, judgement: &Explanation) {
        if let Err(again) = self.judged.set(judgement.clone()) {
            let _ = self.judged_again.set(again);
        }
    }

    /// It needs something installed, which whoever lets it run must know.
    pub(crate) fn needs(&self, need: PackageNeed) {
        let _ = self.need.set(need);
    }

    /// What it needs installed first.
    pub(crate) fn need(&self) -> Option<&PackageNeed> {
        self.need.get()
    }

    /// Somebody has answered: whether the call may run, or what it asks.
    pub(crate) fn answer(&self, answered: &ResolvedInterrupt) {
        let place = if answered.is_to_a_question() { &self.replied } else { &self.answered };
        let _ = place.set(answered.clone());
    }

    /// The result, with what the model is told of its arguments.
    pub(crate) fn noted(&self, mut output: ToolOutput) -> ToolOutput {
        if let Some(note) = self.note {
            let gap = if output.text.is_empty() { "" } else { "\n" };
            output.text.push_str(&format!("{gap}{note}"));
        }
        output
    }

    /// It runs with these arguments, which are not the model's.
    pub(crate) fn edit(&self, arguments: &str) {
        let _ = self.edited.set(arguments.to_owned());
    }

    /// The arguments that it runs with, where they are not the model's.
    pub(crate) fn ran_with(&self) -> Option<String> {
        self.edited.get().cloned()
    }

    /// The rules, or who was asked, let it through.
    pub(crate) fn pass(&self) {
        let _ = self.passed.set(());
    }

    /// The decision is in the log.
    pub(crate) fn tell(&self) {
        let _ = self.told.set(());
    }

    /// The daemon does not let it run, whatever was decided: the log could not take the decision, or what a person
    /// was shown is not what would happen.
    pub(crate) fn shut(&self) {
        let _ = self.shut.set(());
    }

    /// The log could not take the decision, so that it does not run.
    pub(crate) fn leave_unwritten(&self) {
        let _ = self.unwritten.set(());
        self.shut();
    }

    /// Nobody was asked, because it only looks: it may change nothing.
    pub(crate) fn hold(&self) {
        let _ = self.held.set(());
    }

    /// True where it may change nothing, whatever it runs.
    pub(crate) fn is_held(&self) -> bool {
        self.held.get().is_some()
    }

    /// What the rules said, the strictest where they spoke twice; nothing where they were not asked.
    pub(crate) fn judgement(&self) -> Option<&Explanation> {
        match (self.judged.get(), self.judged_again.get()) {
            (Some(first), Some(again)) if again.verdict > first.verdict => Some(again),
            (first, _) => first,
        }
    }

    /// Where the path led that the model had written, if it led through a link.
    pub(crate) fn leads_to(&self) -> Option<&str> {
        self.judged.get()?.leads_to.as_deref()
    }

    /// The answer that decided: whether it may run, where that was asked, else what it asks.
    pub(crate) fn answered(&self) -> Option<&ResolvedInterrupt> {
        self.answered.get().or_else(|| self.replied.get())
    }

    /// The answer to what the call asks, where another had let it run.
    pub(crate) fn replied(&self) -> Option<&ResolvedInterrupt> {
        self.answered.get().and_then(|_| self.replied.get())
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.passed.get().is_some()
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told.get().is_some()
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.shut.get().is_some()
    }

    /// True if it was not let through, as nobody could write it down.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten.get().is_some()
    }
}

/// What must be installed before a call does what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageNeed {
    pub(crate) missing: Vec<SkillPackages>,
}

impl PackageNeed {
    /// The judgement of a call that is to install something first: a person is asked, whatever they have allowed, and nothing
    /// of their answer is kept.
    pub(crate) fn over(&self, judgement: Explanation) -> Explanation {
        let own = format!("it installs Python packages first, over the network: {}", self.told());
        let (risk, reason) = match judgement.verdict {
            Verdict::Deny { .. } => return judgement,
            Verdict::Allow => (Risk::High, own),
            Verdict::Ask { risk, reason } => (risk.max(Risk::High), format!("{own}; and {reason}")),
        };
        let rule = "skills: packages are installed with a person's consent".to_owned();
        Explanation {
            verdict: Verdict::Ask { risk, reason },
            layer: Layer::Checker,
            rule,
            grants: Vec::new(),
            wider: Vec::new(),
            ..judgement
        }
    }

    /// What a person is shown in front of the call itself.
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
