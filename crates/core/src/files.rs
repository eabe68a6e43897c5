//! Session files that clients list, read and write. The paths are those that tools use.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state_files::StateFileChange;
pub use crate::{ports::SessionTree, session::PendingAttachments};

/// Result of an upload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadReceipt {
    /// File path in the form that tools use.
    pub path: String,
    /// Picture for models, if the file is a picture.
    pub picture: Option<Picture>,
    /// Reason why no picture can be shown for a file that appears to be a picture: a sentence with a hint.
    pub problem: Option<String>,
}

/// Picture for models, upright and scaled to the size that models use. Later changes to its source file do not affect
/// the picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Unique path in the form that tools use.
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

/// Picture that was prepared for models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPicture {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Width of the picture, in pixels.
    pub width: u32,
    /// Height of the picture, in pixels.
    pub height: u32,
    /// Name derived from the content. Pictures with equal bytes have equal names.
    pub name: String,
    /// Encoded bytes of the picture.
    pub content: Vec<u8>,
}

/// Input that exceeds a model's window and is therefore stored in a file. The file contains the whole input, and the
/// model receives the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInput {
    /// Path of the file with the whole input, in the form that tools use.
    pub path: String,
    /// File size in bytes.
    pub bytes: u64,
    /// Number of lines, including an unterminated last line.
    pub lines: u64,
    /// Number of bytes that the model sees.
    pub shown_bytes: u64,
    /// Number of complete lines that the model sees at the beginning.
    pub shown_lines: u64,
}

/// Entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path in the form that tools use.
    pub path: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size of a regular file in bytes. 0 for other entries.
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
    /// A folder. Does not include the folder's entries.
    Folder,
    /// A symbolic link to a path.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Content of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileListing {
    /// Entries sorted by path. Excludes hidden entries.
    pub entries: Vec<FileEntry>,
    /// True if the list is incomplete because there are too many entries or some cannot be shown.
    pub cut: bool,
}

/// Part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Bytes of the part. Empty past the end of the file.
    pub content: Vec<u8>,
    /// Size of the whole file, in bytes.
    pub size: u64,
    /// Time of the file's last change, if known.
    pub modified: Option<Timestamp>,
}

/// Result of writing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWritten {
    /// Path in the form that tools use.
    pub path: String,
    /// Change that the caller must store. `None` if the file is not part of the session's state.
    pub state: Option<StateFileChange>,
}

/// Number and size of files that were removed, or would be removed in a trial.
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
    /// Number of skipped files. Skips links, irregular files, files with several hard links, and files that exceed a
    /// limit.
    pub left_out: u64,
}

/// Files of a fork, restored to their state at the end of the fork's last turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFiles {
    /// Number of the session's own files that were restored because they had changed later.
    pub restored: u64,
    /// Number of files of the project and of added folders that were written to [`Self::folder`].
    pub shared: u64,
    /// Folder of the fork that contains these files. Empty if there are none.
    pub folder: String,
    /// Files that were not restored, with reasons.
    pub left: Vec<String>,
}
