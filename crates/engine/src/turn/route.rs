//! The slot that answers a turn, and why. Pure.

use agentd_core::{
    model::Slot,
    routing::{ChoiceRule, Intent},
};

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

#[cfg(test)]
mod tests {
    use agentd_core::routing::IntentKind;

    use super::*;

    const ALL: &[Slot] = &Slot::ALL;

    fn intent(kind: IntentKind, complex: bool) -> Intent {
        Intent { kind, complex, ..Intent::default() }
    }

    fn check(facts: RouteFacts<'_>, slot: Slot, rule: ChoiceRule) {
        assert_eq!(facts.choose(), SlotChoice { slot, rule }, "{facts:?}");
    }

    #[test]
    fn a_choice_of_people_stands_above_all_others() {
        let coding = intent(IntentKind::CodingTask, true);
        let all =
            || RouteFacts { intent: Some(&coding), pictures: true, own: ALL, seeing: ALL, ..RouteFacts::default() };
        let asked = RouteFacts { asked: Some(Slot::Chat), session: Some(Slot::Code), ..all() };
        check(asked, Slot::Chat, ChoiceRule::Client);
        check(RouteFacts { session: Some(Slot::Base), ..all() }, Slot::Base, ChoiceRule::Session);
        let set = SlotChoice { slot: Slot::Base, rule: ChoiceRule::Session };
        assert_eq!(set.of_agent(Some(Slot::Code)), set);
        let own = SlotChoice { slot: Slot::Reasoning, rule: ChoiceRule::Agent };
        assert_eq!(all().choose().of_agent(Some(Slot::Reasoning)), own);
        assert_eq!(all().choose().of_agent(None), all().choose());
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
    fn a_slot_is_kept_while_it_fits() {
        let chat = intent(IntentKind::GeneralChat, false);
        let last = |last| RouteFacts { last: Some(last), intent: Some(&chat), own: ALL, ..RouteFacts::default() };
        check(last(Slot::Code), Slot::Code, ChoiceRule::Kept);
        check(last(Slot::Base), Slot::Base, ChoiceRule::Default);
        check(RouteFacts { own: &[Slot::Base], ..last(Slot::Code) }, Slot::Base, ChoiceRule::Default);
        let blind = RouteFacts { pictures: true, seeing: &[Slot::Vision], ..last(Slot::Code) };
        check(blind, Slot::Vision, ChoiceRule::Pictures);
        let complex = intent(IntentKind::GeneralChat, true);
        let other = RouteFacts { intent: Some(&complex), ..last(Slot::Code) };
        check(other, Slot::Reasoning, ChoiceRule::ComplexTask);
    }

    #[test]
    fn the_last_answer_is_written_by_chat_unless_somebody_chose() {
        let slot = |slot, rule| SlotChoice { slot, rule }.last_answer();
        assert_eq!(slot(Slot::Base, ChoiceRule::Default), Slot::Chat);
        assert_eq!(slot(Slot::Code, ChoiceRule::Code), Slot::Chat);
        assert_eq!(slot(Slot::Code, ChoiceRule::Session), Slot::Code);
        assert_eq!(slot(Slot::Base, ChoiceRule::Client), Slot::Chat);
        assert_eq!(slot(Slot::Vision, ChoiceRule::Agent), Slot::Vision);
    }
}
