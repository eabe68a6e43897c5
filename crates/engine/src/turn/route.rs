//! Choices at the beginning of a turn: the slot that answers it, and why; and whether it begins with a plan, with the words to
//! the model. Pure.

use agentd_core::{
    item::{Item, ItemBody, NoticeTopic},
    model::Slot,
    routing::{ChoiceRule, Intent, IntentKind, Planning},
    turn::OnInterrupt,
};

use crate::turn::hooks::Reminder;

/// Facts for the choice of a slot.
#[derive(Debug, Default)]
pub(crate) struct RouteFacts<'a> {
    /// The slot that the client named.
    pub(crate) asked: Option<Slot>,
    /// The slot that the session is set to.
    pub(crate) session: Option<Slot>,
    /// The slot that was chosen for the turn before, by what it was about.
    pub(crate) last: Option<Slot>,
    /// Intent of the input; none where the turn has none.
    pub(crate) intent: Option<&'a Intent>,
    /// Set if the model has pictures to see.
    pub(crate) pictures: bool,
    /// The slots that have a model of their own.
    pub(crate) own: &'a [Slot],
    /// Those whose model sees pictures.
    pub(crate) seeing: &'a [Slot],
}

/// A slot, and why it was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SlotChoice {
    pub(crate) slot: Slot,
    pub(crate) rule: ChoiceRule,
}

impl RouteFacts<'_> {
    /// The slot: what the client named, else what the session is set to, else what the turn asks for, else the one of the
    /// turn before, else the base.
    pub(crate) fn choose(&self) -> SlotChoice {
        let choice = |slot, rule| SlotChoice { slot, rule };
        let by_name = [(self.asked, ChoiceRule::Client), (self.session, ChoiceRule::Session)];
        if let Some((slot, rule)) = by_name.into_iter().find_map(|(slot, rule)| Some((slot?, rule))) {
            return choice(slot, rule);
        }
        let is_needed = |slot: Slot| self.own.contains(&slot) && self.can_see(slot);
        let is_about_code = self.intent.is_some_and(|intent| intent.kind.is_about_code());
        let is_complex = self.intent.is_some_and(|intent| intent.complex);
        if is_about_code && is_needed(Slot::Code) {
            return choice(Slot::Code, ChoiceRule::Code);
        }
        if is_complex && is_needed(Slot::Reasoning) {
            return choice(Slot::Reasoning, ChoiceRule::ComplexTask);
        }
        match self.last.filter(|last| *last != Slot::Base && self.own.contains(last) && self.can_see(*last)) {
            Some(last) => choice(last, ChoiceRule::Kept),
            None if !self.can_see(Slot::Base) => choice(Slot::Vision, ChoiceRule::Pictures),
            None => choice(Slot::Base, ChoiceRule::Default),
        }
    }

    /// Returns whether the model of a slot sees what there is to see, as far as any model does.
    fn can_see(&self, slot: Slot) -> bool {
        let somebody_sees = self.seeing.contains(&Slot::Vision);
        !self.pictures || !somebody_sees || self.seeing.contains(&slot)
    }
}

impl SlotChoice {
    /// A slot that somebody named.
    pub(crate) fn by_name(slot: Slot) -> Self {
        Self { slot, rule: ChoiceRule::Session }
    }

    /// The same for an agent that uses that slot: what people chose stands above it.
    pub(crate) fn of_agent(self, own: Option<Slot>) -> Self {
        match own {
            Some(slot) if !self.rule.is_a_persons() => Self { slot, rule: ChoiceRule::Agent },
            _ => self,
        }
    }

    /// Why, for people.
    pub(crate) fn reason(self) -> &'static str {
        match self.rule {
            ChoiceRule::Client => "the client named it",
            ChoiceRule::Session => "the session is set to it",
            ChoiceRule::Agent => "its agent uses it",
            ChoiceRule::Pictures => "there are pictures",
            ChoiceRule::Code => "it is about code",
            ChoiceRule::ComplexTask => "it is a complex task",
            ChoiceRule::Kept => "the turn before had it",
            ChoiceRule::LastAnswer => "it writes the last answer",
            ChoiceRule::Fallback => "it stands in for another one",
            ChoiceRule::Default => "the default",
        }
    }

    /// The slot for the next turn, where this one was chosen by what the turn is about.
    pub(crate) fn to_keep(slot: Slot, rule: ChoiceRule) -> Option<Slot> {
        let is_kept =
            matches!(rule, ChoiceRule::Pictures | ChoiceRule::Code | ChoiceRule::ComplexTask | ChoiceRule::Kept);
        is_kept.then_some(slot)
    }

    /// The slot of the last answer: the chat slot, unless somebody chose another one.
    pub(crate) fn last_answer(self) -> Slot {
        match self.rule {
            ChoiceRule::Client | ChoiceRule::Session | ChoiceRule::Agent if self.slot != Slot::Base => self.slot,
            _ => Slot::Chat,
        }
    }
}

/// Said at the begin of a turn that plans.
pub(crate) const PLAN_FIRST: &str = "Plan first. Calls that change files, or run commands that do more than look, are refused until \
    the person has approved a plan. Look at what you need, then answer with the plan and nothing else: a numbered list, one step \
    a line, each of which can be done and checked by itself, with the files it is about. Do not ask for leave: the person is \
    asked about the plan as soon as you have answered.";

/// Returns whether a turn begins with a plan: by the wish of the client, where it has one, by the configuration, the intent
/// of the input and the way in which interrupts are answered.
pub(crate) fn plans(asked: Option<Planning>, configured: Planning, intent: &Intent, answering: OnInterrupt) -> bool {
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
    fn pictures_go_to_a_model_that_sees() {
        let sight = |seeing| RouteFacts { pictures: true, own: ALL, seeing, ..RouteFacts::default() };
        check(sight(&[Slot::Vision]), Slot::Vision, ChoiceRule::Pictures);
        check(sight(ALL), Slot::Base, ChoiceRule::Default);
        check(sight(&[]), Slot::Base, ChoiceRule::Default);
        check(RouteFacts { pictures: false, ..sight(&[Slot::Vision]) }, Slot::Base, ChoiceRule::Default);
        let coding = intent(IntentKind::CodingTask, true);
        let code = |seeing| RouteFacts { intent: Some(&coding), ..sight(seeing) };
        check(code(&[Slot::Vision]), Slot::Vision, ChoiceRule::Pictures);
        check(code(&[Slot::Vision, Slot::Code]), Slot::Code, ChoiceRule::Code);
    }

    #[test]
    fn a_turn_goes_to_the_slot_of_what_it_is_about_if_that_has_a_model() {
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
    fn who_wants_a_plan_gets_one_and_talk_has_none() {
        let check = |asked, configured, intent: Intent, answering, expected| {
            assert_eq!(plans(asked, configured, &intent, answering), expected, "{asked:?} {configured:?} {intent:?}");
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
