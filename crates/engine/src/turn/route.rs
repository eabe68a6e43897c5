//! Choices at the start of a turn: the slot that answers the turn, and the decision to begin with a plan. No side
//! effects.

use agentd_core::{
    item::{Item, ItemBody, NoticeTopic},
    model::Slot,
    routing::{ChoiceRule, Intent, IntentKind, Planning},
    turn::OnInterrupt,
};

use crate::turn::hooks::Reminder;

/// Facts that determine the slot.
#[derive(Debug, Default)]
pub(crate) struct RouteFacts<'a> {
    /// Slot named by the client.
    pub(crate) asked: Option<Slot>,
    /// Slot that is set for the session.
    pub(crate) session: Option<Slot>,
    /// Slot chosen for the previous turn because of its content.
    pub(crate) last: Option<Slot>,
    /// Intent of the input; `None` if the turn has no input.
    pub(crate) intent: Option<&'a Intent>,
    /// True if there are pictures for the model.
    pub(crate) pictures: bool,
    /// Slots with their own model.
    pub(crate) own: &'a [Slot],
    /// Slots whose model has vision.
    pub(crate) with_vision: &'a [Slot],
}

/// A slot and the rule that chose it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SlotChoice {
    pub(crate) slot: Slot,
    pub(crate) rule: ChoiceRule,
}

impl RouteFacts<'_> {
    /// Chooses the slot. The order is: the client's slot, the session's slot, a slot by the content of the turn, the
    /// slot of the previous turn, the base slot.
    pub(crate) fn choose(&self) -> SlotChoice {
        let choice = |slot, rule| SlotChoice { slot, rule };
        let by_name = [(self.asked, ChoiceRule::Client), (self.session, ChoiceRule::Session)];
        if let Some((slot, rule)) = by_name.into_iter().find_map(|(slot, rule)| Some((slot?, rule))) {
            return choice(slot, rule);
        }
        let is_usable = |slot: Slot| self.own.contains(&slot) && self.can_see(slot);
        let is_about_code = self.intent.is_some_and(|intent| intent.kind.is_about_code());
        let is_complex = self.intent.is_some_and(|intent| intent.complex);
        if is_about_code && is_usable(Slot::Code) {
            return choice(Slot::Code, ChoiceRule::Code);
        }
        if is_complex && is_usable(Slot::Reasoning) {
            return choice(Slot::Reasoning, ChoiceRule::ComplexTask);
        }
        match self.last.filter(|last| *last != Slot::Base && self.own.contains(last) && self.can_see(*last)) {
            Some(last) => choice(last, ChoiceRule::Kept),
            None if !self.can_see(Slot::Base) => choice(Slot::Vision, ChoiceRule::Pictures),
            None => choice(Slot::Base, ChoiceRule::Default),
        }
    }

    /// Returns true if the slot's model accepts the pictures, or if no model can.
    fn can_see(&self, slot: Slot) -> bool {
        let any_has_vision = self.with_vision.contains(&Slot::Vision);
        !self.pictures || !any_has_vision || self.with_vision.contains(&slot)
    }
}

impl SlotChoice {
    /// Creates the choice of a slot that was named explicitly.
    pub(crate) fn by_name(slot: Slot) -> Self {
        Self { slot, rule: ChoiceRule::Session }
    }

    /// Applies the agent's own slot. An explicit choice by the user takes precedence.
    pub(crate) fn of_agent(self, own: Option<Slot>) -> Self {
        match own {
            Some(slot) if !self.rule.is_user_choice() => Self { slot, rule: ChoiceRule::Agent },
            _ => self,
        }
    }

    /// Returns the human-readable reason for the choice.
    pub(crate) fn reason(self) -> &'static str {
        match self.rule {
            ChoiceRule::Client => "the client named it",
            ChoiceRule::Session => "the session is set to it",
            ChoiceRule::Agent => "its agent uses it",
            ChoiceRule::Pictures => "there are pictures",
            ChoiceRule::Code => "it is about code",
            ChoiceRule::ComplexTask => "it is a complex task",
            ChoiceRule::Kept => "the previous turn used it",
            ChoiceRule::LastAnswer => "it writes the last answer",
            ChoiceRule::Fallback => "it is the fallback for another one",
            ChoiceRule::Default => "the default",
        }
    }

    /// Returns the slot to reuse for the next turn, if `slot` was chosen by the content of the turn.
    pub(crate) fn reusable_slot(slot: Slot, rule: ChoiceRule) -> Option<Slot> {
        let is_by_content =
            matches!(rule, ChoiceRule::Pictures | ChoiceRule::Code | ChoiceRule::ComplexTask | ChoiceRule::Kept);
        is_by_content.then_some(slot)
    }

    /// Returns the slot of the final answer: the chat slot, unless another slot was chosen explicitly.
    pub(crate) fn last_answer(self) -> Slot {
        match self.rule {
            ChoiceRule::Client | ChoiceRule::Session | ChoiceRule::Agent if self.slot != Slot::Base => self.slot,
            _ => Slot::Chat,
        }
    }
}

/// Notice at the start of a turn that plans.
pub(crate) const PLAN_FIRST: &str = "Plan first. Calls that change files and commands that are not read-only are \
    refused until the user has approved a plan. Read what you need, then answer with the plan and nothing else: a \
    numbered list, one step per line, each independently doable and checkable, with the files it affects. Do not ask \
    for permission: the user is asked about the plan as soon as you answer.";

