//! What people can set for a session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{agent::Parent, grant::Grant, ids::SessionId, model::Slot};

/// Settings of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// Ask before a file is changed.
    pub confirm_write: bool,
    /// Ask before a command is run.
    pub confirm_exec: bool,
    /// The slot that turns use where they name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The folder that the session sees as `/project`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Mount>,
    /// The rules that are kept for this session alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// For whom the session works, where another one made it. It is born with that, and nobody changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Set if nothing of it is ever cleaned, however long nobody uses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

impl SessionSettings {
    /// The session whose files a session with that id works on: a subagent's are its parent's.
    #[must_use]
    pub fn files_of(&self, own: SessionId) -> SessionId {
        self.parent.as_ref().map_or(own, |parent| parent.session)
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            confirm_write: true,
            confirm_exec: true,
            slot: None,
            project: None,
            grants: Vec::new(),
            parent: None,
            pinned: false,
        }
    }
}

/// A folder of the person that a session may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Its absolute path.
    pub path: PathBuf,
    /// Set if tools may change it.
    pub writable: bool,
}
