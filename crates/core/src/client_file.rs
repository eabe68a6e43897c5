//! Files of the project as a client of the turn holds them, with text that is not saved.

/// Length of a text that a client gives at the most, in bytes.
pub const MAX_CLIENT_FILE: usize = 10 << 20;

/// A question to a client about a file of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFileRequest {
    /// Joins it to the answer.
    pub id: String,
    /// The file, below the folder of the project and with `/` between its parts.
    pub path: String,
    /// The action.
    pub action: FileAction,
}

/// Action of a client on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAction {
    /// Give its present text.
    Read,
    /// Take this as its whole text, and save it.
    Write(String),
}

/// Answer of a client about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFileAnswer {
    /// Its present text.
    Text(String),
    /// It has the new text.
    Written,
    /// The client does not hold it: what the disk has counts.
    Absent,
    /// It was refused or went wrong, and why.
    Refused(String),
}

/// Reason why no answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The client is gone.
    Gone,
    /// It took too long.
    Late,
}
