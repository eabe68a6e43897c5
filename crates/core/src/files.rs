//! The files of a session as a person lists, reads and writes them, by the paths that tools use.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state_files::StateFileChange;
pub use crate::{ports::SessionTree, session::PendingAttachments};

/// Result of handing a file over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadReceipt {
    /// Its path, as tools write it.
    pub path: String,
    /// Picture for models, where it is one.
    pub picture: Option<Picture>,
    /// Why none can be shown, where it calls itself a picture: a sentence with what to do.
    pub problem: Option<String>,
}

/// A picture as models are shown it: upright, and no larger than they make use of. It stays as it is, whatever becomes of
/// the file that it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its path, as tools write it. Another picture never has the same.
    pub path: String,
    /// Its type, such as `image/png`.
    pub media_type: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A picture that was made fit to be shown to models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPicture {
    /// Its type, such as `image/png`.
    pub media_type: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// A name for it that says what it holds: the same for the same bytes.
    pub name: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// An input that does not fit into a model's window, as it is kept: none of it is lost, and the model knows where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInput {
    /// The path of the file that has all of it, as tools write it.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its lines; one without an end counts.
    pub lines: u64,
    /// The bytes of it that stand before the model.
    pub shown_bytes: u64,
    /// The whole lines at its beginning that do.
    pub shown_lines: u64,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path, as tools write it.
    pub path: String,
    /// Its kind.
    pub kind: EntryKind,
    /// The size of a file in bytes; 0 for all else.
    pub size: u64,
    /// When it was last changed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// Content of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileListing {
    /// Its entries, sorted by path. Hidden ones are left out.
    pub entries: Vec<FileEntry>,
    /// Set if there are more, or some that cannot be shown.
    pub cut: bool,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Its bytes; none behind the end of the file.
    pub content: Vec<u8>,
    /// The size of the whole file, in bytes.
    pub size: u64,
    /// When the file was last changed, where that is known.
    pub modified: Option<Timestamp>,
}

/// Result of writing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWritten {
    /// Its path, as tools write it.
    pub path: String,
    /// Change to be stored, where it is a file of the session's own state.
    pub state: Option<StateFileChange>,
}

/// Files that were removed, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilesRemoved {
    /// The number.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Files that came along when those of a session were copied to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesCopied {
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of files that were left out: links, irregular files, files with several names, and what would have been
    /// too much.
    pub left_out: u64,
}

/// Files of a fork as they were at the end of its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFiles {
    /// Number of own files that are as they were then, where they were changed since.
    pub restored: u64,
    /// Number of files of the project and of added folders that were written below [`Self::folder`].
    pub shared: u64,
    /// Folder of the fork that holds those; empty where there are none.
    pub folder: String,
    /// Files that stayed as they are now, each with the reason.
    pub left: Vec<String>,
}
