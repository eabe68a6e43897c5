//! Guides, skills, plugins and agents added by users and projects.
//!
//! - [`files`]: safe, cached access to the current files and folders, and their front matter.
//! - [`guides`]: users' notes for models: `AGENTS.md` files, and the skill catalogue.
//! - [`project`]: the `.agentd/` folder of a project, and the user's trust in it.
//! - [`plugins`]: installed plugins, and the hashes that the user agreed to.
//! - [`skills`]: sources of skills, their copies in sessions, and the Python environments for their scripts.
//! - [`surroundings`]: facts about the host and a project, derived from their files.

pub mod files;
pub mod guides;
pub mod plugins;
pub mod project;
pub mod skills;
pub mod surroundings;
