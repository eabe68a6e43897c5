//! Project files that the client of a turn has open, with unsaved text.

/// Maximum size of file text from a client, in bytes.
pub const MAX_CLIENT_FILE: usize = 10 << 20;

/// Request to a client about a project file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFileRequest {
    /// ID that the answer must repeat.
    pub id: String,
    /// Path relative to the project, with `/` as separator.
    pub path: String,
    /// Requested action on the file.
    pub action: FileAction,
}

/// Action on a file, executed by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAction {
    /// Return the current text.
    Read,
    /// Replace the whole text with this text, and save the file.
    Write(String),
}

/// Client's answer to a file request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFileAnswer {
    /// Current text of the file.
    Text(String),
    /// Confirms that the new text was written.
    Written,
    /// The client does not have the file open, so the version on disk is current.
    Absent,
    /// The client refused or failed, with this reason.
    Refused(String),
}

/// Reason why no answer arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The client has disconnected.
    Gone,
    /// The client did not answer in time.
    Late,
}
