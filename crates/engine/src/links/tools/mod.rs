//! Links that answer tools of their own.

pub(crate) mod agents;
pub(crate) mod client_tools;
pub(crate) mod questions;
pub(crate) mod search;
pub(crate) mod todos;
