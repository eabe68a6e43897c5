//! The plugins that the person has agreed to, in one file of the data folder. Only the daemon's user reads and writes it; no tool
//! sees the data folder.

use std::{fs, io, path::Path};

use agentd_core::{
    Timestamp,
    project::{ProjectChange, ProjectChangeKind, ProjectFile},
};
use serde::{Deserialize, Serialize};

use crate::project::{private_folder, write_private};

/// The file.
const FILE: &str = "installed.json";
/// Maximum size of it, in bytes.
const MAX_FILE: u64 = 64 << 20;

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
        let path = folder.join(FILE);
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            found => found?,
        };
        if !metadata.is_file() || metadata.len() > MAX_FILE {
            return Err(io::Error::other("it is no plain file, or too large"));
        }
        Ok(serde_json::from_slice(&fs::read(path)?)?)
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
        private_folder(folder)?;
        let draft = folder.join(format!(".draft-{}", uuid::Uuid::new_v4().simple()));
        let written = write_private(&draft, &serde_json::to_vec_pretty(self)?, false)
            .and_then(|()| fs::rename(&draft, folder.join(FILE)))
            .and_then(|()| fs::File::open(folder)?.sync_all());
        if written.is_err() {
            // Nobody reads it.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

impl PluginRecord {
    /// Differences of these files from the recorded ones, sorted by path.
    pub(super) fn changes(&self, now: &[ProjectFile]) -> Vec<ProjectChange> {
        let known = |files: &[ProjectFile], path: &str| files.iter().find(|file| file.path == path).cloned();
        let change = |path: &str, kind| ProjectChange { path: path.to_owned(), kind };
        let new = now.iter().filter_map(|file| match known(&self.files, &file.path) {
            None => Some(change(&file.path, ProjectChangeKind::Added)),
            Some(before) => (before != *file).then(|| change(&file.path, ProjectChangeKind::Changed)),
        });
        let gone = self.files.iter().filter(|file| known(now, &file.path).is_none());
        let mut changes: Vec<ProjectChange> =
            new.chain(gone.map(|file| change(&file.path, ProjectChangeKind::Removed))).collect();
        changes.sort_by(|left, right| left.path.cmp(&right.path));
        changes
    }
}
