//! The session's mode: the defaults where it allows more, and a denial of all that does more than look while it plans.

use agentd_core::{
    policy::{Explanation, Layer, Verdict},
    session::SessionMode,
    tool::Effect,
};

use super::{Call, SHELL_TOOL};
use crate::checker::{files, web};

/// Reason of a denial, also for the model.
const PLANNING: &str = "the session is in plan mode, in which nothing is changed";
/// The rule that people are told.
const PLAN_RULE: &str = "the session's mode is plan";

impl Call<'_> {
    /// The rule by which the mode answers where nothing but the defaults would ask. Tools of others always ask: neither
    /// the sandbox nor undo reaches what they do.
    pub(super) fn allowed_by_mode(&self) -> Option<String> {
        let mode = self.facts.settings.mode;
        let is_ours = self.facts.foreign.is_none();
        let allowed = match (mode, self.facts.tool.effect) {
            (SessionMode::AcceptEdits | SessionMode::Auto, Effect::Write) => is_ours,
            (SessionMode::Auto, Effect::Execute) => is_ours && self.facts.held && self.facts.tool.name == SHELL_TOOL,
            _ => false,
        };
        allowed.then(|| format!("the session's mode is {mode}"))
    }

    /// The same verdict; while the session plans, a denial of what does more than look, whoever allowed it.
    pub(super) fn in_plan(&self, said: Explanation) -> Explanation {
        let is_denied = matches!(said.verdict, Verdict::Deny { .. });
        if self.facts.settings.mode != SessionMode::Plan || is_denied || self.looks(&said) {
            return said;
        }
        Explanation {
            verdict: Verdict::Deny { reason: PLANNING.to_owned() },
            layer: Layer::Default,
            rule: PLAN_RULE.to_owned(),
            grants: Vec::new(),
            wider: Vec::new(),
            granted_by: Vec::new(),
            ..said
        }
    }

    fn looks(&self, said: &Explanation) -> bool {
        match self.facts.tool.effect {
            Effect::Read | Effect::State => true,
            Effect::Network => self.arguments.as_ref().is_some_and(|arguments| web::sends(arguments).is_none()),
            Effect::Execute => said.only_looks(),
            Effect::Write => self.arguments.as_ref().is_some_and(|arguments| {
                let real = self.facts.roots.iter().copied().chain(self.facts.memories);
                files::only_state(&self.facts.tool.name, arguments, real)
            }),
        }
    }
}
