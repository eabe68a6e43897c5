//! Links that decide whether a call runs, and audit it.

pub(crate) mod approvals;
pub(crate) mod audit;
