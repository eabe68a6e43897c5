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
        /// No plugin of that name is installed.
        #[default]
        New = "new",
        /// A plugin of that name is installed, with other files.
        Update = "update",
        /// The plugin is installed, with the approved files.
        Installed = "installed",
        /// The plugin is installed, but its files differ from the approved ones: nothing of it is used.
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
    /// SHA-256 over the names, contents and execute permissions of all its files, in hexadecimal.
    pub hash: String,
    /// Folder that has its files.
    pub folder: PathBuf,
    /// Source that it was added from, as the user gave it; empty if it is not installed.
    pub source: String,
    /// Time of the user's approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<Timestamp>,
    /// Number of its files.
    pub files: u64,
    /// Total size of its files, in bytes.
    pub bytes: u64,
    /// Skills of the plugin.
    pub skills: Vec<PluginSkill>,
    /// Agents of the plugin.
    pub agents: Vec<AgentCard>,
    /// Commands of the plugin. Their texts are present only if they are used.
    pub commands: Vec<ProjectCommand>,
    /// MCP servers of the plugin.
    pub servers: Vec<PluginServer>,
    /// Parts that agentd does not support, such as hooks. They are never run.
    pub unsupported: Vec<String>,
    /// Version of the installed plugin of that name, if this is another one.
    pub installed_version: String,
    /// Differences of the files from the approved ones.
    pub changes: Vec<ProjectChange>,
    /// Problems and oddities of individual parts.
    pub problems: Vec<ProjectProblem>,
}

/// A skill of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSkill {
    /// Name of the skill.
    pub name: String,
    /// Purpose of the skill.
    pub description: String,
    /// Its executable files, relative to the plugin's folder. Commands that run them require approval.
    pub scripts: Vec<String>,
    /// Python packages that it declares.
    pub packages: Vec<String>,
}

/// An MCP server of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginServer {
    /// Name of the server.
    pub name: String,
    /// Program and arguments, as written; empty for a server with a URL.
    pub command: Vec<String>,
    /// URL as written; empty for a program.
    pub url: String,
    /// Names of the variables or headers that are set for it.
    pub sets: Vec<String>,
    /// Variables of the daemon or of a client whose values it receives.
    pub reads: Vec<String>,
    /// Variables or headers that are set for it, each as `NAME=VALUE`, as written.
    #[serde(default)]
    pub values: Vec<String>,
    /// Names of the variables among them that may determine which program or code runs.
    #[serde(default)]
    pub steering: Vec<String>,
    /// Working directory of the program, as written; empty for a URL.
    #[serde(default)]
    pub cwd: String,
}
