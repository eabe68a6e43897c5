//! The files of a session as a person lists, reads and writes them, by the paths that tools use.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
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
