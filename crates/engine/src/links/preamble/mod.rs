//! Links that add to a request what the model has to know.

pub(crate) mod files;
pub(crate) mod memory;
pub(crate) mod mentions;
pub(crate) mod pins;
pub(crate) mod plan_mode;
pub(crate) mod planning;
pub(crate) mod recall;
pub(crate) mod skills;
pub(crate) mod turn_instructions;
