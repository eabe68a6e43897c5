//! Plugins: folders with skills, agents, commands and MCP servers that a person has added as a whole.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::AgentCard,
    project::{ProjectChange, ProjectCommand, ProjectProblem},
};

names! {
    /// Relation of a folder to what the person has agreed to.
    #[derive(Default)]
    pub enum PluginState {
        /// No plugin of that name is there.
        #[default]
        New = "new",
        /// A plugin of that name is there, with other files.
        Update = "update",
        /// It is there, as the person agreed to it.
        Installed = "installed",
        /// It is there, and its files are not those that the person agreed to: nothing of it is used.
        Changed = "changed",
    }
}

/// All that is known of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginReport {
    /// Its name.
    pub name: String,
    /// Its version, as it says; empty where it says none.
    pub version: String,
    /// Its purpose, as it says.
    pub description: String,
    /// Its licence, as it says.
    pub license: String,
    /// Its page, as it says.
    pub homepage: String,
    /// Relation to what the person has agreed to.
    pub state: PluginState,
    /// SHA-256 over the names, bytes and rights to run of all its files, in hexadecimal digits.
    pub hash: String,
    /// The folder in which its files are.
    pub folder: PathBuf,
    /// The place that it was added from, as the person named it; empty where it was not.
    pub source: String,
    /// When the person agreed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<Timestamp>,
    /// Number of its files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Its skills.
    pub skills: Vec<PluginSkill>,
    /// Its agents.
    pub agents: Vec<AgentCard>,
    /// Its commands; the texts are there only where they are used.
    pub commands: Vec<ProjectCommand>,
    /// Its MCP servers.
    pub servers: Vec<PluginServer>,
    /// Parts that agentd has nothing for, such as hooks. They are never run.
    pub unsupported: Vec<String>,
    /// Version of the plugin of that name that is there now, where this is another one.
    pub installed_version: String,
    /// Differences of the files from those that the person agreed to.
    pub changes: Vec<ProjectChange>,
    /// Problems and oddities of single parts.
    pub problems: Vec<ProjectProblem>,
}

/// A skill of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSkill {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// Files of it that are programs, below the plugin's folder. Commands that run them ask first.
    pub scripts: Vec<String>,
    /// Python packages that it declares.
    pub packages: Vec<String>,
}

/// An MCP server of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginServer {
    /// Its name.
    pub name: String,
    /// The program and its arguments, as they are written; empty for one behind an address.
    pub command: Vec<String>,
    /// The address, as it is written; empty for a program.
    pub url: String,
    /// Names of the variables or headers that are set for it.
    pub sets: Vec<String>,
    /// Variables of the daemon, or of a client, whose values it gets.
    pub reads: Vec<String>,
    /// The variables or headers that are set for it, each as `NAME=VALUE`, as they are written.
    #[serde(default)]
    pub values: Vec<String>,
    /// Names of the variables among them that may decide which program or code runs.
    #[serde(default)]
    pub steering: Vec<String>,
    /// The folder in which the program starts, as it is written; empty for an address.
    #[serde(default)]
    pub cwd: String,
}
