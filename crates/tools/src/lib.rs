//! The core tools, the workspaces they are kept in, and the processes they start.
//!
//! - [`toolbox`]: [`BuiltinToolbox`], the port that the engine calls: finds the tool, checks the arguments, runs the
//!   call where it may block, and turns every failure into an output.
//! - `builtin/`: one tool a file, each with its schema, its arguments and what it does.
//! - [`workspace`]: [`WorkspaceFolders`] makes and removes the folders of sessions; the jail opens files in them and
//!   in nothing else.
//! - `encoding/`: text in whatever encoding its file has, edited byte by byte.
//! - `patch/`: parsing of patches, and placing of their hunks in a file.
//! - `guides/`: what people wrote for models to know: `AGENTS.md` files and the catalogue of skills.
//! - `project/`: what a project brings along in `.agentd/`, and whether the person trusts it.
//! - `plugins/`: plugins that the person has added, and the hashes that they agreed to. `agreed_files`: the record of both.
//! - [`skills`]: where skills are, their copies in sessions, and the Python environments that their scripts need.
//! - `process/`: commands in a clean environment, ended with all their children.
//! - [`sandbox`]: what a command may reach, held by the kernel.
//! - `worktrees/`: git worktrees of sessions, by git in the sandbox.
//! - `arguments`, `failure`, `text`, `diff`: what a model wrote, checked; what it is told when a call fails; what it
//!   reads, bounded; what a person is shown before a file changes.

mod agreed_files;
mod arguments;
mod builtin;
mod diff;
mod encoding;
mod failure;
mod guides;
mod job;
mod meant;
mod patch;
mod plugins;
mod process;
mod project;
pub mod sandbox;
pub mod skills;
mod surroundings;
mod text;
pub mod toolbox;
pub mod workspace;
mod worktrees;

pub use builtin::known_name;
pub use plugins::{InstalledPlugin, PluginStore};
pub use process::ConfinedPrograms;
pub use project::ProjectStore;
pub use sandbox::{Sandbox, SandboxConfig};
pub use skills::{SkillConfig, SkillSetting, SkillSettings, SkillStore};
pub use toolbox::{BuiltinToolbox, Limits, ToolboxConfig};
pub use workspace::{FileSnapshots, HardLinks, SnapshotConfig, WorkspaceFolders};
pub use worktrees::WorktreeFolders;
