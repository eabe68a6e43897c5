//! Storage backends for files, and the common interface for the file tools.
//!
//! - [`Backend`]: checks, opens and lists files, and opens targets for writing. Every file tool is built from these
//!   operations: a search walks, lists and opens; an edit reads and replaces a [`Target`]; an upload replaces a
//!   [`Target`].
//! - [`Jail`]: real folders. `state`: files stored in the journal.
//! - [`Files`]: the single tree that models see, dispatched to a backend by the first part of a path.
//!
//! Paths are parsed before they reach a backend ([`ToolPath`]), so no backend receives `..` or a foreign absolute path.
//! Only the disk backend has to deal with links.

pub mod client;
pub(crate) mod port;
mod state;

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    ports::Workspace,
    state_files::{StateFileChange, StateFiles},
};
use cap_std::fs::DirEntry;

pub(crate) use self::port::Entries;
pub use self::port::{Backend, Content, Entry, Kind, ListedEntry, OpenFile};
use self::{client::FileClient, state::StateBackend};

use crate::{
    failure::Failure,
    jail::{Jail, OpenPurpose},
    path::{PathPlace, ToolPath},
    target::{self, Target},
};

/// The single tree that models see: `/state` is in the journal, everything else on disk.
#[derive(Debug, Clone)]
pub struct Files {
    /// Access to real folders, such as the working directory of a command.
    pub jail: Jail,
    state: Arc<StateBackend>,
    /// Client that has project files open. Requests to it are only made for single text files that are read or written;
    /// searches, listings and documents use the disk.
    client: Option<FileClient>,
}

impl Files {
    /// Creates the tree of a session, with the state files at time `now`.
    pub fn new(workspace: Arc<Workspace>, state: &StateFiles, now: Timestamp) -> Self {
        Self { jail: Jail::new(workspace), state: Arc::new(StateBackend::new(state.clone(), now)), client: None }
    }

    /// Adds a client that has files open.
    pub(crate) fn with_client(self, client: Option<FileClient>) -> Self {
        Self { client, ..self }
    }

    fn client(&self, path: &ToolPath) -> Option<&FileClient> {
        self.client.as_ref().filter(|_| path.place() == PathPlace::Project)
    }

    /// Replaces the content of an opened file with the client's text, if the client has any.
    pub fn present(&self, path: &ToolPath, opened: OpenFile) -> Result<OpenFile, Failure> {
        match self.client(path) {
            Some(client) => client.overlay(&self.jail, path, opened),
            None => Ok(opened),
        }
    }

    /// Opens a file that only a client has, because it was never saved.
    pub fn open_unsaved(&self, path: &ToolPath) -> Result<Option<OpenFile>, Failure> {
        self.client(path).map_or(Ok(None), |client| client.open_unsaved(&self.jail, path))
    }

    /// Returns notes for the model about text written through a client.
    pub fn notes(&self) -> Vec<String> {
        self.client.as_ref().map(FileClient::notes).unwrap_or_default()
    }

    /// Returns the changes to the session's state files, in order.
    pub fn state_changes(&self) -> Vec<StateFileChange> {
        self.state.changes()
    }

    /// Parses a path relative to the root of the tree.
    pub fn locate(&self, written: &str) -> Result<ToolPath, Failure> {
        self.jail.locate(written)
    }

    /// Parses a path from a call that reads.
    pub fn resolve_path(&self, written: &str) -> Result<ToolPath, Failure> {
        self.jail.resolve_path(written, OpenPurpose::Read)
    }

    /// Returns the start of a search or listing: the root of the tree if `written` is `None`.
    pub fn start(&self, written: Option<&str>) -> Result<ToolPath, Failure> {
        written.map_or_else(|| Ok(ToolPath::root(PathPlace::Own)), |written| self.resolve_path(written))
    }

    /// Parses a path from a call that writes.
    pub fn resolve_for_write(&self, written: &str) -> Result<ToolPath, Failure> {
        self.jail.resolve_path(written, OpenPurpose::Write)
    }

    /// Returns the roots of a search from `start`.
    pub fn places(&self, start: &ToolPath) -> Vec<ToolPath> {
        self.jail.places(start)
    }

    /// Resolves the links in a path.
    pub fn follow(&self, path: &ToolPath) -> Result<ToolPath, Failure> {
        if path.place() == PathPlace::State { Ok(path.clone()) } else { self.jail.follow(path) }
    }

    /// Returns the non-empty roots other than the session's own tree and the user's folders.
    pub fn beside(&self) -> Vec<ToolPath> {
        let has_entries = |place: &ToolPath| {
            self.entries(place).is_ok_and(|mut entries| entries.any(|listed| matches!(listed, ListedEntry::Entry(_))))
        };
        [PathPlace::Memories, PathPlace::State].map(ToolPath::root).into_iter().filter(has_entries).collect()
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

    fn open_optional(&self, path: &ToolPath) -> Option<Content> {
        self.backend(path).open_optional(path)
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
        Ok(Box::new(entries.map(|entry| entry.map_or(ListedEntry::Unreadable, |entry| dir_entry(&entry)))))
    }

    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
        target::on_disk(self, path, max_content)
    }

    fn open_optional(&self, path: &ToolPath) -> Option<Content> {
        self.open_linked(path).map(Content::Disk)
    }
}

/// Converts a folder entry. Returns `Unreadable` if its name is not UTF-8 or its metadata cannot be read.
fn dir_entry(entry: &DirEntry) -> ListedEntry {
    let name = entry.file_name();
    if name.as_encoded_bytes().starts_with(b".") {
        return ListedEntry::Hidden(name.to_string_lossy().into_owned());
    }
    let (Some(name), Ok(metadata)) = (name.to_str(), entry.metadata()) else { return ListedEntry::Unreadable };
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    ListedEntry::Entry(Entry {
        name: name.to_owned(),
        kind,
        size: if kind == Kind::File { metadata.len() } else { 0 },
        modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
    })
}
