//! Interface of all backends, with its open files and folder entries.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    time::SystemTime,
};

pub use agentd_core::files::EntryKind as Kind;

use crate::{failure::Failure, path::ToolPath, target::Target};

/// Storage for the files that tools use.
pub trait Backend: Send + Sync + Debug {
    /// Returns true for an existing folder, false for a file.
    ///
    /// # Errors
    /// `E_PATH` if the path is missing, or neither a file nor a folder.
    fn is_folder(&self, path: &ToolPath) -> Result<bool, Failure>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// `E_PATH` if the file is missing or may not be read.
    fn open_file(&self, path: &ToolPath) -> Result<OpenFile, Failure>;

    /// Lists a folder, in no particular order.
    ///
    /// # Errors
    /// `E_PATH` if the folder is missing.
    fn entries(&self, folder: &ToolPath) -> Result<Entries, Failure>;

    /// Opens a file for writing. The existing content is loaded if it has at most `max_content` bytes.
    ///
    /// # Errors
    /// `E_PATH` if the file may not be written.
    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure>;

    /// Opens an optional settings file, such as an ignore file.
    fn open_optional(&self, path: &ToolPath) -> Option<Content> {
        self.open_file(path).ok().map(|opened| opened.content)
    }
}

/// Bytes of an open file.
#[derive(Debug)]
pub enum Content {
    /// File on the disk.
    Disk(File),
    /// Content in memory, read from the journal or from a client.
    Memory(Cursor<Vec<u8>>),
}

impl Content {
    /// Returns the file on disk, or `None` if the content is in memory.
    pub fn into_file(self) -> Option<File> {
        match self {
            Self::Disk(file) => Some(file),
            Self::Memory(_) => None,
        }
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read(buffer),
            Self::Memory(text) => text.read(buffer),
        }
    }
}

impl Seek for Content {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Disk(file) => file.seek(to),
            Self::Memory(text) => text.seek(to),
        }
    }
}

/// File open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// Content of the file.
    pub content: Content,
    /// Size of the content, in bytes.
    pub size: u64,
    /// Time of the last change.
    pub(crate) modified: Option<SystemTime>,
}

impl OpenFile {
    /// Creates an open file from text that is not on disk.
    pub(super) fn in_memory(text: String) -> Self {
        Self { size: text.len() as u64, content: Content::Memory(Cursor::new(text.into_bytes())), modified: None }
    }
}

/// Entries of a folder.
pub(crate) type Entries = Box<dyn Iterator<Item = ListedEntry> + Send>;

/// Entry of a folder.
#[derive(Debug)]
pub enum ListedEntry {
    /// Entry that may be shown.
    Entry(Entry),
    /// Entry whose name begins with a dot.
    Hidden(String),
    /// Entry whose name is not UTF-8, or whose metadata cannot be read.
    Unreadable,
}

/// Entry that can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Size in bytes; 0 for folders.
    pub(crate) size: u64,
    pub(crate) modified: Option<SystemTime>,
}
