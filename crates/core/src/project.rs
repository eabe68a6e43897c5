//! Projects: instructions, agents, skills and commands in a project's `.agentd/`, and the user's trust in them.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::AgentCard;

/// Folder of a project with instructions, agents, skills and commands.
pub const PROJECT_FOLDER: &str = ".agentd";

names! {
    /// The user's current trust in the `.agentd/` of a project.
    #[derive(Default)]
    pub enum ProjectTrust {
        /// There is nothing to trust.
        #[default]
        Empty = "empty",
        /// The folder was never trusted, so no part of it is used.
        Untrusted = "untrusted",
        /// The folder has changed since it was trusted, so no part of it is used.
        Changed = "changed",
        /// The folder is unchanged since it was trusted.
        Trusted = "trusted",
    }
}

/// Details of a project's `.agentd/` folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectReport {
    /// Real path of the project.
    pub path: PathBuf,
    /// Current trust in the project.
    pub trust: ProjectTrust,
    /// SHA-256 over the names and contents of all files in use, in hexadecimal; empty if there are none.
    pub hash: String,
    /// Time at which the user last trusted the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_at: Option<Timestamp>,
    /// Files in use, sorted by path.
    pub files: Vec<ProjectFile>,
    /// True if there are instructions.
    pub instructions: bool,
    /// Agents of the project.
    pub agents: Vec<AgentCard>,
    /// Names of the project's skills.
    pub skills: Vec<String>,
    /// Slash commands of the project.
    pub commands: Vec<ProjectCommand>,
    /// Differences from the trusted version of the folder.
    pub changes: Vec<ProjectChange>,
    /// Entries that are never read, such as rules and servers.
    pub ignored: Vec<String>,
    /// Problems with individual files.
    pub problems: Vec<ProjectProblem>,
}

/// A file in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFile {
    /// Path relative to `.agentd/`.
    pub path: String,
    /// File size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

/// A slash command of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectCommand {
    /// Name that users type.
    pub name: String,
    /// Text of the command's file; empty if the project is not trusted.
    pub text: String,
}

/// A difference from the trusted version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectChange {
    /// Path of the file, relative to `.agentd/`.
    pub path: String,
    /// Kind of the change.
    pub kind: ProjectChangeKind,
}

names! {
    /// Kind of a file's change.
    pub enum ProjectChangeKind {
        /// The file is new.
        Added = "added",
        /// The content has changed.
        Changed = "changed",
        /// The file was removed.
        Removed = "removed",
    }
}

/// A problem with a project file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectProblem {
    /// Path relative to `.agentd/`; empty if the problem is about the whole folder.
    pub file: String,
    /// Description of the problem.
    pub message: String,
    /// True if the file or the item that it describes is not used.
    pub is_fatal: bool,
}

impl std::fmt::Display for ProjectProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.file.as_str() {
            "" => f.write_str(&self.message),
            file => write!(f, "{file}: {}", self.message),
        }
    }
}
