//! Session files: path parsing, access confined to a session's folders, snapshots and undo. Every path from a model is
//! parsed by `path` and opened by `jail`, which lets the kernel enforce the confinement.
//!
//! - `backend`: storage interface for the file tools, backed by the disk or by the session's state in the journal. Its
//!   `client` module reads and writes project files through a client of the turn, such as an editor with unsaved text.
//! - `backend`: storage interface for the file tools, backed by the disk or by the session's state in the journal. Its
//!   `client` module reads and writes project files through a client of the turn, such as an editor with unsaved text.
//! - `layout`: on-disk layout of a session, and its locks. Uploads wait while a session is being cleaned.
//! - `documents`: documents among a session's files, and the files to which a model's arguments may be restricted.
//! - `exact`: opens a path as written, without following links, and resolves paths that go through links.
//! - `jail`: opens paths. Every check is made at open time by the kernel (`openat2` beneath a folder) or on the opened
//!   file, never on a name beforehand.
//! - `suggestions`: suggestions for paths that do not exist.
//! - `hard_links`: protects files outside a project that have hard links in the project from commands.
//! - `target`: atomic replacement of a file. `drafts`: temporary files for such replacements.
//! - `hard_links`: protects files outside a project from commands that could change them through hard links.
//! - `stored_files`: uploads, and files that the daemon writes into a session's tree for tools to read.
//! - `transport`: export, import and copying of a session's files.
//! - `remove`: removal of unused files, and of whole folders regardless of their contents.
//! - [`snapshots`]: records the changes made by calls, and reverts them.
//! - `encoding`: text in any encoding, edited without changing other bytes. `text`: bounded text for models.
//! - `diff`: preview of a file change for the user.
//! - `job`, `limits`: a running call and its limits. `failure`: error of a failed call.
//! - `private`: files and folders that only the daemon's user can access.

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
pub mod path;
pub mod private;
pub mod remove;
pub mod snapshots;
pub mod stored_files;
mod suggestions;
pub mod target;
pub mod text;
pub mod transport;
pub mod walk;
