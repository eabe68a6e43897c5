//! Links that add to a request what the model has to know.

pub(crate) mod files;
pub(crate) mod memory;
pub(crate) mod planning;
pub(crate) mod recall;
pub(crate) mod reminders;
pub(crate) mod skills;
