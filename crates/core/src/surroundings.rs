//! Surroundings of a session: machine, folder and project. The surroundings are part of the instructions at the start
//! of every request, so they are determined once and then stay unchanged.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Facts about the machine and a project. Names in these facts are untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Operating system, with its version if known, and the processor.
    pub system: String,
    /// Folder in which commands start, as a tool path; empty for the session's own folder.
    pub start: String,
    /// Branch that git has checked out in the project.
    pub branch: Option<String>,
    /// Commands that build and test the project, as found in the project's files.
    pub commands: Vec<String>,
    /// Folder in which these commands run, if they do not run in `start`.
    pub commands_in: Option<String>,
}

/// The part of a session's instructions that describes its surroundings.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Project that the text describes. The text does not apply to other projects.
    pub project: Option<PathBuf>,
    /// Last known folder of the client.
    pub client: Option<PathBuf>,
    /// Folder in which commands start, as last reported to the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// Text of the instructions.
    pub text: String,
}
