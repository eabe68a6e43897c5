//! Files and folders of users and projects, in their current state.
//!
//! - `disk`: safe access to files and folders, without blocking where that is not allowed, and a cache of unchanged
//!   content.
//! - `front`: front matter of a file.
//! - `agreed_folder`: folders that are used only in the version that the user agreed to: hashes, records and copies.
//! - `tree`: scans and copies the files of a skill or plugin. `requirements`: packages declared by a skill.
//!
//! In most cases, nothing has changed since the previous turn. A check for changes takes a few microseconds, less
//! than waking a thread that may block on a disk. The first attempt therefore only uses data that the system has
//! cached, and a blocking read follows if the cached data is not sufficient.
//!
//! A project, and the folders around it, may be untrusted. Only regular files of this user that are reached without
//! links are used.

pub(crate) mod agreed_folder;
pub mod disk;
pub(crate) mod front;
pub(crate) mod requirements;
pub(crate) mod tree;
