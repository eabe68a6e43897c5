//! The journal of a session, and what follows from it.

pub(crate) mod interrupts;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod undo;
