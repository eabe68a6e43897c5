//! Root of one tree, and access to its files, folder by folder and without following links, so that concurrent renames
//! cannot redirect the access.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use agentd_core::{folder::FOLDERS, path, ports::Workspace};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

use crate::{
    exact::{self, FOLDER, if_present, split},
    failure::{fail_if, if_there},
    path::{FolderName, PathPlace},
};

/// Maximum length of a path in bytes: longer than programs use, and short enough for every list.
const MAX_PATH: usize = 4000;

/// Open root of one tree.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) place: PathPlace,
    /// Path of the root, to distinguish projects.
    pub(super) path: PathBuf,
    fd: OwnedFd,
}

/// Properties that show whether a path is unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    /// Number of hard links.
    pub(super) links: u64,
    /// Time of the last content change, in seconds and nanoseconds.
    pub(super) modified: (i64, i64),
    /// Time of the last change to content or permissions. No program can set it.
    pub(super) changed: (i64, i64),
}

/// Type of a path. The numbers are stored in records and must not change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    File = 0,
    Link = 1,
    Folder = 2,
    /// Pipe, socket or device.
    #[default]
    Special = 3,
}

impl Stamp {
    #[allow(clippy::unnecessary_cast, reason = "the widths of these fields differ between platforms")]
    pub(super) fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            FileType::Directory => Kind::Folder,
            _ => Kind::Special,
        };
        // All properties of a folder except its mode change with every entry, and the entries are recorded themselves.
        let own = |number: u64| if kind == Kind::Folder { 0 } else { number };
        let time = |seconds: i64, nanos: i64| if kind == Kind::Folder { (0, 0) } else { (seconds, nanos) };
        Self {
            kind,
            mode: if kind == Kind::Link { 0 } else { stat.st_mode as u32 & 0o7777 },
            device: own(stat.st_dev as u64),
            inode: own(stat.st_ino as u64),
            size: own(stat.st_size as u64),
            links: own(stat.st_nlink as u64),
            modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Appends the stamp in binary form.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.mode.to_le_bytes());
        let times = [self.modified.0, self.modified.1, self.changed.0, self.changed.1].map(i64::cast_unsigned);
        for number in [self.device, self.inode, self.size, self.links].into_iter().chain(times) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
}

impl Root {
    /// Opens the trees of a workspace that a session may change: its own tree, the user's writable folders, and the
    /// shared memories.
    pub(super) fn all(workspace: &Workspace) -> io::Result<Vec<Self>> {
        Self::open_all(workspace, true)
    }

    /// Returns the trees of a workspace that a session may read.
    pub(super) fn readable(workspace: &Workspace) -> io::Result<Vec<Self>> {
        Self::open_all(workspace, false)
    }

    fn open_all(workspace: &Workspace, only_writable: bool) -> io::Result<Vec<Self>> {
        let mut roots = vec![Self::open(PathPlace::Own, &workspace.root)?];
        if let Some(mount) = workspace.project.as_ref().filter(|mount| mount.writable || !only_writable) {
            roots.push(Self::open(PathPlace::Project, &mount.path)?);
        }
        for folder in workspace.folders.iter().filter(|folder| folder.writable || !only_writable) {
            let place = FolderName::new(folder.name()).map(PathPlace::Folder).ok_or(io::ErrorKind::InvalidFilename)?;
            roots.push(Self::open(place, &folder.path)?);
        }
        if let Some(memories) = &workspace.memories {
            // A missing memories folder must not stop the recording of the other trees.
            roots.extend(if_there(Self::open(PathPlace::Memories, memories))?);
        }
        Ok(roots)
    }

    /// Returns the trees that a command may change. Excludes the shared memories: changes there during a command belong
    /// to other sessions or the user, and must not be reverted with the command.
    pub(super) fn of_commands(roots: Vec<Self>) -> Vec<Self> {
        roots.into_iter().filter(|root| root.place != PathPlace::Memories).collect()
    }

