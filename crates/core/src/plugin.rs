//! Plugins: folders with skills, agents, commands and MCP servers that a user adds as a whole.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::AgentCard,
    project::{ProjectChange, ProjectCommand, ProjectProblem},
};

names! {
    /// State of a folder relative to the plugin that the user has approved.
    #[derive(Default)]
    pub enum PluginState {
        /// No plugin with that name is installed.
        #[default]
        New = "new",
        /// A plugin with that name is installed, with other files.
        Update = "update",
        /// The plugin is installed, with the approved files.
        Installed = "installed",
        /// The plugin is installed, but its files differ from the approved ones, so no part of it is used.
        Changed = "changed",
    }
}

/// Details of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginReport {
    /// Name of the plugin.
    pub name: String,
    /// Declared version; empty if none.
    pub version: String,
    /// Declared purpose of the plugin.
    pub description: String,
    /// Declared license of the plugin.
    pub license: String,
    /// Declared home page of the plugin.
    pub homepage: String,
    /// State relative to the approved plugin.
    pub state: PluginState,
    /// SHA-256 over the names, contents and execute permissions of all plugin files, in hexadecimal.
    pub hash: String,
    /// Folder with the plugin's files.
    pub folder: PathBuf,
    /// Source as given by the user; empty if the plugin is not installed.
    pub source: String,
    /// Time of the user's approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<Timestamp>,
    /// Number of the plugin's files.
    pub files: u64,
    /// Total size of the plugin's files, in bytes.
    pub bytes: u64,
    /// Skills of the plugin.
    pub skills: Vec<PluginSkill>,
    /// Agents of the plugin.
    pub agents: Vec<AgentCard>,
    /// Commands of the plugin. The commands' texts are present only if the commands are used.
    pub commands: Vec<ProjectCommand>,
    /// MCP servers of the plugin.
    pub servers: Vec<PluginServer>,
    /// Parts that agentd does not support, such as hooks. Unsupported parts are never run.
    pub unsupported: Vec<String>,
    /// Version of the installed plugin with that name, if this plugin differs from it.
    pub installed_version: String,
    /// Differences between the files and the approved files.
    pub changes: Vec<ProjectChange>,
    /// Problems with individual parts.
    pub problems: Vec<ProjectProblem>,
}

/// A skill of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSkill {
    /// Name of the skill.
    pub name: String,
    /// Purpose of the skill.
    pub description: String,
    /// Executable files, relative to the plugin's folder. Commands that run these files require approval.
    pub scripts: Vec<String>,
    /// Python packages that the skill declares.
    pub packages: Vec<String>,
}

/// An MCP server of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginServer {
    /// Name of the server.
    pub name: String,
    /// Program and arguments, as written in the plugin; empty for a server with a URL.
    pub command: Vec<String>,
    /// URL, as written in the plugin; empty for a program.
    pub url: String,
    /// Names of the variables or headers that are set for the server.
    pub sets: Vec<String>,
    /// Variables of the daemon or of a client whose values the server receives.
    pub reads: Vec<String>,
    /// Variables or headers that are set for the server, each as `NAME=VALUE`, as written.
    #[serde(default)]
    pub values: Vec<String>,
    /// Names of the set variables that may determine which program or code runs.
    #[serde(default)]
    pub steering: Vec<String>,
    /// Working directory of the program, as written; empty for a URL.
    #[serde(default)]
    pub cwd: String,
}
