//! Storage of files, and the interface that the tools need of it.
//!
//! - [`Backend`]: look, open, list, and open a place to write. Every file tool is made of these: a search is a walk of
//!   lists and opens, an edit is a [`Target`] that is read and replaced, an upload one that is replaced.
//! - [`Jail`]: real folders. `state`: the files that live in the journal.
//! - [`Files`]: the one tree that models see, put together of both by the first part of a path.
//!
//! Paths are taken apart before they come here ([`ToolPath`]), so no backend meets `..` or another absolute path; what
//! a path leads to on a real disk is for the disk's backend alone to hold.

pub mod client;
mod state;
#[cfg(test)]
mod tests;

use std::{
    fmt::Debug,
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    sync::Arc,
    time::SystemTime,
};

use agentd_core::{
    Timestamp,
    ports::Workspace,
    state_files::{StateFileChange, StateFiles},
};
use cap_std::fs::DirEntry;

use self::{client::FileClient, state::StateBackend};
pub use agentd_core::files::EntryKind as Kind;

use crate::{
    failure::Failure,
    jail::{Aim, Jail},
    path::{PathPlace, ToolPath},
    target::{self, Target},
};

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
    fn held(text: String) -> Self {
        Self { size: text.len() as u64, content: Content::Held(Cursor::new(text.into_bytes())), modified: None }
    }
}

/// The entries of a folder.
pub(crate) type Entries = Box<dyn Iterator<Item = Listed> + Send>;

/// One entry of a folder.
#[derive(Debug)]
pub enum Listed {
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

/// The one tree that models see: `/state` is in the journal, all else on the disk.
#[derive(Debug, Clone)]
pub struct Files {
    /// The way to real folders, for those who need one: a command starts in it.
    pub jail: Jail,
    state: Arc<StateBackend>,
    /// The client that holds files of the project. It is asked about single files that are read or written as texts;
    /// searches, listings and documents stay with the disk.
    client: Option<FileClient>,
}

impl Files {
    /// The tree of a session, with the files of its state as they are at that time.
    pub fn new(workspace: Arc<Workspace>, state: &StateFiles, now: Timestamp) -> Self {
        Self { jail: Jail::new(workspace), state: Arc::new(StateBackend::new(state.clone(), now)), client: None }
    }

    /// The same tree, with the files that a client holds.
    pub(crate) fn held_by(self, client: Option<FileClient>) -> Self {
        Self { client, ..self }
    }

    fn client(&self, path: &ToolPath) -> Option<&FileClient> {
        self.client.as_ref().filter(|_| path.place() == PathPlace::Project)
    }

    /// The file that was opened for its text, with the text that a client has for it.
    pub fn present(&self, path: &ToolPath, opened: OpenFile) -> Result<OpenFile, Failure> {
        match self.client(path) {
            Some(client) => client.over(&self.jail, path, opened),
            None => Ok(opened),
        }
    }

    /// A file that only a client has, because it was never saved.
    pub fn never_saved(&self, path: &ToolPath) -> Result<Option<OpenFile>, Failure> {
        self.client(path).map_or(Ok(None), |client| client.alone(&self.jail, path))
    }

    /// Remarks for the model about what a client was given.
    pub fn notes(&self) -> Vec<String> {
        self.client.as_ref().map(FileClient::notes).unwrap_or_default()
    }

    /// Changes of the files in the session's state, in order.
    pub fn state_changes(&self) -> Vec<StateFileChange> {
        self.state.changes()
    }

    /// Reads a path that is written from the root of the tree.
    pub fn locate(&self, written: &str) -> Result<ToolPath, Failure> {
        self.jail.locate(written)
    }

    /// Reads a path as a call writes it that looks at something.
    pub fn meant(&self, written: &str) -> Result<ToolPath, Failure> {
        self.jail.meant(written, Aim::Read)
    }

    /// The folder at which a search or a listing begins: where none is named, all that there is.
    pub fn start(&self, written: Option<&str>) -> Result<ToolPath, Failure> {
        written.map_or_else(|| Ok(ToolPath::root(PathPlace::Own)), |written| self.meant(written))
    }

    /// Reads a path as a call writes it that changes something.
    pub fn meant_to_write(&self, written: &str) -> Result<ToolPath, Failure> {
        self.jail.meant(written, Aim::Write)
    }

    /// Places searched from `start`.
    pub fn places(&self, start: &ToolPath) -> Vec<ToolPath> {
        self.jail.places(start)
    }

    /// Resolves links on the way of a path.
    pub fn follow(&self, path: &ToolPath) -> Result<ToolPath, Failure> {
        if path.place() == PathPlace::State { Ok(path.clone()) } else { self.jail.follow(path) }
    }

    /// The places beside the session's own tree and the person's folders that have something to show.
    pub fn beside(&self) -> Vec<ToolPath> {
        let holds = |place: &ToolPath| {
            self.entries(place).is_ok_and(|mut entries| entries.any(|e| matches!(e, Listed::Entry(_))))
        };
        [PathPlace::Memories, PathPlace::State].map(ToolPath::root).into_iter().filter(holds).collect()
    }

    fn backend(&self, path: &ToolPath) -> &dyn Backend {
        if path.place() == PathPlace::State { &*self.state } else { &self.jail }
    }
}

impl Backend for Files {
    fn is_folder(&self, path: &ToolPath) -> Result<bool, Failure> {
        self.backend(path).is_folder(path)
    }

    fn open_file(&self, path: &ToolPath) -> Result<OpenFile, Failure> {
        self.backend(path).open_file(path)
    }

    fn entries(&self, folder: &ToolPath) -> Result<Entries, Failure> {
        self.backend(folder).entries(folder)
    }

    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
        let target = self.backend(path).target(path, max_content)?;
        match self.client(path) {
            Some(client) => client.target(&self.jail, path, target),
            None => Ok(target),
        }
    }

    fn open_if_there(&self, path: &ToolPath) -> Option<Content> {
        self.backend(path).open_if_there(path)
    }
}

impl Backend for Jail {
    fn is_folder(&self, path: &ToolPath) -> Result<bool, Failure> {
        Ok(self.open(path)?.1.is_dir())
    }

    fn open_file(&self, path: &ToolPath) -> Result<OpenFile, Failure> {
        let (file, metadata) = self.open_regular(path)?;
        Ok(OpenFile { content: Content::Disk(file), size: metadata.len(), modified: metadata.modified().ok() })
    }

    fn entries(&self, folder: &ToolPath) -> Result<Entries, Failure> {
        let opened = self.open_folder(folder)?;
        let entries = opened.entries().map_err(|error| Failure::io(&format!("list {folder}"), &error))?;
        Ok(Box::new(entries.map(|entry| entry.map_or(Listed::Unreadable, |entry| listed(&entry)))))
    }

    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
        target::on_disk(self, path, max_content)
    }

    fn open_if_there(&self, path: &ToolPath) -> Option<Content> {
        self.open_linked(path).map(Content::Disk)
    }
}

/// The entry, if its name is UTF-8 and it can be looked at.
fn listed(entry: &DirEntry) -> Listed {
    let name = entry.file_name();
    if name.as_encoded_bytes().starts_with(b".") {
        return Listed::Hidden(name.to_string_lossy().into_owned());
    }
    let (Some(name), Ok(metadata)) = (name.to_str(), entry.metadata()) else { return Listed::Unreadable };
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    Listed::Entry(Entry {
        name: name.to_owned(),
        kind,
        size: if kind == Kind::File { metadata.len() } else { 0 },
        modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
    })
}
