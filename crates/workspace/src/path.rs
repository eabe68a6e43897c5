//! Parses paths from a model, without touching the disk, into a real folder and the path in that folder.
//!
//! Models see one tree: `uploads/`, `outputs/`, `temp/`, `skills/`, the folders that the daemon writes, `/memories`,
//! `/state` and, if folders are mounted, `/project` and `/folders/NAME`. The tree has its own root, so a leading slash
//! is optional: `/uploads/a.txt` is `uploads/a.txt`. All other absolute paths are rejected, as is any ambiguous path:
//! with `..`, `~`, backslashes or control characters. A name with such a character is written and shown escaped
//! ([`agentd_core::path`]).

use std::{
    fmt,
    path::{Component, Path},
};

use agentd_core::{
    folder::{AddedFolder, FOLDERS, MAX_FOLDER_NAME},
    path,
    ports::{ArtifactDir, Workspace},
};

use crate::{
    failure::{Failure, fail_if},
    text,
};

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

/// Path of a workspace entry, existing or missing. Has no `..`, `.` or empty parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolPath {
    place: PathPlace,
    /// Parts below the root of `place`, joined by `/`; empty for the root itself.
    rest: String,
}

impl ToolPath {
    /// Parses a path.
    ///
    /// # Errors
    /// `E_PATH` with a hint about the correct form.
    pub fn parse(written: &str) -> Result<Self, Failure> {
        refuse_ambiguous(written)?;
        let named = path::read(written).filter(|named| !named.contains('\0'));
        let written = &*named.ok_or_else(|| {
            Failure::path(format!(
                "{} contains a backslash; use `/` between folders, such as uploads/notes.txt (write a name with a hidden \
                 character, a backslash or `<` as listings show it)",
                text::quoted(written)
            ))
        })?;
        let parts: Vec<&str> = written.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        for part in &parts {
            if *part == ".." {
                return Err(Failure::path(format!(
                    "{} contains `..`; write the path from the workspace root, such as outputs/report.md",
                    text::quoted(written)
                )));
            }
            let length = || format!("a name in the path has {} bytes; the limit is {MAX_NAME}", part.len());
            fail_if(part.len() > MAX_NAME, || Failure::path(length()))?;
        }
        let place = PathPlace::of(&parts, written.starts_with('/'));
        match parts.first() {
            Some(_) if let Some((place, below)) = place => Ok(Self { place, rest: below.join("/") }),
            Some(first) if written.starts_with('/') && !AREAS.contains(first) => Err(Failure::path(format!(
                "{} is an absolute path outside the workspace; use a path below uploads/, outputs/, temp/, \
                     skills/, /memories, /state, /project or an added folder, /folders/NAME",
                text::quoted(written)
            ))),
            _ => Ok(Self { place: PathPlace::Own, rest: parts.join("/") }),
        }
    }

    /// Returns the path of a link's target, or `None` if a call cannot express it, because the name is not plain text.
    pub(super) fn found(place: PathPlace, below: &Path) -> Option<Self> {
        let found = Self { place, rest: below.to_str()?.to_owned() };
        Self::parse(&found.written()).is_ok_and(|reparsed| reparsed == found).then_some(found)
    }

    /// Returns true if `first` is the first part of a path in the tree, with or without a leading slash.
    pub(super) fn is_name(first: &str) -> bool {
        AREAS.contains(&first) || PathPlace::of(&[first], false).is_some()
    }

    /// Returns true if a path begins with a name in the tree, without a leading slash.
    pub fn begins_with_name(written: &str) -> bool {
        let first = written.split('/').find(|part| !part.is_empty() && *part != ".");
        !written.starts_with('/') && first.is_some_and(Self::is_name)
    }

    /// Returns the unambiguous form of the path, for use in a call.
    pub fn written(&self) -> String {
        let shown = self.to_string();
        if self.place == PathPlace::Own && AREAS.contains(&shown.split('/').next().unwrap_or_default()) {
            return format!("/{shown}");
        }
        if shown.starts_with('~') { format!("./{shown}") } else { shown }
    }

    /// Returns the root path of a `PathPlace`.
    pub fn root(place: PathPlace) -> Self {
        Self { place, rest: String::new() }
    }

    /// Returns the path of an entry in this folder. The name comes from the file system, not from a model.
    pub fn entry(&self, name: &str) -> Self {
        let rest = if self.rest.is_empty() { name.to_owned() } else { format!("{}/{name}", self.rest) };
        Self { place: self.place, rest }
    }

    /// Returns the real folder that contains the path.
    pub fn place(&self) -> PathPlace {
        self.place
    }

