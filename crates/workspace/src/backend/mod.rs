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
pub(crate) mod port;
mod state;
#[cfg(test)]
mod tests;

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
    jail::{Aim, Jail},
    path::{PathPlace, ToolPath},
    target::{self, Target},
};

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
            self.entries(place).is_ok_and(|mut entries| entries.any(|e| matches!(e, ListedEntry::Entry(_))))
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
        Ok(Box::new(entries.map(|entry| entry.map_or(ListedEntry::Unreadable, |entry| listed(&entry)))))
    }

    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
        target::on_disk(self, path, max_content)
    }

    fn open_if_there(&self, path: &ToolPath) -> Option<Content> {
        self.open_linked(path).map(Content::Disk)
    }
}

/// The entry, if its name is UTF-8 and it can be looked at.
fn listed(entry: &DirEntry) -> ListedEntry {
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
