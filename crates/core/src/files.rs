//! Session files as clients list, read and write them, under the paths that tools use.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state_files::StateFileChange;
pub use crate::{ports::SessionTree, session::PendingAttachments};

/// Result of an upload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadReceipt {
    /// File path as tools write it.
    pub path: String,
    /// Picture for models, if the file is a picture.
    pub picture: Option<Picture>,
    /// Reason why no picture can be shown although the file claims to be one: a sentence with a hint.
    pub problem: Option<String>,
}

/// A picture as sent to models, upright and scaled to the size that models use. The picture is independent of later
/// changes to its source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Unique path, as tools write it.
    pub path: String,
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Width of the picture, in pixels.
    pub width: u32,
    /// Height of the picture, in pixels.
    pub height: u32,
    /// File size in bytes.
    pub bytes: u64,
}

/// A picture that was prepared for models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPicture {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Width of the picture, in pixels.
    pub width: u32,
    /// Height of the picture, in pixels.
    pub height: u32,
    /// Name derived from the content: pictures with equal bytes have equal names.
    pub name: String,
    /// Encoded bytes of the picture.
    pub content: Vec<u8>,
}

/// An input that exceeds a model's window, stored in a file. No part of the input is lost, and the model gets the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInput {
    /// Path of the file with the whole input, as tools write it.
    pub path: String,
    /// File size in bytes.
    pub bytes: u64,
    /// Number of lines. An unterminated last line is included.
    pub lines: u64,
    /// Number of bytes that the model sees.
    pub shown_bytes: u64,
    /// Number of whole lines at the beginning that the model sees.
    pub shown_lines: u64,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path as tools write it.
    pub path: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size of a regular file in bytes; otherwise 0.
    pub size: u64,
    /// Time of the last change, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file on the disk.
    File,
    /// A folder, without its entries.
    Folder,
    /// A symbolic link to a path.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Content of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileListing {
    /// Entries sorted by path, without hidden ones.
    pub entries: Vec<FileEntry>,
    /// True if there are more entries, or entries that cannot be shown.
    pub cut: bool,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Bytes of the piece; empty past the end of the file.
    pub content: Vec<u8>,
    /// Size of the whole file, in bytes.
    pub size: u64,
    /// Time of the file's last change, if known.
    pub modified: Option<Timestamp>,
}

/// Result of writing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWritten {
    /// Path as tools write it.
    pub path: String,
    /// Change that the caller must store, if the file is part of the session's state.
    pub state: Option<StateFileChange>,
}

/// Files that were removed, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilesRemoved {
    /// Number of removed files.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Report on files that were copied from one session to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesCopied {
    /// Number of copied files.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
    /// Number of files that were skipped: links, irregular files, files with several hard links, and files over the
    /// limits.
    pub left_out: u64,
}

/// Files of a fork as they were at the end of its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFiles {
    /// Number of the session's own files that were restored because they had changed since.
    pub restored: u64,
    /// Number of files of the project and of added folders that were written to [`Self::folder`].
    pub shared: u64,
    /// Folder of the fork with these files; empty if there are none.
    pub folder: String,
    /// Files that were not restored, each with the reason.
    pub left: Vec<String>,
}
