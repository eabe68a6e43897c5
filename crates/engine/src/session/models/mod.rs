//! Models of a session: chosen for each turn, set by a person, at rest where a server does not answer.

pub(crate) mod model_choice;
pub(crate) mod options;
pub(crate) mod resting;
pub(crate) mod routing;
pub(crate) mod settings;
pub(crate) mod unsure;
