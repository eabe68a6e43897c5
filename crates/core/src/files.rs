//! The files of a session as a person lists, reads and writes them, by the paths that tools use.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{EventKind, StateChange},
    ports::Workspace,
    state_files::{StateFileChange, StateFiles},
};

/// All files of a session: those on the disk, and those of its own state as they are now.
#[derive(Debug, Clone)]
pub struct SessionTree {
    /// Where the files on the disk are.
    pub workspace: Arc<Workspace>,
    /// The files of the session's own state.
    pub state: Arc<StateFiles>,
}

/// Files handed over that a model is still to be told of, at the most: of more the oldest are not named.
const MAX_HANDED_OVER: usize = 100;

/// What people handed over, as far as a model is still to be told of it. Pure: the sum of a session's events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HandedOver {
    /// What no turn began with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<String>,
    /// What the last turn began with, until its model has surely been told: one that was cut short may have told nobody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken: Vec<String>,
}

impl HandedOver {
    /// What the next turn is to tell, the oldest first.
    #[must_use]
    pub fn next(&self) -> Vec<String> {
        let all = self.taken.len() + self.waiting.len();
        self.taken.iter().chain(&self.waiting).skip(all.saturating_sub(MAX_HANDED_OVER)).cloned().collect()
    }

    /// Takes in a fact, and says whether it changed anything.
    pub fn apply(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::StateChanged { change: StateChange::HandedOver { path } } => {
                // One that is written again is told once.
                self.taken.retain(|known| known != path);
                self.waiting.retain(|known| known != path);
                self.waiting.push(path.clone());
                self.waiting.drain(..self.waiting.len().saturating_sub(MAX_HANDED_OVER));
                true
            }
            EventKind::TurnStarted { handed_over, .. } if !handed_over.is_empty() => {
                self.waiting.retain(|known| !handed_over.contains(known));
                self.taken.clone_from(handed_over);
                true
            }
            // One that began with nothing tells nothing, however it ends: what the turn before it took waits again.
            EventKind::TurnStarted { .. } if !self.taken.is_empty() => {
                self.waiting = self.next();
                self.taken.clear();
                true
            }
            EventKind::TurnEnded { result } if !self.taken.is_empty() => {
                let told = !result.only_compacted && result.stop_reason.has_asked();
                if told {
                    self.taken.clear();
                }
                told
            }
            _ => false,
        }
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path, as tools write it.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// The size of a file in bytes; 0 for all else.
    pub size: u64,
    /// When it was last changed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What a folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileListing {
    /// Its entries, sorted by path. Hidden ones are left out.
    pub entries: Vec<FileEntry>,
    /// Whether there are more, or some that cannot be shown.
    pub cut: bool,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Its bytes; none behind the end of the file.
    pub content: Vec<u8>,
    /// The size of the whole file, in bytes.
    pub size: u64,
    /// When the file was last changed, where that is known.
    pub modified: Option<Timestamp>,
}

/// What writing a file came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWritten {
    /// Its path, as tools write it.
    pub path: String,
    /// What is to be stored of it, where it is a file of the session's own state.
    pub state: Option<StateFileChange>,
}

/// What came along when the files of a session were copied to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesCopied {
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out: links, what is no regular file, what has several names, and what would have been too much.
    pub left_out: u64,
}
