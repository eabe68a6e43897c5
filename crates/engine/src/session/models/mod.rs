//! Models of a session: chosen for each turn, set by a person, at rest where a server does not answer.

pub(crate) mod routing;
pub(crate) mod settings;