    /// Returns true for the root of a `PathPlace`.
    pub fn is_root(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns true for the folders that the daemon writes itself.
    pub(crate) fn is_daemon_area(&self) -> bool {
        self.place == PathPlace::Own && DAEMON_AREAS.contains(&self.rest.as_str())
    }

    /// Returns the path relative to the root, `.` for the root itself.
    pub(crate) fn below_place(&self) -> &Path {
        Path::new(if self.rest.is_empty() { "." } else { &self.rest })
    }

    /// Returns the path relative to the root as text, empty for the root itself.
    pub fn rest(&self) -> &str {
        &self.rest
    }

    /// Returns the parent folder, or `None` for a root.
    pub(crate) fn parent(&self) -> Option<Self> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = self.rest.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        Some(Self { place: self.place, rest })
    }

    /// Returns the last part, empty for a root.
    pub fn name(&self) -> &str {
        self.rest.rsplit('/').next().unwrap_or("")
    }

    /// Returns the path without a leading slash, so that globs match session and project files alike.
    pub fn flat(&self) -> String {
        self.whole().trim_start_matches('/').to_owned()
    }

    /// Returns the unescaped path, with the names as in the file system.
    pub(super) fn whole(&self) -> String {
        match (self.place, self.rest.is_empty()) {
            (PathPlace::Own, true) => ".".to_owned(),
            (PathPlace::Own, false) => self.rest.clone(),
            (place, true) => place.to_string(),
            (place, false) => format!("{place}/{}", self.rest),
        }
    }
}

/// Formats the path for models, escaped.
impl std::fmt::Display for ToolPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&path::shown(&self.whole()))
    }
}

/// Returns the path of a real folder as tools write it, or `None` if it is outside the project.
pub fn within_project(workspace: &Workspace, folder: &Path) -> Option<ToolPath> {
    let below = folder.strip_prefix(&workspace.project.as_ref()?.path).ok()?;
    let names = below.components().map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let mut path = ToolPath::root(PathPlace::Project);
    for name in names {
        path = path.entry(name?);
    }
    Some(path)
}

fn refuse_ambiguous(written: &str) -> Result<(), Failure> {
    let length = || Failure::path(format!("the path has {} bytes; the limit is {MAX_PATH}", written.len()));
    fail_if(written.len() > MAX_PATH, length)?;
    if let Some(character) = written.chars().find(|character| character.is_control()) {
        return Err(Failure::path(format!(
            "the path contains the control character {:?}; remove it, or write it as listings show it",
            character.to_string()
        )));
    }
    if written.starts_with('~') {
        return Err(Failure::path(format!(
            "{} starts with `~`, and home folders cannot be reached; use a path below uploads/, outputs/, temp/ or \
             /project (for a file of that name, use ./~name)",
            text::quoted(written)
        )));
    }
    Ok(())
}

/// Folders in a workspace, in display order.
pub const AREAS: [&str; 6] = ["uploads", "outputs", "temp", "skills", DAEMON_AREAS[0], DAEMON_AREAS[1]];

/// Folders that tools may write to.
pub const WRITABLE: [&str; 3] = ["uploads", "outputs", "temp"];

/// Folders that only the daemon writes. They are searched only if named in a call, because their content repeats
/// earlier messages and results.
pub(crate) const DAEMON_AREAS: [&str; 2] =
    [ArtifactDir::LargeToolResults.as_str(), ArtifactDir::ConversationHistory.as_str()];

/// Returns the folders that a session may read but neither its tools nor its commands may change.
pub fn read_only() -> impl Iterator<Item = &'static str> {
    AREAS.into_iter().filter(|area| !WRITABLE.contains(area))
}

/// Root folder of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathPlace {
    /// The session's own tree.
    #[default]
    Own,
    /// Project mounted at `/project`.
    Project,
    /// Folder added to a session, not necessarily to this one.
    Folder(FolderName),
    /// Folder shared by all sessions.
    Memories,
    /// Session's own state, stored in the journal rather than on disk.
    State,
}

/// Name of an added folder, stored inline so that [`PathPlace`] is `Copy`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName {
    bytes: [u8; MAX_FOLDER_NAME],
    length: u8,
}

