//! Links that decide whether a call runs, and record it.

pub(crate) mod approvals;
pub(crate) mod audit;
