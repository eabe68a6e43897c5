//! Guides, skills, plugins and agents that people and projects add.
//!
//! - [`files`]: files and folders as they are now, opened safely, and cached; front matter in them.
//! - [`guides`]: what people wrote for models to know: `AGENTS.md` files and the catalogue of skills.
//! - [`project`]: what a project brings along in `.agentd/`, and whether the person trusts it.
//! - [`plugins`]: plugins that the person has added, and the hashes that they agreed to.
//! - [`skills`]: where skills are, their copies in sessions, and the Python environments that their scripts need.
//! - [`surroundings`]: what the files of the machine and of a project tell about them.

pub mod files;
pub mod guides;
pub mod plugins;
pub mod project;
pub mod skills;
pub mod surroundings;
