//! Views of a session for models and people.

pub(crate) mod context;
pub(crate) mod project;
pub(crate) mod visible;
