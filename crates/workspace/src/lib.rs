//! The folders of sessions, and the one way into them.
//!
//! - `backend`: the interface of tools to stored files; the disk is one backend, the session's own state another. Its `client`: files
//!   of the project that a client of the turn holds, with text that is not saved.
//! - `browse`: the same files for a person, who lists, reads and writes them by the same paths.
//! - `documents`: documents among them, and the files that a model's arguments are held to.
//! - `layout`: the folders of one session on the disk, and locks on them: one that is cleaned takes no uploads.
//! - `path`: paths from a model, parsed without touching the disk, and the folders of a session.
//! - `exact`: opens a path as it is written, and through no link; resolves paths that go through links.
//! - `jail`: opens what a path names. Every check is made at open time by the kernel (`openat2` beneath a folder)
//!   or on the opened file, never on a name beforehand.
//! - `near`: paths that could be meant by one that names nothing.
//! - `hard_links`: keeps commands from what is outside of a project and has another name in it.
//! - `target`: a file about to be written: replaced whole or not at all. `drafts`: files that are not whole yet.
//! - `walk`: visits files below a folder, through the jail, within bounds.
//! - `stored`: uploads from people, and files that the daemon stores in a session's tree for tools to read.
//! - `transport`: files that leave with their session, come with one, or are copied for another.
//! - `remove`: removes unused files, and empties a folder whatever it holds.
//! - [`snapshots`]: records the changes of calls, and reverts them.
//! - `encoding`: text in whatever encoding its file has, edited byte by byte. `text`: text for models, bounded.
//! - `diff`: what a person is shown before a file changes.
//! - `job`, `limits`: one call at work, and how much it may do. `failure`: what it is told when it fails.
//! - `private`: files and folders that only the daemon's user can use.

pub mod backend;
pub mod browse;
pub mod code_map;
pub mod diff;
pub mod documents;
pub mod drafts;
pub mod encoding;
pub mod exact;
pub mod failure;
pub mod hard_links;
pub mod jail;
pub mod job;
pub mod layout;
pub mod limits;
mod near;
pub mod path;
pub mod private;
pub mod remove;
pub mod snapshots;
pub mod stored;
pub mod target;
pub mod text;
pub mod transport;
pub mod walk;
