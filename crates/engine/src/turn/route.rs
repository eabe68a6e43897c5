//! Which slot answers a turn. Pure.

use agentd_core::model::Slot;

/// Presence of pictures, and of models that see them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VisionSupport {
    /// Set if the model has any to see.
    pub(crate) pictures: bool,
    /// Set if the model of the base slot sees.
    pub(crate) base: bool,
    /// Set if that of the vision slot does.
    pub(crate) vision: bool,
}

/// The slot and why: what the client named, else what the session is set to, else one that sees where there are pictures,
/// else the base.
pub(crate) fn route(asked: Option<Slot>, session: Option<Slot>, sight: VisionSupport) -> (Slot, &'static str) {
    match (asked, session) {
        (Some(slot), _) => (slot, "the client named it"),
        (None, Some(slot)) => (slot, "the session is set to it"),
        (None, None) if sight.pictures && !sight.base && sight.vision => (Slot::Vision, "there are pictures"),
        (None, None) => (Slot::Base, "the default"),
    }
}

/// The slot of the last answer: the chat slot, unless the turn was given a slot of its own.
pub(crate) fn chat_slot(slot: Slot) -> Slot {
    if slot == Slot::Base { Slot::Chat } else { slot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_go_to_a_model_that_sees_unless_a_person_chose() {
        let sight = |pictures, base, vision| VisionSupport { pictures, base, vision };
        let check = |asked, session, sight, slot| assert_eq!(route(asked, session, sight).0, slot, "{sight:?}");
        check(None, None, sight(true, false, true), Slot::Vision);
        check(None, None, sight(true, true, true), Slot::Base);
        check(None, None, sight(true, false, false), Slot::Base);
        check(None, None, sight(false, false, true), Slot::Base);
        check(Some(Slot::Code), None, sight(true, false, true), Slot::Code);
        check(None, Some(Slot::Reasoning), sight(true, false, true), Slot::Reasoning);
        check(Some(Slot::Code), Some(Slot::Reasoning), VisionSupport::default(), Slot::Code);
    }
}
