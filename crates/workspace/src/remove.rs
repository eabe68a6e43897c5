//! Removes unused files from a workspace, and whole folders. An area is cleaned only if all of its entries are old.
//! Handles folders without permissions, deeply nested trees, and links to other folders.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use agentd_core::{Timestamp, files::FilesRemoved, ids::SessionId, ports::WorkspaceArea};
use cap_std::fs::{Dir, Permissions, PermissionsExt as _};

use crate::{failure::if_there, jail, path::AREAS};

/// Name prefix of folders that are being removed.
pub(crate) const REMOVED: &str = ".removed-";

/// Cleans a session's folders and reports the removed content of each folder. The caller must prevent concurrent
/// additions. With `trial`, only reports what would be removed.
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

/// Removes a session's folder. The folder is renamed first, so that a partial removal is never visible.
pub fn remove_session(base: &Path, session: SessionId) -> io::Result<()> {
    let base = open_base(base)?;
    let removed_name = format!("{}{session}-{}", REMOVED, uuid::Uuid::new_v4().simple());
    base.rename(session.to_string(), &base, &removed_name)?;
    folder(&base, removed_name.as_ref())
}

/// Completes interrupted removals. With `trial`, only reports the leftovers.
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
            // Another thread may still be removing the folder.
            folder_at(base, &entry.file_name())?;
        }
    }
    Ok(left)
}

/// Size and age of a folder's content.
struct Content {
    removed: FilesRemoved,
    /// Time of the last change of any entry.
    changed: SystemTime,
}

impl Content {
    /// Measures a folder. Returns `None` if the folder is empty, or the path is not a folder.
    fn of(folder: &Path) -> io::Result<Option<Self>> {
        if !fs::symlink_metadata(folder).is_ok_and(|entry_metadata| entry_metadata.is_dir()) {
            return Ok(None);
        }
        let mut content = Self { removed: FilesRemoved::default(), changed: SystemTime::UNIX_EPOCH };
        let mut is_empty = true;
        let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            // Folders that are too deep or unreadable are removed without being counted.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry?;
                let Ok(entry_metadata) = entry.metadata() else { continue };
                is_empty = false;
                content.changed = content.changed.max(entry_metadata.modified()?);
                if entry_metadata.is_dir() {
                    folders.push(entry.path());
                } else {
                    content.removed.files += 1;
                    content.removed.bytes += entry_metadata.len();
                }
            }
        }
        Ok((!is_empty).then_some(content))
    }
}

/// Returns true if all folders of a workspace are empty.
fn is_empty(root: &Dir) -> io::Result<bool> {
    for area in AREAS {
        let folder = if_there(jail::open_real_folder(root, area))?;
        if folder.map(|folder| folder.entries()).transpose()?.is_some_and(|mut entries| entries.next().is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes all entries of a folder without following links.
///
/// Each subfolder is first moved to the top level, so that the depth of a tree uses neither stack nor open files, and a
/// command that is still running cannot redirect the removal.
pub fn empty(top: &Dir) -> io::Result<()> {
    let mut folders: Vec<OsString> = Vec::new();
    for entry in top.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.file_name());
        } else {
            ignore_missing(top.remove_file(entry.file_name()))?;
        }
    }
    while let Some(name) = folders.pop() {
        ignore_missing(make_writable(top, &name))?;
        let Some(folder) = if_there(jail::open_real_folder(top, &name))? else { continue };
        for entry in folder.entries()? {
            let entry = entry?;
            let inner = entry.file_name();
            if entry.file_type()?.is_dir() {
                ignore_missing(make_writable(&folder, &inner))?;
                let moved = OsString::from(format!(".gone-{}", uuid::Uuid::new_v4().simple()));
                ignore_missing(folder.rename(&inner, top, &moved))?;
                folders.push(moved);
            } else {
                ignore_missing(folder.remove_file(&inner))?;
            }
        }
        ignore_missing(top.remove_dir(&name))?;
    }
    Ok(())
}

/// Removes a folder with its contents.
pub fn folder(parent: &Dir, name: &OsStr) -> io::Result<()> {
    make_writable(parent, name)?;
    empty(&jail::open_real_folder(parent, name)?)?;
    parent.remove_dir(name)
}

/// Removes a folder below a path, if both exist.
pub fn folder_at(parent: &Path, name: &OsStr) -> io::Result<()> {
    let parent = if_there(open_base(parent))?;
    ignore_missing(parent.map_or(Ok(()), |parent| folder(&parent, name)))
}

fn open_base(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// Makes a folder writable, because read-only folders, as in package caches, cannot be emptied.
fn make_writable(parent: &Dir, name: &OsStr) -> io::Result<()> {
    if parent.symlink_metadata(name)?.permissions().mode() & 0o700 == 0o700 {
        return Ok(());
    }
    parent.set_permissions(name, Permissions::from_mode(0o700))
}

/// Ignores the error for an entry that was already removed.
pub fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    if_there(result).map(drop)
}