/// Returns true if a turn begins with a plan. The client's choice takes precedence over the configuration; `Auto` also
/// considers the intent and how interrupts are answered.
pub(crate) fn begins_with_plan(
    asked: Option<Planning>,
    configured: Planning,
    intent: &Intent,
    answering: OnInterrupt,
) -> bool {
    match asked.unwrap_or(configured) {
        Planning::Always => {
            asked.is_some() || !matches!(intent.kind, IntentKind::CapabilityQuery | IntentKind::GeneralChat)
        }
        Planning::Auto => {
            let decides = matches!(answering, OnInterrupt::Wait | OnInterrupt::Approve);
            decides && intent.complex && intent.kind == IntentKind::CodingTask
        }
        Planning::Never => false,
    }
}

/// Returns true if a plan is pending after this item; `None` if the item does not affect plans.
pub(crate) fn plan_pending_after(item: &Item) -> Option<bool> {
    match &item.body {
        ItemBody::Notice { topic: NoticeTopic::Plan, .. } => Some(true),
        ItemBody::Notice { topic: NoticeTopic::Planned, .. } | ItemBody::UserMessage { steered: false, .. } => {
            Some(false)
        }
        _ => None,
    }
}

/// Returns the notice that asks for a plan.
pub(crate) fn plan_notice() -> ItemBody {
    Reminder::new(NoticeTopic::Plan, PLAN_FIRST).notice()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Slot] = &Slot::ALL;

    fn intent(kind: IntentKind, complex: bool) -> Intent {
        Intent { kind, complex, ..Intent::default() }
    }

    fn check(facts: RouteFacts<'_>, slot: Slot, rule: ChoiceRule) {
        assert_eq!(facts.choose(), SlotChoice { slot, rule }, "{facts:?}");
    }

    #[test]
    fn pictures_route_to_a_vision_model() {
        let picture_facts =
            |seeing| RouteFacts { pictures: true, own: ALL, with_vision: seeing, ..RouteFacts::default() };
        check(picture_facts(&[Slot::Vision]), Slot::Vision, ChoiceRule::Pictures);
        check(picture_facts(ALL), Slot::Base, ChoiceRule::Default);
        check(picture_facts(&[]), Slot::Base, ChoiceRule::Default);
        check(RouteFacts { pictures: false, ..picture_facts(&[Slot::Vision]) }, Slot::Base, ChoiceRule::Default);
        let coding = intent(IntentKind::CodingTask, true);
        let code = |seeing| RouteFacts { intent: Some(&coding), ..picture_facts(seeing) };
        check(code(&[Slot::Vision]), Slot::Vision, ChoiceRule::Pictures);
        check(code(&[Slot::Vision, Slot::Code]), Slot::Code, ChoiceRule::Code);
    }

    #[test]
    fn turn_routes_by_intent_if_the_slot_has_a_model() {
        let facts = |intent, own| RouteFacts { intent: Some(intent), own, ..RouteFacts::default() };
        let (coding, analysis) = (intent(IntentKind::CodingTask, true), intent(IntentKind::RepoAnalysis, false));
        let (chat, complex) = (intent(IntentKind::GeneralChat, false), intent(IntentKind::GeneralChat, true));
        check(facts(&coding, ALL), Slot::Code, ChoiceRule::Code);
        check(facts(&analysis, ALL), Slot::Code, ChoiceRule::Code);
        check(facts(&coding, &[Slot::Base, Slot::Reasoning]), Slot::Reasoning, ChoiceRule::ComplexTask);
        check(facts(&analysis, &[Slot::Base, Slot::Reasoning]), Slot::Base, ChoiceRule::Default);
        check(facts(&complex, ALL), Slot::Reasoning, ChoiceRule::ComplexTask);
        check(facts(&chat, ALL), Slot::Base, ChoiceRule::Default);
        check(facts(&coding, &[Slot::Base]), Slot::Base, ChoiceRule::Default);
    }

    #[test]
    fn plan_is_made_if_requested_but_not_for_chat() {
        let check = |asked, configured, intent: Intent, answering, expected| {
            assert_eq!(
                begins_with_plan(asked, configured, &intent, answering),
                expected,
                "{asked:?} {configured:?} {intent:?}"
            );
        };
        let large_task = || intent(IntentKind::CodingTask, true);
        let small_task = || intent(IntentKind::CodingTask, false);
        let chat_intent = || intent(IntentKind::GeneralChat, true);
        check(None, Planning::Never, large_task(), OnInterrupt::Wait, false);
        check(None, Planning::Auto, large_task(), OnInterrupt::Wait, true);
        check(None, Planning::Auto, large_task(), OnInterrupt::Approve, true);
        check(None, Planning::Auto, large_task(), OnInterrupt::Deny, false);
        check(None, Planning::Auto, small_task(), OnInterrupt::Wait, false);
        check(None, Planning::Auto, chat_intent(), OnInterrupt::Wait, false);
        check(None, Planning::Always, small_task(), OnInterrupt::Deny, true);
        check(None, Planning::Always, chat_intent(), OnInterrupt::Wait, false);
        check(Some(Planning::Always), Planning::Never, chat_intent(), OnInterrupt::Wait, true);
        check(Some(Planning::Never), Planning::Always, large_task(), OnInterrupt::Wait, false);
    }
}
