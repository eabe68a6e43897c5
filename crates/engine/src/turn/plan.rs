//! Plans at the beginning of turns: the decision on whether there is one, and the words to the model. Pure.

use agentd_core::{
    item::{Item, ItemBody, NoticeTopic},
    routing::{Intent, IntentKind, Planning},
    turn::OnInterrupt,
};

/// Said at the begin of a turn that plans.
pub(crate) const PLAN_FIRST: &str = "Plan first. Calls that change files, or run commands that do more than look, are refused until \
    the person has approved a plan. Look at what you need, then answer with the plan and nothing else: a numbered list, one step \
    a line, each of which can be done and checked by itself, with the files it is about. Do not ask for leave: the person is \
    asked about the plan as soon as you have answered.";

/// Facts for the decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanFacts<'a> {
    /// The wish of the client, where it has one.
    pub(crate) asked: Option<Planning>,
    /// The configuration.
    pub(crate) configured: Planning,
    /// Intent of the input.
    pub(crate) intent: &'a Intent,
    /// The way in which interrupts are answered.
    pub(crate) answering: OnInterrupt,
}

impl PlanFacts<'_> {
    /// Returns whether the turn begins with a plan.
    pub(crate) fn plans(&self) -> bool {
        let is_talk = matches!(self.intent.kind, IntentKind::CapabilityQuery | IntentKind::GeneralChat);
        match (self.asked.unwrap_or(self.configured), self.asked) {
            (Planning::Always, Some(_)) => true,
            (Planning::Always, None) => !is_talk,
            (Planning::Auto, _) => {
                let decides = matches!(self.answering, OnInterrupt::Wait | OnInterrupt::Approve);
                decides && self.intent.complex && self.intent.kind == IntentKind::CodingTask
            }
            (Planning::Never, _) => false,
        }
    }
}

/// Returns whether a plan is asked for, and not approved, behind this item; none where the item says nothing of that.
pub(crate) fn is_open_behind(item: &Item) -> Option<bool> {
    match &item.body {
        ItemBody::Notice { topic: NoticeTopic::Plan, .. } => Some(true),
        ItemBody::Notice { topic: NoticeTopic::Planned, .. } | ItemBody::UserMessage { steered: false, .. } => {
            Some(false)
        }
        _ => None,
    }
}

/// The notice that asks for a plan.
pub(crate) fn notice() -> ItemBody {
    let text = PLAN_FIRST.to_owned();
    ItemBody::Notice { text, topic: NoticeTopic::Plan, sources: Vec::new(), pictures: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_a_plan_gets_one_and_talk_has_none() {
        let intent = |kind, complex| Intent { kind, complex, ..Intent::default() };
        let check = |asked, configured, intent: Intent, answering, expected| {
            let facts = PlanFacts { asked, configured, intent: &intent, answering };
            assert_eq!(facts.plans(), expected, "{facts:?}");
        };
        let large = || intent(IntentKind::CodingTask, true);
        let small = || intent(IntentKind::CodingTask, false);
        let talk = || intent(IntentKind::GeneralChat, true);
        check(None, Planning::Never, large(), OnInterrupt::Wait, false);
        check(None, Planning::Auto, large(), OnInterrupt::Wait, true);
        check(None, Planning::Auto, large(), OnInterrupt::Approve, true);
        check(None, Planning::Auto, large(), OnInterrupt::Deny, false);
        check(None, Planning::Auto, small(), OnInterrupt::Wait, false);
        check(None, Planning::Auto, talk(), OnInterrupt::Wait, false);
        check(None, Planning::Always, small(), OnInterrupt::Deny, true);
        check(None, Planning::Always, talk(), OnInterrupt::Wait, false);
        check(Some(Planning::Always), Planning::Never, talk(), OnInterrupt::Wait, true);
        check(Some(Planning::Never), Planning::Always, large(), OnInterrupt::Wait, false);
    }
}
