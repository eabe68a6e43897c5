//! Applies the session's mode, which relaxes the defaults, or denies all calls that are not read-only while planning.

use agentd_core::{
    policy::{Explanation, Layer, Risk, Verdict},
    session::SessionMode,
    tool::Effect,
};

use super::{Call, SHELL_TOOL};
use crate::{checker::files, command::Part, opinion::LayerVerdict};

/// Reason for a denial in plan mode, also shown to the model.
const PLANNING: &str = "the session is in plan mode, which changes nothing";
/// Rule named in the denial, as shown to the user.
const PLAN_RULE: &str = "the session's mode is plan";

impl Call<'_> {
    /// Returns the rule by which the mode approves a call that only the defaults would ask about. Foreign tools always
    /// require a question, because neither the sandbox nor undo covers their effects.
    pub(super) fn allowed_by_mode(&self) -> Option<String> {
        let mode = self.facts.settings.mode;
        let is_ours = self.facts.foreign.is_none();
        let allowed = match (mode, self.facts.tool.effect) {
            (SessionMode::AcceptEdits | SessionMode::Auto, Effect::Write) => is_ours,
            (SessionMode::Auto, Effect::Execute) => {
                is_ours && self.facts.held && self.facts.contained && self.facts.tool.name == SHELL_TOOL
            }
            _ => false,
        };
        allowed.then(|| match mode {
            SessionMode::Auto => Explanation::BY_AUTO.to_owned(),
            other => format!("the session's mode is {other}"),
        })
    }

    /// Replaces an approval of a git command that only the auto mode gives with the question that the defaults would
    /// ask. Git writes to the repository, which is read-only for commands that run without approval.
    pub(super) fn unless_git(&self, part: &Part, opinion: LayerVerdict) -> LayerVerdict {
        let program = part.words.first().map(|word| word.text.rsplit('/').next().unwrap_or_default());
        if opinion.rule != Explanation::BY_AUTO || program != Some("git") {
            return opinion;
        }
        let reason = "it runs git, which auto mode does not cover".to_owned();
        LayerVerdict::by_default(Verdict::Ask { risk: Risk::Medium, reason }, "the session's confirm_exec is on")
    }

    /// Denies a call that is not read-only while the session plans, regardless of any approval. Other verdicts are
    /// returned unchanged.
    pub(super) fn in_plan(&self, explanation: Explanation) -> Explanation {
        let is_denied = matches!(explanation.verdict, Verdict::Deny { .. });
        if self.facts.settings.mode != SessionMode::Plan || is_denied || self.is_read_only(&explanation) {
            return explanation;
        }
        Explanation {
            verdict: Verdict::Deny { reason: PLANNING.to_owned() },
            layer: Layer::Default,
            rule: PLAN_RULE.to_owned(),
            grants: Vec::new(),
            wider: Vec::new(),
            granted_by: Vec::new(),
            ..explanation
        }
    }

    fn is_read_only(&self, explanation: &Explanation) -> bool {
        match self.facts.tool.effect {
            Effect::Read | Effect::State => true,
            Effect::Network => self.arguments.as_ref().is_some_and(|arguments| files::sends(arguments).is_none()),
            Effect::Execute => explanation.only_looks(),
            Effect::Write => self.changes_only_state(),
        }
    }
}
