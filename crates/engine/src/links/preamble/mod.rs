//! Links that add instructions and context to a request.

pub(crate) mod guides;
pub(crate) mod planning;
