//! What is known of the decision on a call, gathered on its way through the chain, for the audit log.

use std::sync::OnceLock;

use agentd_core::{policy::Explanation, tool::ToolCall};

use super::skills::Need;
use crate::turn::recorder::Answered;

/// What is known of the decision on one call.
pub(crate) struct Trail<'a> {
    /// The call as the model wrote it, whatever somebody made of it since.
    pub(crate) written: &'a ToolCall,
    judged: OnceLock<Explanation>,
    /// What must be installed first.
    need: OnceLock<Need>,
    /// What was said of the arguments that somebody put in place of the model's.
    judged_again: OnceLock<Explanation>,
    answered: OnceLock<Answered>,
    /// The answer to what the call asks itself.
    replied: OnceLock<Answered>,
    passed: OnceLock<()>,
    told: OnceLock<()>,
    shut: OnceLock<()>,
}

impl<'a> Trail<'a> {
    pub(crate) fn of(written: &'a ToolCall) -> Self {
        Self {
            written,
            judged: OnceLock::new(),
            need: OnceLock::new(),
            judged_again: OnceLock::new(),
            answered: OnceLock::new(),
            replied: OnceLock::new(),
            passed: OnceLock::new(),
            told: OnceLock::new(),
            shut: OnceLock::new(),
        }
    }

    /// The rules have spoken: of the call, and perhaps again of what was put in its place.
    pub(crate) fn judged(&self, judgement: &Explanation) {
        if let Err(again) = self.judged.set(judgement.clone()) {
            let _ = self.judged_again.set(again);
        }
    }

    /// It needs something installed, which whoever lets it run must know.
    pub(super) fn needs(&self, need: Need) {
        let _ = self.need.set(need);
    }

    /// What it needs installed first.
    pub(super) fn need(&self) -> Option<&Need> {
        self.need.get()
    }

    /// Somebody has answered: whether the call may run, or what it asks.
    pub(crate) fn answer(&self, answered: &Answered) {
        let place = if answered.is_to_a_question() { &self.replied } else { &self.answered };
        let _ = place.set(answered.clone());
    }

    /// The rules, or who was asked, let it through.
    pub(super) fn pass(&self) {
        let _ = self.passed.set(());
    }

    /// The decision is in the log.
    pub(super) fn tell(&self) {
        let _ = self.told.set(());
    }

    /// The daemon does not let it run, whatever was decided: the log could not take the decision, or what a person
    /// was shown is not what would happen.
    pub(super) fn shut(&self) {
        let _ = self.shut.set(());
    }

    /// What the rules said, the strictest where they spoke twice; nothing where they were not asked.
    pub(super) fn judgement(&self) -> Option<&Explanation> {
        match (self.judged.get(), self.judged_again.get()) {
            (Some(first), Some(again)) if again.verdict > first.verdict => Some(again),
            (first, _) => first,
        }
    }

    /// Where the path led that the model had written, if it led through a link.
    pub(super) fn leads_to(&self) -> Option<&str> {
        self.judged.get()?.leads_to.as_deref()
    }

    /// The answer that decided: whether it may run, where that was asked, else what it asks.
    pub(super) fn answered(&self) -> Option<&Answered> {
        self.answered.get().or_else(|| self.replied.get())
    }

    /// The answer to what the call asks, where another had let it run.
    pub(super) fn replied(&self) -> Option<&Answered> {
        self.answered.get().and_then(|_| self.replied.get())
    }

    pub(super) fn has_passed(&self) -> bool {
        self.passed.get().is_some()
    }

    pub(super) fn is_told(&self) -> bool {
        self.told.get().is_some()
    }

    pub(super) fn is_shut(&self) -> bool {
        self.shut.get().is_some()
    }
}
