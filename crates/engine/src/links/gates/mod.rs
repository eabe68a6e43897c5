//! Links that decide whether a call runs, and links that audit calls.

pub(crate) mod approvals;
pub(crate) mod audit;
