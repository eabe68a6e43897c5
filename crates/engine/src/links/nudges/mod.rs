//! Links that check an answer, and ask the model again.

pub(crate) mod answers;
pub(crate) mod repetition;
