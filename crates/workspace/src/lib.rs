//! The folders of sessions, and the one way into them.
//!
//! - `backend`: the interface of tools to stored files; the disk is one backend, the session's own state another. Its `client`: files
//!   of the project that a client of the turn holds, with text that is not saved.
//! - `browse`: the same files for a person, who lists, reads and writes them by the same paths.
//! - `documents`: documents among them, and those open.
//! - `layout`: the folders of one session on the disk. `locks`: one that is cleaned takes no uploads.
//! - `path`: paths from a model, parsed without touching the disk. `place`: the real folder that one is in, and the folders of a session.
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
//! - `transport`: files that leave with their session, and that come with one.
//! - `copy`: a session's own files, for another session. `uploads`: uploads from people.
//! - `remove`: empties a folder whatever it holds.
//! - [`snapshots`]: records the changes of calls, and reverts them.
//! - `encoding`: text in whatever encoding its file has, edited byte by byte. `text`: text for models, bounded.
//! - `diff`: what a person is shown before a file changes.
//! - `job`, `limits`: one call at work, and how much it may do. `failure`: what it is told when it fails.
//! - `agreed_files`: the record of files of others that the person has agreed to.

pub mod agreed_files;
pub mod backend;
pub mod browse;
pub mod clean;
pub mod code_map;
pub mod copy;
pub mod diff;
pub mod documents;
pub mod drafts;
pub mod encoding;
pub mod exact;
pub mod failure;
pub mod hard_links;
pub mod jail;
pub mod job;
pub mod kept;
pub mod known;
pub mod layout;
pub mod limits;
mod links;
pub mod locks;
mod near;
pub mod path;
pub mod place;
pub mod remove;
pub mod snapshots;
pub mod target;
pub mod text;
pub mod transport;
pub mod uploads;
pub mod walk;
