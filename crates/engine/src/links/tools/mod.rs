//! Links that implement their own tools.

pub(crate) mod agents;
pub(crate) mod search;
pub(crate) mod session_tools;
