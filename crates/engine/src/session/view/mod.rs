//! Views of a session for models and people.

pub(crate) mod context;
pub(crate) mod context_view;
pub(crate) mod map;
pub(crate) mod map_search;
pub(crate) mod project;
pub(crate) mod project_agents;
pub(crate) mod surroundings;
pub(crate) mod visible;
