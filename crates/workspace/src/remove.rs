//! Empties a folder whatever it holds: folders without permissions, trees deeper than any stack, links to elsewhere.

use std::{
    ffi::{OsStr, OsString},
    io,
};

use cap_std::fs::{Dir, Permissions, PermissionsExt as _};

use super::jail;

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
        let folder = match jail::open_real_folder(top, &name) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
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

/// Read-only folders, as package caches make them, can be emptied only once they are writable.
fn own(parent: &Dir, name: &OsStr) -> io::Result<()> {
    if parent.symlink_metadata(name)?.permissions().mode() & 0o700 == 0o700 {
        return Ok(());
    }
    parent.set_permissions(name, Permissions::from_mode(0o700))
}

/// Treats something that was removed meanwhile as gone.
pub fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
