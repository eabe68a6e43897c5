//! Which slot answers a turn. Pure.

use agentd_core::model::Slot;

/// The slot and why: what the client named, else what the session is set to, else the base.
pub(crate) fn route(asked: Option<Slot>, session: Option<Slot>) -> (Slot, &'static str) {
    match (asked, session) {
        (Some(slot), _) => (slot, "the client named it"),
        (None, Some(slot)) => (slot, "the session is set to it"),
        (None, None) => (Slot::Base, "the default"),
    }
}
