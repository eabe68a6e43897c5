//! Links that add to a request what the model has to know.

pub(crate) mod guides;
pub(crate) mod planning;