    fn open(place: PathPlace, path: &Path) -> io::Result<Self> {
        let fd = match exact::open_folder(path) {
            // A command that removed the permissions must not hide its changes.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && place == PathPlace::Own => {
                exact::restore_access(path)?;
                exact::open_folder(path)?
            }
            opened => opened?,
        };
        Ok(Self { place, path: path.to_path_buf(), fd })
    }

    /// Opens a folder; the root itself has the empty path.
    pub(super) fn folder(&self, below: &[u8]) -> io::Result<OwnedFd> {
        let mut folder = openat(&self.fd, ".", FOLDER, Mode::empty())?;
        for part in below.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            folder = folder_in(&folder, part)?;
        }
        Ok(folder)
    }

    /// Returns the stamp of a path, if the path exists. A path through a link or a file is treated as missing.
    pub(super) fn stamp_of(&self, below: &[u8]) -> io::Result<Option<Stamp>> {
        fail_if(below.len() > MAX_PATH, || io::ErrorKind::InvalidFilename)?;
        let (folder, name) = split(below);
        if_present(self.folder(folder).and_then(|folder| stamp_in(&folder, name)))
    }

    /// Returns the time of the last change, in seconds and nanoseconds; for a folder, including changes to its entries.
    #[allow(clippy::unnecessary_cast, reason = "the widths of these fields differ between platforms")]
    pub(super) fn changed(&self, below: &[u8]) -> io::Result<(i64, i64)> {
        let (folder, name) = split(below);
        let stat = statat(self.folder(folder)?, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_ctime as i64, stat.st_ctime_nsec as i64))
    }

    /// Opens a regular file for reading.
    pub(super) fn file(&self, below: &[u8]) -> io::Result<(File, Stamp)> {
        let (folder, name) = split(below);
        file_in(&self.folder(folder)?, name)
    }

    /// Returns the target of a link.
    pub(super) fn link(&self, below: &[u8]) -> io::Result<Vec<u8>> {
        let (folder, name) = split(below);
        link_in(&self.folder(folder)?, name)
    }
}

