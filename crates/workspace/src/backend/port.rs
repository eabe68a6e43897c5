//! Interface of all backends, and what they give: files that are open, and names in a folder.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    time::SystemTime,
};

pub use agentd_core::files::EntryKind as Kind;

use crate::{failure::Failure, path::ToolPath, target::Target};

/// A place that keeps files.
pub trait Backend: Send + Sync + Debug {
    /// Returns whether a folder is there.
    ///
    /// # Errors
    /// `E_PATH` where nothing is, or what is there is neither file nor folder.
    fn is_folder(&self, path: &ToolPath) -> Result<bool, Failure>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// `E_PATH` where no file is there, or it is none that may be read.
    fn open_file(&self, path: &ToolPath) -> Result<OpenFile, Failure>;

    /// The entries of a folder, in no order.
    ///
    /// # Errors
    /// `E_PATH` where no folder is there.
    fn entries(&self, folder: &ToolPath) -> Result<Entries, Failure>;

    /// Opens the place of a file that is to be written, and the file that is there, if its content has at most
    /// `max_content` bytes.
    ///
    /// # Errors
    /// `E_PATH` where it may not be written.
    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure>;

    /// Opens a file with settings that may well be missing, such as an ignore file.
    fn open_if_there(&self, path: &ToolPath) -> Option<Content> {
        self.open_file(path).ok().map(|opened| opened.content)
    }
}

/// The bytes of an open file.
#[derive(Debug)]
pub enum Content {
    /// On the disk.
    Disk(File),
    /// In the journal or with a client, and read from it.
    Held(Cursor<Vec<u8>>),
}

impl Content {
    /// The file, where there is one that others could be handed.
    pub fn into_file(self) -> Option<File> {
        match self {
            Self::Disk(file) => Some(file),
            Self::Held(_) => None,
        }
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read(buffer),
            Self::Held(text) => text.read(buffer),
        }
    }
}

impl Seek for Content {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Disk(file) => file.seek(to),
            Self::Held(text) => text.seek(to),
        }
    }
}

/// A file, open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// Its bytes.
    pub content: Content,
    /// In bytes.
    pub size: u64,
    /// When it was last changed.
    pub(crate) modified: Option<SystemTime>,
}

impl OpenFile {
    /// A text that is not on the disk.
    pub(super) fn held(text: String) -> Self {
        Self { size: text.len() as u64, content: Content::Held(Cursor::new(text.into_bytes())), modified: None }
    }
}

/// The entries of a folder.
pub(crate) type Entries = Box<dyn Iterator<Item = ListedEntry> + Send>;

/// One entry of a folder.
#[derive(Debug)]
pub enum ListedEntry {
    /// It can be shown.
    Entry(Entry),
    /// Its name, which it has, begins with a dot.
    Hidden(String),
    /// Its name is not UTF-8, or it cannot be looked at.
    Unreadable,
}

/// An entry that can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// In bytes; 0 for folders.
    pub(crate) size: u64,
    pub(crate) modified: Option<SystemTime>,
}
