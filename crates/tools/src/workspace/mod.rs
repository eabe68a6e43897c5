//! The folders of sessions, and the one way into them.
//!
//! - [`folders`]: [`WorkspaceFolders`] makes, empties and removes `{base}/{session}/`, and takes uploads.
//! - `backend`: the interface of tools to stored files; the disk is one backend, the session's own state another.
//! - `browse`: the same files for a person, who lists, reads and writes them by the same paths.
//! - `documents`: documents among them, and those open.
//! - `client`: files of the project that a client of the turn holds, with text that is not saved.
//! - `layout`: the folders of one session on the disk. `mount`: the folders of the person that it sees, checked.
//! - `path`: paths from a model, parsed without touching the disk. `place`: the real folder that one is in.
//! - `exact`: opens a path as it is written, and through no link.
//! - `links`: resolution of paths that go through links.
//! - `jail`: opens what a path names. Every check is made at open time by the kernel (`openat2` beneath a folder)
//!   or on the opened file, never on a name beforehand.
//! - `near`: paths that could be meant by one that names nothing.
//! - `hard_links`: keeps commands from what is outside of a project and has another name in it.
//! - `target`: a file about to be written: replaced whole or not at all. `drafts`: files that are not whole yet.
//! - `walk`: visits files below a folder, through the jail, within bounds.
//! - `kept`: files that the daemon stores in a session's tree for tools to read.
//! - `known`: the files that a model's arguments are held to.
//! - `transport`: files that leave with their session, and that come with one. `failures`: what the disk refuses.
//! - `copy`: a session's own files, for another session. `uploads`: uploads from people.
//! - `remove`: empties a folder whatever it holds.
//! - [`snapshots`]: records the changes of calls, and reverts them.

pub(crate) mod backend;
mod browse;
mod clean;
pub(crate) mod client;
mod code_map;
mod copy;
pub(crate) mod documents;
mod drafts;
pub(crate) mod exact;
mod failures;
pub mod folders;
pub(crate) mod hard_links;
pub(crate) mod jail;
mod kept;
mod known;
mod layout;
mod links;
mod locks;
mod mount;
mod near;
pub(crate) mod path;
mod place;
pub(crate) mod remove;
pub mod snapshots;
pub(crate) mod target;
mod transport;
mod uploads;
pub(crate) mod walk;

use agentd_core::ports::ArtifactDir;

pub use folders::WorkspaceFolders;
pub use hard_links::HardLinks;
pub use snapshots::{FileSnapshots, SnapshotConfig};

/// The folders of a workspace, in the order in which they are shown.
pub(crate) const AREAS: [&str; 6] = ["uploads", "outputs", "temp", "skills", KEPT[0], KEPT[1]];

/// Those that tools may write to.
pub(crate) const WRITABLE: [&str; 3] = ["uploads", "outputs", "temp"];

/// Those in which the daemon keeps what it writes itself. They are searched only where they are named: what was said or
/// returned before would otherwise be found twice.
pub(crate) const KEPT: [&str; 2] = [ArtifactDir::LargeToolResults.folder(), ArtifactDir::ConversationHistory.folder()];

/// Those that sessions may read and nothing that runs for them may change.
pub(crate) fn read_only() -> impl Iterator<Item = &'static str> {
    AREAS.into_iter().filter(|area| !WRITABLE.contains(area))
}