impl FolderName {
    /// Creates the name, or returns `None` if an added folder cannot have it.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; MAX_FOLDER_NAME];
        bytes.get_mut(..name.len()).filter(|_| AddedFolder::is_name(name))?.copy_from_slice(name.as_bytes());
        Some(Self { bytes, length: u8::try_from(name.len()).ok()? })
    }

    /// Returns the name of the folder as text.
    pub fn as_str(&self) -> &str {
        // Always valid UTF-8: the bytes were copied from a `str`.
        self.bytes.get(..usize::from(self.length)).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Formats the path prefix of this root; empty for the session's own tree.
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
    /// Returns the root of a path with these parts, and the remaining parts. `None` for the session's own tree.
    ///
    /// `state` and `folders` require the leading slash, because many projects have folders of these names. A relative
    /// path meant for a project folder must not silently write to the session's folder instead.
    pub(super) fn of<'a, 'p>(parts: &'a [&'p str], absolute: bool) -> Option<(Self, &'a [&'p str])> {
        match parts {
            ["project", below @ ..] => Some((Self::Project, below)),
            ["memories", below @ ..] => Some((Self::Memories, below)),
            ["state", below @ ..] if absolute => Some((Self::State, below)),
            ["folders", name, below @ ..] if absolute => Some((Self::Folder(FolderName::new(name)?), below)),
            _ => None,
        }
    }

    /// Returns true for the user's folders, which other programs can change as well.
    pub(crate) fn is_mounted(self) -> bool {
        matches!(self, Self::Project | Self::Folder(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(written: &str) -> Result<String, String> {
        ToolPath::parse(written).map(|path| path.to_string()).map_err(|failure| failure.text)
    }

    #[test]
    fn tree_paths_are_accepted() {
        for (written, expected) in [
            ("", "."),
            (".", "."),
            ("/", "."),
            ("./", "."),
            ("uploads", "uploads"),
            ("uploads/", "uploads"),
            ("/uploads/a.txt", "uploads/a.txt"),
            ("./uploads//a.txt", "uploads/a.txt"),
            ("uploads/./x/./a.txt", "uploads/x/a.txt"),
            ("/project", "/project"),
            ("project/src/main.rs", "/project/src/main.rs"),
            ("/project//src/./main.rs", "/project/src/main.rs"),
            ("/memories", "/memories"),
            ("memories/people/ada.md", "/memories/people/ada.md"),
            ("./memories//./a.md", "/memories/a.md"),
            ("memoriesx/a", "memoriesx/a"),
            ("/state/plan.md", "/state/plan.md"),
            ("state/plan.md", "state/plan.md"),
            ("/folders/lib", "/folders/lib"),
            ("/folders//报告-2/./a.md", "/folders/报告-2/a.md"),
            ("folders/lib/a.md", "folders/lib/a.md"),
            ("uploads/...", "uploads/..."),
            ("uploads/..a", "uploads/..a"),
            ("uploads/a..", "uploads/a.."),
            ("./~draft", "~draft"),
            ("uploads/~", "uploads/~"),
            ("uploads/报告 1.txt", "uploads/报告 1.txt"),
            ("projects/x", "projects/x"),
            ("uploads/．．/x", "uploads/．．/x"),
        ] {
            assert_eq!(shown(written), Ok(expected.to_owned()), "{written:?}");
        }
    }

    #[test]
    fn link_targets_that_calls_cannot_express_are_none() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        for (below, named) in [
            (&b"src/a.rs"[..], true),
            (b"", true),
            (b"~draft", true),
            (b"a\\b", true),
            (b"a\nb", true),
            (b"a\xff", false),
        ] {
            let found = ToolPath::found(PathPlace::Project, Path::new(OsStr::from_bytes(below)));
            assert_eq!(found.is_some(), named, "{below:?}");
        }
        // In the session's own tree, this name refers to the mounted project.
        assert_eq!(ToolPath::found(PathPlace::Own, Path::new("project/a")), None);
    }

    /// Generates text from the relevant pieces, so that special cases are frequent.
    fn hostile_paths() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("..".to_owned()),
            Just(".".to_owned()),
            Just("/".to_owned()),
            Just("//".to_owned()),
            Just("\\".to_owned()),
            Just("~".to_owned()),
            Just("\0".to_owned()),
            Just("project".to_owned()),
            Just("memories".to_owned()),
            Just("state".to_owned()),
            Just("folders".to_owned()),
            Just("uploads".to_owned()),
            Just("etc".to_owned()),
            Just(". ".to_owned()),
            Just("．．".to_owned()),
            "[a-z./~\\\\ ]{0,6}",
            any::<String>(),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        /// Compares with a reference model: a stack machine that follows the path from its root, as the kernel does.
        #[test]
        fn accepted_paths_never_leave_their_root(written in hostile_paths()) {
            if let Ok(path) = ToolPath::parse(&written) {
                let mut depth = 0;
                for part in path.rest().split('/').filter(|part| !part.is_empty()) {
                    prop_assert_ne!(part, "..");
                    prop_assert_ne!(part, ".");
                    prop_assert!(!part.contains('\0') && part.len() <= MAX_NAME);
                    depth += 1;
                }
                prop_assert!(path.below_place().is_relative());
                prop_assert_eq!(path.below_place().components().count(), depth.max(1));
                prop_assert!(!written.contains('\0'));
                // The written form parses to the same path.
                prop_assert_eq!(ToolPath::parse(&path.written()), Ok(path.clone()));
                let found = ToolPath::found(path.place(), Path::new(path.rest()));
                prop_assert_eq!(found, Some(path));
            }
        }

        #[test]
        fn dot_dot_is_rejected_anywhere(before in "[a-z/]{0,8}", after in "[a-z/]{0,8}") {
            let written = format!("{before}/../{after}");
            prop_assert!(ToolPath::parse(&written).is_err());
        }
    }
}
