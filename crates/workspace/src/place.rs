//! The real folder that a path is in, and the folders of a workspace.

use std::fmt;

use agentd_core::{
    folder::{AddedFolder, FOLDERS, MAX_FOLDER_NAME},
    ports::ArtifactDir,
};

/// The folders of a workspace, in the order in which they are shown.
pub const AREAS: [&str; 6] = ["uploads", "outputs", "temp", "skills", KEPT[0], KEPT[1]];

/// Those that tools may write to.
pub const WRITABLE: [&str; 3] = ["uploads", "outputs", "temp"];

/// Those in which the daemon keeps what it writes itself. They are searched only where they are named: what was said or
/// returned before would otherwise be found twice.
pub(crate) const KEPT: [&str; 2] = [ArtifactDir::LargeToolResults.folder(), ArtifactDir::ConversationHistory.folder()];

/// Those that sessions may read and nothing that runs for them may change.
pub fn read_only() -> impl Iterator<Item = &'static str> {
    AREAS.into_iter().filter(|area| !WRITABLE.contains(area))
}

/// Real folder that a path is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathPlace {
    /// The session's own tree.
    Own,
    /// The mounted project.
    Project,
    /// A folder that was added to the session. It may be none that the session has.
    Folder(FolderName),
    /// Folder that all sessions share.
    Memories,
    /// The session's own state, which is in the journal and not on the disk.
    State,
}

/// The name of an added folder. It is held in place, so that a path can be copied as it is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName {
    bytes: [u8; MAX_FOLDER_NAME],
    length: u8,
}

impl FolderName {
    /// None for what no added folder can be called.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; MAX_FOLDER_NAME];
        bytes.get_mut(..name.len()).filter(|_| AddedFolder::is_name(name))?.copy_from_slice(name.as_bytes());
        Some(Self { bytes, length: u8::try_from(name.len()).ok()? })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // It was text.
        self.bytes.get(..usize::from(self.length)).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Shows the name that paths in it begin with; nothing for the session's own tree.
impl fmt::Display for PathPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => Ok(()),
            Self::Project => f.write_str("/project"),
            Self::Folder(name) => write!(f, "{FOLDERS}/{}", name.as_str()),
            Self::Memories => f.write_str("/memories"),
            Self::State => f.write_str("/state"),
        }
    }
}

impl PathPlace {
    /// The place that a path with these parts begins with, and the parts below it; none for one in the session's own tree.
    /// Many a project has a folder `state` or `folders`, and who leaves out where that is must not write here instead,
    /// unasked: so these need their slash.
    pub(super) fn of<'a, 'p>(parts: &'a [&'p str], absolute: bool) -> Option<(Self, &'a [&'p str])> {
        match parts {
            ["project", below @ ..] => Some((Self::Project, below)),
            ["memories", below @ ..] => Some((Self::Memories, below)),
            ["state", below @ ..] if absolute => Some((Self::State, below)),
            ["folders", name, below @ ..] if absolute => Some((Self::Folder(FolderName::new(name)?), below)),
            _ => None,
        }
    }

    /// Returns whether it is a folder of the person, which other programs change as well.
    pub(crate) fn is_mounted(self) -> bool {
        matches!(self, Self::Project | Self::Folder(_))
    }
}
