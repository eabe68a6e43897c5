//! The plugins that the person has agreed to, in one file of the data folder. Only the daemon's user reads and writes it; no tool
//! sees the data folder.

use std::{io, path::Path};

use agentd_core::{
    Timestamp,
    project::{ProjectChange, ProjectFile},
};
use agentd_workspace::agreed_files::{changes, read, store};
use serde::{Deserialize, Serialize};

/// The file.
const FILE: &str = "installed.json";

/// One plugin as the person agreed to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PluginRecord {
    pub(super) name: String,
    pub(super) version: String,
    /// Hash of all files.
    pub(super) hash: String,
    /// Name of its folder, beside this file.
    pub(super) folder: String,
    /// The place that it was added from.
    pub(super) source: String,
    pub(super) at: Timestamp,
    /// The client through which the person agreed.
    pub(super) by: String,
    /// The files then, to tell later what has changed.
    pub(super) files: Vec<ProjectFile>,
}

/// All of them, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PluginRecords {
    pub(super) plugins: Vec<PluginRecord>,
}

impl PluginRecords {
    /// Those that are stored in this folder.
    ///
    /// # Errors
    /// When the file is there and cannot be read. Then no plugin is used, and none is taken away.
    pub(super) fn load(folder: &Path) -> io::Result<Self> {
        match read(&folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            read => read,
        }
    }

    pub(super) fn of(&self, name: &str) -> Option<&PluginRecord> {
        self.plugins.iter().find(|record| record.name == name)
    }

    /// These and another one, which takes the place of an earlier one.
    pub(super) fn with(mut self, record: PluginRecord) -> Self {
        match self.plugins.iter_mut().find(|known| known.name == record.name) {
            Some(known) => *known = record,
            None => self.plugins.push(record),
        }
        self
    }

    /// These without one.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.plugins.retain(|record| record.name != name);
        self
    }

    /// Returns whether a folder beside the file belongs to any.
    pub(super) fn need(&self, folder: &str) -> bool {
        self.plugins.iter().any(|record| record.folder == folder)
    }

    /// Stores them: durable when it returns, and never half of them.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub(super) fn store(&self, folder: &Path) -> io::Result<()> {
        store(folder, FILE, self)
    }
}

impl PluginRecord {
    /// Differences of these files from the recorded ones, sorted by path.
    pub(super) fn changes(&self, now: &[ProjectFile]) -> Vec<ProjectChange> {
        changes(&self.files, now)
    }
}
