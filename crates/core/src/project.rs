//! Projects: what a project's `.agentd/` holds for models and people, and whether the person trusts it.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::AgentCard;

/// The folder of a project that holds instructions, agents, skills and commands.
pub const PROJECT_FOLDER: &str = ".agentd";

names! {
    /// Trust of the person in the `.agentd/` of a project, as it is now.
    #[derive(Default)]
    pub enum ProjectTrust {
        /// There is nothing to be trusted.
        #[default]
        Empty = "empty",
        /// It was never trusted: none of it is used.
        Untrusted = "untrusted",
        /// It is not as it was when it was trusted: none of it is used.
        Changed = "changed",
        /// It is as it was when it was trusted.
        Trusted = "trusted",
    }
}

/// All that is known of the `.agentd/` of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectReport {
    /// The real path of the project.
    pub path: PathBuf,
    /// Trust in it as it is now.
    pub trust: ProjectTrust,
    /// SHA-256 over the names and bytes of all files that are used, in hexadecimal digits; empty where there are none.
    pub hash: String,
    /// When the person trusted it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_at: Option<Timestamp>,
    /// The files that are used, sorted by path.
    pub files: Vec<ProjectFile>,
    /// Set if there are instructions.
    pub instructions: bool,
    /// The agents.
    pub agents: Vec<AgentCard>,
    /// The names of the skills.
    pub skills: Vec<String>,
    /// The commands.
    pub commands: Vec<ProjectCommand>,
    /// Differences from what was trusted.
    pub changes: Vec<ProjectChange>,
    /// Names in it that are never read, such as those of rules and servers.
    pub ignored: Vec<String>,
    /// Problems of single files.
    pub problems: Vec<ProjectProblem>,
}

/// A file that is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFile {
    /// Its path below `.agentd/`.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// A slash command of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectCommand {
    /// The name that is typed.
    pub name: String,
    /// The text of its file; empty where the project is not trusted.
    pub text: String,
}

/// A difference from what was trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectChange {
    /// The path of the file below `.agentd/`.
    pub path: String,
    /// The change.
    pub kind: ProjectChangeKind,
}

names! {
    /// A kind of change of a file.
    pub enum ProjectChangeKind {
        /// It was not there.
        Added = "added",
        /// It has other content.
        Changed = "changed",
        /// It is gone.
        Removed = "removed",
    }
}

/// Something wrong or odd about a file of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectProblem {
    /// The path below `.agentd/`; empty where the whole is meant.
    pub file: String,
    /// The problem.
    pub message: String,
    /// Set if the file, or what it describes, is not used.
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
