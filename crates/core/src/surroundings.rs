//! Surroundings of a session: machine, folder and project. They are part of the instructions, which begin every
//! request, so they are determined once and then stay unchanged.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Facts about the machine and a project. The names in it are untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Operating system, with its version if known, and processor.
    pub system: String,
    /// Folder in which commands start, as tools name it; empty for the session's own.
    pub start: String,
    /// Branch that git has checked out in the project.
    pub branch: Option<String>,
    /// Commands that build and test the project, as far as its files reveal them.
    pub commands: Vec<String>,
    /// Folder in which these commands run, if it is not the one in which commands start.
    pub commands_in: Option<String>,
}

/// The part of a session's instructions that describes its surroundings.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Project that the text describes. It does not apply to another one.
    pub project: Option<PathBuf>,
    /// Last known folder of the client.
    pub client: Option<PathBuf>,
    /// Folder in which commands start, as the model knows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// Text of the instructions.
    pub text: String,
}