/// Returns the stamp of an entry in a folder.
pub(super) fn stamp_in(folder: &OwnedFd, name: &[u8]) -> io::Result<Stamp> {
    Ok(Stamp::of(&statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Opens a regular file in a folder for reading, without blocking on pipes.
pub(super) fn file_in(folder: &OwnedFd, name: &[u8]) -> io::Result<(File, Stamp)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = openat(folder, OsStr::from_bytes(name), flags, Mode::empty())?;
    let stamp = Stamp::of(&fstat(&file)?);
    if stamp.kind == Kind::File { Ok((file.into(), stamp)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Returns the target of a link in a folder.
pub(super) fn link_in(folder: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(readlinkat(folder, OsStr::from_bytes(name), Vec::new())?.into_bytes())
}

/// Reads the first `limit` bytes of a regular file in a folder, if the file exists.
pub(super) fn small_in(folder: &OwnedFd, name: &[u8], limit: u64) -> Option<Vec<u8>> {
    let (file, _) = file_in(folder, name).ok()?;
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Opens a subfolder of a folder.
pub(super) fn folder_in(folder: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat(folder, OsStr::from_bytes(name), FOLDER, Mode::empty())?)
}

/// Lists the entries of a folder.
pub(super) fn entries(folder: &OwnedFd) -> io::Result<Dir> {
    Ok(Dir::read_from(folder.as_fd())?)
}

/// Path, as its tree and its bytes below the root of that tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SafePath {
    pub(super) place: PathPlace,
    pub(super) below: Vec<u8>,
}

impl SafePath {
    /// Returns the path as written in changes: the tool path, with invalid UTF-8 bytes as `\xff` and a slash after
    /// folders.
    pub(super) fn shown(&self, is_folder: bool) -> String {
        let mut shown = if self.place == PathPlace::Own { String::new() } else { format!("{}/", self.place) };
        for chunk in self.below.utf8_chunks() {
            shown.push_str(&path::shown(chunk.valid()));
            for byte in chunk.invalid() {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        if is_folder {
            shown.push('/');
        }
        shown
    }

    /// Parses a path written by [`Self::shown`]. Returns `None` for anything else, such as a path with `..`.
    pub(super) fn read(shown: &str) -> Option<Self> {
        let with_place = |place: PathPlace| Some((place, shown.strip_prefix(&format!("{place}/"))?));
        let in_folder = || {
            let (name, rest) = shown.strip_prefix(FOLDERS)?.strip_prefix('/')?.split_once('/')?;
            Some((PathPlace::Folder(FolderName::new(name)?), rest))
        };
        let named = [PathPlace::Project, PathPlace::Memories].into_iter().find_map(with_place).or_else(in_folder);
        let (place, rest) = named.unwrap_or((PathPlace::Own, shown));
        let below = unescape(rest.strip_suffix('/').unwrap_or(rest))?;
        let is_valid_part = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        below.split(|byte| *byte == b'/').all(is_valid_part).then_some(Self { place, below })
    }

    /// Returns the folders above the path, outermost first, without the root.
    pub(super) fn folders(&self) -> impl Iterator<Item = Self> {
        let ends = self.below.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        ends.map(|end| Self { place: self.place, below: self.below[..end].to_vec() })
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escaped = &rest[at + 1..];
        rest = if let Some((digits, after)) = escaped.strip_prefix("u{").and_then(|rest| rest.split_once('}')) {
            bytes.extend_from_slice(path::read(&format!("\\u{{{digits}}}"))?.as_bytes());
            after
        } else {
            let digits = escaped.strip_prefix('x')?.get(..2)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            &escaped[3..]
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_paths_are_shown_unescaped() {
        for (place, below, shown) in [
            (PathPlace::Own, &b"outputs/a.txt"[..], "outputs/a.txt"),
            (PathPlace::Own, b"project/a", "project/a"),
            (PathPlace::Project, b"src/\xe6\x8a\xa5.rs", "/project/src/报.rs"),
            (PathPlace::Memories, b"a.md", "/memories/a.md"),
            (PathPlace::Folder(FolderName::new("lib-2").unwrap()), b"src/a.md", "/folders/lib-2/src/a.md"),
            (PathPlace::Own, b"folders/lib/a", "folders/lib/a"),
            (PathPlace::Own, b"temp/a\\b\n\xff", "temp/a\\u{5c}b\\u{a}\\xff"),
        ] {
            let safe_path = SafePath { place, below: below.to_vec() };
            assert_eq!(safe_path.shown(false), shown);
            assert_eq!(SafePath::read(shown), Some(safe_path.clone()));
            assert_eq!(SafePath::read(&safe_path.shown(true)), Some(safe_path));
        }
    }

    #[test]
    fn malformed_shown_paths_are_rejected() {
        for shown in [
            "",
            "/",
            "/etc/passwd",
            "a//b",
            "../a",
            "a/..",
            "a/./b",
            "/project/",
            "/memories/",
            "/memories",
            "/memoriesx/a",
            "/project/../x",
            "a\\",
            "a\\x0",
            "a\\q",
            "a\\x00",
            "a/\\x2e\\x2e/b",
        ] {
            assert_eq!(SafePath::read(shown), None, "{shown:?}");
        }
    }

    proptest! {
        #[test]
        fn every_path_round_trips(parts in proptest::collection::vec(proptest::collection::vec(1_u8.., 1..8), 1..4)) {
            let is_valid_part = |part: &Vec<u8>| !part.contains(&b'/') && part != b"." && part != b"..";
            prop_assume!(parts.iter().all(is_valid_part));
            let safe_path = SafePath { place: PathPlace::Own, below: parts.join(&b'/') };
            prop_assert_eq!(SafePath::read(&safe_path.shown(false)), Some(safe_path.clone()));
            prop_assert!(!safe_path.shown(false).chars().any(char::is_control));
        }
    }
}
