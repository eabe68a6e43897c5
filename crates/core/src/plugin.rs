//! Plugins: folders with skills, agents, commands and MCP servers that users add as a unit.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::AgentCard,
    project::{ProjectChange, ProjectCommand, ProjectProblem},
};

names! {
    /// State of a folder compared to the plugin that the user approved.
    #[derive(Default)]
    pub enum PluginState {
        /// No plugin with the same name is installed.
        #[default]
        New = "new",
        /// A plugin with the same name but different files is installed.
        Update = "update",
        /// The plugin is installed, with the approved files.
        Installed = "installed",
        /// The plugin is installed, but its files differ from the approved ones, so no part of the plugin is used.
        Changed = "changed",
    }
}

/// Details of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginReport {
    /// Name of the plugin.
    pub name: String,
    /// Declared version. Empty if the plugin does not declare one.
    pub version: String,
    /// Declared purpose of the plugin.
    pub description: String,
    /// Declared license of the plugin.
    pub license: String,
    /// Declared home page of the plugin.
    pub homepage: String,
    /// State compared to the approved plugin.
    pub state: PluginState,
    /// SHA-256 of the names, contents and execute permissions of all plugin files, in hexadecimal.
    pub hash: String,
    /// Folder that contains the plugin's files.
    pub folder: PathBuf,
    /// Source as specified by the user. Empty if the plugin is not installed.
    pub source: String,
    /// Time when the user approved the plugin.
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
    /// Commands of the plugin. Their texts are only present if the commands are used.
    pub commands: Vec<ProjectCommand>,
    /// MCP servers of the plugin.
    pub servers: Vec<PluginServer>,
    /// Unsupported parts, such as hooks. agentd never runs them.
    pub unsupported: Vec<String>,
    /// Version of the installed plugin with the same name, if it differs from this plugin.
    pub installed_version: String,
    /// Differences between the current and the approved files.
    pub changes: Vec<ProjectChange>,
    /// Problems with individual parts of the plugin.
    pub problems: Vec<ProjectProblem>,
}

/// Skill of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSkill {
    /// Name of the skill.
    pub name: String,
    /// Purpose of the skill.
    pub description: String,
    /// Executable files, relative to the plugin's folder. Commands that run them require approval.
    pub scripts: Vec<String>,
    /// Python packages declared by the skill.
    pub packages: Vec<String>,
}

/// MCP server of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginServer {
    /// Name of the server.
    pub name: String,
    /// Program and arguments as written in the plugin. Empty for a server with a URL.
    pub command: Vec<String>,
    /// URL as written in the plugin. Empty for a server that is a program.
    pub url: String,
    /// Names of variables or headers that are set for the server.
    pub sets: Vec<String>,
    /// Variables of the daemon or of a client whose values are passed to the server.
    pub reads: Vec<String>,
    /// Variables or headers that are set for the server, each as `NAME=VALUE` as written in the plugin.
    #[serde(default)]
    pub values: Vec<String>,
    /// Names of the set variables that can influence which program or code runs.
    #[serde(default)]
    pub steering: Vec<String>,
    /// Working directory of the program as written in the plugin. Empty for a server with a URL.
    #[serde(default)]
    pub cwd: String,
}
