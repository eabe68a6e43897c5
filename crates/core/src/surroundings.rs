//! Where a session works: the machine, the folder, the project. Its instructions tell of that, and as they begin every
//! request, it is looked up once and then stays as it was.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Facts about the machine and a project. Names in it are a stranger's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// The operating system, with its version where that is known, and the processor.
    pub system: String,
    /// The folder in which commands start, as tools name it; empty for the session's own.
    pub start: String,
    /// The branch that git has checked out in the project.
    pub branch: Option<String>,
    /// Commands that build and test the project, as far as its files tell.
    pub commands: Vec<String>,
    /// The folder in which they run, where that is not the one in which commands start.
    pub commands_in: Option<String>,
}

/// The part of a session's instructions that tells where it works.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The project of which it tells. Of another one it tells nothing.
    pub project: Option<PathBuf>,
    /// The folder of the client, as it last was.
    pub client: Option<PathBuf>,
    /// The folder in which commands start, as the model knows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// The words.
    pub text: String,
}
