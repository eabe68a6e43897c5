//! What one layer says.

use agentd_core::{
    policy::{Explanation, Layer, Risk, Verdict},
    tool::FollowedLink,
};

/// A verdict with the rule that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerVerdict {
    pub(crate) verdict: Verdict,
    pub(crate) layer: Layer,
    pub(crate) rule: String,
    /// Set if what will run cannot be known beforehand, so that no rule about it could be exact.
    pub(crate) dynamic: bool,
}

impl LayerVerdict {
    /// A checker asks.
    pub(crate) fn asks(risk: Risk, rule: impl Into<String>) -> Self {
        let rule = rule.into();
        Self { verdict: Verdict::Ask { risk, reason: rule.clone() }, layer: Layer::Checker, rule, dynamic: false }
    }

    /// A checker asks because nobody can know what will run.
    pub(crate) fn unknown(rule: impl Into<String>) -> Self {
        Self { dynamic: true, ..Self::asks(Risk::High, rule) }
    }

    /// The defaults' opinion.
    pub(crate) fn by_default(verdict: Verdict, rule: impl Into<String>) -> Self {
        Self { verdict, layer: Layer::Default, rule: rule.into(), dynamic: false }
    }

    /// The same opinion; a question says more of why.
    pub(crate) fn because(self, reason: &str) -> Self {
        match self.verdict {
            Verdict::Ask { risk, .. } => Self { verdict: Verdict::Ask { risk, reason: reason.to_owned() }, ..self },
            _ => self,
        }
    }

    /// Returns whether it is more than a yes.
    pub(crate) fn speaks_against(&self) -> bool {
        self.verdict != Verdict::Allow
    }

    /// Returns whether it lets a part of a command run because that only looks.
    pub(crate) fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && self.layer == Layer::Default && self.rule == Explanation::ONLY_LOOKS
    }

    pub(crate) fn is_deny(&self) -> bool {
        matches!(self.verdict, Verdict::Deny { .. })
    }
}

/// The strictest of several, the first of equals. What cannot be known stays unknown, whoever wins.
pub(crate) fn strictest(opinions: impl IntoIterator<Item = LayerVerdict>) -> Option<LayerVerdict> {
    opinions.into_iter().reduce(|best, next| {
        let dynamic = best.dynamic || next.dynamic;
        let winner = if next.verdict.strictness() > best.verdict.strictness() { next } else { best };
        LayerVerdict { dynamic, ..winner }
    })
}

/// The stricter of what is said of a call as it is written and of the same call under the name that a link leads to. Of
/// equals the first.
pub(crate) fn of_both(written: Explanation, real: Explanation, followed: &FollowedLink) -> Explanation {
    let leads_to = Some(followed.leads_to.clone());
    if real.verdict.strictness() > written.verdict.strictness() {
        let verdict = real.verdict.because(|reason| format!("{followed}, and {reason}"));
        Explanation { verdict, leads_to, ..real }
    } else {
        Explanation { leads_to, ..written }
    }
}

/// A text as it is shown inside a sentence.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
