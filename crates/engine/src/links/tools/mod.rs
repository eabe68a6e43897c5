//! Links that answer tools of their own.

pub(crate) mod agents;
pub(crate) mod search;
pub(crate) mod session_tools;
