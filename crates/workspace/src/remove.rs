//! Removal of files: of unused ones from a workspace, folder by folder, and only if all in a folder is old; and of folders
//! whatever they hold: folders without permissions, trees deeper than any stack, links to elsewhere.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use agentd_core::{Timestamp, files::FilesRemoved, ids::SessionId, ports::WorkspaceArea};
use cap_std::fs::{Dir, Permissions, PermissionsExt as _};

use crate::{failure::if_there, jail, path::AREAS};

/// Prefix of folders that are being removed.
pub(crate) const REMOVED: &str = ".removed-";

/// Cleans a session's folders, and reports what each held. No files may be added meanwhile.
pub fn clean(
    base: &Path,
    session: SessionId,
    areas: Vec<(WorkspaceArea, Timestamp)>,
    trial: bool,
) -> io::Result<Vec<(WorkspaceArea, FilesRemoved)>> {
    let path = base.join(session.to_string());
    let Some(root) = if_there(jail::own_root(&path))? else { return Ok(Vec::new()) };
    let mut cleaned = Vec::new();
    for (area, unused_since) in areas {
        let Some(content) = Content::of(&path.join(area.as_str()))? else { continue };
        if content.changed >= SystemTime::from(unused_since) {
            continue;
        }
        if !trial {
            empty(&jail::open_real_folder(&root, area.as_str())?)?;
        }
        cleaned.push((area, content.removed));
    }
    if !cleaned.is_empty() && !trial && is_empty(&root)? {
        remove_session(base, session)?;
    }
    Ok(cleaned)
}

/// Takes the session's name away first, so that half a removal is never seen, then removes what it held.
pub fn remove_session(base: &Path, session: SessionId) -> io::Result<()> {
    let base = open_base(base)?;
    let doomed = format!("{}{session}-{}", REMOVED, uuid::Uuid::new_v4().simple());
    base.rename(session.to_string(), &base, &doomed)?;
    folder(&base, doomed.as_ref())
}

/// Removes what a removal that was cut off had already taken the name from.
pub fn leftovers(base: &Path, trial: bool) -> io::Result<FilesRemoved> {
    let mut left = FilesRemoved::default();
    for entry in if_there(fs::read_dir(base))?.into_iter().flatten() {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(REMOVED) || !entry.file_type()?.is_dir() {
            continue;
        }
        if let Some(content) = Content::of(&entry.path())? {
            left.files += content.removed.files;
            left.bytes += content.removed.bytes;
        }
        if !trial {
            // Whoever began to remove it may be at it still.
            folder_at(base, &entry.file_name())?;
        }
    }
    Ok(left)
}

/// Content of a folder.
struct Content {
    removed: FilesRemoved,
    /// When something in it last changed.
    changed: SystemTime,
}

impl Content {
    /// None where it holds nothing, or is no folder.
    fn of(folder: &Path) -> io::Result<Option<Self>> {
        if !fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir()) {
            return Ok(None);
        }
        let mut content = Self { removed: FilesRemoved::default(), changed: SystemTime::UNIX_EPOCH };
        let mut is_empty = true;
        let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            // What cannot be looked into, as it lies too deep or is closed, is removed without being counted.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry?;
                let Ok(about) = entry.metadata() else { continue };
                is_empty = false;
                content.changed = content.changed.max(about.modified()?);
                if about.is_dir() {
                    folders.push(entry.path());
                } else {
                    content.removed.files += 1;
                    content.removed.bytes += about.len();
                }
            }
        }
        Ok((!is_empty).then_some(content))
    }
}

/// Returns whether none of the folders of a workspace holds anything.
fn is_empty(root: &Dir) -> io::Result<bool> {
    for area in AREAS {
        let folder = if_there(jail::open_real_folder(root, area))?;
        if folder.map(|folder| folder.entries()).transpose()?.is_some_and(|mut entries| entries.next().is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes all entries of a folder, following no link.
///
/// Each folder met is first moved up to the top, so that depth costs neither stack nor open files, and a command
/// that still runs cannot lead the removal elsewhere.
pub fn empty(top: &Dir) -> io::Result<()> {
    let mut folders: Vec<OsString> = Vec::new();
    for entry in top.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.file_name());
        } else {
            gone(top.remove_file(entry.file_name()))?;
        }
    }
    while let Some(name) = folders.pop() {
        gone(own(top, &name))?;
        let Some(folder) = if_there(jail::open_real_folder(top, &name))? else { continue };
        for entry in folder.entries()? {
            let entry = entry?;
            let inner = entry.file_name();
            if entry.file_type()?.is_dir() {
                gone(own(&folder, &inner))?;
                let moved = OsString::from(format!(".gone-{}", uuid::Uuid::new_v4().simple()));
                gone(folder.rename(&inner, top, &moved))?;
                folders.push(moved);
            } else {
                gone(folder.remove_file(&inner))?;
            }
        }
        gone(top.remove_dir(&name))?;
    }
    Ok(())
}

/// Removes a folder with all that it holds.
pub fn folder(parent: &Dir, name: &OsStr) -> io::Result<()> {
    own(parent, name)?;
    empty(&jail::open_real_folder(parent, name)?)?;
    parent.remove_dir(name)
}

/// The same below a path, if both are there.
pub fn folder_at(parent: &Path, name: &OsStr) -> io::Result<()> {
    let parent = if_there(open_base(parent))?;
    gone(parent.map_or(Ok(()), |parent| folder(&parent, name)))
}

fn open_base(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// Read-only folders, as package caches make them, can be emptied only once they are writable.
fn own(parent: &Dir, name: &OsStr) -> io::Result<()> {
    if parent.symlink_metadata(name)?.permissions().mode() & 0o700 == 0o700 {
        return Ok(());
    }
    parent.set_permissions(name, Permissions::from_mode(0o700))
}

/// Treats something that was removed meanwhile as gone.
pub fn gone(result: io::Result<()>) -> io::Result<()> {
    if_there(result).map(drop)
}
