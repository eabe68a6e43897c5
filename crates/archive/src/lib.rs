//! Sessions as files.
//!
//! An archive is a gzipped tar that common tools open: `manifest.json` first, then the events of each session in parts
//! (`journal/SESSION/000001.jsonl`), then files (`files/uploads/…`), and `SHA256SUMS` last, which names the hash of
//! everything before it. What is read may come from anybody: its sizes, names, order and hashes are checked as it is
//! read, in one pass and with bounded memory, and whoever reads acts on nothing before [`unpack`] has returned.
//!
//! - [`Manifest`]: the description in front. [`ArchiveWriter`] writes, [`unpack`] reads; `entries`: the members of the tar.
//! - [`ArchiveError`]: why an archive is refused.
//! - [`foreign`]: histories of other programs, as events.

mod entries;
mod error;
pub mod foreign;
mod manifest;
mod reader;
mod writer;

pub use error::ArchiveError;
pub use manifest::{FORMAT, MAX_SESSIONS, Manifest};
pub use reader::{Unpack, unpack};
pub use writer::ArchiveWriter;

/// Name of the description.
const MANIFEST: &str = "manifest.json";
/// Name of the list of hashes.
const SUMS: &str = "SHA256SUMS";
/// Folder of the events.
const JOURNAL: &str = "journal/";
/// Folder of the files.
const FILES: &str = "files/";
